"""REQ-12: workloads whose pods were never made, and roll-outs that wait for themselves."""

from typing import Any

import msgspec
import pytest

from conformance.req.without_pods import check_jobs_without_pods, check_workloads
from fixtures.kubernetes.models import DaemonSet, Event, Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_container, a_daemonset, a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.req.suffering import HOUR, MINUTE, NOW, ago, an_event

PSA = 'pods "chat-7d9f" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
QUOTA = 'pods "chat-7d9f" is forbidden: exceeded quota: devices, requested: requests.nvidia.com/gpu=1'
KINDS = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers",
}


def wants(
    kind: str = "Deployment", *, replicas: int = 2, age: float = 8 * HOUR, generation: int = 1, devices: int = 1, **status: Any
) -> Json:
    found = a_workload(kind, "chat", {"replicas": replicas, "template": {"spec": a_spec(devices=devices, tolerations=["*"])}})
    found["metadata"] |= {"creationTimestamp": ago(age), "generation": generation, "uid": "uid-chat"}
    found["status"] = {"observedGeneration": generation, **status}
    return found


def made(count: int, workload: Json) -> Json:
    workload["status"]["replicas"] = count
    return workload


def failing(text: str = PSA, age: float = 6 * HOUR) -> Json:
    return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": text, "lastTransitionTime": ago(age)}


def refusals(kind: str, text: str = PSA, age: float = MINUTE) -> Event:
    event = an_event("FailedCreate", text, age=age, first=HOUR, reporter=f"{kind.lower()}-controller")
    about = msgspec.structs.replace(event.about, kind=kind, name="chat", uid="")
    return msgspec.structs.replace(event, involved_object=about)


def judged(workload: Json | DaemonSet, *pods: Pod, full: bool = False, policy: Any = None, **items: Any) -> Finding:
    kind = workload["kind"] if isinstance(workload, dict) else "DaemonSet"
    held = [a_pod("holder", node="gpu-0", devices=8)] if full else []
    lists = {KINDS.get(kind, "daemonsets"): [workload], "nodes": [a_node()], "pods": [*pods, *held], **items}
    (finding,) = check_workloads(a_scope(policy, **lists), NOW)
    return finding


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_whose_pods_the_api_refuses_is_bad_however_full_the_cluster_is(kind: str, full: bool) -> None:
    finding = judged(wants(kind), full=full, events=[refusals(kind)])
    assert (finding.outcome, finding.cause) == (Outcome.BAD, "PodsRefused")
    young = judged(wants(kind, age=MINUTE, conditions=[failing(age=MINUTE)]), full=full)
    assert young.outcome is Outcome.UNDECIDED


def test_pods_of_a_daemonset_that_are_refused_are_missed() -> None:
    daemons = a_daemonset("chat", "team-a", desired=2, containers=[a_container(devices=1)], status={"currentNumberScheduled": 0})
    assert judged(daemons, events=[refusals("DaemonSet")]).outcome is Outcome.BAD
    assert judged(a_daemonset("chat", "team-a", desired=2, containers=[a_container(devices=1)])).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("workload", "more", "expected"),
    [
        (wants(conditions=[failing()]), {}, Outcome.BAD),
        (made(2, wants(generation=5, conditions=[failing()], updatedReplicas=1)), {}, Outcome.BAD),  # its new version lacks pods
        (made(2, wants("StatefulSet", conditions=[failing()], updatedReplicas=1)), {}, Outcome.OK),
        (wants(conditions=[failing(QUOTA)]), {}, Outcome.NOT_JUDGED),
        (wants(conditions=[{**failing(), "status": "False"}]), {}, Outcome.BAD),  # no controller makes its pods
        (wants(), {}, Outcome.BAD),
        (wants(), {"full": True}, Outcome.OK),
        (wants(age=MINUTE), {}, Outcome.NOT_JUDGED),
        (wants(generation=4), {}, Outcome.UNDECIDED),  # it may have been scaled up a moment ago
        (wants(generation=4, conditions=[{"type": "Available", "status": "False", "lastTransitionTime": ago(HOUR)}]), {}, Outcome.BAD),
        (wants(), {"trouble": {"events": "Forbidden"}}, Outcome.UNDECIDED),
        (wants(replicas=0), {}, Outcome.OK),
        (wants(conditions=[failing('pods "quota-1" is forbidden: violates PodSecurity "restricted:latest"')]), {}, Outcome.BAD),
        (made(1, wants("StatefulSet", generation=4)), {"events": [refusals("StatefulSet")]}, Outcome.BAD),
        (made(1, wants("StatefulSet", generation=4)), {"events": [refusals("StatefulSet", age=50 * MINUTE)]}, Outcome.NOT_JUDGED),
    ],
)
def test_a_workload_without_pods_is_judged_by_reason_and_age(workload: Json, more: dict[str, Any], expected: Outcome) -> None:
    assert judged(workload, **more).outcome is expected


def test_what_is_paused_deleted_or_asks_for_no_device_is_left_alone() -> None:
    paused, gone = wants(conditions=[failing()]), wants(conditions=[failing()])
    paused["spec"]["paused"], gone["metadata"]["deletionTimestamp"] = True, ago(0)
    assert judged(paused).outcome is Outcome.OK
    others = [gone, wants(devices=0, conditions=[failing()])]
    assert not list(check_workloads(a_scope(nodes=[a_node()], deployments=others), NOW))


def test_a_list_that_was_refused_leaves_it_open() -> None:
    with pytest.raises(Inconclusive):
        list(check_workloads(a_scope(nodes=[a_node()], trouble={"apps/deployments": "Forbidden"}), NOW))


def test_a_job_whose_pods_are_refused_is_bad_in_a_full_cluster() -> None:
    job = a_workload("Job", "chat", {"parallelism": 1, "template": {"spec": a_spec(devices=1)}})
    job["metadata"] |= {"uid": "uid-chat", "creationTimestamp": ago(HOUR)}
    full: dict[str, Any] = {"nodes": [a_node()], "pods": [a_pod("holder", node="gpu-0", devices=8)], "batch__jobs": [job]}
    (finding,) = check_jobs_without_pods(a_scope(**full, events=[refusals("Job")]), NOW)
    assert (finding.outcome, finding.cause) == (Outcome.BAD, "PodsRefused")
    (finding,) = check_jobs_without_pods(a_scope(**full), NOW)
    assert finding.outcome is Outcome.OK


def test_further_pods_of_a_job_that_are_refused_are_missed_until_they_come_or_it_ends() -> None:
    job = a_workload("Job", "chat", {"parallelism": 2, "template": {"spec": a_spec(devices=1)}}, status={"active": 1})
    job["metadata"] |= {"uid": "uid-chat", "creationTimestamp": ago(9 * HOUR)}
    items: dict[str, Any] = {
        "nodes": [a_node()],
        "pods": [a_pod("chat-0", node="gpu-0", devices=1, owner="Job/chat")],
        "batch__jobs": [job],
    }

    def outcomes(*events: Event) -> list[Outcome]:
        return [finding.outcome for finding in check_jobs_without_pods(a_scope(**items, events=list(events)), NOW)]

    assert outcomes(refusals("Job")) == [Outcome.BAD]
    assert outcomes() == outcomes(refusals("Job", QUOTA)) == outcomes(refusals("Job", age=50 * MINUTE)) == []
    job["status"]["active"] = 2
    assert outcomes(refusals("Job")) == []
    job["status"]["active"] = 1
    job["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    assert outcomes(refusals("Job")) == []


# -- roll-outs: defilantech/LLMKube#192, bayesimpact/bayes-platform#776, BasedHardware/omi#7967 --


def exceeded(age: float = 8 * HOUR, **spec: Any) -> Json:
    found = made(3, wants(generation=3, age=90 * HOUR, devices=8, readyReplicas=2, availableReplicas=2, updatedReplicas=1))
    stop = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "lastTransitionTime": ago(age)}
    found["status"]["conditions"] = [stop]
    found["spec"] |= {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, **spec}
    return found


def of(version: str, number: int, node: str = "", devices: int = 8, pool: str = "") -> Pod:
    more: dict[str, Any] = {"labels": {"pod-template-hash": version}, "nodeSelector": {"pool": pool} if pool else {}}
    return a_pod(f"chat-{version}-{number}", owner=f"ReplicaSet/chat-{version}", node=node, devices=devices, tolerations=["*"], **more)


OLD, NEW = [of("old", 0, "gpu-0"), of("old", 1, "gpu-1")], of("new", 0)


@pytest.mark.parametrize(
    ("workload", "pods", "policy", "expected"),
    [
        (exceeded(), [*OLD, NEW], {}, Outcome.BAD),
        (exceeded(age=MINUTE), [*OLD, NEW], {}, Outcome.UNDECIDED),
        (exceeded(paused=True), [*OLD, NEW], {}, Outcome.OK),
        (exceeded(), [*OLD, NEW], {"requests": {"autoscaled": ["nvidia.com/gpu"]}}, Outcome.NOT_JUDGED),
        (exceeded(), [NEW], {}, Outcome.OK),  # a first version waits like any other pod
        (exceeded(), [*OLD, of("new", 0, "gpu-2")], {}, Outcome.OK),  # it has its node: REQ-13 judges it
        (exceeded(), [*OLD, of("new", 0, devices=16)], {}, Outcome.OK),  # REQ-04: no node has as many, however many old pods end
        (exceeded(), [*OLD, of("new", 0, pool="other")], {}, Outcome.OK),
        (exceeded(), [a_pod("chat-old-0", node="gpu-0", devices=8), NEW], {}, Outcome.OK),
    ],
)
def test_a_roll_out_that_waits_for_its_own_old_pods_never_ends(workload: Json, pods: list[Pod], policy: Json, expected: Outcome) -> None:
    finding = judged(workload, *pods, policy=a_policy(**policy))
    assert finding.outcome is expected, finding.message
    if expected is Outcome.BAD:
        assert finding.cause == "RollOutWaitsForItself"
