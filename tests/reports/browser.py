"""A headless Chromium driven over the DevTools protocol: just enough to look at a page and use it."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)
DEADLINE = 300.0
"""Seconds until a browser that says nothing is given up. A busy machine takes a minute for a large page."""


def find_browser() -> str | None:
    """Path of a Chromium or Chrome on PATH; None when there is none."""
    return next((path for name in ("chromium", "google-chrome", "chromium-browser") if (path := shutil.which(name))), None)


class Page:
    """One tab. Collects what the page requested and what it complained about."""

    def __init__(self, executable: str, profile: Path) -> None:
        self._executable = executable
        self._profile = profile
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._session = ""
        self.requests: list[str] = []
        self.problems: list[str] = []

    async def __aenter__(self) -> Page:
        self._process = await asyncio.create_subprocess_exec(
            self._executable,
            *FLAGS,
            f"--user-data-dir={self._profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            address = await asyncio.wait_for(self._address(), DEADLINE)
            self._http = aiohttp.ClientSession()
            self._socket = await self._http.ws_connect(address, max_msg_size=0)
            self._drain = asyncio.create_task(self._discard())
            self._reader = asyncio.create_task(self._read())
            target = await self.send("Target.createTarget", url="about:blank")
            attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
                await self.send(f"{domain}.enable")
        except BaseException:
            self._kill()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._reader.cancel()
        await self._socket.close()
        await self._http.close()
        self._kill()
        await self._process.wait()
        await self._drain

    def _kill(self) -> None:
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _address(self) -> str:
        assert self._process.stderr
        async for line in self._process.stderr:
            match = re.search(rb"DevTools listening on (ws://\S+)", line)
            if match:
                return match.group(1).decode()
        raise RuntimeError("the browser ended before it listened")

    async def _discard(self) -> None:
        assert self._process.stderr
        while await self._process.stderr.read(65536):
            pass

    async def send(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and wait for its answer. Raises ``RuntimeError`` with the protocol's message."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        return await asyncio.wait_for(answer, DEADLINE)

    async def _read(self) -> None:
        async for raw in self._socket:
            message = raw.json()
            if "id" in message:
                answer = self._answers.pop(message["id"])
                if "error" in message:
                    answer.set_exception(RuntimeError(message["error"]["message"]))
                else:
                    answer.set_result(message["result"])
            else:
                self._event(message["method"], message["params"])

    def _event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])

    async def open(self, url: str) -> None:
        """Load ``url`` and wait for its load event, with empty lists of requests and problems."""
        self.requests.clear()
        self.problems.clear()
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), DEADLINE)

    async def run(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression in the page. Raises ``RuntimeError`` when it throws."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")
