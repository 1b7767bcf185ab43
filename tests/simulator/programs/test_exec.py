"""Further commands in containers of the embedded cluster: by stock kubectl, by the official client, by hostile ones."""

import asyncio
from collections.abc import Callable

import aiohttp
import msgspec
import pytest

from fixtures.simulator.streams import V5, Channels
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all


async def started(cluster: SmallCluster, script: str = "sleep infinity") -> None:
    await cluster.start(pod("p", script))
    await cluster.phase("p", "Running")


def commands(cluster: SmallCluster) -> list[str]:
    """Commands that run now beside those of the containers."""
    return sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("exec ") and not task.done())


async def until(true: Callable[[], bool]) -> None:
    """Give the loop its turns until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


class Socket:
    """A WebSocket to ``pods/p/exec`` that shows every message."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = socket

    async def rest(self) -> dict[int, bytes]:
        """What came by channel until the server closed."""
        found: dict[int, bytes] = {}
        async with asyncio.timeout(PATIENCE):
            async for message in self.raw:
                found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
        return found


async def connect(cluster: SmallCluster, session: aiohttp.ClientSession, query: str, protocol: str = V5) -> Socket:
    url = f"{cluster.server}{PODS}/p/exec?stdout=true&stderr=true&{query}"
    return Socket(await session.ws_connect(url, protocols=(protocol,), max_msg_size=0))


@in_cluster(hardware("a"))
async def test_the_end_of_the_container_ends_the_command(cluster: SmallCluster) -> None:
    await started(cluster, "until test -f /tmp/end; do sleep 0.01; done")
    async with aiohttp.ClientSession() as session:
        staying = await connect(cluster, session, "command=sleep&command=infinity")
        await until(lambda: commands(cluster) == ["exec sleep"])
        assert await (await connect(cluster, session, "command=sh&command=-c&command=echo%20x%3E/tmp/end")).rest()
        status = msgspec.json.decode((await staying.rest())[3])
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]
    assert commands(cluster) == []


@pytest.mark.parametrize("way", ["close", "vanish", "delete"])
@in_cluster(hardware("a"))
async def test_a_command_whose_client_or_pod_goes_is_ended(cluster: SmallCluster, way: str) -> None:
    await started(cluster)
    async with aiohttp.ClientSession() as session:
        socket = await connect(cluster, session, "command=sh&command=-c&command=while%20true;do%20echo%20x;sleep%200.01;done")
        assert (await socket.raw.receive()).data == b"\x01"
        await until(lambda: commands(cluster) == ["exec sh"])
        if way == "close":
            await socket.raw.close()
        elif way == "vanish":
            connection = socket.raw._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.abort()
        else:
            await cluster.client.delete(f"{PODS}/p")
        await until(lambda: not commands(cluster))


@in_cluster(hardware("a"))
async def test_a_program_waits_until_there_is_room_for_its_output(cluster: SmallCluster) -> None:
    await started(cluster)
    out, room, asked = bytearray(), asyncio.Semaphore(0), 0

    async def gate() -> None:
        nonlocal asked
        asked += 1
        await room.acquire()

    execution = await cluster.kubelets.execution("default", "p", "probe")
    channels = Channels(stdout=out.extend, stderr=out.extend, room=gate)
    task = asyncio.create_task(execution.execute(["sh", "-c", "for n in 1 2 3; do echo $n; done"], channels))
    for programs, shown in enumerate(("", "", "1\n", "1\n2\n")):
        await until(lambda programs=programs: asked > programs)  # type: ignore[misc]
        assert (out.decode(), task.done()) == (shown, False)
        room.release()
    assert (await task, bytes(out)) == (0, b"1\n2\n3\n")
