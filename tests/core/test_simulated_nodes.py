"""What is simulated is told by its nodes' own marks, however it is reached; a mark changes words and softens nothing."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.catalogue import load_all
from conformance.dra.devices import check_devices
from conformance.dra.domains import check_domains
from conformance.dra.pools import check_pools
from conformance.gang.checks import check_installed, check_quota_exists
from conformance.req.checks import check_can_be_offered, check_not_overcommitted
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json, Meta, Node, NodeInfo, NodeStatus
from fixtures.model.cluster import Scope
from fixtures.simulator.interface import start
from fixtures.snapshot.collect import collect
from fixtures.snapshot.simulated_nodes import MARK, describe, is_simulated
from fixtures.snapshot.state import Listing
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.record import Target, TargetKind
from reports import phrases
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.dra import a_slice
from tests.req.suffering import HOUR, MINUTE, NOW, ago
from tests.tables import each_row

KWOK = {"kwok.x-k8s.io/node": "fake"}


def node(
    name: str = "n", *, info: NodeInfo | None = None, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> Node:
    return Node(
        metadata=Meta(name=name, annotations=annotations, labels=labels),
        status=NodeStatus(node_info=info or NodeInfo(kubelet_version="v1.37.0")),
    )


def stated(*nodes: Node, kind: TargetKind = TargetKind.LIVE) -> Target:
    target = Target(kind=kind, scenario="healthy")
    describe(target, Listing(key="nodes", items=nodes))
    return target


@each_row
def test_a_node_with_a_mark_is_simulated(marked: Node) -> None:
    assert is_simulated(marked)


@each_row
def test_a_node_without_a_mark_is_real(real: Node) -> None:
    assert not is_simulated(real)


def test_a_live_cluster_of_simulated_nodes_is_no_live_cluster() -> None:
    target = stated(node("a", annotations=KWOK), node("b", annotations=KWOK))
    assert (target.kind, target.nodes, target.simulated_nodes, target.simulated) == (TargetKind.SIMULATED_NODES, 2, 2, True)
    assert phrases.target_name(target) == "cluster of simulated nodes"
    assert phrases.banner(target).startswith("SIMULATED NODES: 2 of 2 nodes say that they are simulated")
    assert phrases.banner(target).endswith("This is not a real cluster's result.")


def test_a_mixed_cluster_says_how_many_nodes_are_simulated() -> None:
    target = stated(node("a"), node("b", annotations=KWOK), node("c"))
    assert target.partly_simulated
    assert phrases.target_name(target) == "cluster with 1 of 3 nodes simulated"
    assert "What was judged on them is not a real cluster's result" in phrases.banner(target)


def test_a_cluster_of_real_nodes_stays_live() -> None:
    target = stated(node("a"), node("b"))
    assert (target.kind, target.simulated_nodes, target.simulated, phrases.banner(target)) == (TargetKind.LIVE, 0, False, "")


@pytest.mark.parametrize("listing", [Listing(key="nodes", trouble="Forbidden"), Listing(key="nodes", collected=False)])
def test_nodes_that_were_not_read_are_not_known_to_be_real(listing: Listing[Node]) -> None:
    target = Target(kind=TargetKind.LIVE)
    describe(target, listing)
    assert (target.nodes, target.simulated_nodes) == (None, None)


def test_marks_of_nodes_soften_nothing() -> None:
    assert TargetKind.SIMULATED_NODES.treated_as is TargetKind.LIVE
    assert [kind for kind in TargetKind if kind.treated_as is not kind] == [TargetKind.SIMULATED_NODES]


def test_no_experiment_on_simulated_nodes_is_of_real_fidelity() -> None:
    for experiment in load_all():
        fidelity = experiment.extension.fidelity_on(TargetKind.SIMULATED_NODES)
        assert fidelity != "real", experiment.id
        assert bool(fidelity) == bool(experiment.extension.fidelity_on(TargetKind.LIVE)), experiment.id


def test_every_node_that_the_project_simulates_carries_the_mark(tmp_path: Path) -> None:
    running = start("healthy", tmp_path)
    try:
        snapshot = collect(Cluster.from_kubeconfig(running.kubeconfig), ["nodes"], version="")
        assert snapshot.nodes
        assert [one.name for one in snapshot.nodes if MARK not in one.metadata.annotation] == []
    finally:
        running.stop()


Check = Callable[[Scope], Iterable[Finding]]
RED = frozenset({Outcome.BAD, Outcome.ADVISED})


def rebooted(name: str, age: float, *, ready: bool = True, labels: dict[str, str] | None = None, gpus: str = "") -> Node:
    node = a_node(name, gpus=0, labels={"nvidia.com/gpu.present": "true", **(labels or {})}, ready=ready)
    if gpus:
        node.status.capacity["nvidia.com/gpu"] = node.status.allocatable["nvidia.com/gpu"] = gpus
    for condition in node.status.conditions:
        condition.last_transition_time = ago(age)
    return node


def lost(age: float, *, ready: bool) -> dict[str, Any]:
    """A node whose devices a reboot took from its status, and a pod that holds some."""
    node = rebooted("gpu-0", age, ready=ready, gpus="0")
    return {"nodes": [node], "pods": [a_pod(node="gpu-0", devices=8), a_pod("waits", devices=8)]}


def queue(age: float, *, ready: bool) -> dict[str, Any]:
    flavor = {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    queues = [{"metadata": {"name": "queue"}, "spec": {"resourceGroups": groups}}]
    return {**lost(age, ready=ready), "clusterqueues": queues, "resourceflavors": [{"metadata": {"name": "h100"}, "spec": {}}]}


def slices(age: float, *, ready: bool, wanted: int = 1) -> dict[str, Any]:
    """A node that publishes three of its four devices, in one of the slices that its pool should have."""
    count = {"nvidia.com/gpu.count": "4"}
    return {"nodes": [rebooted("gpu-0", age, ready=ready, labels=count)], "resourceslices": [a_slice("gpu-0", devices=3, slices=wanted)]}


def domain(age: float, *, ready: bool) -> dict[str, Any]:
    marks = {"resource.nvidia.com/computeDomain": "uid-d", "nvidia.com/gpu.clique": "c.0"}
    members = [{"name": "gpu-0", "cliqueID": "c.0", "status": "NotReady"}]
    meta = {"name": "d", "namespace": "team-a", "uid": "uid-d", "creationTimestamp": ago(90 * HOUR)}
    one: Json = {"metadata": meta, "spec": {"numNodes": 1}, "status": {"status": "NotReady", "nodes": members}}
    return {"nodes": [rebooted("gpu-0", age, ready=ready, labels=marks)], "computedomains": [one]}


def scheduler(age: float, *, ready: bool) -> dict[str, Any]:
    """A gang scheduler whose pod was on the node."""
    conditions = [{"type": "Available", "status": "False", "lastTransitionTime": ago(age)}]
    meta = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    down: Json = {"kind": "Deployment", "metadata": meta, "spec": {"replicas": 1}, "status": {"conditions": conditions}}
    return {"nodes": [rebooted("gpu-0", age, ready=ready)], "deployments": [down]}


@pytest.mark.parametrize(
    ("check", "cluster"),
    [
        (check_not_overcommitted, lost),
        (check_can_be_offered, lost),
        (check_quota_exists, queue),
        (check_pools, partial(slices, wanted=2)),
        (check_devices, slices),
        (lambda scope: check_domains(scope, NOW), domain),
        (check_installed, scheduler),
    ],
    ids=["REQ-03", "REQ-04", "GANG-09", "DRA-02", "DRA-03", "DRA-09", "GANG-01"],
)
@pytest.mark.parametrize("ready", [True, False])
def test_a_reboot_of_three_minutes_is_no_fault_yet(check: Check, cluster: Callable[..., dict[str, Any]], ready: bool) -> None:
    policy = a_policy(gang={"required": True})
    young = [finding.outcome for finding in check(a_scope(policy, **cluster(3 * MINUTE, ready=ready)))]
    assert not RED & set(young), young
    assert Outcome.UNDECIDED in young or not ready
    old = [finding.outcome for finding in check(a_scope(policy, **cluster(9 * HOUR, ready=ready)))]
    assert RED & set(old) or not ready
