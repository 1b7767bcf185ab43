from typing import Any

import pytest

from conformance.gang.adapters import Coscheduling, Gang, Native, Volcano
from conformance.gang.adapters.jobs import Jobs, expiry, jobs_of
from conformance.gang.checks import check_held
from conformance.gang.kueue_whole import Admitted, judge_admission, judge_workloads, probe_admission
from conformance.gang.lost_member import Loss, judge_loss
from conformance.gang.plan import Plan
from fixtures.kubernetes.models import Json
from fixtures.model.jobs.marks import COSCHEDULING_GROUP, LWS
from fixtures.model.jobs.pod_makers import JOB_SETS
from fixtures.model.queues.kueue import reserved_by
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Outcome
from tests.builders import a_scope
from tests.gang.test_adapters import deployment, scope_of
from tests.gang.test_kueue_reservations import GPU, NOW, a_queue, a_workload, of_job
from tests.tables import each_row


def workload(sets: list[list[int]], given: list[int], done: int = 0, *, elastic: bool = False) -> Json:
    """A Workload whose pod sets have ``[count, minCount]``, admitted with ``given`` pods of two devices; ``done`` of the first ended."""
    one = a_workload("QuotaReserved", "Admitted")
    names = [f"set-{number}" for number in range(len(sets))]
    least = [{"minCount": sizes[1]} if len(sizes) > 1 else {} for sizes in sets]
    one["spec"] = {"podSets": [{"name": name, "count": sizes[0], **more} for name, sizes, more in zip(names, sets, least, strict=True)]}
    one["status"]["admission"]["podSetAssignments"] = [
        {"name": name, "count": pods, "flavors": {GPU: "h100"}, "resourceUsage": {GPU: str(2 * pods)}}
        for name, pods in zip(names, given, strict=False)
    ]
    one["status"]["reclaimablePods"] = [{"name": "set-0", "count": done}]
    one["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": str(elastic).lower()}
    return one


@each_row
def test_a_workload_is_admitted_whole_or_as_its_owner_allows(case: dict[str, Any], expected: str) -> None:
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [workload(**case)]}
    (finding,) = judge_workloads(a_scope(None, **lists))
    assert finding.outcome.value == expected, finding.message


def test_workloads_are_judged_where_devices_are_claimed_and_no_queue_can_be_asked() -> None:
    manager = {"metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"}, "status": {"availableReplicas": 1}}
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [workload([[2]], [1])], "deployments": [manager]}
    findings = probe_admission(a_scope(None, nodes=[], **lists), Workspace.__new__(Workspace))
    assert [finding.outcome.value for finding in findings] == ["bad", "not_judged"]


@each_row
def test_quota_is_given_to_all_of_a_group_or_to_none_of_it(fits: dict[str, int], over: dict[str, int] | None, expected: str) -> None:
    larger = None if over is None else Admitted(size=3, **over)
    assert judge_admission(Admitted(size=2, **fits), larger, 5.0, "quota only").outcome.value == expected


@pytest.mark.parametrize(("done", "counted"), [(0, 12), (2, 8), (6, 0)])
def test_pods_that_have_ended_hold_no_quota_and_the_queue_counts_so_too(done: int, counted: int) -> None:
    """Kueue leaves the admission as it was, and counts less: it was said that the queue counts wrong."""
    admitted = workload([[6]], [6], done)
    assert reserved_by(admitted) == {GPU: counted}
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [admitted], "clusterqueues": [a_queue(str(counted))], "pods": [of_job()]}
    assert {finding.outcome.value for finding in check_held(a_scope(None, **lists), NOW)} == {"ok"}


PLAN = Plan(nodes=(), resource="nvidia.com/gpu", unit=1, slots=4)
POD: Json = {
    "metadata": {"name": "g-0", "labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 9, "priorityClassName": "low", "containers": []},
}
GANG = Gang(name="g", pods=(POD, POD))


@each_row
def test_a_gang_starts_again_as_its_policy_says_or_gives_all_back(loss: dict[str, Any], anew: bool, room: bool, outcome: Outcome) -> None:
    jobs = Jobs(name="volcano", key="", policy="RestartJob", object={}, all_anew=anew)
    finding = judge_loss(jobs, PLAN, Loss(size=4, seconds=9.0, **loss), room=room)
    assert finding.outcome is outcome, finding.message


def made(name: str, **deployments: str) -> dict[str, Json]:
    """The objects of a kind of jobs, by their kind, on a cluster with these Deployments (with their namespaces)."""
    items = [deployment(one.replace("_", "-"), namespace=namespace) for one, namespace in deployments.items()]
    [(jobs, _)] = jobs_of(scope_of((JOB_SETS, LWS), apps__deployments=items), [])
    assert jobs.name == name
    return {body["kind"]: body for _, body in jobs.make(GANG, POD, "low")}


def test_a_job_set_makes_as_many_pods_as_the_gang_has() -> None:
    [replicated] = made("jobset", jobset_controller_manager="jobset-system")["JobSet"]["spec"]["replicatedJobs"]
    inner = replicated["template"]["spec"]
    assert (inner["parallelism"], inner["completions"]) == (2, 2)
    assert inner["template"] == {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}


def test_pods_of_a_leader_worker_set_have_no_policy_and_no_deadline_of_their_own() -> None:
    template = made("leaderworkerset", lws_controller_manager="lws-system")["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert (template["size"], template["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")
    assert template["workerTemplate"]["spec"] == {"priorityClassName": "low", "containers": []}


def test_a_controller_is_asked_only_where_it_runs() -> None:
    """Its definition stays where it was removed."""
    assert jobs_of(scope_of((JOB_SETS, LWS)), [Volcano(), Native()]) == []


def test_the_pods_of_a_native_gangs_job_name_its_group() -> None:
    scope = scope_of(("scheduling.k8s.io/podgroups", "batch/jobs"))
    [(jobs, adapter)] = jobs_of(scope, [Native()])
    objects = {body["kind"]: body for _, body in jobs.make(GANG, POD, "low", adapter)}
    assert objects["PodGroup"]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert objects["Job"]["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_the_pods_of_coschedulings_job_name_its_group_and_its_scheduler() -> None:
    items = [deployment("scheduler-plugins-scheduler", namespace="scheduler-plugins")]
    [(jobs, adapter)] = jobs_of(scope_of(("batch/jobs",), apps__deployments=items), [Coscheduling()])
    objects = {body["kind"]: body for _, body in jobs.make(GANG, POD, "low", adapter)}
    assert objects["PodGroup"]["spec"] == {"minMember": 2}
    template = objects["Job"]["spec"]["template"]
    assert template["metadata"]["labels"][COSCHEDULING_GROUP] == "g"
    assert template["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


@pytest.mark.parametrize("seconds", [9.7, 1800.0])
def test_what_a_job_makes_is_removed_in_time_without_the_run(seconds: float) -> None:
    spec = expiry(seconds)["spec"]
    assert (spec["parallelism"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, int(seconds), 0)
