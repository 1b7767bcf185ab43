"""A simulated server in a thread of its own, for callers that are not asynchronous."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

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

    def __init__(self, server: SimulatedServer, port: int = 0) -> None:
        self.server = server
        self.url = ""
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated-api", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.url = self.run(self.server.start(port=self._port))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.run(self.server.stop())
        finally:
            self._end()

    def run(self, work: Awaitable[T], timeout: float = PATIENCE) -> T:
        """Await something in the server's loop. Raises ``TimeoutError`` after ``timeout`` seconds."""

        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(timeout)

    def call(self, function: Callable[[], T], timeout: float = PATIENCE) -> T:
        """Call a function in the server's loop, where it may touch the store."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def called() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(called)
        return future.result(timeout)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
