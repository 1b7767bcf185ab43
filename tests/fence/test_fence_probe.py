import pytest

from conformance.fence.probes import Attempt, judge_fence, pair, targets
from conformance.probes.running import CEILING, absence_seconds
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import FENCE, a_cpu_node, a_node, a_pod, a_policy, a_scope, a_taint
from tests.tables import each_row

OLD = "0/5 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 4 node(s) didn't match Pod's node affinity."
NEW = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector. preemption: none."
FULL = "0/5 nodes are available: 1 Insufficient cpu, 4 node(s) didn't match Pod's node affinity/selector."


def waiting(message: str, reason: str = "Unschedulable") -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return a_pod("fence-victim-0", status={"conditions": [condition]})


def attempt(control: Pod | None, victim: Pod | None) -> Attempt:
    return Attempt(node=a_node(), control=control, victim=victim, watched_seconds=31.0, control_seconds=1.5)


RAN = a_pod("fence-control-0", node="gpu-0", phase="Succeeded")


def only(item: Attempt) -> Finding:
    (finding,) = judge_fence([item])
    return finding


@pytest.mark.parametrize("message", [OLD, NEW])
def test_pending_for_a_taint_beside_a_running_control_passes_in_both_wordings(message: str) -> None:
    finding = only(attempt(RAN, waiting(message)))
    assert finding.outcome is Outcome.OK
    assert "untolerated taint" in finding.observed
    assert "31.0 s watched" in finding.observed


def test_a_placed_pod_fails_even_when_the_control_was_not() -> None:
    placed = a_pod("fence-victim-0", node="gpu-0")
    assert only(attempt(RAN, placed)).outcome is Outcome.BAD
    assert only(attempt(None, placed)).outcome is Outcome.BAD


@each_row
def test_pending_for_another_reason_proves_nothing(victim: Pod | None) -> None:
    assert only(attempt(RAN, victim)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("control", [None, waiting(FULL), a_pod(node="gpu-0", phase="Failed")])
def test_a_control_that_was_not_placed_is_inconclusive(control: Pod | None) -> None:
    with pytest.raises(Inconclusive) as caught:
        list(judge_fence([attempt(control, waiting(OLD))]))
    assert caught.value.code == "PositiveControlFailed"


def test_a_control_that_is_bound_proves_the_fence_while_its_image_is_pulled() -> None:
    assert only(attempt(a_pod(node="gpu-0", phase="Pending"), waiting(OLD))).outcome is Outcome.OK


def test_the_window_follows_the_control_within_bounds() -> None:
    scope = a_scope(a_policy(probes={"windowSeconds": 20}), nodes=[a_node()])
    assert absence_seconds(scope, 0.3) == 20
    assert absence_seconds(scope, 8.0) == 40
    assert absence_seconds(scope, 100.0) == CEILING
    patient = a_scope(a_policy(probes={"windowSeconds": 300}), nodes=[a_node()])
    assert absence_seconds(patient, 100.0) == 300


def test_the_weakest_fence_of_each_pool_is_probed_and_every_open_node() -> None:
    nodes = [
        a_node("a-0"),
        a_node("a-1", taints=[]),
        a_node("a-2", taints=["nvidia.com/gpu:PreferNoSchedule"]),
        a_node("b-0", product="NVIDIA-L4"),
        a_node("c-0", product="NVIDIA-A10", cordoned=True),
        a_node("d-0", product="NVIDIA-T4", taints=[FENCE, "repair:NoSchedule"]),
        a_cpu_node(),
    ]
    assert [node.name for node in targets(a_scope(nodes=nodes))] == ["a-1", "b-0", "a-2"]


def test_without_nodes_to_probe_nothing_is_claimed() -> None:
    with pytest.raises(NotApplicable):
        targets(a_scope(nodes=[a_cpu_node()]))
    with pytest.raises(Inconclusive):
        targets(a_scope(nodes=[a_node(ready=False)]))


def test_the_pair_differs_by_the_fence_s_toleration_alone() -> None:
    policy = a_policy(probes={"tolerations": [{"operator": "Exists"}, {"key": "spot", "operator": "Exists"}]})
    control, victim = pair(a_scope(policy, nodes=[a_node()]), a_node(), 0)

    def without(pod: Json) -> Json:
        return {key: value for key, value in pod["spec"].items() if key != "tolerations"}

    assert without(control) == without(victim)
    assert victim["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    taint = a_taint(FENCE)
    assert {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect} in control["spec"]["tolerations"]
    assert not any("/" in name for name in victim["spec"]["containers"][0]["resources"]["requests"])
