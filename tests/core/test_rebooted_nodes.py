"""What REQ, GANG and DRA say of a node that was rebooted three minutes ago: nothing yet. Once it has had time, they judge it."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from conformance.dra.devices import check_devices
from conformance.dra.domains import check_domains
from conformance.dra.pools import check_pools
from conformance.gang.checks import check_installed, check_quota_exists
from conformance.req.checks import check_can_be_offered, check_not_overcommitted
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.dra import a_slice
from tests.req.suffering import HOUR, MINUTE, NOW, ago

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
