"""REQ-13: pods that were bound and do not start."""

from typing import Any

import pytest

from conformance.req.starting import check_starting
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.findings import by_name, messages
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, an_event, created, scheduled
from tests.tables import each_row, filled


def waiting(reason: str = "ContainerCreating", message: str = "", name: str = "main") -> Json:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def a_starting_pod(*containers: Json, age: float = 6 * HOUR, init: list[Json] | None = None, phase: str = "Pending", **more: Any) -> Pod:
    status = {"conditions": [scheduled(age)], "containerStatuses": list(containers or [waiting()]), "initContainerStatuses": init or []}
    return created(a_pod(devices=more.pop("devices", 1), node="gpu-0", phase=phase, status=status, **more), age + MINUTE)


def scope(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Scope:
    return a_scope(nodes=nodes or [a_node(), a_node("gpu-1")], pods=list(pods), **more)


def judged(*pods: Pod, **more: Any) -> list[Finding]:
    return list(check_starting(scope(*pods, **more), NOW))


@each_row
def test_the_cause_is_named_from_events(reason: str, message: str, cause: str) -> None:
    assert cause in messages(judged(a_starting_pod(), events=[an_event(reason, message)]))


@each_row
def test_the_cause_is_named_from_containers(container: dict[str, Any], cause: str) -> None:
    assert cause in messages(judged(a_starting_pod(waiting(**container))))


@each_row
def test_how_a_start_is_judged(
    pod: dict[str, Any], events: list[dict[str, Any]], node: dict[str, Any], policy: Json, outcome: Outcome, says: str
) -> None:
    """``pod``: as it is written where it has a phase, else one that is starting; a minute, an hour and 40 minutes ago stand for times."""
    pod = filled(pod, {"A MINUTE AGO": ago(MINUTE), "AN HOUR AGO": ago(HOUR), "40 MIN AGO": ago(40 * MINUTE)})
    made = (
        a_pod(devices=1, node="gpu-0", **pod)
        if "phase" in pod and "containers" not in pod
        else a_starting_pod(*pod.pop("containers", ()), **pod)
    )
    reported = [an_event(**event) for event in events]
    found = list(check_starting(scope(made, nodes=[a_node(**node)], events=reported, policy=a_policy(requests=policy)), NOW))
    assert by_name(found) == {"train-0": outcome}
    assert says in messages(found)


GONE = "CDI device injection failed: failed to inject devices: failed to stat CDI host device {}: no such file"


@pytest.mark.parametrize("path", ['"/dev/nvidia3"', '\\\\"/dev/nvidia3\\\\"', "/dev/nvidia3"])
def test_a_device_file_that_is_gone_is_bad_at_once_for_no_waiting_heals_it(path: str) -> None:
    lost = a_starting_pod(waiting("CreateContainerError", GONE.format(path)), age=2 * MINUTE)
    (finding,) = judged(lost)
    assert finding.outcome is Outcome.BAD
    assert "the host's file /dev/nvidia3 that it brings in is gone" in finding.message
    assert "ask again" not in finding.message
    rebooted = a_node()
    ready = next(condition for condition in rebooted.status.conditions if condition.type == "Ready")
    ready.last_transition_time = ago(3 * MINUTE)
    assert by_name(judged(lost, nodes=[rebooted])) == {"train-0": Outcome.UNDECIDED}


def test_without_events_pods_of_the_same_runtime_class_tell_what_the_node_lacks() -> None:
    peers = [a_pod(f"other-{index}", devices=1, node="gpu-1", runtimeClassName="nvidia") for index in range(2)]
    findings = judged(a_starting_pod(runtimeClassName="nvidia"), *peers)
    assert "run on 1 other nodes and none on gpu-0: has it that runtime?" in messages(findings)


def test_pods_that_end_wait_or_hold_no_device_are_not_judged() -> None:
    others = [
        created(a_pod("leaving", devices=1, node="gpu-0", phase="Pending"), DAY, deleted=HOUR),
        a_pod("waits", devices=1),
        a_pod("web", node="gpu-0", phase="Pending"),
        a_pod("over", devices=1, node="gpu-0", phase="Failed"),
    ]
    assert judged(*others) == []
