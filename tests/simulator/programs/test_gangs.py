import asyncio
from typing import Any

from fixtures.simulator.api.objects import Json
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod

GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
SETTLE = 0.4  # seconds in which a wrong scheduler would have bound

on_volcano = in_cluster(hardware("n0"), hardware("n1"), addons=["volcano"])


def group(name: str, minimum: int, **spec: Any) -> Json:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, **spec},
    }


def members(name: str, count: int, devices: int = 8, script: str = "sleep infinity") -> list[Json]:
    annotations = {"annotations": {"scheduling.k8s.io/group-name": name}}
    return [pod(f"{name}-{n}", script, {GPU: devices}, spec={"schedulerName": "volcano"}, metadata=dict(annotations)) for n in range(count)]


@on_volcano
async def test_pods_that_come_before_their_group(cluster: SmallCluster) -> None:
    await cluster.start(*members("late", 2))
    await asyncio.sleep(SETTLE)
    assert await cluster.unbound("late-0", "late-1") == ["late-0", "late-1"]
    await cluster.client.create(GROUPS, group("late", 2))
    await cluster.bound("late-0", "late-1")


def volcano_job(name: str, replicas: int, script: str = "sleep infinity", **spec: Any) -> Json:
    template = {"spec": pod("x", script, {GPU: 8})["spec"]}
    tasks = [{"name": "worker", "replicas": replicas, "template": template}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "tasks": tasks, **spec},
    }


def state(obj: Json) -> str:
    return str(obj.get("status", {}).get("state", {}).get("phase", ""))


@on_volcano
async def test_a_volcano_job_runs_and_completes(cluster: SmallCluster) -> None:
    await cluster.client.create(JOBS, volcano_job("train", 2, "echo $VC_TASK_INDEX"))
    await cluster.until(f"{JOBS}/train", lambda obj: state(obj) == "Completed")
    assert await cluster.log("train-worker-1") == "1\n"


@on_volcano
async def test_a_volcano_job_that_cannot_be_enqueued_has_no_pods(cluster: SmallCluster) -> None:
    await cluster.client.create(JOBS, volcano_job("huge", 9))
    await cluster.until(f"{JOBS}/huge", lambda obj: state(obj) == "Pending")
    await asyncio.sleep(SETTLE)
    assert (await cluster.client.list(PODS))[0] == []


KAI_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
KAI_QUEUES = "/apis/scheduling.run.ai/v2/queues"


@in_cluster(hardware("n0"), hardware("n1"), addons=["kai"])
async def test_a_gang_of_kai_waits_for_its_queue_and_is_placed_whole(cluster: SmallCluster) -> None:
    spec = {"minMember": 2, "queue": "research"}
    await cluster.client.create(
        KAI_GROUPS, {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    )
    annotations = {"annotations": {"pod-group-name": "g"}}
    await cluster.start(
        *(pod(f"g-{n}", "sleep infinity", {GPU: 8}, spec={"schedulerName": "kai-scheduler"}, metadata=dict(annotations)) for n in range(2))
    )
    await asyncio.sleep(SETTLE)
    assert await cluster.unbound("g-0", "g-1") == ["g-0", "g-1"]
    await cluster.client.create(
        KAI_QUEUES, {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "research"}, "spec": {}}
    )
    assert sorted(await cluster.bound("g-0", "g-1")) == ["n0", "n1"]


@in_cluster(hardware("n0"), addons=["jobset"])
async def test_a_job_set_makes_its_jobs(cluster: SmallCluster) -> None:
    template = {"spec": pod("x", devices={GPU: 1})["spec"]}
    job = {"replicas": 2, "name": "worker", "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}}}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}, "spec": {"replicatedJobs": [job]}}
    await cluster.client.create("/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", body)
    for number in range(2):
        await cluster.until(
            f"/apis/batch/v1/namespaces/default/jobs/train-worker-{number}", lambda obj: obj.get("status", {}).get("active") == 2
        )


@in_cluster(hardware("n0"), addons=["lws"])
async def test_a_group_of_a_leader_worker_set_that_lost_a_worker_is_made_anew(cluster: SmallCluster) -> None:
    template = {"metadata": {}, "spec": {**pod("x", devices={GPU: 1})["spec"], "restartPolicy": "Always"}}
    group = {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": template}
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "g"}}
    await cluster.client.create(
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
        {**body, "spec": {"replicas": 1, "leaderWorkerTemplate": group}},
    )
    names = ("g-0", "g-0-0", "g-0-1")
    before = {name: (await cluster.phase(name, "Running"))["metadata"]["uid"] for name in names}
    await cluster.client.delete(f"{PODS}/g-0-1")

    def is_another(obj: Json) -> bool:
        return obj["metadata"]["uid"] not in before.values() and bool(obj["spec"].get("nodeName"))

    for name in names:
        await cluster.until(f"{PODS}/{name}", is_another)
