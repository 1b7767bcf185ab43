"""A simulated server in a thread of its own, for callers that are not asynchronous."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.watching import PATIENCE

T = TypeVar("T")


def drop_watches(server: SimulatedServer, resource_key: str = "") -> int:
    """Break the connections of open watches (of one storage key), in the middle; returns how many."""
    chosen = [watcher for watcher in server.watchers if resource_key in ("", watcher.key)]
    for watcher in chosen:
        if watcher.transport is not None:
            watcher.transport.abort()
    return len(chosen)


def compact(store: Store) -> None:
    """Forget all history, as etcd's compaction does: watches from before and pages under way get 410."""
    store.compacted = store.version
    store.unread.clear()
    for collection in store._collections.values():
        collection.history.clear()


class BackgroundServer:
    """Context manager: runs ``server`` in an event loop in a daemon thread. ``url`` is its base URL.

    The store and the server belong to that loop: reach them through :meth:`call` and :meth:`run`.
    """

    def __init__(self, server: SimulatedServer) -> None:
        self.server = server
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated-api", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self.run(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.server.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something in the server's loop. Raises ``TimeoutError`` when that takes too long."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the server's loop, where it may touch the store."""

        async def called() -> T:
            return function()

        return self.run(called())
