from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.psa.bypass import check_bypass
from conformance.psa.environments import DEVICES, FEATURES
from conformance.psa.host_paths import exposed_by
from fixtures.kubernetes.models import ConfigMap, Meta, PersistentVolume, PersistentVolumeClaim
from fixtures.policy.platforms import named
from fixtures.policy.policy_file import build_policy
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_container, a_cpu_node, a_node, a_pod, a_scope, a_spec, a_workload
from tests.dra import a_claim as a_dra_claim
from tests.dra import a_class, a_template, claim_spec
from tests.tables import each_row


def judged(pod: Any, **more: Any) -> Finding:
    [finding] = check_bypass(a_scope(pods=[pod], **more))
    return finding


def mounting(path: str) -> Any:
    return a_pod(volumes=[{"name": "v", "hostPath": {"path": path}}])


def reading(path: str) -> Any:
    """A pod that mounts a path of the host and may not write there."""
    mounts = [{"name": "v", "mountPath": "/host", "readOnly": True}]
    return a_pod(volumes=[{"name": "v", "hostPath": {"path": path}}], containers=[a_container(volumeMounts=mounts)])


def setting(**entry: Any) -> Any:
    return a_pod(containers=[a_container(env=[entry])])


def mounted(path: str) -> Any:
    return a_pod(containers=[a_container(volumeMounts=[{"name": "v", "mountPath": path}])])


WAYS = {"mounting": mounting, "reading": reading, "mounted": mounted}


def taking_a(way: dict[str, Any]) -> Any:
    """The pod of a row: by one of these, ``setting`` a variable, or as a whole ``pod``."""
    [(how, what)] = way.items()
    return WAYS[how](what) if how in WAYS else setting(**what) if how == "setting" else a_pod(**what)


@each_row
def test_each_bypass_is_found_in_words_of_its_own(way: dict[str, Any], words: str) -> None:
    finding = judged(taking_a(way))
    assert finding.outcome is Outcome.BAD
    assert words in finding.observed


@pytest.mark.parametrize(("name", "value"), [*((name, "0") for name in DEVICES), *((name, "enabled") for name in FEATURES)])
def test_every_variable_that_a_runtime_obeys_is_found(name: str, value: str) -> None:
    finding = judged(setting(name=name, value=value))
    assert (finding.outcome, f"sets {name}={value}" in finding.observed) == (Outcome.BAD, True)


@each_row
def test_what_opens_nothing_is_no_bypass(way: dict[str, Any]) -> None:
    assert judged(taking_a(way)).outcome is Outcome.OK


@pytest.mark.parametrize("path", ["/dev/drivers", "/dev/ttyUSB0", "/proc/1/root/dev/video0"])
def test_a_device_that_nobody_knows_is_undecided(path: str) -> None:
    finding = judged(mounting(path))
    assert finding.outcome is Outcome.UNDECIDED
    assert finding.message == f"volume v mounts hostPath {path}, and nothing shows whether that device is an accelerator's"


@each_row
def test_a_variable_that_may_add_devices_is_undecided(entry: dict[str, Any], name: str) -> None:
    finding = judged(setting(**entry))
    assert (finding.outcome, f"sets {name}, and nothing shows" in finding.message) == (Outcome.UNDECIDED, True)


@each_row
def test_an_annotation_that_may_add_devices_is_undecided(key: str, value: str, devices: int, outcome: Outcome) -> None:
    pod = a_pod(devices=devices, node="gpu-0", annotations={key: value})
    finding = judged(pod, nodes=[a_node()])
    assert (finding.outcome, f"annotation {key} names" in finding.message) == (outcome, outcome is Outcome.UNDECIDED)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("devices.crio.io", "/dev/null," * 26_000, "annotation devices.crio.io is longer than the 4096 characters that are read, and"),
    (f"devices.gke.io/container.{'c' * 90}", "/dev/nvidia0", f"annotation devices.gke.io/container.{'c' * 75}… names /dev/nvidia0, and"),
    ("devices.crio.io", f"/dev/nvidia{'0' * 150}", f"names /dev/nvidia{'0' * 89}…, and"),
    ("cdi-devices.nri.io/pod", "a=b\x1b[2J\n- c", "names a=b\\x1b[2J - c, and"),
], ids=["long value", "long key", "long path", "CDI device"])  # fmt: skip
def test_what_an_annotation_puts_into_a_message_is_bounded_and_harmless(key: str, value: str, words: str) -> None:
    finding = judged(a_pod(annotations={key: value}))
    assert (finding.outcome, words in finding.message) == (Outcome.UNDECIDED, True), finding.message


NPU = "huawei.com/Ascend910"


def by_plugin(given: str, name: str = "train-0", asked: int = 1) -> Any:
    """A pod whose device plugin writes into an annotation which devices it gave, as Ascend's does."""
    env = [{"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{NPU}']"}}}]
    return a_pod(name, node="gpu-0", containers=[a_container(devices={NPU: asked}, env=env)], annotations={NPU: given})


@each_row
def test_an_annotation_of_a_device_plugin_names_what_was_asked_for(pods: list[dict[str, Any]], outcomes: list[Outcome]) -> None:
    assert [finding.outcome for finding in check_bypass(a_scope(pods=[by_plugin(**one) for one in pods], nodes=[a_node()]))] == outcomes


@each_row
def test_paths_of_the_platforms_guide_are_its_own(paths: list[str], devices: int, preset: str, outcome: Outcome) -> None:
    [chosen] = named([preset], "test")
    volumes = [{"name": f"v{at}", "hostPath": {"path": path}} for at, path in enumerate(paths)]
    pod = a_pod(devices=devices, node="gpu-0", volumes=volumes)
    [finding] = check_bypass(a_scope(pods=[pod], nodes=[a_node()], policy=build_policy(chosen.policy)))
    assert finding.outcome is outcome


KINDS = {"persistentvolumes": ("pv-1", PersistentVolume), "persistentvolumeclaims": ("data", PersistentVolumeClaim)}


def objects(kind: str, rows: list[dict[str, Any]]) -> list[Any]:
    """Objects of a kind: a ConfigMap's row is its name and data, a volume's or a claim's is its spec."""
    if kind == "configmaps":
        return [ConfigMap(metadata=Meta(name=row["name"], namespace=row.get("namespace", "team-a")), data=row["data"]) for row in rows]
    if kind not in KINDS:
        return rows
    name, form = KINDS[kind]
    metas = [{"name": row.get("name", name), "namespace": row.get("namespace", "team-a"), "labels": {"disk": "a"}} for row in rows]
    return [msgspec.convert({"metadata": meta, "spec": row}, form) for meta, row in zip(metas, rows, strict=True)]


@each_row
def test_what_a_pod_refers_to_opens_devices_or_not(pod: dict[str, Any], world: dict[str, Any], outcome: Outcome, words: str) -> None:
    own = {name: value for name, value in pod.items() if name != "container"}
    containers: dict[str, Any] = {"containers": [a_container("c", **pod["container"])]} if "container" in pod else {}
    nodes: dict[str, Any] = {"nodes": [a_node()]} if world.get("with_node") else {}
    lists = {kind: objects(kind, rows) if isinstance(rows, list) else rows for kind, rows in world.items() if kind != "with_node"}
    finding = judged(a_pod(**own, **containers), **lists, **nodes)
    assert finding.outcome is outcome
    assert words in f"{finding.observed} {finding.message}"


def test_several_bypasses_are_one_finding_that_lists_all() -> None:
    finding = judged(a_pod(hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/dev"}}], runtimeClassName="nvidia"))
    assert finding.observed.count(";") == 2
    assert "and 2 more" in finding.message


def test_infrastructure_and_finished_pods_are_no_subjects() -> None:
    pods = [a_pod("driver", "gpu-operator", hostIPC=True), a_pod("done", phase="Failed", hostIPC=True)]
    assert list(check_bypass(a_scope(pods=pods))) == []


@given(st.text(max_size=300))
def test_no_path_breaks_the_reader(path: str) -> None:
    assert isinstance(exposed_by(path), str)


@given(st.sampled_from(["/dev", "/run/containerd/containerd.sock", "/var/lib/kubelet/device-plugins"]), st.integers(0, 4))
def test_a_folder_above_a_guarded_path_opens_it(path: str, levels: int) -> None:
    for _ in range(levels):
        path = path.rpartition("/")[0] or "/"
    assert exposed_by(path)


# -- templates


def test_annotations_of_a_template_are_judged_and_those_of_its_workload_are_not() -> None:
    cdi = {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}
    inside = a_workload("Deployment", "inside", {"template": {"metadata": cdi, "spec": a_spec()}})
    outside = a_workload("Deployment", "outside", {"template": {"spec": a_spec()}})
    outside["metadata"] |= cdi
    found = {f.subject.name: f.outcome for f in check_bypass(a_scope(deployments=[inside, outside]))}
    assert found == {"inside": Outcome.BAD, "outside": Outcome.OK}


# -- secrets


def placed(source: dict[str, Any], **pod: Any) -> Any:
    return a_pod(containers=[a_container("c", envFrom=[source])], **pod)


@each_row
def test_a_secret_matters_where_its_pod_may_meet_devices(pod: dict[str, Any], outcome: Outcome) -> None:
    assert judged(placed(**pod), nodes=[a_node(), a_cpu_node()]).outcome is outcome


# -- annotations of a scheduler

SHARE, RECORD = "koordinator.sh/gpu-core", '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":1}}]}'


@pytest.mark.parametrize("devices", [0, {SHARE: 1}], ids=["asks for none", "asks for a share"])
def test_a_scheduler_s_record_is_undecided_where_nodes_were_not_read(devices: Any) -> None:
    pod = a_pod(node="gpu-0", devices=devices, annotations={"scheduling.koordinator.sh/device-allocated": RECORD})
    finding = judged(pod, trouble={"nodes": "Forbidden"})
    assert finding.outcome is Outcome.UNDECIDED


def test_a_pod_that_asks_by_a_claim_has_no_record_of_its_own() -> None:
    node = a_node()
    node.status.capacity[SHARE] = "100"
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    pod = a_pod(node="gpu-0", resourceClaims=claims, annotations={"scheduling.koordinator.sh/device-allocated": RECORD})
    assert judged(pod, nodes=[node]).outcome is Outcome.UNDECIDED


# -- PSA-05: claims with admin access, which get devices that others hold


PODS_CLAIM = [{"name": "gpu", "resourceClaimName": "adm"}]


def admin(**more: Any) -> dict[str, Any]:
    claim = a_dra_claim("adm", **more)
    claim["spec"] = claim_spec(adminAccess=True)
    return claim


@each_row
def test_a_claim_with_admin_access_reaches_devices_of_others(claim: Any) -> None:
    finding = judged(a_pod(resourceClaims=PODS_CLAIM), resourceclaims=[claim], deviceclasses=[a_class()])
    assert finding.outcome is Outcome.BAD
    assert "claim gpu has adminAccess=true" in finding.message


def test_a_template_with_admin_access_is_found_before_its_pods_start() -> None:
    template = a_template("adm")
    template["spec"]["spec"] = claim_spec(adminAccess=True)
    entries = [{"name": "gpu", "resourceClaimTemplateName": "adm"}]
    workload = a_workload("Deployment", "web", {"template": {"spec": a_spec(resourceClaims=entries)}})
    [finding] = check_bypass(a_scope(resourceclaimtemplates=[template], deployments=[workload]))
    assert finding.outcome is Outcome.BAD
    assert "claim gpu has adminAccess=true" in finding.message


def test_claims_that_were_refused_leave_their_pods_undecided() -> None:
    pod = a_pod(resourceClaims=PODS_CLAIM)
    finding = judged(pod, trouble={"resource.k8s.io/resourceclaims": "Forbidden"})
    assert finding.outcome is Outcome.UNDECIDED
    assert "whether its claim gpu has admin access to devices is not known" in finding.message
