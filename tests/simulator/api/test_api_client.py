"""The asynchronous client of the simulated programs, against the server."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fixtures.simulator.api.client import SYNCED, ApiClient
from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import compact, drop_watches
from tests.simulator.api.web import CONFIG_MAPS, config_map
from tests.troubles import Trouble
from tests.watching import PATIENCE

Body = Callable[[SimulatedServer, ApiClient], Awaitable[None]]


def serve(body: Body, **options: float) -> None:
    async def run() -> None:
        server = SimulatedServer(Store(), **options)  # type: ignore[arg-type]
        client = ApiClient(await server.start())
        try:
            async with asyncio.timeout(PATIENCE):
                await body(server, client)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(run())


class Changes:
    """What an informer saw, with a way to wait for it."""

    def __init__(self, client: ApiClient) -> None:
        self.seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.task = asyncio.create_task(self._read(client))

    async def _read(self, client: ApiClient) -> None:
        async for kind, obj in client.list_and_watch(CONFIG_MAPS):
            self.seen.put_nowait((kind, obj["metadata"]["name"] if obj else ""))

    async def take(self, count: int) -> list[tuple[str, str]]:
        return [await self.seen.get() for _ in range(count)]

    async def __aenter__(self) -> "Changes":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_informer_resumes_after_a_dropped_connection_without_listing_again() -> None:
    async def body(server: SimulatedServer, client: ApiClient) -> None:
        async with Changes(client) as changes:
            assert await changes.take(1) == [(SYNCED, "")]
            await client.create(CONFIG_MAPS, config_map("a"))
            assert await changes.take(1) == [("ADDED", "a")]
            assert drop_watches(server) == 1
            await client.create(CONFIG_MAPS, config_map("b"))
            assert await changes.take(1) == [("ADDED", "b")]
            assert server.requests["list", "configmaps"] == 1
            assert server.requests["watch", "configmaps"] >= 2

    serve(body)


def test_informer_lists_again_after_410_and_tells_what_it_missed() -> None:
    async def body(server: SimulatedServer, client: ApiClient) -> None:
        for name in ("changed", "gone", "same"):
            await client.create(CONFIG_MAPS, config_map(name))
        async with Changes(client) as changes:
            await changes.take(4)
            await client.create(CONFIG_MAPS, config_map("probe"))
            await changes.take(1)
            drop_watches(server)
            server.store.put_initial(config_map("changed", data={"k": "v"}))
            await client.delete(f"{CONFIG_MAPS}/gone")
            await client.create(CONFIG_MAPS, config_map("new"))
            compact(server.store)
            assert sorted(await changes.take(3)) == [("ADDED", "new"), ("DELETED", "gone"), ("MODIFIED", "changed")]
            assert server.requests["list", "configmaps"] == 2

    serve(body)


def test_informer_survives_a_server_in_trouble_and_gives_up_when_refused() -> None:
    async def body(server: SimulatedServer, client: ApiClient) -> None:
        for verb, status in (("list", 503), ("list", "drop"), ("watch", 429)):
            server.troubles.append(Trouble(verb, "configmaps", status))
        async with Changes(client) as changes:
            await changes.take(1)
            await client.create(CONFIG_MAPS, config_map("a"))
            assert await changes.take(1) == [("ADDED", "a")]
        server.troubles.append(Trouble("list", "configmaps", 403, message="no"))
        with pytest.raises(ApiError, match="no"):
            async for _ in client.list_and_watch(CONFIG_MAPS):
                pass

    serve(body)
