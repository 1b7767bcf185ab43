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
