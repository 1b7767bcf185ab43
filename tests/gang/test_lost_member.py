from typing import Any

import pytest

from conformance.gang.adapters import Coscheduling, Gang, Native, Volcano
from conformance.gang.adapters.jobs import Jobs, expiry, jobs_of
from conformance.gang.lost_member import Loss, judge_loss
from conformance.gang.plan import Plan
from fixtures.kubernetes.models import Json
from fixtures.model.jobs.marks import COSCHEDULING_GROUP, LWS
from fixtures.model.jobs.pod_makers import JOB_SETS
from fixtures.verdict.findings import Outcome
from tests.gang.test_adapters import deployment, scope_of
from tests.tables import each_row

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
