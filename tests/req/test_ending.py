"""REQ-14: pods that hold devices and neither end nor work."""

from typing import Any

import pytest

from conformance.req.ending import check_ending, check_restarted_jobs
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope, a_workload
from tests.dra import a_claim, a_class, claim_spec
from tests.findings import by_name, messages
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, an_event, created
from tests.tables import each_row


def scope(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Scope:
    return a_scope(nodes=nodes or [a_node()], pods=list(pods), **more)


def judged(*pods: Pod, **more: Any) -> list[Finding]:
    return list(check_ending(scope(*pods, **more), NOW))


def outcome(*pods: Pod, **more: Any) -> Outcome:
    return by_name(judged(*pods, **more))["train-0"]


def a_leaving_pod(over: float, *, finalizers: list[str] | None = None, **more: Any) -> Pod:
    """A pod that had to be gone so long ago; below 0 it is within its grace period."""
    return created(a_pod(node="gpu-0", devices=more.pop("devices", 8), **more), 9 * DAY, deleted=over, finalizers=finalizers)


# -- deletions


def test_a_pod_that_hangs_in_its_deletion_is_named_with_age_devices_and_what_they_cost() -> None:
    event = an_event("FailedKillPod", "error killing pod: DeadlineExceeded")
    findings = judged(a_leaving_pod(3 * DAY), events=[event])
    assert by_name(findings) == {"train-0": Outcome.BAD}
    assert "should have been gone 3 days ago and still holds 8 nvidia.com/gpu on gpu-0 (576 device-hours lost)" in messages(findings)
    assert "FailedKillPod: error killing pod" in messages(findings)


def test_the_grace_period_belongs_to_the_deletion_and_a_little_longer_is_undecided() -> None:
    """kaito#2271 gives servers five minutes, kserve#2144 took five: long requests and checkpoints end first."""
    assert outcome(a_leaving_pod(-HOUR)) is Outcome.OK
    findings = judged(a_leaving_pod(5 * MINUTE))
    assert by_name(findings) == {"train-0": Outcome.UNDECIDED}
    assert "for 5 min; ask again in 25 min" in messages(findings)
    assert by_name(check_ending(scope(a_leaving_pod(5 * MINUTE), policy=a_policy(requests={"endMinutes": 2})), NOW)) == {
        "train-0": Outcome.BAD
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "a process may hang in a call to the device"),
        ({"nodes": [a_node(ready=False)]}, "its node is NotReady"),
        ({"nodes": [a_node("gpu-1")]}, "its node is gone"),
    ],
)
def test_why_it_stays_is_said(more: dict[str, Any], words: str) -> None:
    assert words in messages(judged(a_leaving_pod(DAY), **more))


def test_finalizers_are_named() -> None:
    assert "finalizers example.com/checkpoint keep it" in messages(judged(a_leaving_pod(DAY, finalizers=["example.com/checkpoint"])))


def test_what_has_ended_or_was_never_bound_holds_nothing() -> None:
    ended = a_leaving_pod(DAY, finalizers=["batch.kubernetes.io/job-tracking"])
    ended.status.phase = "Succeeded"
    unbound = created(a_pod("waits", devices=8), DAY, deleted=HOUR)
    assert judged(ended, unbound, a_leaving_pod(DAY, devices=0)) == []


def test_a_time_that_is_none_is_undecided() -> None:
    pod = a_leaving_pod(DAY)
    pod.metadata.deletion_timestamp = "soon"
    assert outcome(pod) is Outcome.UNDECIDED


# -- crash loops


def a_crashing_pod(
    restarts: int, *, age: float, pausing: bool = True, pause: str = "5m0s", ran: float = MINUTE, ended: float = MINUTE, **more: Any
) -> Pod:
    last = {"reason": "Error", "exitCode": 1, "startedAt": ago(ended + ran), "finishedAt": ago(ended)}
    state: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {pause} restarting failed container=main"}}
    if not pausing:
        state = {"running": {"startedAt": ago(ended)}}
    status = {"name": "main", "restartCount": restarts, "state": state, "lastState": {"terminated": last}}
    return created(a_pod(devices=2, node="gpu-0", status={"containerStatuses": [status], "startTime": ago(age)}, **more), age)


@pytest.mark.parametrize("pausing", [True, False], ids=["pausing", "between two crashes"])
def test_a_crash_loop_of_days_is_named_with_restarts_and_what_it_costs(pausing: bool) -> None:
    findings = judged(a_crashing_pod(840, age=3 * DAY, pausing=pausing))
    assert by_name(findings) == {"train-0": Outcome.ADVISED}
    assert "has restarted 840 times (Error, exit code 1) within 3 days and holds 2 nvidia.com/gpu on gpu-0" in messages(findings)
    assert "144 device-hours lost" in messages(findings)


def test_a_young_loop_is_not_judged_yet() -> None:
    findings = judged(a_crashing_pod(4, age=10 * MINUTE, pause="1m20s"))
    assert by_name(findings) == {"train-0": Outcome.NOT_JUDGED}
    assert "ask again in 20 min" in messages(findings)


def test_restarts_in_a_long_life_are_no_loop() -> None:
    assert outcome(a_crashing_pod(12, age=90 * DAY, pausing=False, ran=7 * DAY, ended=HOUR)) is Outcome.OK
    assert outcome(a_crashing_pod(12, age=90 * DAY, pausing=False, ended=MINUTE)) is Outcome.OK
    assert outcome(a_pod(devices=1, node="gpu-0")) is Outcome.OK


def test_a_loop_that_began_late_in_life_is_dated_by_its_event_or_undecided() -> None:
    late = a_crashing_pod(40, age=30 * DAY)
    assert outcome(late) is Outcome.UNDECIDED
    event = an_event("BackOff", "Back-off restarting failed container main", age=MINUTE, first=5 * HOUR, count=300)
    findings = judged(late, events=[event])
    assert by_name(findings) == {"train-0": Outcome.ADVISED}
    assert "within 5 h" in messages(findings)
    assert outcome(a_crashing_pod(2, age=30 * DAY, pause="20s")) is Outcome.NOT_JUDGED


# -- jobs that replace their pods


def a_job(kind: str = "JobSet", *, age: float = 10 * HOUR, status: Json | None = None, **spec: Any) -> Json:
    job = a_workload(kind, "llm", spec, status=status or {})
    job["metadata"]["creationTimestamp"] = ago(age)
    return job


LABELS = {"jobset.sigs.k8s.io/jobset-name": "llm", "job-name": "llm", "volcano.sh/job-name": "llm"}


def a_member(age: float = 2 * MINUTE) -> Pod:
    return created(a_pod("llm-0", devices=8, node="gpu-0", labels=LABELS), age)


@each_row
def test_a_job_that_starts_all_its_pods_anew_for_hours_is_named(key: str, job: dict[str, Any]) -> None:
    jobs: dict[str, Any] = {key: [a_job(**job)]}
    findings = list(check_restarted_jobs(scope(a_member(), **jobs), NOW))
    assert by_name(findings) == {"llm": Outcome.ADVISED}
    assert "anew 90 times within 10 h and holds 8 devices each time (80 device-hours lost)" in messages(findings)


@each_row
def test_restarts_that_happen_to_anybody_are_no_loop(status: Json, more: dict[str, Any]) -> None:
    assert by_name(check_restarted_jobs(scope(a_member(), jobsets=[a_job(status=status, **more)]), NOW)) == {"llm": Outcome.OK}


def test_a_job_that_has_come_to_run_is_no_loop() -> None:
    assert by_name(check_restarted_jobs(scope(a_member(8 * HOUR), jobsets=[a_job(status={"restarts": 90})]), NOW)) == {"llm": Outcome.OK}


@each_row
def test_jobs_that_get_on_are_left_alone(job: dict[str, Any]) -> None:
    assert list(check_restarted_jobs(scope(a_member(), batch__jobs=[a_job(**job)]), NOW)) == []


def test_a_job_that_holds_no_device_is_not_judged() -> None:
    assert list(check_restarted_jobs(scope(jobsets=[a_job(status={"restarts": 90})]), NOW)) == []


# -- admin access


def a_watching_pod(**more: Any) -> Pod:
    """A monitor that looks at devices of others: its claim has admin access, which holds none."""
    entries = [{"name": "gpu", "resourceClaimName": "adm"}, *more.pop("claims", [])]
    return a_leaving_pod(2 * DAY, devices=more.pop("devices", None), resourceClaims=entries, **more)


def with_claims(*more: Json) -> dict[str, list[Json]]:
    admin = a_claim("adm", device="gpu-0", adminAccess=True)
    admin["spec"] = claim_spec(adminAccess=True)
    return {"resourceclaims": [admin, *more], "deviceclasses": [a_class()]}


def test_a_pod_that_only_watches_devices_of_others_keeps_none_from_anybody() -> None:
    assert judged(a_watching_pod(), **with_claims()) == []


def test_a_pod_that_holds_a_device_beside_its_admin_access_is_judged() -> None:
    assert outcome(a_watching_pod(devices=1), **with_claims()) is Outcome.BAD
    own = {"name": "own", "resourceClaimName": "own"}
    assert outcome(a_watching_pod(claims=[own]), **with_claims(a_claim("own", device="gpu-1"))) is Outcome.BAD
    assert outcome(a_watching_pod(claims=[own]), **with_claims()) is Outcome.UNDECIDED, "its other claim is not known"
