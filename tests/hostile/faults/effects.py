"""What may become of an answer on its way. Each is something that a client can notice: nobody can tell a perfect lie."""

import asyncio
import contextlib
import functools
import gzip
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from aiohttp import web

SIGN_IN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login' method='post'></form></body></html>"
JSON = "application/json"
TRICKLE_SECONDS = 0.5
_SPACES = b" " * (1 << 20)
DEPTH = 1_500


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the API server that was read to its end."""

    status: int
    body: bytes


class Forward(Protocol):
    """Passes the request on and reads the answer. Not called: the request never arrives. ``more`` is added to its query."""

    def __call__(self, **more: str) -> Awaitable[Whole]:
        """The answer."""


ANSWERS: web.AppKey[dict[str, Whole]] = web.AppKey("answers", dict)
"""What a proxy has kept of earlier answers, by path and query."""

Effect = Callable[[web.Request, Forward], Awaitable[web.StreamResponse]]


def answer(status: int, body: bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of the proxy's own."""
    return web.Response(status=status, body=body, headers={"Content-Type": content_type, **(headers or {})})


def refused(status: int, reason: str, headers: Mapping[str, str] | None = None, *, arrives: bool = False) -> Effect:
    """A Status in the API server's words, whether the request arrives or not."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        if arrives:
            await forward()
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


def changed(change: Callable[[Whole], web.Response]) -> Effect:
    """Another answer that is made of the server's."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        return change(await forward())

    return effect


def rewritten(change: Callable[[bytes], bytes]) -> Effect:
    """The server's answer with a body that was changed, when it is a good one."""
    return changed(lambda whole: answer(whole.status, change(whole.body) if whole.status < 300 else whole.body))


def with_status(status: int) -> Effect:
    """The server's answer with another status."""
    return changed(lambda whole: answer(status, whole.body))


def headed(**heads: str) -> Effect:
    """The right answer below heads of the proxy's own; ``Retry_After`` is the head ``Retry-After``."""
    return changed(lambda whole: answer(whole.status, whole.body, headers={name.replace("_", "-"): value for name, value in heads.items()}))


packed = changed(lambda whole: answer(whole.status, gzip.compress(whole.body), headers={"Content-Encoding": "gzip"}))
"""The right answer, compressed, though nobody asked for that."""


async def kept(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The first answer to this request again and again, as a proxy gives it that keeps answers."""
    answers = request.app[ANSWERS]
    if request.path_qs not in answers:
        answers[request.path_qs] = await forward()
    return answer(answers[request.path_qs].status, answers[request.path_qs].body)


async def not_done(request: web.Request, forward: Forward) -> web.StreamResponse:
    """What the server would have answered to a write that it never does."""
    whole = await forward(dryRun="All")
    document = _decoded(whole.body)
    if whole.status < 300 and isinstance(document.get("metadata"), dict) and document.get("kind") != "Status":
        document["metadata"].setdefault("resourceVersion", "1")
        document["metadata"].setdefault("uid", str(uuid.uuid4()))
    return answer(whole.status, json.dumps(document).encode())


async def done_in_earnest(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A dry-run whose query the proxy drops."""
    whole = await forward(dryRun="")
    return answer(whole.status, whole.body)


async def gone_before(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that tells of the deletion of all that is there, and then nothing."""
    listed = _decoded((await forward(watch="false")).body)
    kind = str(listed.get("kind", "")).removesuffix("List")
    gone = [{"kind": kind, "apiVersion": listed.get("apiVersion"), **item} for item in listed.get("items") or ()]
    return await _kept_open(request, *({"type": "DELETED", "object": item} for item in gone))


async def bookmarks(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that says nothing but that it lives."""
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
    return await _kept_open(request, {"type": "BOOKMARK", "object": pod})


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
    response = await _opened(request, whole.status, **{"Content-Length": str(len(whole.body))})
    await response.write(whole.body[: len(whole.body) // 2])
    return _gone(request)


async def late(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The right answer, after a while."""
    whole = await forward()
    await asyncio.sleep(0.7)
    return answer(whole.status, whole.body)


async def same_token(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A list that is never at its end: its first page again and again, with the same continue token."""
    whole = await forward(**{"continue": ""})
    document = _decoded(whole.body)
    if "items" in document:
        document.setdefault("metadata", {})["continue"] = "bm90IGF0IGl0cyBlbmQ"
    return answer(whole.status, json.dumps(document).encode())


async def trickle(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The right answer, a byte at a time, for as long as anybody listens."""
    whole = await forward()
    response = await _opened(request, whole.status)
    with contextlib.suppress(ConnectionError):
        for byte in whole.body:
            await response.write(bytes([byte]))
            await asyncio.sleep(TRICKLE_SECONDS)
    return response


async def endless(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A body that begins and never ends."""
    response = await _opened(request)
    with contextlib.suppress(ConnectionError):
        await response.write(b"{")
        while True:
            await response.write(_SPACES)
    return response


def events(*lines: bytes) -> Effect:
    """A watch that says this, and ends."""
    return replaced(200, b"".join(line + b"\n" for line in lines))


async def silent(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that opens and never says anything."""
    return await _kept_open(request)


# -- bodies ----------------------------------------------------------------------------------------------


def in_json(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A change of a body's document, or another document in its place."""

    @functools.wraps(change)
    def changed(body: bytes) -> bytes:
        document = _decoded(body)
        return json.dumps(change(document) or document).encode()

    return changed


@in_json
def other_kind(document: dict[str, Any]) -> None:
    """The right shape, and a kind that nobody asked for."""
    document["kind"], document["apiVersion"] = ("SecretList" if "items" in document else "Secret"), "v1"


@in_json
def without_items(document: dict[str, Any]) -> None:
    """A list without its items; of an object, without its metadata."""
    document.pop("items" if "items" in document else "metadata", None)


@in_json
def no_objects(document: dict[str, Any]) -> None:
    """A list of things that are not objects; an object whose metadata is true."""
    document.update({"items": [1, "x", None, []]} if "items" in document else {"metadata": True})


def deep(body: bytes) -> bytes:
    """Something nested beyond all sense in one object."""
    document = _decoded(body)
    _objects(document)[0]["nest"] = "PLACE"
    return json.dumps(document).replace('"PLACE"', "[" * DEPTH + "]" * DEPTH).encode()


@in_json
def metadata_alone(document: dict[str, Any]) -> None:
    """Objects without anything but their metadata, said to be such."""
    document["kind"], document["apiVersion"] = "PartialObjectMetadata" + "List" * ("items" in document), "meta.k8s.io/v1"
    for item in _objects(document):
        for field in ("spec", "status", "data"):
            item.pop(field, None)


@in_json
def elsewhere(document: dict[str, Any]) -> None:
    """The objects of another namespace."""
    for item in _objects(document):
        if (item.get("metadata") or {}).get("namespace"):
            item["metadata"]["namespace"] = "another"


@in_json
def another_uid(document: dict[str, Any]) -> None:
    """Objects of these names, and not those ones."""
    for item in _objects(document):
        if (item.get("metadata") or {}).get("uid"):
            item["metadata"]["uid"] = str(uuid.uuid4())


def _objects(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a list, or the one that the document is."""
    return document.get("items") or [document]


# -- discovery -------------------------------------------------------------------------------------------


async def in_part(request: web.Request, forward: Forward) -> web.StreamResponse:
    """Discovery as servers before Kubernetes 1.26 tell it, a document for each group; those of the operators are not to be had."""
    group = request.path.split("/")[2] if request.path.startswith("/apis/") else ""
    if _of_an_operator(group):
        return await refused(503, "ServiceUnavailable")(request, forward)
    whole = await forward()
    document = _decoded(whole.body)
    if document.get("kind") != "APIGroupDiscoveryList":
        return answer(whole.status, whole.body)
    announced = [(_group(item), [version["version"] for version in item["versions"]]) for item in document["items"]]
    if request.path == "/api":
        plain: dict[str, Any] = {"kind": "APIVersions", "versions": [version for _, versions in announced for version in versions]}
    else:
        groups = [
            {"name": name, "versions": [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]}
            for name, versions in announced
        ]
        plain = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    return answer(whole.status, json.dumps(plain).encode())


def stale(body: bytes) -> bytes:
    """Groups of operators whose servers did not answer the API server."""
    return _with_versions(body, lambda version: {**version, "freshness": "Stale", "resources": []})


def malformed(body: bytes) -> bytes:
    """Groups of operators whose versions are no versions."""
    return _with_versions(body, lambda version: version.get("version"))


@in_json
def partial(document: dict[str, Any]) -> None:
    """Neither the groups of operators nor one that every Kubernetes has."""
    groups = document.get("items") or ()
    document["items"] = [item for item in groups if _group(item) != "apps" and not _of_an_operator(_group(item))]


def _with_versions(body: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = _decoded(body)
    for item in document.get("items") or ():
        if _of_an_operator(_group(item)):
            item["versions"] = [change(version) for version in item["versions"]]
    return json.dumps(document).encode()


def _group(item: dict[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("name") or "")


def _of_an_operator(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except ValueError:  # the log of a pod
        return {}
    return document if isinstance(document, dict) else {}


async def _kept_open(request: web.Request, *stated: dict[str, Any]) -> web.StreamResponse:
    """A watch that tells this, and is silent then."""
    response = await _opened(request)
    for event in stated:
        await response.write(json.dumps(event).encode() + b"\n")
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.2)
    return response


async def _opened(request: web.Request, status: int = 200, **headers: str) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={"Content-Type": JSON, **headers})
    await response.prepare(request)
    return response


def _gone(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
