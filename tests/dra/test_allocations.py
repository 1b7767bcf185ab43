"""DRA-11: devices that are given twice or gone while held, and shares that are no fault; render nodes, and what the API serves."""

import json
from typing import Any

import pytest

from conformance.dra.claim_life import ClaimLife, judge_life, pci_address, render_nodes
from conformance.dra.claims import check_allocations
from conformance.dra.classes import Compiled, check_served, not_asked, read_answer
from conformance.probes.running import ProbeResult
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.device_classes import DeviceClass
from fixtures.model.dra.held_claims import held_claim
from fixtures.model.dra.slices import SliceDevice
from fixtures.snapshot.state import Listing, Object, Snapshot
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable, Subject
from tests.builders import a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.findings import by_name, messages
from tests.tables import each_row

NOW = 1_790_000_000.0
SHARED = a_device("gpu-0", allowMultipleAllocations=True)
NODE = "gpu-0 gpu.nvidia.com"


def scope_of(claims: list[Json], slices: list[Json] | None = None, **items: Any) -> Scope:
    own = {"resourceslices": slices or [a_slice("gpu-0", devices=2)], "resourceclaims": claims, "deviceclasses": [a_class()]}
    return a_scope(nodes=[a_cpu_node("gpu-0")], **{**own, **items})


def given(claims: list[Json], slices: list[Json] | None = None, **items: Any) -> dict[str, str]:
    return {one.subject.name: str(one.outcome) for one in check_allocations(scope_of(claims, slices, **items), NOW)}


@each_row
def test_a_device_belongs_to_one_claim_unless_it_is_shared(second: Json, device: Json, outcome: str) -> None:
    more = dict(second)
    name = more.pop("device_name", "gpu-0")
    claims = [a_claim("a", device="gpu-0"), a_claim("b", device=name, **more)]
    unnamed = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    slices = [a_slice("gpu-0", devices=[device, a_device("gpu-1")]), a_slice("gpu-0", devices=[unnamed], pool="other")]
    assert given(claims, slices)[NODE] == outcome


@pytest.mark.parametrize(("amounts", "outcome"), [(("40Gi", "39Gi"), "ok"), (("40Gi", "41Gi"), "bad")])
def test_shares_fit_the_capacity_of_their_device(amounts: tuple[str, str], outcome: str) -> None:
    claims = [
        a_claim(name, device="gpu-0", shareID=name, consumedCapacity={"memory": amount}) for name, amount in zip("ab", amounts, strict=True)
    ]
    assert given(claims, [a_slice("gpu-0", devices=[{**SHARED, "capacity": {"memory": {"value": "80Gi"}}}])])[NODE] == outcome


@each_row
def test_a_device_and_its_part_are_one_device(held: tuple[str, str], outcome: str) -> None:
    def part(name: str, parent: str) -> Json:
        return {"name": name, "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": parent}}}

    shape = {"name": "vfio-0", "attributes": {"type": {"string": "vfio"}, "uuid": {"string": "GPU-gpu-0"}}}
    devices = [a_device("gpu-0"), part("mig-0", "GPU-gpu-0"), part("mig-1", "GPU-gpu-0"), part("mig-2", "GPU-gpu-1"), shape]
    claims = [a_claim(f"c-{name}", device=name) for name in held]
    assert given(claims, [a_slice("gpu-0", devices=devices)])[NODE] == outcome


def a_part(name: str, counters: dict[str, str], **more: Any) -> Json:
    named = {"type": "mig", "parentUUID": "GPU-gpu-0", "uuid": f"MIG-{name}"}
    draws = [{"counterSet": "gpu-0", "counters": {counter: {"value": amount} for counter, amount in counters.items()}}]
    return {"name": name, "attributes": {key: {"string": value} for key, value in named.items()}, "consumesCounters": draws, **more}


@each_row
def test_partitions_draw_no_more_of_a_counter_than_their_device_has(parts: list[Json], outcome: str) -> None:
    sets = a_slice("gpu-0", devices=[], slices=2, name="counters")
    sets["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "slice-0": {"value": "1"}}}]
    claims = [a_claim(f"c-{part['name']}", device=part["name"]) for part in parts]
    slices = [sets, a_slice("gpu-0", devices=[*parts, a_part("free", {"memory": "80Gi"})], slices=2)]
    assert given(claims, slices)[NODE] == outcome


@pytest.mark.parametrize(("address", "outcome"), [("0000:1b:00.0", "bad"), ("0000:2a:00.0", "ok")])
def test_a_machine_and_a_pod_do_not_have_the_device_of_one_address(address: str, outcome: str) -> None:
    """The shape for machines has a UUID of its own."""
    whole, at = a_device("gpu-0"), "resource.kubernetes.io/pciBusID"
    whole["attributes"][at] = {"string": "0000:1b:00.0"}
    named = {"type": "vfio", "uuid": "e7af2681-d4df-538a-9cde-d6ca12d67e90", at: address}
    shape = {"name": "vfio-0", "attributes": {key: {"string": value} for key, value in named.items()}}
    claims = [a_claim("pod", device="gpu-0"), a_claim("machine", device="vfio-0")]
    assert given(claims, [a_slice("gpu-0", devices=[whole, shape])])[NODE] == outcome


@each_row
def test_a_held_device_that_is_gone_is_found(slices: list[Json], found: dict[str, str]) -> None:
    names = given([a_claim("a", device="gpu-1")], [a_slice(**one) for one in slices])
    assert {name: outcome for name, outcome in names.items() if name != NODE} == found


def test_devices_of_a_network_are_not_judged() -> None:
    claims = [a_claim("a", "dra.net", device="eth0"), a_claim("b", "dra.net", device="eth0")]
    assert given(claims) == {NODE: "ok"}


def test_a_claim_that_changed_a_moment_ago_is_undecided() -> None:
    claim = a_claim("a", device="gpu-7")
    claim["metadata"]["creationTimestamp"] = "2026-09-21T14:13:00Z"
    assert given([claim])["gpu.nvidia.com/gpu-0/gpu-7"] == "undecided"


def test_a_device_that_many_nodes_reach_is_published() -> None:
    remote = a_slice("gpu-0", devices=[a_device("gpu-9")], pool="rack")
    del remote["spec"]["nodeName"]
    remote["spec"]["allNodes"] = True
    assert given([a_claim("a", device="gpu-9", pool="rack")], [a_slice("gpu-0"), remote]) == {NODE: "ok"}


AMD = "gpu.amd.com"
LINKS = """total 0
drwxr-xr-x 2 root root    0 Nov 23 10:00 .
lrwxrwxrwx 1 root root    0 Nov 23 10:00 card0 -> ../../devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/card0
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD128 -> ../../devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/renderD128
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD129 -> ../../devices/pci0000:00/0000:00:01.2/0000:83:00.0/drm/renderD129
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD130 -> ../../devices/platform/amdgpu_xcp_0/drm/renderD130
-r--r--r-- 1 root root 4096 Nov 23 10:00 version"""


def log(*nodes: str, links: str = LINKS) -> str:
    return "\n".join(["## dri", *nodes, "## drm", links, "## end", ""])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "incomplete"),
        ("## dri\nrenderD128\n## drm\n", "incomplete"),
        (log("renderD128", links="ls: cannot access '/sys/class/drm': No such file or directory"), "/sys/class/drm"),
        (log("renderD130"), "renderD130 of its container is no PCI device of its own"),
        (log("renderD200"), "renderD200 of its container"),
    ],
)
def test_what_tells_nothing_says_why(text: str, words: str) -> None:
    assert words in str(render_nodes(text))


@each_row
def test_drivers_publish_addresses_by_several_names(attributes: dict[str, str], address: str) -> None:
    assert pci_address(SliceDevice(name="gpu-0-128", attributes=attributes)) == address


def judged(text: str, attributes: dict[str, str] | None = None) -> Finding:
    claim = a_claim("c", AMD, device="gpu-0-128")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    ran = ProbeResult(subject=Subject("Pod", "p", "ns"), node="gpu-0", logs={"probe": text})
    life = ClaimLife(
        ran=ran, pod_uid="u", claim=held_claim(claim), unlistable=f"devices are seen with nvidia-smi, and it offers those of {AMD}"
    )
    known = {"resource.kubernetes.io/pciBusID": "0000:03:00.0"} if attributes is None else attributes
    return judge_life(life, {(AMD, "gpu-0", "gpu-0-128"): SliceDevice(name="gpu-0-128", attributes=known)})


@each_row
def test_a_driver_without_uuids_is_judged_by_pci_address(finding: Finding, outcome: Outcome, words: str) -> None:
    assert finding.outcome is outcome
    assert words in finding.message


ALL = ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates")
FUNCTION = 'device.attributes["gpu.nvidia.com"].productName.lowerAscii().matches("^.*h100.*$")'
REGISTRY = [{"name": "registry", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}]


def a_dra_scope(version: str = "v1", server: str = "v1.36.3", without: str = "", **items: Any) -> Scope:
    """A cluster with one DRA node whose API server serves one version of the group."""
    scope = a_scope(nodes=[a_node()], **{"resourceslices": [a_slice("gpu-0")], "deviceclasses": [a_class()], **items})
    found = [scope.snapshot.listing(key) for key in ("nodes", "pods")]
    found += [scope.snapshot.listing(f"resource.k8s.io/{name}") for name in ALL if name != without]
    missing: list[Listing[Object]] = [Listing(key=f"resource.k8s.io/{without}", served=False)] if without else []
    versions = {f"resource.k8s.io/{name}": version for name in ALL if name != without}
    return Scope(Snapshot([*found, *missing], taken_at=0, version=server, versions=versions), scope.policy)


def says(compiled: Compiled) -> Any:
    return lambda _: compiled


@each_row
def test_the_newest_version_that_the_server_can_have_must_be_served(version: str, server: str, outcome: Outcome) -> None:
    findings = list(check_served(a_dra_scope(version, server), not_asked))
    assert by_name(findings) == {"resource.k8s.io": outcome, "gpu.nvidia.com": Outcome.OK}


def test_a_driver_without_the_api_is_named() -> None:
    driver = a_pod("driver-0", "kube-system", node="gpu-0", volumes=REGISTRY)
    findings = list(check_served(a_dra_scope(without="resourceslices", resourceslices=[], pods=[driver]), not_asked))
    assert by_name(findings)["resource.k8s.io"] is Outcome.BAD
    assert "does not serve resourceslices" in messages(findings)


def test_a_network_driver_is_no_accelerator() -> None:
    eth = a_slice("gpu-0", "dra.net", [{"name": "eth0", "attributes": {"ifName": {"string": "eth0"}}}])
    with pytest.raises(NotApplicable):
        list(check_served(a_dra_scope(resourceslices=[eth], deviceclasses=[a_class("dra.net", "dra.net")]), not_asked))


def test_classes_of_the_policy_must_exist() -> None:
    scope = a_dra_scope()
    scope = Scope(scope.snapshot, a_policy(accelerators={"deviceClasses": ["gpu.nvidia.com", "mig.nvidia.com"]}))
    findings = list(check_served(scope, not_asked))
    assert by_name(findings)["mig.nvidia.com"] is Outcome.BAD
    assert by_name(findings)["gpu.nvidia.com"] is Outcome.OK


@pytest.mark.parametrize(("answer", "outcome"), [
    (Compiled(yes=True), Outcome.OK),
    (Compiled(yes=False, words="compilation failed"), Outcome.BAD),
    (not_asked(DeviceClass("x", (), ())), Outcome.UNDECIDED),
])  # fmt: skip
def test_selectors_that_are_more_than_comparisons_are_asked_for(answer: Compiled, outcome: Outcome) -> None:
    scope = a_dra_scope(deviceclasses=[a_class(), a_class("h100", expression=FUNCTION)])
    assert by_name(check_served(scope, says(answer)))["h100"] is outcome


@pytest.mark.parametrize("selectors", [[{"wasm": {"module": "x"}}], [{"cel": {}}], [{"cel": {"expression": "x" * 20_000}}]])
def test_a_selector_that_is_not_understood_is_never_good(selectors: list[Json]) -> None:
    odd = {"metadata": {"name": "odd"}, "spec": {"selectors": selectors}}
    assert by_name(check_served(a_dra_scope(deviceclasses=[odd]), not_asked))["odd"] is Outcome.UNDECIDED


def an_answer(status: int, field: str = "", message: str = "") -> Answer:
    causes = [{"reason": "FieldValueInvalid", "field": field, "message": message}] if field else []
    body: Json = {"kind": "Status", "status": "Failure", "message": message or "no", "details": {"causes": causes}, "code": status}
    return Answer(status=status, body=json.dumps(body).encode(), document=body)


def test_only_a_refusal_of_the_selector_itself_is_a_fault() -> None:
    selector, fine = "spec.devices.requests[0].exactly.selectors[0].cel.expression", lambda: an_answer(201)
    assert read_answer(an_answer(201), fine).yes is True
    assert read_answer(an_answer(422, selector, "compilation failed"), fine) == Compiled(yes=False, words="compilation failed")
    assert read_answer(an_answer(422, selector, "compilation failed"), lambda: an_answer(403)).yes is None
    assert read_answer(an_answer(422, "spec.devices.requests[0].name", "Required value"), fine).yes is None
    assert read_answer(an_answer(403), fine).yes is None
