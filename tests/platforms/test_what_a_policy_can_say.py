"""What platforms need to be said in a policy, and that it exempts no more than that."""

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.fence.checks import check_fenced, check_intruders
from conformance.net.advertising import check_advertised
from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from conformance.psa.standards import check_standards
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import physical_counts
from fixtures.model.devices.node_advertisement import advertisement
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Outcome
from fixtures.verdict.record import Result, Verdict
from tests.builders import a_container, a_cpu_node, a_namespace, a_node, a_pod, a_policy, a_scope
from tests.findings import about
from tests.judging import judge
from tests.platforms.clusters import H100, NFD, PRESENT, gfd
from tests.platforms.judged import snapshot_as_served
from tests.platforms.objects import base, node
from tests.requirements_offline import policy_over
from tests.tables import each_row

# -- RDMA through the host -----------------------------------------------------------------------------


def host_pod(devices: int = 8, namespace: str = "training", *, host: bool = True) -> Pod:
    amounts = {"nvidia.com/gpu": str(devices)}
    made = a_container(devices=amounts, securityContext={"privileged": True})
    return a_pod("job", namespace, node="gpu-0", containers=[made], hostNetwork=host)


def host_scope(pod: Pod) -> Scope:
    policy = a_policy(tenants={"hostRdma": ["training"]})
    spaces = [a_namespace(name, {"pod-security.kubernetes.io/enforce": "privileged"}) for name in ("training", "web")]
    return a_scope(policy, nodes=[a_node()], pods=[pod], namespaces=spaces)


def test_whole_nodes_of_a_named_tenant_may_go_through_the_host() -> None:
    scope = host_scope(host_pod())
    assert about(check_bypass(scope), "job").outcome is Outcome.ALLOWED
    assert about(check_standards(scope), "job").outcome is Outcome.ALLOWED
    assert about(check_enforcement(scope), "training").outcome is Outcome.ALLOWED
    assert about(check_enforcement(scope), "web").outcome is Outcome.BAD


@pytest.mark.parametrize("pod", [host_pod(devices=4), host_pod(namespace="web"), host_pod(host=False)])
def test_a_part_of_a_node_another_tenant_or_no_host_network_may_not(pod: Pod) -> None:
    assert about(check_bypass(host_scope(pod)), "job").outcome is Outcome.BAD
    assert about(check_standards(host_scope(pod)), "job").outcome is Outcome.BAD


# -- fences --------------------------------------------------------------------------------------------


@each_row
def test_a_taint_by_the_name_of_a_device_resource_fences(taint: str, expected: Outcome) -> None:
    node = a_node(resource="gpu.intel.com/i915", taints=[taint])
    assert about(check_fenced(a_scope(nodes=[node, a_cpu_node()])), "gpu-0").outcome is expected


@each_row
def test_a_single_box_needs_no_fence_where_the_policy_says_so(fence: Mapping[str, Any], others: int, expected: Outcome) -> None:
    nodes = [a_node(taints=()), *(a_cpu_node(f"cpu-{index}") for index in range(others))]
    scope = a_scope(a_policy(fence=dict(fence)), nodes=nodes, pods=[a_pod("web", node="gpu-0")])
    assert about(check_fenced(scope), "gpu-0").outcome is expected
    assert about(check_intruders(scope), "web").outcome is expected


# -- fabric and counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("elsewhere", "expected"), [("0", Outcome.NOT_JUDGED), ("1", Outcome.BAD)])
def test_a_fabric_resource_that_machines_of_a_kind_never_had_is_not_missing(elsewhere: str, expected: Outcome) -> None:
    key = "vpc.amazonaws.com/efa"
    nodes = [a_node(capacity={key: "0"}), a_node("gpu-1", capacity={key: elsewhere})]
    assert about(check_advertised(a_scope(nodes=nodes)), "gpu-0").outcome is expected


def test_devices_per_node_are_reported_by_instance_type_too() -> None:
    node = a_node(labels={"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": ""})
    (count,) = physical_counts(node, advertisement(node.metadata.label), a_policy(advertisement={"devicesPerNode": {"p5.*": 8}}), [])
    assert count.devices == 8


# -- OpenShift -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "expected"), [({"node.openshift.io/os_id": "rhel"}, Outcome.NOT_JUDGED), ({}, Outcome.BAD)])
def test_only_a_node_makes_a_cluster_openshift_whose_constraints_admit_pods(labels: dict[str, str], expected: Outcome) -> None:
    spaces = [a_namespace("team-a"), a_namespace("openshift-config", {"node.openshift.io/os_id": "rhel"})]
    scope = a_scope(nodes=[a_node(labels=labels)], namespaces=spaces)
    assert about(check_enforcement(scope), "team-a").outcome is expected


FENCE = ["nvidia.com/gpu:NoSchedule"]
DEVICES = ("INV-01", "INV-02", "ADV-01", "ADV-03")
VOLCANO = {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 163118, "volcano.sh/vgpu-cores": 200}


def judged(*nodes: Json, policy: Mapping[str, object] | None = None) -> dict[str, Result]:
    snapshot = snapshot_as_served([*base(), *nodes])
    return judge(snapshot, policy_over(snapshot, dict(policy)) if policy is not None else Policy(), DEVICES)


@each_row
def test_accelerators_under_a_name_that_the_policy_lacks_are_undecided(devices: dict[str, int], labels: dict[str, str]) -> None:
    found = judged(node("gpu-0", devices, labels, FENCE))
    name = next(iter(devices))
    assert {id_: one.verdict for id_, one in found.items() if id_ != "ADV-03"} == dict.fromkeys(DEVICES[:3], Verdict.INCONCLUSIVE)
    assert found["ADV-03"].verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
    assert all(name in found[id_].message and "accelerators.resources" in found[id_].message for id_ in DEVICES[:3])


def test_a_cluster_that_only_has_accelerators_which_the_policy_lacks_is_undecided() -> None:
    assert judged(node("npu-0", {"huawei.com/Ascend910": 8}))["INV-01"].verdict is Verdict.INCONCLUSIVE
    assert judged(node("cpu-1"))["INV-01"].verdict is Verdict.FAILED


def test_it_passes_where_the_policy_lists_them() -> None:
    policy = {"accelerators": {"resources": ["volcano.sh/vgpu-number"]}}
    labels = {NFD: "true", PRESENT: "true"}
    found = judged(node("gpu-0", VOLCANO, labels, FENCE), policy=policy)
    assert {id_: found[id_].verdict for id_ in DEVICES[:3]} == dict.fromkeys(DEVICES[:3], Verdict.PASSED)


ANNOTATION = "volcano.sh/node-vgpu-register"
TWO = "GPU-0,10,81559,100,NVIDIA-H100,0,true:GPU-1,10,81559,100,NVIDIA-H100,0,true:"
REPORTED = {
    "HAMi#1376, NVIDIA's name is left at 0, and memory is too large to be listed": {
        **VOLCANO,
        "nvidia.com/gpu": 0,
        "volcano.sh/vgpu-memory": 0,
    },
    "volcano-vgpu-device-plugin#56, without memory": {**VOLCANO, "volcano.sh/vgpu-memory": 0},
    "an older plugin lists parts alone": {"volcano.sh/vgpu-number": 20},
}


@pytest.mark.parametrize("report", REPORTED)
def test_parts_of_devices_are_devices_by_the_annotation_of_their_plugin(report: str) -> None:
    labels = {**gfd(H100, 2), NFD: "true"}
    found = judged(
        node("gpu-0", REPORTED[report], labels, FENCE, annotations={ANNOTATION: TWO}), node("cpu-0", {"volcano.sh/vgpu-number": 0})
    )
    assert {id_: found[id_].verdict for id_ in DEVICES} == dict.fromkeys(DEVICES, Verdict.PASSED)


def test_parts_that_went_are_no_devices_and_those_of_a_plugin_that_is_registered_are_missed() -> None:
    """volcano-vgpu-device-plugin#18: the name stays after its plugin was removed, beside the devices of another."""
    labels = {**gfd(H100, 2), NFD: "true"}
    gone = judged(node("gpu-0", {"nvidia.com/gpu": 2, "volcano.sh/vgpu-number": 0}, labels, FENCE))
    assert gone["ADV-01"].verdict is Verdict.PASSED
    lost = judged(node("gpu-0", {"volcano.sh/vgpu-number": 0}, labels, FENCE, annotations={ANNOTATION: TWO}))
    assert lost["ADV-01"].verdict is Verdict.FAILED


@each_row
def test_what_is_certainly_no_device_of_the_node_excuses_nothing(devices: dict[str, int]) -> None:
    found = judged(node("gpu-0", devices, gfd(H100, 8), FENCE))
    assert {id_: found[id_].verdict for id_ in ("INV-01", "ADV-01", "ADV-03")} == dict.fromkeys(
        ("INV-01", "ADV-01", "ADV-03"), Verdict.FAILED
    )


def test_the_vendor_s_own_labels_tell_whose_devices_a_node_has() -> None:
    """Without NFD's: a card beside the GPUs excuses nothing."""
    labels = {name: value for name, value in gfd(H100, 8).items() if name.startswith("nvidia.com/")}
    found = judged(node("gpu-0", {"xilinx.com/fpga-u250": 2}, labels, FENCE))
    assert {found[id_].verdict for id_ in ("INV-01", "ADV-01")} == {Verdict.FAILED}


@each_row
def test_a_taint_that_goes_with_the_state_of_the_node_is_no_fence(taint: str, verdict: Verdict) -> None:
    snapshot = snapshot_as_served([*base(), node("npu-0", {"acme.example.com/npu": 8}, {NFD: "true"}, [taint])])
    assert judge(snapshot, Policy(), ("FENCE-01",))["FENCE-01"].verdict is verdict
