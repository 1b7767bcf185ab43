"""Whether a node may work has one answer, whoever asks: requirements, plans and gates of experiments, and their canaries."""

import pytest

from chaos.model.plan import PlanFacts
from chaos.plan.planning import _narrowed, _untouched
from chaos.plan.selectors import PlanningView, PlanRefused, TargetQuery, choose_node
from chaos.safety.admission import node_states
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.work import as_node, work_by_node
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.model.platform.installed import Components
from tests.builders import a_policy, a_scope
from tests.chaos.observe.made_up_cluster import World, node

FENCES = a_policy().fence.taint_keys
STATE = "dgxc.nvidia.com/nvsentinel-state"
OWN = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


def tainted(key: str, effect: str = "NoSchedule") -> Json:
    return node("a", taints=[OWN, {"key": key, "effect": effect}])


def says(kind: str, status: str = "True", **more: str) -> Json:
    return node("a", conditions=[{"type": kind, "status": status, **more}])


SICK = {
    "quarantined for an Xid": tainted("nvidia.com/gpu-xid-error"),
    "quarantined, evicting": tainted("nvidia.com/gpu-xid-error", "NoExecute"),
    "AMD's operator": tainted("amd-gpu-unhealthy"),
    "cordon's taint alone": tainted("node.kubernetes.io/unschedulable"),
    "only the value says it": node("a", taints=[OWN, {"key": "acme.example/state", "value": "quarantined", "effect": "NoSchedule"}]),
    "in maintenance": says("MaintenanceInProgress"),
    "its MIG mode could not be changed": node("a", labels={"nvidia.com/mig.config.state": "failed"}),
    "its upgrade failed": node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}),
    "medik8s": tainted("medik8s.io/remediation"),
    "autoscaler": tainted("ToBeDeletedByClusterAutoscaler"),
    "starting": tainted("karpenter.sh/unregistered", "NoExecute"),
    "a taint that nobody else has": tainted("acme.example/suspect"),
    "GKE": says("XidCriticalError"),
    "AKS": says("GPUMissing"),
    "EKS": says("AcceleratedHardwareReady", "False"),
    "NVSentinel": says("GpuNvlinkWatch", reason="GpuNvlinkWatchIsNotHealthy"),
    "its monitor cannot tell": says("GpuMemWatch", "Unknown"),
    "disk": says("DiskPressure"),
    "in repair": node("a", labels={STATE: "remediating"}),
    "repaired or not": node("a", labels={STATE: "remediation-succeeded"}),
    "HyperPod": node("a", labels={"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReplacement"}),
    "OKE": node("a", labels={"oci.oraclecloud.com/host.health": "UNHEALTHY"}),
    "its MIG mode changes": node("a", labels={"nvidia.com/mig.config.state": "pending"}),
    "its driver is upgraded": node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"}),
    "not ready": node("a", ready="Unknown"),
    "cordoned": node("a", cordoned=True),
    "a device less": node("a", allocatable=7),
    "being deleted": {**(going := node("a")), "metadata": {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
}

WELL = {
    "plain": node("a"),
    "fenced": node("a", taints=[OWN]),
    "the condition says that all is well": says("GpuXidError", "False"),
    "EKS": says("AcceleratedHardwareReady"),
    "k3s": says("EtcdIsVoter"),
    "nothing to do": says("GpuMemWatch", message="ErrorCode:DCGM_FR_X GPU:0 Recommended Action=NONE;"),
    "control plane": tainted("node-role.kubernetes.io/control-plane"),
    "another pool's taint": node("a", taints=[OWN, {"key": "node-role.kubernetes.io/badge", "value": "badge", "effect": "NoSchedule"}]),
    "asks to avoid": tainted("acme.example/expensive", "PreferNoSchedule"),
}


def planning(*nodes: Json, **facts: object) -> PlanningView:
    known = PlanFacts(resources=("nvidia.com/gpu",), fences=FENCES, **facts)  # type: ignore[arg-type]
    world = World(nodes=list(nodes), pods=[])
    return PlanningView(view=world.view(), components=Components(), facts=known, wanted=TargetQuery(select="node"))


def answers(sick: Json) -> list[bool]:
    """May node ``a`` work, beside a healthy ``b``: by the model, by a plan, by a gate."""
    nodes = [sick, node("b")]
    works = work_by_node(map(as_node, nodes), is_fence=lambda key: key in FENCES, is_device=lambda name: name == "nvidia.com/gpu")
    state = node_states(nodes, [], ("nvidia.com/gpu",), FENCES)["a"]
    return [not works["a"].obstacles, not planning(*nodes).obstacle(sick), not state.obstacle and not state.cordoned]


@pytest.mark.parametrize("sick", SICK.values(), ids=SICK)
def test_a_node_that_is_out_of_work_is_so_for_everybody(sick: Json) -> None:
    assert answers(sick) == [False, False, False]
    found = planning(sick, node("b"))
    choice = choose_node(found)
    assert choice.nodes == ("b",)
    with pytest.raises(PlanRefused, match="left untouched"):
        _untouched(found, choice)


@pytest.mark.parametrize("well", WELL.values(), ids=WELL)
def test_a_node_that_works_does_so_for_everybody(well: Json) -> None:
    assert answers(well) == [True, True, True]


def test_a_reason_has_its_field_and_time() -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    sick = node("a", conditions=[{"type": "GPUMissing", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}])
    sick["status"]["conditions"][0] = ready
    work = work_by_node([as_node(sick)], is_fence=lambda _: False)["a"]
    assert [(one.source, one.since.latest) for one in work.obstacles] == [
        ("status.conditions[Ready]", 1767225600.0),
        ("node.status.conditions", 1767312000.0),
    ]


def test_all_nodes_of_a_pool_may_be_in_quarantine() -> None:
    sick = [node(name, taints=[OWN, {"key": "nvidia.com/gpu-xid-error", "effect": "NoSchedule"}]) for name in "ab"]
    with pytest.raises(PlanRefused, match=r"nvidia\.com/gpu-xid-error"):
        choose_node(planning(*sick))


def test_canaries_tolerate_no_quarantine() -> None:
    own = [{"operator": "Exists"}, {"key": "amd-gpu-unhealthy", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]
    expiring = {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}
    nodes = [node("a", taints=[OWN, expiring]), node("b", taints=[OWN]), SICK["quarantined for an Xid"] | {"metadata": {"name": "c"}}]
    found = planning(*nodes, tolerations=tuple(own))
    facts = _narrowed(found, choose_node(found))
    assert [one["key"] for one in facts.tolerations] == ["nvidia.com/gpu", "team"]


def test_a_glob_of_the_fence_does_not_tolerate_a_quarantine() -> None:
    scope = a_scope(a_policy(fence={"taintKeys": ["nvidia.com/*"]}), nodes=[as_node(SICK["quarantined for an Xid"])])
    (sick,) = scope.snapshot.nodes
    assert [one.key for one in fence_tolerations(scope, sick)] == ["nvidia.com/gpu"]
