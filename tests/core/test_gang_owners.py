"""How many pods belong together, by the word of their owner, where no group or a smaller one says it."""

from typing import Any

import pytest

from conformance.gang.checks import check_used
from conformance.net.advertising import check_jobs
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_node, a_pod, a_scope, a_workload
from tests.core.test_gang_jobs import NOW, member, partial
from tests.findings import only
from tests.tables import each_row

GPU: Json = {"spec": {"containers": [a_container(devices=8)]}}
CPU: Json = {"spec": {"containers": [a_container()]}}
IN_GROUP: Json = {"annotations": {"scheduling.k8s.io/group-name": "g"}}


def a_group(least: int, phase: str = "Running") -> Json:
    return {"metadata": {"name": "g", "namespace": "team-a"}, "spec": {"minMember": least}, "status": {"phase": phase}}


# -- LeaderWorkerSets --


def an_lws(size: int, **more: Any) -> Json:
    template = {"size": size, "workerTemplate": GPU, **more.pop("template", {})}
    return a_workload("LeaderWorkerSet", "vllm", {"replicas": 4, "leaderWorkerTemplate": template, **more})


def of_group(group: int, bound: int, total: int, **more: Any) -> list[Pod]:
    marks = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": str(group)}
    return [
        member(i, name=f"vllm-{group}-{i}", bound=i < bound, labels={**marks, "leaderworkerset.sigs.k8s.io/worker-index": str(i)}, **more)
        for i in range(total)
    ]


def test_a_group_that_a_roll_out_has_not_reached_has_the_size_that_it_was_made_with() -> None:
    pods = of_group(0, 2, 2, annotations={"leaderworkerset.sigs.k8s.io/size": "2"})
    assert only(partial(a_scope(pods=pods, leaderworkersets=[an_lws(4)]))).outcome is Outcome.OK


def test_workers_that_are_made_after_their_leader_are_missed_only_when_it_had_time_to_start() -> None:
    lws = an_lws(4, startupPolicy="LeaderReady")
    scope = a_scope(pods=of_group(0, 1, 1), leaderworkersets=[lws])
    young, old = only(partial(scope, NOW - 40 * 60)), only(partial(scope, NOW + 3600))
    assert young.outcome is Outcome.UNDECIDED
    assert "LeaderReady" in young.message
    assert "ask again" in young.message
    assert old.outcome is Outcome.BAD
    assert "LeaderReady" in old.observed


# -- RayClusters --


def a_ray(workers: int, **more: Any) -> Json:
    group = {"groupName": "gpu", "replicas": workers, "minReplicas": more.pop("least", workers), "template": GPU, **more.pop("group", {})}
    return a_workload("RayCluster", "ray", {"headGroupSpec": {"template": CPU}, "workerGroupSpecs": [group], **more})


def of_ray(workers: int, total: int, *, head: bool = True) -> list[Pod]:
    labels = {"ray.io/cluster": "ray"}
    created: Json = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    head_pod = a_pod("ray-head", node="cpu-0" if head else "", labels=labels, status=created)
    head_pod.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    return [head_pod, *(member(i, bound=i < workers, labels=labels) for i in range(total))]


def test_only_nodes_whose_devices_are_idle_are_named() -> None:
    message = only(partial(a_scope(pods=of_ray(2, 4), rayclusters=[a_ray(4)]))).message
    assert "devices on gpu-0, gpu-1 do nothing" in message
    assert "cpu-0" not in message
    alone = only(partial(a_scope(pods=of_ray(0, 4), rayclusters=[a_ray(4)])))
    assert (alone.outcome, "hold no device" in alone.message) == (Outcome.BAD, True)


def test_a_ray_cluster_that_scales_itself_works_with_its_least_workers() -> None:
    ray = a_ray(6, least=2, enableInTreeAutoscaling=True)
    enough, few = partial(a_scope(pods=of_ray(3, 6), rayclusters=[ray])), partial(a_scope(pods=of_ray(1, 6), rayclusters=[ray]))
    assert only(enough).outcome is Outcome.NOT_JUDGED
    assert "minReplicas" in only(enough).message
    assert only(few).outcome is Outcome.BAD


def test_a_ray_cluster_that_starts_with_its_head_alone_needs_no_gang_scheduler() -> None:
    ray = a_ray(3, least=0, enableInTreeAutoscaling=True)
    assert only(list(check_used(a_scope(pods=of_ray(3, 3), rayclusters=[ray])))).outcome is Outcome.NOT_JUDGED
    assert only(list(check_used(a_scope(pods=of_ray(3, 3), rayclusters=[a_ray(3)])))).outcome is Outcome.BAD


def test_a_ray_head_needs_no_fabric() -> None:
    resources = {"nvidia.com/gpu": "8", "rdma/hca": "1"}
    nodes = [a_node(f"gpu-{i}", capacity={"rdma/hca": "8"}, allocatable={"rdma/hca": "8"}) for i in range(2)]
    labels = {"ray.io/cluster": "ray"}
    pods = [
        a_pod("head", node="gpu-0", labels=labels),
        *(a_pod(f"w{i}", node=f"gpu-{i}", devices=resources, labels=labels) for i in range(2)),
    ]
    assert only(list(check_jobs(a_scope(nodes=nodes, pods=pods, rayclusters=[a_ray(2)])))).outcome is Outcome.OK


# -- jobs of Volcano --


def a_volcano_job(replicas: int, least: int | None = None, plugins: Json | None = None, **more: Any) -> Json:
    spec: Json = {"tasks": [{"name": "worker", "replicas": replicas, "template": GPU}], "plugins": plugins or {}}
    return a_workload("Job", "vc", spec | ({} if least is None else {"minAvailable": least}), **more)


def of_volcano(bound: int, total: int) -> list[Pod]:
    labels = {"volcano.sh/job-name": "vc", "volcano.sh/task-spec": "worker"}
    return [member(i, bound=i < bound, schedulerName="volcano", labels=labels, **IN_GROUP) for i in range(total)]


def of_groups(*jobs: Json, pods: list[Pod], least: int) -> Scope:
    return a_scope(pods=pods, batch_volcano_sh__jobs=jobs, scheduling_volcano_sh__podgroups=[a_group(least)])


def test_a_group_smaller_than_its_job_is_not_believed() -> None:
    finding = only(partial(of_groups(a_volcano_job(3), pods=of_volcano(1, 3), least=1)))
    assert (str(finding.subject), finding.outcome) == ("Job team-a/vc", Outcome.BAD)
    assert finding.observed == "1 of 3 pods placed for 1 h"


def test_a_job_that_says_itself_that_fewer_are_enough_is_elastic() -> None:
    """kubeflow/trainer#1571: Volcano runs between minAvailable and replicas, and some pods wait by design."""
    elastic = a_volcano_job(8, least=2)
    assert only(partial(of_groups(elastic, pods=of_volcano(3, 8), least=2))).outcome is Outcome.NOT_JUDGED
    assert only(partial(of_groups(elastic, pods=of_volcano(1, 8), least=2))).outcome is Outcome.BAD
    assert only(partial(of_groups(elastic, pods=of_volcano(8, 8), least=2))).outcome is Outcome.OK


@pytest.mark.parametrize("plugin", ["pytorch", "mpi", "tensorflow"])
def test_a_job_whose_pods_are_reported_of_all_others_is_not_elastic(plugin: str) -> None:
    job = a_volcano_job(3, least=1, plugins={plugin: []})
    assert only(partial(of_groups(job, pods=of_volcano(1, 3), least=1))).outcome is Outcome.BAD


def test_a_job_that_has_ended_is_no_subject() -> None:
    ended = a_volcano_job(3, status={"state": {"phase": "Aborted"}})
    assert gang_jobs(a_scope(pods=of_volcano(1, 3), batch_volcano_sh__jobs=[ended])) == []


def test_a_group_of_an_unknown_owner_that_asks_for_one_pod_is_undecided_when_partly_placed() -> None:
    pods = [member(i, bound=i < 1, owner="FooJob/mnist", **IN_GROUP) for i in range(3)]
    finding = only(partial(a_scope(pods=pods, scheduling_volcano_sh__podgroups=[a_group(1)])))
    assert finding.outcome is Outcome.UNDECIDED
    assert "FooJob" in finding.message


# -- training jobs --


def a_pytorch_job(**spec: Any) -> Json:
    specs = {"Master": {"replicas": 1, "template": GPU}, "Worker": {"replicas": 7, "template": GPU}}
    return a_workload("PyTorchJob", "train", {"pytorchReplicaSpecs": specs, **spec})


def test_a_training_job_counts_whole_unless_it_is_elastic() -> None:
    pods = [member(i, bound=i < 4, labels={"training.kubeflow.org/job-name": "train"}, **IN_GROUP) for i in range(8)]
    groups = [a_group(2)]
    whole = only(partial(a_scope(pods=pods, pytorchjobs=[a_pytorch_job()], scheduling_volcano_sh__podgroups=groups)))
    assert (whole.subject.kind, whole.outcome, whole.observed) == ("PyTorchJob", Outcome.BAD, "4 of 8 pods placed for 1 h")
    elastic = a_pytorch_job(elasticPolicy={"minReplicas": 3, "maxReplicas": 7})
    assert only(partial(a_scope(pods=pods, pytorchjobs=[elastic], scheduling_volcano_sh__podgroups=groups))).outcome is Outcome.NOT_JUDGED


KUBEFLOW = {
    "TFJob": ("tfjobs", "tfReplicaSpecs"),
    "JAXJob": ("jaxjobs", "jaxReplicaSpecs"),
    "PaddleJob": ("paddlejobs", "paddleReplicaSpecs"),
    "XGBoostJob": ("xgboostjobs", "xgbReplicaSpecs"),
}


@pytest.mark.parametrize("marks", [{"labels": {"training.kubeflow.org/job-name": "train"}}, {}])
@pytest.mark.parametrize("kind", KUBEFLOW)
def test_every_training_job_of_kubeflow_says_its_size(kind: str, marks: Json) -> None:
    """With its label on the pods, and with their controller alone: older operators had other labels."""
    plural, field = KUBEFLOW[kind]
    job = a_workload(kind, "train", {field: {"Worker": {"replicas": 3, "template": GPU}}})
    job["metadata"]["uid"] = "uid-train"
    lists: Json = {plural: [job]}
    pods = [member(i, bound=i < 1, owner=f"{kind}/train", **marks) for i in range(3)]
    finding = only(partial(a_scope(pods=pods, **lists)))
    assert (finding.subject.kind, finding.outcome, finding.observed) == (kind, Outcome.BAD, "1 of 3 pods placed for 1 h")
    whole = [member(i, bound=True, owner=f"{kind}/train", **marks) for i in range(3)]
    assert only(partial(a_scope(pods=whole, **lists))).outcome is Outcome.OK
    job["spec"][field]["Worker"]["replicas"] = 1
    assert partial(a_scope(pods=pods[:1], **lists)) == []


def test_a_tf_job_with_dynamic_workers_trains_with_those_that_are_there() -> None:
    job = a_workload("TFJob", "train", {"tfReplicaSpecs": {"Worker": {"replicas": 3, "template": GPU}}, "enableDynamicWorker": True})
    pods = [member(i, bound=i < 1, labels={"training.kubeflow.org/job-name": "train"}) for i in range(3)]
    assert only(partial(a_scope(pods=pods, tfjobs=[job]))).outcome is Outcome.NOT_JUDGED


# -- Grove --


def a_clique(replicas: int, least: int | None = None) -> Json:
    return a_workload(
        "PodClique", "decode", {"replicas": replicas, "podSpec": GPU["spec"]} | ({} if least is None else {"minAvailable": least})
    )


@each_row
def test_a_pod_clique_works_with_the_pods_that_it_says_are_enough(bound: int, least: int | None, outcome: Outcome) -> None:
    pods = [member(i, bound=i < bound, owner="PodClique/decode", labels={"grove.io/podclique": "decode"}) for i in range(3)]
    finding = only(partial(a_scope(pods=pods, podcliques=[a_clique(3, least)])))
    assert (finding.subject.kind, finding.outcome) == ("PodClique", outcome)


# -- JobSets --


def a_jobset(*parts: Json, **more: Any) -> Json:
    return a_workload("JobSet", "train", {"replicatedJobs": list(parts), **more})


def a_part(name: str, pods: int, **more: Any) -> Json:
    return {"name": name, "replicas": 1, "template": {"spec": {"parallelism": pods, "template": GPU}}, **more}


def of_part(name: str, bound: int, total: int) -> list[Pod]:
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": name}
    return [member(i, name=f"{name}-{i}", bound=i < bound, labels=labels) for i in range(total)]


def test_a_train_job_is_judged_once_as_its_job_set_and_waits_in_the_queue_that_it_names() -> None:
    jobset = a_jobset(a_part("node", 4))
    jobset["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "name": "train", "uid": "uid-train"}]
    train = a_workload("TrainJob", "train", {})
    train["metadata"] |= {"uid": "uid-train", "labels": {"kueue.x-k8s.io/queue-name": "gpu"}}
    lists: Json = {"pods": of_part("node", 2, 4), "jobsets": [jobset], "trainjobs": [train]}
    finding = only(partial(a_scope(**lists)))
    assert (finding.subject.kind, finding.outcome) == ("JobSet", Outcome.BAD)
    assert only(list(check_used(a_scope(**lists)))).outcome is Outcome.OK
    del train["metadata"]["labels"]
    assert only(list(check_used(a_scope(**lists)))).outcome is Outcome.BAD


def test_a_workload_of_kueue_says_that_its_owner_waits_in_a_queue() -> None:
    ray = a_ray(3)
    ray["metadata"]["ownerReferences"] = [{"kind": "RayJob", "name": "job", "uid": "uid-job"}]
    workload = {"metadata": {"name": "w", "namespace": "team-a", "ownerReferences": [{"kind": "RayJob", "name": "job", "uid": "uid-job"}]}}
    lists: Json = {"pods": of_ray(3, 3), "rayclusters": [ray], "kueue_x-k8s_io__workloads": [workload]}
    assert only(list(check_used(a_scope(**lists)))).observed == "4 pods by Kueue"


def test_a_part_that_is_made_in_order_is_missed_only_when_the_first_had_time_to_start() -> None:
    jobset = a_jobset(a_part("driver", 2), a_part("workers", 4), startupPolicy={"startupPolicyOrder": "InOrder"})
    scope = a_scope(pods=of_part("driver", 2, 2), jobsets=[jobset])
    assert only(partial(scope, NOW - 40 * 60)).outcome is Outcome.UNDECIDED
    assert only(partial(scope, NOW + 3600)).outcome is Outcome.BAD


# -- other schedulers --
