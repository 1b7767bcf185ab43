"""REQ-12 for pods behind scheduling gates: what excuses one is the object of its owner, never the gate."""

from typing import Any

import pytest

from conformance.req.waiting import check_waiting
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_pod, a_snapshot, a_workload
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, created
from tests.req.test_waiting import scope
from tests.tables import each_row

GROVE, KUEUE, VOLCANO = "grove.io/podgang-pending-creation", "kueue.x-k8s.io/admission", "scheduling.volcano.sh/queue-allocation-gate"


def gated(gate: str = KUEUE, *, age: float = 6 * HOUR, name: str = "train-0", **more: Any) -> Pod:
    return created(a_pod(name, devices=1, schedulingGates=[{"name": gate}], **more), age)


def workload(
    *held: str, age: float = HOUR, owner: str = "uid-team-a-train-0", active: bool = True, name: str = "train", **status: Any
) -> Json:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": ago(age)} for kind in held]
    meta = {"name": name, "namespace": "team-a", "ownerReferences": [{"kind": "Pod", "uid": owner}]}
    return {"kind": "Workload", "metadata": meta, "spec": {"active": active}, "status": {"conditions": conditions, **status}}


def of_kueue(*workloads: Json) -> dict[str, Any]:
    return {"kueue_x-k8s_io__workloads": list(workloads)}


def outcome(*pods: Pod, nodes: Any = None, **items: Any) -> Outcome:
    findings = list(check_waiting(scope(*pods, nodes=nodes, **items), NOW))
    return next(finding.outcome for finding in findings if "train" in finding.subject.name)


@pytest.mark.parametrize("gate", [GROVE, KUEUE, VOLCANO, "acme.example.com/approval", "a"])
@pytest.mark.parametrize("full", [False, True])
def test_a_gate_that_no_object_of_its_owner_excuses_is_bad_after_the_age(gate: str, full: bool) -> None:
    held = [a_pod("other", node="gpu-0", devices=8)] if full else []
    assert outcome(gated(gate), *held) is Outcome.BAD
    assert outcome(gated(gate, age=MINUTE), *held) is Outcome.NOT_JUDGED
    unknown = gated(gate)
    unknown.metadata.creation_timestamp = None
    assert outcome(unknown) is Outcome.UNDECIDED


@each_row
def test_a_gate_of_kueue_is_excused_by_a_workload_that_waits(workloads: list[Json], expected: Outcome) -> None:
    assert outcome(gated(), **of_kueue(*workloads)) is expected


def test_a_workload_of_the_pods_group_or_of_its_job_excuses_it() -> None:
    assert outcome(gated(labels={"kueue.x-k8s.io/pod-group-name": "train"}), **of_kueue(workload(owner="uid-x"))) is Outcome.NOT_JUDGED
    assert outcome(gated(owner="Job/train"), **of_kueue(workload(owner="uid-train"))) is Outcome.NOT_JUDGED


def test_where_the_workload_of_a_pod_cannot_be_found_or_was_not_saved_nothing_is_known() -> None:
    assert outcome(gated(owner="Custom/train"), **of_kueue(workload(owner="uid-x"))) is Outcome.UNDECIDED
    saved = a_snapshot(offline=True, nodes=[a_node()], pods=[gated()])
    (finding,) = check_waiting(Scope(saved, Policy()), NOW)
    assert finding.outcome is Outcome.UNDECIDED


def test_a_gate_without_a_name_holds_its_pod_all_the_same() -> None:
    pod = created(a_pod("train-0", devices=1, schedulingGates=[{}]), DAY)
    assert (pod.gates, outcome(pod)) == (["(no name)"], Outcome.BAD)


def test_a_second_gate_waits_with_the_first() -> None:
    both = created(a_pod(devices=1, schedulingGates=[{"name": "acme.example.com/topology"}, {"name": KUEUE}]), DAY)
    assert outcome(both, **of_kueue(workload())) is Outcome.NOT_JUDGED
    assert outcome(both, **of_kueue(workload("Admitted"))) is Outcome.BAD


@each_row
def test_grove_keeps_scaled_pods_until_their_base_is_ready(labels: dict[str, str], base_ready: str, expected: Outcome) -> None:
    status = {"conditions": [{"type": "Ready", "status": base_ready}]}
    base = a_pod("base-0", node="gpu-0", devices=1, labels={"grove.io/podgang": "base"}, status=status)
    assert outcome(gated(GROVE, labels=labels), base) is expected


@each_row
def test_a_gate_of_volcano_is_excused_by_a_full_queue(phase: str, message: str, expected: Outcome) -> None:
    group = a_workload("PodGroup", "train", {"queue": "gpu", "minMember": 1}, status={"phase": phase})
    group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": message}] if message else []
    pod = gated(VOLCANO, annotations={"scheduling.k8s.io/group-name": "train"}, schedulerName="volcano")
    assert outcome(pod, scheduling_volcano_sh__podgroups=[group]) is expected
