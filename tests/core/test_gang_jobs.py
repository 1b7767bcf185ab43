from typing import Any

import pytest

from conformance.gang.checks import check_partial, check_used
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.model.jobs.marks import gang_system
from fixtures.policy.model import Policy
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_pod, a_policy, a_scope, a_workload
from tests.tables import each_row

HOUR_AGO = "2026-01-01T00:00:00Z"
NOW = unix("2026-01-01T01:00:00Z") or 0.0


def member(index: int, *, bound: bool, created: str = HOUR_AGO, scheduled: str = HOUR_AGO, **more: Any) -> Pod:
    conditions = [{"type": "PodScheduled", "status": "True" if bound else "False", "lastTransitionTime": scheduled}]
    name = more.pop("name", f"train-{index}")
    pod = a_pod(name, devices=8, node=f"gpu-{index}" if bound else "", status={"conditions": conditions}, **more)
    pod.metadata.creation_timestamp = created
    return pod


def a_job(parallelism: int = 8, **more: Any) -> Json:
    spec = {"parallelism": parallelism, "completions": parallelism, "template": {}, **more.pop("spec", {})}
    job = a_workload("Job", "train", spec, **more)
    job["metadata"] |= {"uid": "uid-train", **job.pop("more", {})}
    return job


def of_job(bound: int, total: int = 8, **more: Any) -> list[Pod]:
    return [member(index, bound=index < bound, owner="Job/train", **more) for index in range(total)]


def partial(scope: Any, now: float = NOW) -> list[Finding]:
    return list(check_partial(scope, now))


# -- GANG-05 --


def test_a_pod_of_another_namespace_that_names_the_job_as_its_owner_is_no_member() -> None:
    """A tenant completes or breaks nobody else's gang: an owner is in the namespace of what it owns."""
    filling = [member(index, bound=True, owner="Job/train", namespace="aaa") for index in range(3, 8)]
    assert partial(a_scope(pods=[*of_job(3), *filling], batch__jobs=[a_job()]))[0].outcome is Outcome.BAD
    waiting = [member(9, bound=False, owner="Job/train", namespace="aaa")]
    [finding] = partial(a_scope(pods=[*of_job(8), *waiting], batch__jobs=[a_job()]))
    assert (finding.outcome, finding.observed) == (Outcome.OK, "8 of 8 pods placed")


def test_the_policy_sets_the_age() -> None:
    scope = a_scope(a_policy(gang={"partialMinutes": 90}), pods=of_job(3), batch__jobs=[a_job()])
    assert partial(scope)[0].outcome is Outcome.OK


def test_a_member_made_anew_starts_the_clock_again() -> None:
    pods = [*of_job(7, 7), member(7, bound=False, owner="Job/train", created="2026-01-01T00:58:00Z")]
    [finding] = partial(a_scope(pods=pods, batch__jobs=[a_job()]))
    assert finding.outcome is Outcome.OK
    assert "for 2 min" in finding.observed


def deleted(pods: list[Pod]) -> list[Pod]:
    for pod in pods:
        pod.metadata.deletion_timestamp = "2026-01-01T00:59:00Z"
    return pods


def test_a_job_whose_last_pods_go_is_not_partly_placed() -> None:
    waiting = [member(index, bound=False, owner="Job/train") for index in range(3, 8)]
    [finding] = partial(a_scope(pods=[*deleted(of_job(3, 3)), *waiting], batch__jobs=[a_job()]))
    assert finding.outcome is Outcome.NOT_JUDGED
    assert "REQ-14" in finding.message


def test_one_placed_pod_that_stays_keeps_the_others_devices_idle() -> None:
    pods = [*deleted(of_job(2, 2)), member(2, bound=True, owner="Job/train"), member(3, bound=False, owner="Job/train")]
    assert partial(a_scope(pods=pods, batch__jobs=[a_job(4)]))[0].outcome is Outcome.BAD


def test_finished_pods_do_not_make_a_job_go() -> None:
    done = [member(index, bound=True, owner="Job/train", phase="Succeeded") for index in range(3)]
    pods = [*done, *(member(index, bound=False, owner="Job/train") for index in range(3, 8))]
    assert partial(a_scope(pods=pods, batch__jobs=[a_job()]))[0].outcome is Outcome.BAD


@pytest.mark.parametrize(("since", "outcome"), [("2026-01-01T00:55:00Z", Outcome.NOT_JUDGED), (HOUR_AGO, Outcome.BAD), ("x", Outcome.BAD)])
def test_a_job_that_is_being_deleted_has_the_same_time_to_go(since: str, outcome: Outcome) -> None:
    job = a_job(more={"deletionTimestamp": since})
    assert partial(a_scope(pods=of_job(3), batch__jobs=[job]))[0].outcome is outcome
    group = {
        "metadata": {"name": "g", "namespace": "team-a", "deletionTimestamp": since},
        "spec": {"minMember": 4},
        "status": {"phase": "Running"},
    }
    pods = [member(i, bound=i < 2, annotations={"scheduling.k8s.io/group-name": "g"}) for i in range(4)]
    assert partial(a_scope(pods=pods, scheduling_volcano_sh__podgroups=[group]))[0].outcome is outcome


def test_stale_conditions_do_not_count_only_the_node_does() -> None:
    pods = of_job(0)
    for pod in pods:
        pod.status.conditions = [type(pod.status.conditions[0])(type="PodScheduled", status="True")]  # type: ignore[index]
    assert partial(a_scope(pods=pods, batch__jobs=[a_job()]))[0].observed == "0 of 8 pods placed"


def test_without_any_time_it_is_undecided() -> None:
    pods = of_job(3, created="soon", scheduled="long ago")
    [finding] = partial(a_scope(pods=pods, batch__jobs=[a_job()]))
    assert finding.outcome is Outcome.UNDECIDED


def test_a_kueue_pod_group_counts_to_its_total() -> None:
    marks: Json = {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}}
    pods = [member(i, bound=i < 2, **marks) for i in range(3)]
    [finding] = partial(a_scope(pods=pods))
    assert (finding.subject.kind, finding.outcome) == ("pod group", Outcome.BAD)
    finished = {"metadata": {"name": "g", "namespace": "team-a"}, "status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    workloads: Json = {"kueue_x-k8s_io__workloads": [finished]}
    assert partial(a_scope(pods=pods, **workloads)) == []


def test_training_jobs_count_only_replicas_with_devices() -> None:
    gpu = {"spec": {"containers": [a_container(devices=8)]}}
    spec = {
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": {"containers": [{}]}}},
            "Worker": {"replicas": 2, "template": gpu},
        }
    }
    pods = [member(i, bound=i < 1, labels={"training.kubeflow.org/job-name": "train"}) for i in range(2)]
    [job] = gang_jobs(a_scope(pods=pods, mpijobs=[a_workload("MPIJob", "train", spec)]))
    assert (job.subject.kind, job.needed) == ("MPIJob", 2)


def test_a_jobset_is_counted_once_and_not_by_its_jobs() -> None:
    template = {"spec": {"parallelism": 2, "template": {"spec": {"containers": [a_container(devices=1)]}}}}
    jobset = a_workload("JobSet", "train", {"replicatedJobs": [{"name": "w", "replicas": 2, "template": template}]})
    child = a_job(2)
    child["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "train"}]
    pods = [member(i, bound=True, owner="Job/train", labels={"jobset.sigs.k8s.io/jobset-name": "train"}) for i in range(4)]
    jobs = gang_jobs(a_scope(pods=pods, jobsets=[jobset], batch__jobs=[child]))
    assert [(job.subject.kind, job.needed) for job in jobs] == [("JobSet", 4)]


def test_a_suspended_job_without_pods_on_nodes_is_not_judged() -> None:
    [finding] = partial(a_scope(pods=of_job(0), batch__jobs=[a_job(spec={"suspend": True})]))
    assert finding.outcome is Outcome.NOT_JUDGED


# -- GANG-06 --


@each_row
def test_the_gang_scheduler_is_reported_from_the_pods_marks(more: Json, system: str) -> None:
    assert gang_system(a_pod(devices=1, **more)) == system


@each_row
def test_a_mark_that_nobody_reads_gives_a_job_to_no_gang_scheduler(marks: Json, outcome: Outcome, words: str) -> None:
    own: dict[str, list[Any]] = {"pods": of_job(8, **marks), "batch/jobs": [a_job()]}
    listings: list[Listing[Any]] = [Listing(key=key, items=own.get(key, []), served="kueue" not in key) for key in KINDS]
    [finding] = check_used(Scope(Snapshot(listings, taken_at=NOW), Policy()))
    assert finding.outcome is outcome
    assert words in finding.message
    assert outcome is not Outcome.BAD or finding.observed == "8 pods by default-scheduler"


@pytest.mark.parametrize("marks", [{"kueue.x-k8s.io/queue-name": "q"}, {"kueue.x-k8s.io/pod-group-name": "g"}])
def test_a_label_of_kueue_on_pods_counts_if_kueue_has_a_workload_for_them(marks: dict[str, str]) -> None:
    pods = of_job(8, labels=marks, annotations={"kueue.x-k8s.io/pod-group-total-count": "8"})
    lists: Json = {"pods": pods, "batch__jobs": [a_job()]}
    [finding] = check_used(a_scope(**lists))
    assert (finding.outcome, "no Workload of Kueue" in finding.message) == (Outcome.UNDECIDED, True)
    for uid in (pods[0].metadata.uid, "uid-train"):
        workload = {"metadata": {"name": "w", "namespace": "team-a", "ownerReferences": [{"kind": "Pod", "name": "train-0", "uid": uid}]}}
        more: Json = {**lists, "kueue_x-k8s_io__workloads": [workload]}
        [finding] = check_used(a_scope(**more))
        assert finding.outcome is Outcome.OK
    gated = of_job(0, labels=marks, annotations=pods[0].metadata.annotation, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    [finding] = check_used(a_scope(pods=gated, batch__jobs=[a_job()]))
    assert finding.outcome is Outcome.OK  # Kueue has not answered yet


def test_a_snapshot_without_workloads_of_kueue_does_not_tell_whether_a_queues_label_counts() -> None:
    pods = of_job(8, labels={"kueue.x-k8s.io/queue-name": "q"})
    [finding] = check_used(a_scope(pods=pods, nodes=[], batch__jobs=[a_job()], offline=True))
    assert finding.outcome is Outcome.UNDECIDED


@each_row
def test_a_group_asks_for_as_many_pods_as_its_job_needs(least: int, spec: Json, outcome: Outcome) -> None:
    """Volcano makes a group of one pod for pods that name none: the other seven are placed when there happens to be room."""
    pods = of_job(8, annotations={"scheduling.k8s.io/group-name": "g"}, schedulerName="volcano")
    group = {"metadata": {"name": "g", "namespace": "team-a"}, "spec": {"minMember": least}, "status": {"phase": "Running"}}
    lists: Json = {"pods": pods, "batch__jobs": [a_job(spec=spec)], "scheduling_volcano_sh__podgroups": [group]}
    [finding] = check_used(a_scope(**lists))
    assert finding.outcome is outcome, finding.message


def test_a_policy_that_asks_for_none_makes_it_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        list(check_used(a_scope(a_policy(gang={"required": False}), pods=of_job(8), batch__jobs=[a_job()])))


def test_a_launcher_without_a_device_counts_for_its_group() -> None:
    group = {"metadata": {"name": "g", "namespace": "team-a"}, "spec": {"minMember": 3}, "status": {"phase": "Running"}}
    marks: Json = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    workers = [member(i, bound=True, **marks) for i in range(2)]
    launcher = a_pod("launcher", node="cpu-0", **marks)
    [finding] = partial(a_scope(pods=[*workers, launcher], scheduling_volcano_sh__podgroups=[group]))
    assert finding.observed == "3 of 3 pods placed"
    assert partial(a_scope(pods=[launcher], scheduling_volcano_sh__podgroups=[group])) == []


def test_pods_of_a_workload_of_1_35_are_one_job() -> None:
    pods = [member(index, bound=index < 2) for index in range(4)]
    for pod in pods:
        pod.spec.workload_ref = {"name": "train", "podGroup": "members"}
    meta = {"name": "train", "namespace": pods[0].metadata.namespace}
    workload = {"metadata": meta, "spec": {"podGroups": [{"name": "members", "policy": {"gang": {"minCount": 4}}}]}}
    [finding] = partial(a_scope(pods=pods, scheduling_k8s_io__workloads=[workload]))
    assert (finding.outcome, finding.subject.kind) == (Outcome.BAD, "Workload")
    for bad in ({}, {"podGroups": "x"}, {"podGroups": [7, {"policy": {"basic": {}}}]}):
        found = list(gang_jobs(a_scope(pods=pods, scheduling_k8s_io__workloads=[{"metadata": meta, "spec": bad}])))
        assert [job.subject.kind for job in found if job.subject.kind == "Workload"] == []
