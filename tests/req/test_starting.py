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
from tests.tables import each_row

SANDBOX = "Failed to create pod sandbox: rpc error: code = Unknown desc = "
NO_RUNTIME = f'{SANDBOX}failed to get sandbox runtime: no runtime for "nvidia" is configured'


def waiting(reason: str = "ContainerCreating", message: str = "", name: str = "main") -> Json:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def a_starting_pod(*containers: Json, age: float = 6 * HOUR, init: list[Json] | None = None, phase: str = "Pending", **more: Any) -> Pod:
    status = {"conditions": [scheduled(age)], "containerStatuses": list(containers or [waiting()]), "initContainerStatuses": init or []}
    return created(a_pod(devices=more.pop("devices", 1), node="gpu-0", phase=phase, status=status, **more), age + MINUTE)


def scope(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Scope:
    return a_scope(nodes=nodes or [a_node(), a_node("gpu-1")], pods=list(pods), **more)


def judged(*pods: Pod, **more: Any) -> list[Finding]:
    return list(check_starting(scope(*pods, **more), NOW))


def outcome(*pods: Pod, **more: Any) -> Outcome:
    return by_name(judged(*pods, **more))["train-0"]


@each_row
def test_the_cause_is_named_from_events(reason: str, message: str, cause: str) -> None:
    assert cause in messages(judged(a_starting_pod(), events=[an_event(reason, message)]))


@each_row
def test_the_cause_is_named_from_containers(container: dict[str, Any], cause: str) -> None:
    assert cause in messages(judged(a_starting_pod(waiting(**container))))


def test_a_container_that_never_ran_has_not_started_whatever_the_phase() -> None:
    never = {"reason": "StartError", "exitCode": 128, "startedAt": "1970-01-01T00:00:00Z", "message": "nvidia-container-cli: device error"}
    looping = {**waiting("CrashLoopBackOff", "back-off 5m0s"), "lastState": {"terminated": never}, "restartCount": 70}
    findings = judged(a_starting_pod(looping, phase="Running"))
    assert by_name(findings) == {"train-0": Outcome.BAD}
    assert "nvidia-container-cli: device error" in messages(findings)


def test_a_container_that_ran_once_has_started() -> None:
    ran = {"terminated": {"reason": "Error", "exitCode": 1, "startedAt": ago(HOUR), "finishedAt": ago(MINUTE)}}
    assert outcome(a_starting_pod({**waiting("CrashLoopBackOff"), "lastState": ran}, phase="Running")) is Outcome.OK
    assert outcome(a_pod(devices=1, node="gpu-0")) is Outcome.OK


def test_a_pod_that_is_just_starting_is_not_judged_and_one_with_a_complaint_is_undecided() -> None:
    findings = judged(a_starting_pod(age=20 * MINUTE))
    assert by_name(findings) == {"train-0": Outcome.NOT_JUDGED}
    assert "starting for 20 min; ask again in 40 min" in messages(findings)
    complaint = [an_event("FailedCreatePodSandBox", NO_RUNTIME)]
    assert outcome(a_starting_pod(age=20 * MINUTE), events=complaint) is Outcome.UNDECIDED


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
    assert outcome(lost, nodes=[rebooted]) is Outcome.UNDECIDED


def test_the_policy_says_how_long_a_start_may_take() -> None:
    patient = a_policy(requests={"startMinutes": 600})
    assert by_name(check_starting(scope(a_starting_pod(), policy=patient), NOW)) == {"train-0": Outcome.NOT_JUDGED}


def test_a_long_download_in_an_init_container_is_told_as_such() -> None:
    """kserve#562: the storage initializer copies a model before the server starts."""
    fetching = {"name": "fetch", "state": {"running": {"startedAt": ago(40 * MINUTE)}}}
    pod = a_starting_pod(waiting("PodInitializing"), init=[fetching], age=45 * MINUTE)
    assert "its init container fetch has run for 40 min" in messages(judged(pod))
    assert outcome(pod) is Outcome.NOT_JUDGED


def test_without_events_pods_of_the_same_runtime_class_tell_what_the_node_lacks() -> None:
    peers = [a_pod(f"other-{index}", devices=1, node="gpu-1", runtimeClassName="nvidia") for index in range(2)]
    findings = judged(a_starting_pod(runtimeClassName="nvidia"), *peers)
    assert "run on 1 other nodes and none on gpu-0: has it that runtime?" in messages(findings)


def test_a_node_that_is_gone_or_not_ready_is_the_cause() -> None:
    assert "its node is NotReady" in messages(judged(a_starting_pod(), nodes=[a_node(ready=False)]))
    assert "the cluster has no node gpu-0" in messages(judged(a_starting_pod(), nodes=[a_node("gpu-1")]))


def test_a_node_whose_driver_is_being_upgraded_is_asked_again() -> None:
    upgrading = a_node(labels={"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"})
    assert outcome(a_starting_pod(), nodes=[upgrading]) is Outcome.UNDECIDED


def test_pods_that_end_wait_or_hold_no_device_are_not_judged() -> None:
    others = [
        created(a_pod("leaving", devices=1, node="gpu-0", phase="Pending"), DAY, deleted=HOUR),
        a_pod("waits", devices=1),
        a_pod("web", node="gpu-0", phase="Pending"),
        a_pod("over", devices=1, node="gpu-0", phase="Failed"),
    ]
    assert judged(*others) == []


def test_an_event_of_the_scheduler_is_not_why_a_bound_pod_waits() -> None:
    said = an_event("FailedScheduling", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", reporter="default-scheduler")
    assert "Insufficient" not in messages(judged(a_starting_pod(), events=[said]))


def test_an_event_about_an_earlier_pod_of_the_name_is_not_believed() -> None:
    earlier = an_event("FailedCreatePodSandBox", NO_RUNTIME, uid="uid-of-another")
    assert "nothing says what that waits for" in messages(judged(a_starting_pod(), events=[earlier]))


def test_a_pod_without_any_time_is_undecided() -> None:
    assert outcome(a_pod(devices=1, node="gpu-0", phase="Pending")) is Outcome.UNDECIDED
