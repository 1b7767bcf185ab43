"""What may become of an answer on its way. Each is something that a client can notice: nobody can tell a perfect lie."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

SIGN_IN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login' method='post'></form></body></html>"
JSON = "application/json"
TRICKLE_SECONDS = 0.5
DEPTH = 1_500


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the API server that was read to its end."""

    status: int
    body: bytes


Forward = Callable[[], Awaitable[Whole]]
"""Passes the request on and reads the answer. Not called: the request never arrives."""

Effect = Callable[[web.Request, Forward], Awaitable[web.StreamResponse]]


def answer(status: int, body: bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of the proxy's own."""
    return web.Response(status=status, body=body, headers={"Content-Type": content_type, **(headers or {})})


def refused(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Effect:
    """A Status in the API server's words, and the request never arrives."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "by the proxy", "code": status}
        return answer(status, json.dumps(body).encode(), headers=headers)

    return effect


def replaced(status: int, body: bytes, content_type: str = JSON, *, arrives: bool = False) -> Effect:
    """Another answer in the place of the server's, whether the request arrives or not."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        if arrives:
            await forward()
        return answer(status, body, content_type)

    return effect


def rewritten(change: Callable[[bytes], bytes]) -> Effect:
    """The server's answer with a body that was changed, when it is a good one."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        whole = await forward()
        return answer(whole.status, change(whole.body) if whole.status < 300 else whole.body)

    return effect


def dropped(*, arrives: bool) -> Effect:
    """The connection breaks without an answer: before the request arrives, or after."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        if arrives:
            await forward()
        return _gone(request)

    return effect


async def half(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The head promises a whole body, and the connection breaks within it."""
    whole = await forward()
    response = web.StreamResponse(status=whole.status, headers={"Content-Type": JSON, "Content-Length": str(len(whole.body))})
    await response.prepare(request)
    await response.write(whole.body[: len(whole.body) // 2])
    return _gone(request)


async def late(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The right answer, after a while."""
    whole = await forward()
    await asyncio.sleep(0.7)
    return answer(whole.status, whole.body)


async def trickle(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The right answer, a byte at a time, for as long as anybody listens."""
    whole = await forward()
    response = web.StreamResponse(status=whole.status, headers={"Content-Type": JSON})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for byte in whole.body:
            await response.write(bytes([byte]))
            await asyncio.sleep(TRICKLE_SECONDS)
    return response


async def ends_at_once(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that opens and ends."""
    return answer(200, b"")


def events(*lines: bytes) -> Effect:
    """A watch that says this, and ends."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        return answer(200, b"".join(line + b"\n" for line in lines))

    return effect


async def silent(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that opens and never says anything."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.2)
    return response


# -- bodies ----------------------------------------------------------------------------------------------


def cut(body: bytes) -> bytes:
    """Half of it, as if that were all."""
    return body[: len(body) // 2]


def other_kind(body: bytes) -> bytes:
    """The right shape, and a kind that nobody asked for."""
    document = _decoded(body)
    document["kind"], document["apiVersion"] = ("SecretList" if "items" in document else "Secret"), "v1"
    return json.dumps(document).encode()


def without_items(body: bytes) -> bytes:
    """A list without its items; of an object, without its metadata."""
    document = _decoded(body)
    document.pop("items" if "items" in document else "metadata", None)
    return json.dumps(document).encode()


def no_objects(body: bytes) -> bytes:
    """A list of things that are not objects; an object whose metadata is true."""
    document = _decoded(body)
    document.update({"items": [1, "x", None, []]} if "items" in document else {"metadata": True})
    return json.dumps(document).encode()


def deep(body: bytes) -> bytes:
    """Something nested beyond all sense in one object."""
    nest = "[" * DEPTH + "]" * DEPTH
    document = _decoded(body)
    target = document["items"][0] if document.get("items") else document
    target["nest"] = "PLACE"
    return json.dumps(document).replace('"PLACE"', nest).encode()


def same_token(body: bytes) -> bytes:
    """A list that is never at its end."""
    document = _decoded(body)
    if "items" in document:
        document.setdefault("metadata", {})["continue"] = "bm90IGF0IGl0cyBlbmQ"
    return json.dumps(document).encode()


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except ValueError:  # the log of a pod
        return {}
    return document if isinstance(document, dict) else {}


def _gone(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
