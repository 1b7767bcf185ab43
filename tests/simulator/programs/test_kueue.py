from __future__ import annotations

import asyncio
from typing import Any

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

GPU = "nvidia.com/gpu"
API = "kueue.x-k8s.io/v1beta2"
WORKLOADS = f"/apis/{API}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETTLE = 0.4


def queues(quota: int) -> list[Json]:
    amounts = {"cpu": "1000", "memory": "10Ti", GPU: str(quota)}
    flavor = {"name": "h100", "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]}
    groups = [{"coveredResources": list(amounts), "flavors": [flavor]}]
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return [
        {
            "apiVersion": API,
            "kind": "ResourceFlavor",
            "metadata": {"name": "h100"},
            "spec": {"nodeLabels": {"pool": "h100"}, "tolerations": tolerations},
        },
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "team"}, "spec": {"resourceGroups": groups}},
        {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "q", "namespace": "default"}, "spec": {"clusterQueue": "team"}},
    ]


def run(body: Any, behaviour: Behaviour | None = None, quota: int = 16, **more: Any) -> None:
    async def scenario() -> None:
        machines = [hardware("n0"), hardware("n1")]
        extra = more.pop("objects", [])
        async with small_cluster(machines, behaviour, addons=("kueue",), objects=[*queues(quota), *extra], **more) as cluster:
            for machine in machines:
                await cluster.client.patch(f"/api/v1/nodes/{machine.node}", {"metadata": {"labels": {"pool": "h100"}}})
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def members(name: str, count: int, total: int | None = None, script: str = "sleep infinity", devices: int = 8) -> list[Json]:
    metadata = {
        "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": name},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(total or count)},
    }
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    return [pod(f"{name}-{n}", script, {GPU: devices}, tolerations=[], spec=dict(gates), metadata=dict(metadata)) for n in range(count)]


def condition(obj: Json, kind: str) -> Json:
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def test_a_group_within_quota_is_admitted_with_the_flavors_tolerations() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 2))
        await cluster.bound("g-0", "g-1")
        running = await cluster.phase("g-0", "Running")
        assert running["spec"]["nodeSelector"] == {"pool": "h100"}
        assert "kueue.x-k8s.io/managed" in running["metadata"]["finalizers"]
        workload = await cluster.until(f"{WORKLOADS}/g", lambda obj: condition(obj, "Admitted").get("status") == "True")
        assert condition(workload, "QuotaReserved")["message"] == "Quota reserved in ClusterQueue team"
        assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"][GPU] == "16"
        await cluster.until(
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team", lambda obj: obj.get("status", {}).get("admittedWorkloads") == 1
        )

    run(body)


def test_a_group_above_quota_stays_gated_and_says_why() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("large", 3))
        held = await cluster.until(f"{WORKLOADS}/large", lambda obj: condition(obj, "QuotaReserved").get("status") == "False")
        refusal = condition(held, "QuotaReserved")
        assert refusal["reason"] == "ExceedsMaxQuota"
        assert refusal["message"].startswith("couldn't assign flavors to pod set ")
        assert refusal["message"].endswith("+ current podset request (24) > maximum capacity (16)")
        await cluster.start(*members("small", 2))
        await cluster.bound("small-0", "small-1")
        await cluster.start(*members("next", 1))
        waiting = await cluster.until(f"{WORKLOADS}/next", lambda obj: condition(obj, "QuotaReserved").get("status") == "False")
        assert condition(waiting, "QuotaReserved")["message"].endswith(
            "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
        )
        assert await cluster.unbound("large-0", "large-1", "large-2") == ["large-0", "large-1", "large-2"]

    run(body)


def test_an_incomplete_group_has_no_workload() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 1, total=2))
        await asyncio.sleep(SETTLE)
        assert (await cluster.client.list(WORKLOADS))[0] == []

    run(body)


def test_an_incomplete_group_goes_when_all_its_pods_are_deleted() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 2, total=3))
        for n in range(2):
            await cluster.until(f"{PODS}/g-{n}", lambda obj: obj["metadata"].get("finalizers"))
        await cluster.client.delete(f"{PODS}/g-0")
        await asyncio.sleep(SETTLE)
        assert (await cluster.client.get(f"{PODS}/g-0"))["metadata"]["deletionTimestamp"]
        await cluster.client.delete(f"{PODS}/g-1")
        for n in range(2):
            await cluster.gone(f"{PODS}/g-{n}")

    run(body)


def test_quota_above_the_nodes_breaks_the_gang() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 3))
        await cluster.until(f"{WORKLOADS}/g", lambda obj: condition(obj, "Admitted").get("status") == "True")
        await cluster.await_bound(2, "g-0", "g-1", "g-2")
        await asyncio.sleep(SETTLE)
        assert len(await cluster.unbound("g-0", "g-1", "g-2")) == 1

    run(body, quota=32)


def test_finalizers_hold_deleted_pods_until_the_workload_goes() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("large", 3))
        await cluster.until(f"{PODS}/large-0", lambda obj: obj["metadata"].get("finalizers"))
        await cluster.until(f"{WORKLOADS}/large", lambda obj: condition(obj, "QuotaReserved"))
        for n in range(3):
            await cluster.client.delete(f"{PODS}/large-{n}")
        await asyncio.sleep(SETTLE)
        assert (await cluster.client.get(f"{PODS}/large-0"))["metadata"]["deletionTimestamp"]
        await cluster.client.delete(f"{WORKLOADS}/large")
        for n in range(3):
            await cluster.gone(f"{PODS}/large-{n}")

    run(body)


def test_a_finished_group_frees_quota_and_pods() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("first", 2, script="sleep 0.3"))
        await cluster.bound("first-0")
        await cluster.start(*members("second", 2))
        await cluster.bound("second-0", "second-1")
        done = await cluster.until(f"{WORKLOADS}/first", lambda obj: condition(obj, "Finished").get("status") == "True")
        assert condition(done, "Finished")["reason"] == "Succeeded"
        await cluster.until(f"{PODS}/first-0", lambda obj: not obj["metadata"].get("finalizers"))

    run(body)


def test_a_suspended_job_is_started_when_quota_is_there() -> None:
    async def body(cluster: SmallCluster) -> None:
        template = {"spec": {**pod("x", "sleep 0.2", {GPU: 8}, tolerations=[])["spec"]}}
        spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
            "spec": spec,
        }
        await cluster.client.create(JOBS, job)
        done = await cluster.until(f"{JOBS}/train", lambda obj: condition(obj, "Complete").get("status") == "True")
        assert done["status"]["succeeded"] == 2
        workloads, _ = await cluster.client.list(WORKLOADS)
        assert workloads[0]["metadata"]["name"].startswith("job-train-")

    run(body)


def test_pods_that_do_not_get_ready_in_time_are_evicted() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady: {timeout: 1s, blockAdmission: true}\n"
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"controller_manager_config.yaml": text}}

    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 3))
        evicted = await cluster.until(f"{WORKLOADS}/g", lambda obj: condition(obj, "Evicted").get("status") == "True")
        assert condition(evicted, "Evicted")["reason"] == "PodsReadyTimeout"

    run(body, quota=32, objects=[config])


def test_defects_of_quota() -> None:
    async def one_by_one(cluster: SmallCluster) -> None:
        await cluster.start(*members("g", 3))
        await cluster.await_bound(2, "g-0", "g-1", "g-2")
        await asyncio.sleep(SETTLE)
        assert len(await cluster.unbound("g-0", "g-1", "g-2")) == 1

    run(one_by_one, Behaviour(quota_admits_pod_by_pod=True))
