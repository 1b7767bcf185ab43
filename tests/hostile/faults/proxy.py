"""The proxy: it passes requests on, and where a fault is due it does something else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import msgspec
import yaml
import yarl
from aiohttp import web

from tests.hostile.faults.effects import ANSWERS, Effect, Whole
from tests.hostile.faults.requests import Asked, asked

_PASSED_ON = ("Accept", "Content-Type", "User-Agent", "Authorization")
_KEPT = ("Content-Type", "Warning", "Retry-After")
_START_SECONDS = 60.0


class Fault(msgspec.Struct, kw_only=True):
    """One fault: for requests of this verb and resource (shell patterns), after ``skip`` of them, ``times`` times."""

    name: str
    verb: str
    resource: str = "*"
    effect: Effect
    skip: int = 0
    times: int = 1
    met: int = 0

    def due(self, request: Asked) -> bool:
        """Whether it befalls this request. Counts the request."""
        if not fnmatchcase(request.verb, self.verb) or not fnmatchcase(request.resource, self.resource):
            return False
        self.met += 1
        return self.skip < self.met <= self.skip + self.times

    @property
    def befell(self) -> int:
        """How often it has befallen a request."""
        return max(0, min(self.met - self.skip, self.times))

    def __str__(self) -> str:
        return f"{self.name} of {self.verb} {self.resource} ({self.skip} spared, {self.times} times, befell {self.befell})"


class FaultProxy:
    """Serves on loopback, in a thread of its own, in front of ``server``. Use as a context manager."""

    def __init__(self, server: str, faults: Sequence[Fault] = ()) -> None:
        self._server = server
        self.faults = list(faults)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="fault-proxy")
        self.requests = 0
        self.asked: set[Asked] = set()
        self.address = ""

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(auto_decompress=True, timeout=aiohttp.ClientTimeout(total=None))
        application = web.Application(client_max_size=64 << 20)
        application[ANSWERS] = {}
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]  # answers to whoever has left
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        what = asked(request.method, request.path, request.query)
        self.asked.add(what)
        body = await request.read()
        due = [fault for fault in self.faults if fault.due(what)]
        if due:
            return await due[0].effect(request, lambda **more: self._whole(request, body, more))
        return await self._pass_on(request, body)

    async def _whole(self, request: web.Request, body: bytes, more: Mapping[str, str]) -> Whole:
        async with self._forwarded(request, body, more) as response:
            return Whole(status=response.status, body=await response.read())

    async def _pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        async with self._forwarded(request, body) as response:
            kept = [(name, value) for name, value in response.headers.items() if name in _KEPT]
            passed = web.StreamResponse(status=response.status)
            passed.headers.extend(kept)
            await passed.prepare(request)
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                async for chunk in response.content.iter_any():
                    await passed.write(chunk)
                await passed.write_eof()
            return passed

    def _forwarded(self, request: web.Request, body: bytes, more: Mapping[str, str] = MappingProxyType({})) -> Any:
        """Sent on, with ``more`` in its query. What is empty there is taken out of it."""
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        url = request.rel_url
        if more:
            url = url.without_query_params(*more).update_query({name: value for name, value in more.items() if value})
        return self._session.request(request.method, yarl.URL(self._server).join(url), data=body or None, headers=headers)


@contextlib.contextmanager
def through(kubeconfig: Path, target: Path, faults: Sequence[Fault]) -> Iterator[FaultProxy]:
    """Write a kubeconfig to ``target`` that leads to the cluster of ``kubeconfig`` through a proxy with these faults."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    with FaultProxy(config["clusters"][0]["cluster"]["server"], faults) as proxy:
        for entry in config["clusters"]:
            entry["cluster"]["server"] = proxy.address
        target.write_text(json.dumps(config), encoding="utf-8")
        yield proxy
