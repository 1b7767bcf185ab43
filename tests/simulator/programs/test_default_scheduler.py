import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.client.program import OrderedWrites, Surroundings
from fixtures.simulator.client.watches import NODES, Watches
from fixtures.simulator.client.watches import PODS as ALL_PODS
from fixtures.simulator.pods.state import condition
from fixtures.simulator.scheduling.fit import ClusterState
from fixtures.simulator.scheduling.scheduler import DefaultScheduler
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, node, pod
from tests.watching import PATIENCE


@in_cluster()
async def test_a_gated_pod_waits_and_a_new_node_is_used(cluster: SmallCluster) -> None:
    await cluster.start(pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]}), pod("p"))
    await cluster.until(f"{PODS}/gated", lambda obj: condition(obj, "PodScheduled").get("reason") == "SchedulingGated")
    await cluster.until(f"{PODS}/p", lambda obj: condition(obj, "PodScheduled").get("message") == "no nodes available to schedule pods")
    await cluster.client.create("/api/v1/nodes", node(hardware("late"), taints=()))
    await cluster.phase("p", "Running")
    assert await cluster.unbound("gated", "p") == ["gated"]


def test_what_was_decided_last_is_written_last() -> None:
    """The first write takes longest, as when it goes by a connection that must be opened."""

    async def body() -> None:
        written: list[int] = []

        async def write(number: int) -> None:
            await asyncio.sleep(0.1 - number / 20)
            written.append(number)

        writes = OrderedWrites(3)
        for number in range(3):
            writes.write(write(number), {"metadata": {"uid": "u"}})
        await asyncio.gather(*writes._running)
        assert written == [0, 1, 2]

    asyncio.run(asyncio.wait_for(body(), PATIENCE))


# -- what becomes of a pod whose binding the API refused ---------------------------------------------

GPU = "nvidia.com/gpu"


class Refused(Exception):
    code = 404


class Api:
    """Stands for the API server: events go out by :meth:`tell`, each binding waits for an answer of the test."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Queue[tuple[str, Json]]] = {ALL_PODS: asyncio.Queue(), NODES: asyncio.Queue()}
        self.bindings: asyncio.Queue[tuple[str, asyncio.Future[bool]]] = asyncio.Queue()

    def tell(self, path: str, event: str, obj: Json) -> None:
        self._events[path].put_nowait((event, obj))

    async def list_and_watch(self, path: str, **_: object) -> AsyncIterator[tuple[str, Json]]:
        while True:
            yield await self._events[path].get()

    async def create(self, path: str, obj: Json, params: Mapping[str, str] | None = None) -> Json:
        if path.endswith("/binding"):
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self.bindings.put_nowait((obj["metadata"]["uid"], answer))
            if not await answer:
                raise Refused
        return obj

    async def patch(self, path: str, body: Any, kind: str = "merge", params: Mapping[str, str] | None = None) -> Json:
        return {}

    async def binding(self) -> tuple[str, asyncio.Future[bool]]:
        """The next binding that is asked for: the pod's uid and where to put the answer."""
        return await asyncio.wait_for(self.bindings.get(), PATIENCE)


def waiting(uid: str) -> Json:
    made = pod("p", devices={GPU: 1})
    made["metadata"] |= {"namespace": "default", "uid": uid}
    return made


def deleted(made: Json) -> Json:
    return {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}}


@contextlib.asynccontextmanager
async def scheduling(*pods: Json) -> AsyncIterator[tuple[Api, ClusterState]]:
    """A scheduler over one node of one device."""
    api = Api()
    machine = node(hardware("a", 1))
    machine["metadata"]["uid"] = "node-a"
    api.tell(NODES, "ADDED", machine)
    api.tell(NODES, "SYNCED", {})
    for made in pods:
        api.tell(ALL_PODS, "ADDED", made)
    api.tell(ALL_PODS, "SYNCED", {})
    watches = Watches(api)  # type: ignore[arg-type]
    state = ClusterState.watching(watches)
    running = asyncio.create_task(DefaultScheduler(Surroundings(api, watches), state).run())  # type: ignore[arg-type]
    try:
        yield api, state
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await watches.close()


async def settled(times: int = 50) -> None:
    """Let every task that can go on do so: nothing here waits for time."""
    for _ in range(times):
        await asyncio.sleep(0)


def gone() -> list[Any]:
    old, successor = waiting("old"), waiting("new")
    return [
        pytest.param([("DELETED", old)], id="deleted"),
        pytest.param([("DELETED", old), ("ADDED", successor)], id="replaced"),
        pytest.param([("MODIFIED", deleted(old))], id="being deleted"),
    ]


@pytest.mark.parametrize("changes", gone())
def test_a_pod_that_went_while_its_binding_was_under_way_is_never_placed_again(changes: list[tuple[str, Json]]) -> None:
    async def scenario() -> None:
        async with scheduling(waiting("old")) as (api, state):
            uid, answer = await api.binding()
            assert uid == "old"
            for event, obj in changes:
                api.tell(ALL_PODS, event, obj)
            await settled()
            answer.set_result(False)
            await settled()
            asked = [await api.binding()] if len(changes) == 2 else []  # the successor gets the device, not the pod before it
            assert [uid for uid, _ in asked] == ["new"] * len(asked)
            for _, again in asked:
                again.set_result(True)
            for labels in ({"x": "1"}, {"x": "2"}):  # the cluster changes: everything that waits is tried again
                machine = node(hardware("a", 1))
                machine["metadata"]["labels"] |= labels
                api.tell(NODES, "MODIFIED", machine)
                await settled()
            assert api.bindings.empty()
            assert state.nodes["a"].free(GPU) == (0 if asked else 1000)

    asyncio.run(scenario())


def test_a_pod_that_is_still_there_is_tried_again() -> None:
    async def scenario() -> None:
        async with scheduling(waiting("old")) as (api, state):
            (await api.binding())[1].set_result(False)
            uid, answer = await api.binding()
            assert uid == "old"
            answer.set_result(True)
            await settled()
            assert api.bindings.empty()
            assert state.nodes["a"].free(GPU) == 0

    asyncio.run(scenario())
