"""REQ-13, 14, 18 and 19: pods that neither end nor work, whose owner is gone, or that do not start."""

import time
from typing import Any

import msgspec
import pytest

from conformance.req.ending import check_ending, check_makers, check_restarted_jobs, check_services_and_jobs
from conformance.req.starting import check_starting
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_container, a_node, a_pod, a_policy, a_scope, a_snapshot, a_spec, a_workload
from tests.dra import a_claim, a_class, claim_spec
from tests.findings import by_name, messages
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, an_event, created, scheduled
from tests.tables import each_row, filled


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


NOW_OF_OWNERS = 1_800_000_000.0
OLD, YOUNG = "2026-12-01T00:00:00Z", "2027-01-15T07:59:00Z"


class Served(msgspec.Struct, forbid_unknown_fields=True):
    """A device pod behind a Service, by what both say, and what is found; no outcome where the Service is none that serves."""

    outcome: str
    cause: str = ""
    container: Json = {}
    spec: Json = {}
    labels: Json = {}
    service: Json = {}


@each_row
def test_device_pods_behind_a_service(served: Served) -> None:
    labels = {"app": "llm", **served.labels}
    pod = a_pod("llm-0", node="gpu-0", labels=labels, containers=[a_container(devices=1, **served.container)], **served.spec)
    service = a_workload("Service", "llm", {"selector": {"app": "llm"}, "clusterIP": "10.0.0.1", **served.service}, pod.namespace)
    found = list(check_services_and_jobs(a_scope(nodes=[a_node()], pods=[pod], services=[service])))
    assert [(one.outcome.value, one.cause) for one in found] == ([(served.outcome, served.cause)] if served.outcome else [])


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """A device job by its spec, and what is found where the policy asks for deadlines."""

    outcome: str
    cause: str = ""
    kind: str = "Job"
    spec: Json = {}
    labels: Json = {}


@each_row
def test_device_jobs_end(ending: Ending) -> None:
    template = {"spec": a_spec(devices=1)}
    spec = {"template": template, **ending.spec} if ending.kind == "Job" else {**ending.spec, "workers": {"template": template}}
    job = a_workload(ending.kind, "train", spec)
    job["metadata"]["labels"] = ending.labels
    kinds = {"Job": "jobs", "PyTorchJob": "pytorchjobs"}
    scope = a_scope(a_policy(requests={"jobDeadlines": True}), **{kinds[ending.kind]: [job]})
    (finding,) = check_services_and_jobs(scope)
    assert (finding.outcome.value, finding.cause) == (ending.outcome, ending.cause)


def test_without_a_word_of_the_policy_a_job_needs_no_deadline() -> None:
    job = a_workload("Job", "train", {"template": {"spec": a_spec(devices=1)}})
    assert by_name(check_services_and_jobs(a_scope(jobs=[job]))) == {"train": Outcome.OK}


class Made(msgspec.Struct, forbid_unknown_fields=True):
    """A bound pod with a device by what names its maker; Job ``train`` with UID ``1`` is there."""

    outcome: str
    owner: Json | None = None
    labels: Json = {}
    made: str = OLD
    kept: bool = True
    status: Json = {}


@each_row
def test_a_pod_and_what_made_it(made: Made) -> None:
    pod = a_pod("w", devices=1, node="gpu-0", labels=made.labels)
    pod.metadata.creation_timestamp = made.made
    if made.owner:
        pod = msgspec.convert(
            msgspec.to_builtins(pod) | {"metadata": {**msgspec.to_builtins(pod.metadata), "ownerReferences": [made.owner]}}, type(pod)
        )
    job = a_workload("Job", "train", {}, pod.namespace)
    job["metadata"]["uid"], job["status"] = "1", made.status
    listed: dict[str, Any] = {"jobs": [job]} if made.kept else {}
    scope = Scope(a_snapshot(offline=not made.kept, nodes=[a_node()], pods=[pod], **listed), a_policy())
    (finding,) = check_makers(scope, NOW_OF_OWNERS)
    assert (finding.outcome.value, finding.cause) == (made.outcome, "MakerGone" if made.outcome == "bad" else "")


def test_a_reservation_is_used_as_long_as_a_pod_on_its_node_shares_it() -> None:
    group = {"runai-gpu-group": "g1"}
    given = {"run.ai/reserve_for_gpu_index": "0"}
    holder = a_pod("gpu-reservation-0", "kai-resource-reservation", devices=1, node="gpu-0", labels=group, annotations=given)
    holder.metadata.creation_timestamp = OLD
    sharer = a_pod(
        "notebook", node="gpu-0", labels={"runai-gpu-group": "g1"}, annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"
    )
    policy = a_policy(tenants={"moreInfrastructure": ["kai-resource-reservation"]})
    assert by_name(check_makers(a_scope(policy, nodes=[a_node()], pods=[holder, sharer]), NOW_OF_OWNERS)) == {
        "gpu-reservation-0": Outcome.NOT_JUDGED
    }
    assert by_name(check_makers(a_scope(policy, nodes=[a_node()], pods=[holder]), NOW_OF_OWNERS)) == {"gpu-reservation-0": Outcome.BAD}


def waiting(reason: str = "ContainerCreating", message: str = "", name: str = "main") -> Json:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def a_starting_pod(*containers: Json, age: float = 6 * HOUR, init: list[Json] | None = None, phase: str = "Pending", **more: Any) -> Pod:
    status = {"conditions": [scheduled(age)], "containerStatuses": list(containers or [waiting()]), "initContainerStatuses": init or []}
    return created(a_pod(devices=more.pop("devices", 1), node="gpu-0", phase=phase, status=status, **more), age + MINUTE)


def scope_of_starting(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Scope:
    return a_scope(nodes=nodes or [a_node(), a_node("gpu-1")], pods=list(pods), **more)


def starting(*pods: Pod, **more: Any) -> list[Finding]:
    return list(check_starting(scope_of_starting(*pods, **more), NOW))


@each_row
def test_the_cause_is_named_from_events(reason: str, message: str, cause: str) -> None:
    assert cause in messages(starting(a_starting_pod(), events=[an_event(reason, message)]))


@each_row
def test_the_cause_is_named_from_containers(container: dict[str, Any], cause: str) -> None:
    assert cause in messages(starting(a_starting_pod(waiting(**container))))


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
    found = list(check_starting(scope_of_starting(made, nodes=[a_node(**node)], events=reported, policy=a_policy(requests=policy)), NOW))
    assert by_name(found) == {"train-0": outcome}
    assert says in messages(found)


GONE = "CDI device injection failed: failed to inject devices: failed to stat CDI host device {}: no such file"


@pytest.mark.parametrize("path", ['"/dev/nvidia3"', '\\\\"/dev/nvidia3\\\\"', "/dev/nvidia3"])
def test_a_device_file_that_is_gone_is_bad_at_once_for_no_waiting_heals_it(path: str) -> None:
    lost = a_starting_pod(waiting("CreateContainerError", GONE.format(path)), age=2 * MINUTE)
    (finding,) = starting(lost)
    assert finding.outcome is Outcome.BAD
    assert "the host's file /dev/nvidia3 that it brings in is gone" in finding.message
    assert "ask again" not in finding.message
    rebooted = a_node()
    ready = next(condition for condition in rebooted.status.conditions if condition.type == "Ready")
    ready.last_transition_time = ago(3 * MINUTE)
    assert by_name(starting(lost, nodes=[rebooted])) == {"train-0": Outcome.UNDECIDED}


def test_without_events_pods_of_the_same_runtime_class_tell_what_the_node_lacks() -> None:
    peers = [a_pod(f"other-{index}", devices=1, node="gpu-1", runtimeClassName="nvidia") for index in range(2)]
    findings = starting(a_starting_pod(runtimeClassName="nvidia"), *peers)
    assert "run on 1 other nodes and none on gpu-0: has it that runtime?" in messages(findings)


def test_pods_that_end_wait_or_hold_no_device_are_not_judged() -> None:
    others = [
        created(a_pod("leaving", devices=1, node="gpu-0", phase="Pending"), DAY, deleted=HOUR),
        a_pod("waits", devices=1),
        a_pod("web", node="gpu-0", phase="Pending"),
        a_pod("over", devices=1, node="gpu-0", phase="Failed"),
    ]
    assert starting(*others) == []
