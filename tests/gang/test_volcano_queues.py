"""GANG-09 and GANG-10 for Volcano: what queues promise, and what was let in."""

from typing import Any

import pytest

from conformance.gang.checks import check_held, check_quota_exists
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_scope
from tests.findings import only
from tests.gang.test_kueue_reservations import NOW
from tests.gang.test_queues_admit import group

NODES = [a_node("gpu-0"), a_node("gpu-1")]


def queue(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}


def promised(*queues: Json) -> list[Finding]:
    lists: Json = {"scheduling_volcano_sh__queues": queues}
    return list(check_quota_exists(a_scope(None, nodes=NODES, **lists)))


def gpus(count: int) -> Json:
    return {"nvidia.com/gpu": str(count)}


def test_guarantees_that_no_node_can_keep_fail() -> None:
    """volcano-sh/volcano#4076: the scheduler ended with an error 237 times over a guarantee above what the cluster has."""
    finding = only(promised(queue("a", guarantee={"resource": gpus(8)}), queue("b", guarantee={"resource": gpus(16)})))
    assert finding.outcome is Outcome.BAD
    assert "a, b are guaranteed 24, and nodes can allocate 16" in finding.message
    assert only(promised(queue("a", guarantee={"resource": gpus(16)}))).outcome is Outcome.OK


def test_a_parent_guarantees_what_its_children_do() -> None:
    """volcano-sh/volcano#4995: the parent of three queues guarantees the sum of theirs."""
    child = {"parent": "top", "guarantee": {"resource": gpus(8)}}
    finding = only(promised(queue("top", parent="root", guarantee={"resource": gpus(16)}), queue("a", **child), queue("b", **child)))
    assert (finding.outcome, finding.observed) == (Outcome.OK, "16 in 2 queues")


def test_a_capability_above_the_nodes_leaves_no_gang_in_part() -> None:
    assert only(promised(queue("a", capability=gpus(64)))).outcome is Outcome.NOT_JUDGED
    assert only(promised(queue("a", capability=gpus(16)))).outcome is Outcome.OK


def held(item: Json, *pods: Pod) -> Finding:
    lists: Json = {"scheduling_volcano_sh__podgroups": [item]}
    return only(list(check_held(a_scope(None, pods=pods, **lists), NOW)))


MEMBER: Json = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


@pytest.mark.parametrize("phase", ["Inqueue", "Running"])
def test_a_group_that_was_let_in_and_has_no_pod_holds_its_queue(phase: str) -> None:
    """volcano-sh/volcano#2264: pods were deleted by hand, and twice as many groups as jobs fill the queue."""
    finding = held(group(phase))
    assert finding.outcome is Outcome.BAD
    assert held(group(phase, minutes=2)).outcome is Outcome.UNDECIDED
    assert held(group(phase), a_pod("g-0", devices=8, **MEMBER)).outcome is Outcome.OK


@pytest.mark.parametrize("item", [group("Pending"), group("Completed"), group("Inqueue", minResources={"cpu": "2"}), {}, {"status": 3}])
def test_a_group_that_holds_nothing_is_no_subject(item: Json) -> None:
    with pytest.raises(NotApplicable):
        held(item)
