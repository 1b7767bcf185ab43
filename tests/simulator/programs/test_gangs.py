from __future__ import annotations

import asyncio
from typing import Any

from fixtures.simulator.api.objects import Json
from fixtures.simulator.client.program import Surroundings
from fixtures.simulator.client.watches import Watches
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.gangs.volcano.scheduler import VolcanoLike
from fixtures.simulator.scheduling.cluster_state import ClusterState
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
SETTLE = 0.4  # seconds in which a wrong scheduler would have bound


def run(body: Any, behaviour: Behaviour | None = None, machines: int = 2, **more: Any) -> None:
    async def scenario() -> None:
        async with small_cluster([hardware(f"n{i}") for i in range(machines)], behaviour, addons=("volcano",), **more) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


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


async def gang(cluster: SmallCluster, name: str, count: int, devices: int = 8, **spec: Any) -> list[str]:
    await cluster.client.create(GROUPS, group(name, count, **spec))
    await cluster.start(*members(name, count, devices))
    return [f"{name}-{n}" for n in range(count)]


def conditions(obj: Json) -> dict[str, Json]:
    return {c["type"]: c for c in obj.get("status", {}).get("conditions", [])}


def test_a_gang_that_fits_is_bound_whole_and_one_that_does_not_not_at_all() -> None:
    async def body(cluster: SmallCluster) -> None:
        large = await gang(cluster, "large", 3)
        held = await cluster.until(
            f"{GROUPS}/large", lambda obj: "3 Pending" in conditions(obj).get("Unschedulable", {}).get("message", "")
        )
        assert held["status"]["phase"] == "Inqueue"
        assert conditions(held)["Unschedulable"]["reason"] == "NotEnoughResources"
        assert conditions(held)["Unschedulable"]["message"].startswith(
            "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, 2 Schedulable"
        )
        small = await gang(cluster, "small", 2)
        assert sorted(await cluster.bound(*small)) == ["n0", "n1"]
        await cluster.until(
            f"{GROUPS}/small", lambda obj: obj.get("status", {}).get("phase") == "Running" and "Scheduled" in conditions(obj)
        )
        await asyncio.sleep(SETTLE)
        assert await cluster.unbound(*large) == large
        events, _ = await cluster.client.list("/api/v1/namespaces/default/events")
        texts = {e["message"] for e in events if e["involvedObject"]["name"] == "small"}
        assert {"0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable", "pod group is ready, 2 Binding"} <= texts

    run(body)


def test_two_gangs_larger_than_half_run_one_after_the_other() -> None:
    async def body(cluster: SmallCluster) -> None:
        first = await gang(cluster, "first", 2)
        second = await gang(cluster, "second", 2)
        await cluster.bound(*first)
        await asyncio.sleep(SETTLE)
        assert await cluster.unbound(*second) == second
        for name in first:
            await cluster.client.delete(f"{PODS}/{name}")
        await cluster.bound(*second)

    run(body, machines=3)


def test_pods_that_come_before_their_group() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(*members("late", 2))
        await asyncio.sleep(SETTLE)
        assert await cluster.unbound("late-0", "late-1") == ["late-0", "late-1"]
        await cluster.client.create(GROUPS, group("late", 2))
        await cluster.bound("late-0", "late-1")

    run(body)


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


def test_a_volcano_job_runs_and_completes() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(JOBS, volcano_job("train", 2, "echo $VC_TASK_INDEX"))
        await cluster.until(f"{JOBS}/train", lambda obj: state(obj) == "Completed")
        assert await cluster.log("train-worker-1") == "1\n"

    run(body)


def test_a_volcano_job_that_cannot_be_enqueued_has_no_pods() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(JOBS, volcano_job("huge", 9))
        await cluster.until(f"{JOBS}/huge", lambda obj: state(obj) == "Pending")
        await asyncio.sleep(SETTLE)
        assert (await cluster.client.list(PODS))[0] == []

    run(body)


def test_a_lost_member_restarts_the_job_unless_the_controller_ignores_it() -> None:
    for ignores in (False, True):

        async def body(cluster: SmallCluster, ignores: bool = ignores) -> None:
            policies = [{"event": "PodEvicted", "action": "RestartJob"}]
            await cluster.client.create(JOBS, volcano_job("train", 2, policies=policies))
            await cluster.until(f"{JOBS}/train", lambda obj: state(obj) == "Running")
            survivor = await cluster.client.get(f"{PODS}/train-worker-1")
            await cluster.client.delete(f"{PODS}/train-worker-0")
            if ignores:
                await cluster.gone(f"{PODS}/train-worker-0")
                await asyncio.sleep(SETTLE)
                assert (await cluster.client.get(f"{PODS}/train-worker-1"))["metadata"]["uid"] == survivor["metadata"]["uid"]
                return
            await cluster.until(f"{JOBS}/train", lambda obj: obj["status"].get("retryCount") == 1)
            await cluster.until(f"{JOBS}/train", lambda obj: state(obj) == "Running")
            again = await cluster.phase("train-worker-1", "Running")
            assert again["metadata"]["uid"] != survivor["metadata"]["uid"]
            assert (await cluster.client.get(f"{JOBS}/train"))["status"]["retryCount"] == 1

        run(body, Behaviour(gang_ignores_lost_member=ignores))


def test_defects_of_the_gang_scheduler() -> None:
    async def partial(cluster: SmallCluster) -> None:
        names = await gang(cluster, "g", 3)
        await cluster.await_bound(2, *names)
        await asyncio.sleep(SETTLE)
        assert len(await cluster.unbound(*names)) == 1

    async def one_out(cluster: SmallCluster) -> None:
        names = await gang(cluster, "g", 2)
        await cluster.await_bound(1, *names)
        await asyncio.sleep(SETTLE)
        assert len(await cluster.unbound(*names)) == 1

    async def interleaved(cluster: SmallCluster) -> None:
        names = [*await gang(cluster, "a", 2), *await gang(cluster, "b", 2)]
        await cluster.await_bound(2, *names)
        await asyncio.sleep(SETTLE)
        left = await cluster.unbound(*names)
        assert sorted(name[0] for name in left) == ["a", "b"]

    run(partial, Behaviour(gang_binds_partially=True))
    run(one_out, Behaviour(gang_leaves_one_out=True))
    run(interleaved, Behaviour(gang_interleaves=True))


def test_what_was_decided_last_is_written_last() -> None:
    class Slow:
        """The first write takes longest, as when it goes by a connection that must be opened."""

        def __init__(self) -> None:
            self.pauses = [0.2, 0.1, 0.0]
            self.written: list[str] = []

        async def patch(self, path: str, body: Json, kind: str) -> None:
            await asyncio.sleep(self.pauses.pop(0))
            self.written.append(body["status"]["phase"])

    async def body() -> None:
        client = Slow()
        volcano = VolcanoLike(Surroundings(client, Watches(client)), ClusterState())  # type: ignore[arg-type]
        held = group("g", 1)
        held["metadata"] |= {"uid": "u", "namespace": "default"}
        for phase in ("Pending", "Inqueue", "Running"):
            volcano._tell(held, [], phase, "")
        await asyncio.gather(*volcano._writes._running)
        assert client.written == ["Pending", "Inqueue", "Running"]

    asyncio.run(asyncio.wait_for(body(), PATIENCE))
