import json
from typing import Any

import pytest

from conformance.dra.classes import Compiled, check_served, not_asked, read_answer
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.device_classes import DeviceClass
from fixtures.snapshot.state import Listing, Object, Snapshot
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.dra import a_class, a_slice
from tests.findings import by_name, messages
from tests.tables import each_row

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
