"""What keeps a run from being conformant although nothing that it judged is bad: see each name."""

from typing import Any

import pytest

from conformance.catalogue import load_catalogue
from conformance.coverage import unjudged_devices, unmatched_patterns
from conformance.coverage.run import coverage_of_run
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.verdict.coverage import Asked, Floor, measure
from fixtures.verdict.record import Access, Coverage, Level, Result, Verdict
from tests.builders import a_cpu_node, a_namespace, a_node, a_pod, a_policy, a_scope
from tests.dra import a_slice
from tests.reports.sample_report import result, subject
from tests.tables import each_row

CATALOGUE = load_catalogue()
ASKED = [Asked(id=one.id, title=one.title, area=one.area, level=one.level) for one in CATALOGUE.by_id.values()]
BY_PROBE = [one.id for one in CATALOGUE.by_id.values() if one.access is Access.WORKLOAD]
NAMESPACES = (a_namespace("team-a"), a_namespace("kube-system"))


def slices(*nodes: str, driver: str = "gpu.nvidia.com") -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"name": f"{name}-0"},
            "spec": {"driver": driver, "nodeName": name, "pool": {"name": name, "generation": 1}, "devices": []},
        }
        for name in nodes
    ]


def one_per_node(id_: str, *names: str, verdict: Verdict = Verdict.PASSED, **more: object) -> Result:
    return result(id_, verdict, [subject(name, kind="Node") for name in names], **more)


def about_accelerators(scope: Scope, *results: Result) -> list[str]:
    return list(unjudged_devices.accelerators(scope, results))


# -- accelerators ------------------------------------------------------------------------------------------


def test_a_device_resource_that_no_requirement_judged_is_named() -> None:
    scope = a_scope(nodes=[a_node("gpu-0"), a_node("tpu-0", resource="google.com/tpu", labels={"nvidia.com/gpu.present": ""})])
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu"), one_per_node("INV-01", "gpu-0", "tpu-0")) == [
        "no requirement judged google.com/tpu, which tpu-0 offers"
    ]


def test_a_subject_that_was_not_judged_judges_no_device() -> None:
    scope = a_scope(nodes=[a_node("gpu-0")])
    aside = result("ADV-02", Verdict.NOT_APPLICABLE, [subject("gpu-0", Verdict.NOT_APPLICABLE, kind="Node")])
    assert about_accelerators(scope, aside) == ["no requirement judged nvidia.com/gpu, which gpu-0 offers"]


def test_subjects_that_the_record_does_not_keep_are_not_called_unjudged() -> None:
    scope = a_scope(nodes=[a_node("gpu-0"), a_node("tpu-0", resource="google.com/tpu")])
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0", subjects_omitted=900)) == []


def test_devices_that_only_claims_reach_are_named_by_their_driver_until_a_requirement_judges_them() -> None:
    claimed = a_node("gpu-1", gpus=0)
    scope = a_scope(nodes=[a_node("gpu-0"), claimed, a_cpu_node()], resourceslices=[a_slice("gpu-1"), a_slice("gpu-0")])
    by_plugin = one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")
    assert about_accelerators(scope, by_plugin) == ["no requirement judged the devices of gpu.nvidia.com, which gpu-1 offers"]
    assert about_accelerators(scope, by_plugin, one_per_node("DRA-02", "gpu-1 gpu.nvidia.com")) == []


def test_without_slices_nobody_knows_what_a_node_without_device_resources_offers() -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1", gpus=0, labels={"nvidia.com/gpu.present": "true"})]
    good = one_per_node("ADV-04", "gpu-0", "gpu-1")
    assert about_accelerators(a_scope(nodes=nodes, offline=True), good) == [
        "gpu-1 offers no device as a resource, and the snapshot holds no resource.k8s.io/resourceslices: "
        "whether devices are offered by claim was not read"
    ]
    assert about_accelerators(a_scope(nodes=nodes, offline=True, resourceslices=[]), good) == []
    assert about_accelerators(a_scope(nodes=[a_node("gpu-0")], offline=True), good) == []


@pytest.mark.parametrize(("count", "why"), [(0, "as the policy expects (accelerators.expectedCount: 0)"), (None, "by any source")])
def test_a_cluster_without_accelerators_is_named(count: int | None, why: str) -> None:
    scope = a_scope(a_policy(accelerators={"expectedCount": count}), nodes=[a_cpu_node()])
    assert about_accelerators(scope) == [f"no node has an accelerator, {why}: what was judged says nothing about accelerators"]


@pytest.mark.parametrize("resource", ["huawei.com/Ascend910", "rebellions.ai/ATOM", "acme.example.com/npu"])
def test_accelerators_that_the_policy_does_not_list_are_no_conformant_cluster(resource: str) -> None:
    beside = [a_node("gpu-0"), a_node("npu-0", gpus=0, capacity={resource: "8"})]
    reported = f"no requirement judged {resource}, which npu-0 offers (accelerators.resources of the policy lacks it)"
    assert about_accelerators(a_scope(nodes=beside), one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == [reported]
    assert about_accelerators(a_scope(nodes=beside[1:])) == [reported]
    exempt = a_policy(accelerators={"noDevices": [resource]})
    assert about_accelerators(a_scope(exempt, nodes=beside), one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == []


def test_other_names_of_devices_that_a_requirement_judged_are_no_shortfall() -> None:
    scope = a_scope(nodes=[a_node("gpu-0", capacity={"koordinator.sh/gpu": "800"})])
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == []


AT_GPUS = (
    *("rdma/hca_shared_devices_a", "openshift.io/gpu_rail_0", "nvidia.com/gpu_rail_1", "acme.example.com/gpu-nic-0"),
    *("vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni", "networking.gke.io.networks/gpu-net-1", "smarter-devices/nvidia-gpu"),
    *("squat.ai/gpu", "devices.kubevirt.io/kvm", "github.com/fuse", "xilinx.com/fpga-xilinx_u250-0"),
    *("fpga.intel.com/af-d8424dc4a4a3c413f89e433683f9040b", "sgx.intel.com/epc", "intel.com/qat", "hugepages-1Gi"),
    *("koordinator.sh/gpu", "koordinator.sh/gpu.shared", "koordinator.sh/gpu-core", "volcano.sh/vgpu-number"),
    *("volcano.sh/vgpu-memory", "volcano.sh/gpu-core.percentage", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"),
    *("tke.cloud.tencent.com/qgpu-core", "nvidia.com/gpumem", "nvidia.com/gpucores", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"),
    *("run.ai/gpu", "example.com/gpu-slots", "example.com/vgpu-license", "k8s.amazonaws.com/vgpu"),
)


@pytest.mark.parametrize("resource", AT_GPUS)
def test_what_healthy_nodes_offer_beside_judged_devices_is_no_shortfall(resource: str) -> None:
    nodes = [a_node("gpu-0", capacity={resource: "8"})]
    assert about_accelerators(a_scope(nodes=nodes), one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == []
    assert about_accelerators(a_scope(nodes=nodes), one_per_node("ADV-02", "gpu-0 nvidia.com/gpu", subjects_omitted=900)) == []


ACCELERATORS = (
    *("acme.example.com/npu", "acme.example.com/npu-core", "acme.example.com/tpu", "acme.example.com/gpu", "acme.example.com/hpu"),
    *("acme.example.com/neuron", "acme.example.com/dcu", "acme.example.com/mlu", "enflame.com/gcu", "huawei.com/Ascend910"),
    *("hygon.com/dcunum", "cambricon.com/mlu.smlu.vcore", "metax-tech.com/sgpu"),
)


@pytest.mark.parametrize("resource", ACCELERATORS)
def test_a_judged_device_says_nothing_of_an_unlisted_accelerator_of_its_node(resource: str) -> None:
    scope = a_scope(nodes=[a_node("gpu-0", capacity={resource: "4"})])
    reported = f"no requirement judged {resource}, which gpu-0 offers (accelerators.resources of the policy lacks it)"
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu", "gpu-0")) == [reported]


@pytest.mark.parametrize("resource", ACCELERATORS)
def test_subjects_that_the_record_does_not_keep_hide_no_unlisted_accelerator(resource: str) -> None:
    scope = a_scope(nodes=[a_node("gpu-0"), a_node("npu-0", gpus=0, capacity={resource: "4"})])
    reported = f"no requirement judged {resource}, which npu-0 offers (accelerators.resources of the policy lacks it)"
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu", subjects_omitted=1000)) == [reported]


def test_devices_of_a_pool_that_several_nodes_reach_are_a_shortfall() -> None:
    remote = a_slice("gpu-0", pool="rack")
    del remote["spec"]["nodeName"]
    scope = a_scope(nodes=[a_node("gpu-0")], resourceslices=[{**remote, "spec": {**remote["spec"], "allNodes": True}}])
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == [
        "no requirement judged the devices of gpu.nvidia.com in pool rack, which are no single node's"
    ]


def test_devices_beside_those_of_a_plugin_are_judged_by_themselves() -> None:
    scope = a_scope(nodes=[a_node("gpu-0")], resourceslices=[a_slice("gpu-0", "gpu.amd.com"), a_slice("gpu-0")])
    reported = "no requirement judged the devices of gpu.amd.com, which gpu-0 offers"
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu")) == [reported]
    assert about_accelerators(scope, one_per_node("ADV-02", "gpu-0 nvidia.com/gpu", "gpu-0 gpu.amd.com")) == []


def test_a_driver_of_which_nothing_is_known_is_a_note() -> None:
    scope = a_scope(nodes=[a_node()], resourceslices=[a_slice("gpu-0", "things.example.com", [{"name": "a"}]), a_slice("gpu-0")])
    assert list(unjudged_devices.unknown_resources(scope)) == [
        "nothing tells whether the devices of things.example.com in ResourceSlices are accelerators (accelerators.drivers)"
    ]


def test_resources_that_the_policy_does_not_know_are_a_note() -> None:
    odd = a_node("npu-0", gpus=0, capacity={"furiosa.ai/npu": "4", "example.com/none": "0", "rdma/hca": "1", "hugepages-1Gi": "8Gi"})
    stated = list(unjudged_devices.unknown_resources(a_scope(nodes=[odd, a_node()])))
    assert stated == ["nodes offer furiosa.ai/npu, which the policy calls neither a device nor a network (accelerators.resources)"]
    assert list(unjudged_devices.unknown_resources(a_scope(nodes=[a_node()]))) == []
    assert list(unjudged_devices.unknown_resources(a_scope(trouble={"nodes": "Forbidden"}))) == []


def test_nodes_that_could_not_be_read_are_no_absence_of_accelerators() -> None:
    assert about_accelerators(a_scope(offline=True)) == []
    assert about_accelerators(a_scope(trouble={"nodes": "Forbidden"})) == []


# -- probes ------------------------------------------------------------------------------------------------


def covered(*results: Result, left_out: dict[str, str] | None = None) -> Coverage:
    return measure(ASKED, results, left_out or {})


def about_probes(coverage: Coverage, ceiling: Access = Access.WORKLOAD, **more: Any) -> list[str]:
    return list(unjudged_devices.probes(a_scope(nodes=[a_node()], **more), coverage, CATALOGUE, ceiling))


def test_probes_that_judged_some_nodes_are_not_reported_to_have_judged_none() -> None:
    results = [one_per_node(id_, "gpu-0", verdict=Verdict.INCONCLUSIVE, judged=1, total=2) for id_ in BY_PROBE]
    assert list(unjudged_devices.probes(a_scope(nodes=[a_node()]), covered(*results), CATALOGUE, Access.WORKLOAD, results)) == []


def test_a_vendor_whose_devices_cannot_be_listed_is_reported_by_the_cause_alone() -> None:
    aside = [result(id_, Verdict.NOT_APPLICABLE, reason_code="NoListingForVendor", message="amd.com/gpu only") for id_ in BY_PROBE]
    assert about_probes(covered(*aside)) == []


def test_a_run_falls_short_where_no_probe_judged_a_device_and_not_where_one_did() -> None:
    """Otherwise a cluster whose GPU nodes are all cordoned would be called conformant by requirements that look at no device."""

    def shortfalls(results: list[Result], ceiling: Access = Access.WORKLOAD, left_out: dict[str, str] | None = None) -> list[str]:
        scope = a_scope(nodes=[a_node()])
        return coverage_of_run(CATALOGUE, results, left_out or {}, access=ceiling, floor=Floor(), scope=scope).shortfalls

    reported = "no pod that holds a device could be judged: no Ready node"
    aside = [result(id_, Verdict.NOT_APPLICABLE, reason_code="NoUsableDevice", message="no Ready node") for id_ in BY_PROBE]
    assert reported in shortfalls(aside)
    assert reported not in shortfalls(aside, Access.READ)
    assert reported not in shortfalls(aside, left_out={"INV-01": "-k ISO"})
    judged = [one_per_node(id_, "gpu-0", judged=1, total=1) for id_ in BY_PROBE]
    assert not [line for line in shortfalls(judged) if line.startswith("no pod that holds a device")]


# -- selection ---------------------------------------------------------------------------------------------


def test_a_run_is_about_the_whole_cluster_when_no_must_was_left_out() -> None:
    should = {one.id: "--level must" for one in ASKED if one.level is Level.SHOULD}
    assert unjudged_devices.is_whole(covered(left_out=should))
    assert not unjudged_devices.is_whole(covered(left_out={"INV-01": "-k x"}))


# -- snapshots ---------------------------------------------------------------------------------------------


def test_a_snapshot_without_the_kinds_that_every_cluster_has_names_them() -> None:
    scope = a_scope(offline=True, nodes=[a_node()])
    lacking = [
        result(one.id, Verdict.NOT_APPLICABLE, reason_code="NotInSnapshot", message="the snapshot holds no pods")
        for one in CATALOGUE.by_id.values()
        if "pods" in (*one.reads, *one.optional_reads)
    ]
    (stated,) = unjudged_devices.snapshot_gaps(scope, covered(*lacking), CATALOGUE)
    assert stated.startswith("the snapshot holds no pods, namespaces, apps/daemonsets, configmaps, which every cluster has: ")
    assert "FENCE-02" in stated


def test_a_snapshot_that_lacks_what_no_requirement_asked_for_is_no_shortfall() -> None:
    scope = a_scope(offline=True, nodes=[a_node()])
    assert list(unjudged_devices.snapshot_gaps(scope, covered(one_per_node("FENCE-01", "gpu-0")), CATALOGUE)) == []
    custom = result("NET-01", Verdict.NOT_APPLICABLE, reason_code="NotInSnapshot", message="the snapshot holds no NicClusterPolicy")
    assert list(unjudged_devices.snapshot_gaps(a_scope(nodes=[a_node()]), covered(custom), CATALOGUE)) == []


# -- patterns of the policy --------------------------------------------------------------------------------


def about_patterns(policy: Policy, **items: Any) -> list[str]:
    given: dict[str, Any] = {"nodes": [a_node()], "namespaces": NAMESPACES, **items}
    return list(unmatched_patterns.shortfalls(a_scope(policy, **given)))


@each_row
def test_a_pattern_that_says_what_is_judged_and_matches_nothing_is_named(section: dict[str, Any], stated: str) -> None:
    (found,) = about_patterns(a_policy(**section))
    assert stated in found


def test_no_tenant_at_all_is_named() -> None:
    (found,) = about_patterns(a_policy(tenants={"namespaces": []}))
    assert found.startswith("the policy's tenants.namespaces is empty")


EVERYWHERE = (*NAMESPACES, a_namespace("default"), a_namespace("jenkins"))
TRAINING = a_pod(devices=8, node="gpu-0")


@each_row
def test_a_wildcard_that_makes_every_tenant_the_platforms_is_a_shortfall(tenants: dict[str, Any], stated: str) -> None:
    reported = (
        f"the policy leaves no tenant namespace, so nothing of tenants was judged: {stated}; write exact names of the platform's namespaces"
    )
    assert about_patterns(a_policy(tenants=tenants), namespaces=EVERYWHERE, pods=[TRAINING]) == [reported]


@pytest.mark.parametrize("pattern", ["d*", "[!t]*"])
@pytest.mark.parametrize(
    ("pod", "stated"), [(TRAINING, "none of team-a, where pods ask for devices"), (a_pod("web"), "none of team-a, where pods are")]
)
def test_a_pattern_of_tenants_that_leaves_out_every_namespace_in_use_is_a_shortfall(pattern: str, pod: Any, stated: str) -> None:
    spaces = [a_namespace(name) for name in ("default", "kube-system", "team-a")]
    (reported,) = about_patterns(a_policy(tenants={"namespaces": [pattern]}), namespaces=spaces, pods=[pod])
    assert reported.startswith("the policy leaves no tenant namespace, so nothing of tenants was judged: tenants.namespaces has ")
    assert stated in reported


def test_a_pattern_of_tenants_beside_the_namespaces_with_devices_is_a_note() -> None:
    spaces = [a_namespace(name) for name in ("kube-system", "team-a", "web")]
    scope = a_scope(a_policy(tenants={"namespaces": ["w*"]}), namespaces=spaces, pods=[TRAINING, a_pod("x", "web")])
    assert list(unmatched_patterns.shortfalls(scope)) == []
    (reported,) = unmatched_patterns.notes(scope)
    assert "tenants.namespaces has 'w*', which matches none of team-a" in reported


@pytest.mark.parametrize("patterns", [["team-*"], ["d*", "team-a"], ["*"]])
def test_patterns_of_tenants_that_match_a_namespace_in_use_are_good(patterns: list[str]) -> None:
    spaces = [a_namespace(name) for name in ("default", "kube-system", "team-a", "team-b")]
    scope = a_scope(a_policy(tenants={"namespaces": patterns}), namespaces=spaces, pods=[TRAINING, a_pod("x", "team-b", devices=1)])
    assert list(unmatched_patterns.shortfalls(scope)) == []
    assert list(unmatched_patterns.notes(scope)) == []


def test_a_wildcard_that_matches_every_name_is_a_shortfall_although_nobody_uses_devices() -> None:
    (reported,) = about_patterns(a_policy(tenants={"moreInfrastructure": ["*"]}), namespaces=EVERYWHERE, pods=[])
    assert "tenants.moreInfrastructure has '*', which matches every name" in reported


@each_row
def test_a_healthy_cluster_without_tenants_of_its_own_is_no_shortfall(
    tenants: dict[str, Any], namespaces: list[str], pods: list[Any]
) -> None:
    assert about_patterns(a_policy(tenants=tenants), namespaces=[a_namespace(name) for name in namespaces], pods=pods) == []


def test_namespaces_of_pods_that_were_not_read_are_not_called_the_tenants() -> None:
    policy = a_policy(tenants={"moreInfrastructure": ["team-*", "jenkins"]})
    assert about_patterns(policy, namespaces=EVERYWHERE, offline=True) == []
    assert about_patterns(policy, trouble={"namespaces": "Forbidden"}) == []


def test_what_the_owner_calls_the_platforms_is_a_note() -> None:
    named = a_scope(a_policy(tenants={"moreInfrastructure": ["team-a", "jenkins", "default"]}), namespaces=EVERYWHERE, pods=[TRAINING])
    reported = "no namespace is a tenant's: tenants.infrastructure and moreInfrastructure name default, jenkins, team-a"
    assert list(unmatched_patterns.notes(named)) == [reported]
    one_left = a_scope(a_policy(tenants={"moreInfrastructure": ["team-*"]}), namespaces=EVERYWHERE, pods=[TRAINING])
    (stated,) = unmatched_patterns.notes(one_left)
    assert stated.startswith(
        "Tenant rules were skipped where a pattern of the policy makes a namespace the platform's: tenants.moreInfrastructure"
    )


def test_patterns_that_match_are_not_named() -> None:
    policy = a_policy(
        tenants={"namespaces": ["team-*"], "isolated": ["team-a"]},
        accelerators={"resources": ["nvidia.com/g*"], "nodeLabels": ["nvidia.com/gpu.present=true"], "drivers": ["gpu.nvidia.*"]},
        advertisement={"devicesPerNode": {"NVIDIA-H100*": 8}},
    )
    assert about_patterns(policy, resourceslices=slices("gpu-0")) == []


def test_what_was_not_read_is_not_called_absent() -> None:
    policy = a_policy(tenants={"namespaces": ["tema-*"]}, network={"resources": ["rdma/none"]}, accelerators={"drivers": ["x"]})
    assert list(unmatched_patterns.shortfalls(a_scope(policy, offline=True))) == []
    assert (
        list(
            unmatched_patterns.shortfalls(
                a_scope(policy, trouble=dict.fromkeys(("nodes", "namespaces", "resource.k8s.io/resourceslices"), "Timeout"))
            )
        )
        == []
    )


def test_a_pattern_that_only_exempts_is_a_note() -> None:
    policy = a_policy(
        accelerators={"allowNotJudged": ["spot-*", "gpu-*"]}, fence={"allowedNamespaces": ["gone"]}, tenants={"ipcLock": ["none"]}
    )
    assert about_patterns(policy) == []
    assert list(unmatched_patterns.notes(a_scope(policy, nodes=[a_node()], namespaces=NAMESPACES))) == [
        "the policy's accelerators.allowNotJudged has 'spot-*', and no node matches it",
        "the policy's tenants.ipcLock has 'none', and no namespace matches it",
        "the policy's fence.allowedNamespaces has 'gone', and no namespace matches it",
    ]
