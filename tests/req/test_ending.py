"""REQ-14: pods that hold devices and neither end nor work."""

import time
from typing import Any

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


@each_row
def test_how_a_deletion_is_judged(
    over: float, pod: dict[str, Any], nodes: list[dict[str, Any]], policy: dict[str, Any], outcome: Outcome, says: list[str]
) -> None:
    """``over``: so long ago it had to be gone. kaito#2271 gives servers five minutes, kserve#2144 took five: long requests end first."""
    event = [an_event(*pod["event"])] if "event" in pod else []
    leaving = a_leaving_pod(over, finalizers=pod.get("finalizers"))
    leaving.metadata.deletion_timestamp = pod.get("deletion", leaving.metadata.deletion_timestamp)
    made = [a_node(**node) for node in nodes]
    findings = list(check_ending(scope(leaving, nodes=made, events=event, policy=a_policy(requests=policy)), NOW))
    assert by_name(findings) == {"train-0": outcome}
    assert [words for words in says if words not in messages(findings)] == []


def test_what_has_ended_or_was_never_bound_holds_nothing() -> None:
    ended = a_leaving_pod(DAY, finalizers=["batch.kubernetes.io/job-tracking"])
    ended.status.phase = "Succeeded"
    unbound = created(a_pod("waits", devices=8), DAY, deleted=HOUR)
    assert outcome(ended) is Outcome.ADVISED
    ended.metadata.deletion_timestamp = ago(MINUTE)
    assert outcome(ended) is Outcome.NOT_JUDGED
    ended.metadata.finalizers = []
    assert judged(ended, unbound, a_leaving_pod(DAY, devices=0)) == []


def a_crashing_pod(
    restarts: int, *, age: float, pausing: bool = True, pause: str = "5m0s", ran: float = MINUTE, ended: float = MINUTE
) -> Pod:
    last = {"reason": "Error", "exitCode": 1, "startedAt": ago(ended + ran), "finishedAt": ago(ended)}
    state: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {pause} restarting failed container=main"}}
    if not pausing:
        state = {"running": {"startedAt": ago(ended)}}
    status = {"name": "main", "restartCount": restarts, "state": state, "lastState": {"terminated": last}}
    return created(a_pod(devices=2, node="gpu-0", status={"containerStatuses": [status], "startTime": ago(age)}), age)


@each_row
def test_how_a_crash_loop_is_judged(pod: dict[str, Any], event: bool, outcome: Outcome, says: list[str]) -> None:
    """``event``: one says that its container has been backing off for five hours."""
    backing_off = an_event("BackOff", "Back-off restarting failed container main", age=MINUTE, first=5 * HOUR, count=300)
    findings = judged(a_crashing_pod(**pod), events=[backing_off] if event else [])
    assert by_name(findings) == {"train-0": outcome}
    assert [words for words in says if words not in messages(findings)] == []


LABELS = {"jobset.sigs.k8s.io/jobset-name": "llm", "job-name": "llm", "volcano.sh/job-name": "llm"}


@each_row
def test_how_a_job_that_replaces_its_pods_is_judged(
    key: str, status: Json, spec: Json, age: float, pod: float, expected: dict[str, Outcome]
) -> None:
    """``age`` of the job and of its ``pod``; without a pod it holds no device."""
    job = a_workload({"jobsets": "JobSet"}.get(key, "Job"), "llm", spec, status=status)
    job["metadata"]["creationTimestamp"] = ago(age)
    pods = [created(a_pod("llm-0", devices=8, node="gpu-0", labels=LABELS), pod)] if pod else []
    jobs: dict[str, Any] = {key: [job]}
    findings = list(check_restarted_jobs(scope(*pods, **jobs), NOW))
    assert by_name(findings) == expected
    if Outcome.ADVISED in expected.values():
        assert "anew 90 times within 10 h and holds 8 devices each time (80 device-hours lost)" in messages(findings)


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


def test_devices_of_many_claims_are_counted_once() -> None:
    claims = [a_claim(f"c{at}", device=f"gpu-{at}") for at in range(3000)]
    pods = [
        created(a_pod(f"p{at}", node="gpu-0", resourceClaims=[{"name": "g", "resourceClaimName": f"c{at}"}]), DAY, deleted=HOUR)
        for at in range(3000)
    ]
    known, started = scope(*pods, resourceclaims=claims, deviceclasses=[a_class()]), time.monotonic()
    findings = list(check_ending(known, NOW))
    assert all("still holds 1 claimed devices on gpu-0" in finding.message for finding in findings)
    assert (len(findings), time.monotonic() - started < 4) == (3000, True)
