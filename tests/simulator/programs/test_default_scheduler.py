import asyncio

from fixtures.simulator.api.objects import Json
from fixtures.simulator.client.program import Surroundings
from fixtures.simulator.client.watches import Watches
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.scheduling.cluster_state import ClusterState
from fixtures.simulator.scheduling.scheduler import DefaultScheduler
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, node, pod
from tests.watching import PATIENCE


def condition(obj: Json, kind: str) -> Json:
    return next((c for c in obj["status"].get("conditions", []) if c["type"] == kind), {})


@in_cluster()
async def test_a_gated_pod_waits_and_a_new_node_is_used(cluster: SmallCluster) -> None:
    await cluster.start(pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]}), pod("p"))
    await cluster.until(f"{PODS}/gated", lambda obj: condition(obj, "PodScheduled").get("reason") == "SchedulingGated")
    await cluster.until(f"{PODS}/p", lambda obj: condition(obj, "PodScheduled").get("message") == "no nodes available to schedule pods")
    await cluster.client.create("/api/v1/nodes", node(hardware("late"), taints=()))
    await cluster.phase("p", "Running")
    assert await cluster.unbound("gated", "p") == ["gated"]


def test_what_was_decided_last_is_written_last() -> None:
    class Slow:
        """The first write takes longest, as when it goes by a connection that must be opened."""

        def __init__(self) -> None:
            self.pauses = [0.2, 0.1, 0.0]
            self.written: list[str] = []

        async def patch(self, path: str, body: Json, kind: str) -> None:
            await asyncio.sleep(self.pauses.pop(0))
            self.written.append(body["status"]["conditions"][0]["message"])

        async def create(self, path: str, body: Json) -> Json:
            await asyncio.sleep(self.pauses.pop(0))
            self.written.append(body["kind"])
            return body

    async def body() -> None:
        client = Slow()
        behaviour = Behaviour(scheduler_writes_events=False)
        scheduler = DefaultScheduler(Surroundings(client, Watches(client), behaviour), ClusterState())  # type: ignore[arg-type]
        waiting = pod("p")
        waiting["metadata"] |= {"uid": "u", "namespace": "default"}
        scheduler._writes.write(scheduler._tell(waiting, "first"), waiting)
        scheduler._writes.write(scheduler._tell(waiting, "second"), waiting)
        scheduler._writes.write(scheduler._bind(waiting, "a"), waiting)
        await asyncio.gather(*scheduler._writes._running)
        assert client.written == ["first", "second", "Binding"]

    asyncio.run(asyncio.wait_for(body(), PATIENCE))
