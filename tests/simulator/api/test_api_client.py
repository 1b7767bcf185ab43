"""The asynchronous client of the simulated programs, against the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fixtures.simulator.api.client import SYNCED, ApiClient
from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store.store import Store
from tests.simulator.api.background import drop_watches
from tests.simulator.api.compaction import compact
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

    async def __aenter__(self) -> Changes:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_every_verb() -> None:
    async def body(_server: SimulatedServer, client: ApiClient) -> None:
        created = await client.create(CONFIG_MAPS, config_map("c", data={"a": "1"}))
        created["data"] = {"a": "2"}
        assert (await client.update(f"{CONFIG_MAPS}/c", created))["data"] == {"a": "2"}
        assert (await client.patch(f"{CONFIG_MAPS}/c", {"data": {"b": "3"}}))["data"] == {"a": "2", "b": "3"}
        assert (await client.patch(f"{CONFIG_MAPS}/c", [{"op": "remove", "path": "/data/a"}], "json"))["data"] == {"b": "3"}
        applied = await client.patch(f"{CONFIG_MAPS}/c", config_map("c", data={"x": "y"}), "apply", {"fieldManager": "m"})
        assert applied["data"]["x"] == "y"
        items, version = await client.list(CONFIG_MAPS)
        assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("ConfigMap", "c")]
        assert int(version) > 0
        assert (await client.get(f"{CONFIG_MAPS}/c"))["data"]["b"] == "3"
        with pytest.raises(ApiError) as refused:
            await client.delete(f"{CONFIG_MAPS}/c", {"preconditions": {"uid": "wrong"}})
        assert (refused.value.code, refused.value.reason) == (409, "Conflict")
        await client.delete(f"{CONFIG_MAPS}/c")
        with pytest.raises(ApiError, match='configmaps "c" not found'):
            await client.get(f"{CONFIG_MAPS}/c")
        assert await client.text("/healthz") == "ok"

    serve(body)


def test_lists_are_read_in_pages() -> None:
    async def body(server: SimulatedServer, client: ApiClient) -> None:
        for index in range(1201):
            server.store.put_initial(config_map(f"c{index:04}"))
        items, _ = await client.list(CONFIG_MAPS)
        assert len(items) == 1201
        assert server.requests["list", "configmaps"] == 3

    serve(body)


def test_informer_follows_changes() -> None:
    async def body(_server: SimulatedServer, client: ApiClient) -> None:
        await client.create(CONFIG_MAPS, config_map("a"))
        async with Changes(client) as changes:
            assert await changes.take(2) == [("ADDED", "a"), (SYNCED, "")]
            await client.create(CONFIG_MAPS, config_map("b"))
            await client.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
            await client.delete(f"{CONFIG_MAPS}/b")
            assert await changes.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]

    serve(body)


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


def test_many_watchers_share_the_work() -> None:
    async def body(server: SimulatedServer, client: ApiClient) -> None:
        count, events = 100, 20

        async def read() -> int:
            seen = 0
            async for frame in client.watch(CONFIG_MAPS, "1"):
                seen += int(frame["type"] == "ADDED")
                if seen == events:
                    return seen
            return seen

        readers = [asyncio.create_task(read()) for _ in range(count)]
        for index in range(events):
            await client.create(CONFIG_MAPS, config_map(f"c{index}"))
        assert await asyncio.gather(*readers) == [events] * count

    serve(body)
