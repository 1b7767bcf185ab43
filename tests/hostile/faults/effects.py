"""What may become of an answer on its way. Each is something that a client can notice: nobody can tell a perfect lie."""

import asyncio
import contextlib
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


def rewritten(change: Callable[[bytes], bytes]) -> Effect:
    """The server's answer with a body that was changed, when it is a good one."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        whole = await forward()
        return answer(whole.status, change(whole.body) if whole.status < 300 else whole.body)

    return effect


def with_status(status: int) -> Effect:
    """The server's answer with another status."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        return answer(status, (await forward()).body)

    return effect


async def packed(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The right answer, compressed, though nobody asked for that."""
    whole = await forward()
    return answer(whole.status, gzip.compress(whole.body), headers={"Content-Encoding": "gzip"})


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
    response = web.StreamResponse(headers={"Content-Type": JSON})
    listed = _decoded((await forward(watch="false")).body)
    kind = str(listed.get("kind", "")).removesuffix("List")
    await response.prepare(request)
    for item in listed.get("items") or ():
        told = {"type": "DELETED", "object": {"kind": kind, "apiVersion": listed.get("apiVersion"), **item}}
        await response.write(json.dumps(told).encode() + b"\n")
    return await _kept_open(request, response)


async def emptied(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A list without its objects."""
    whole = await forward()
    return answer(whole.status, json.dumps({**_decoded(whole.body), "items": []}).encode())


async def bookmarks(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch that says nothing but that it lives."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    told = {"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}}
    await response.write(json.dumps(told).encode() + b"\n")
    return await _kept_open(request, response)


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
    response = web.StreamResponse(status=whole.status, headers={"Content-Type": JSON})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for byte in whole.body:
            await response.write(bytes([byte]))
            await asyncio.sleep(TRICKLE_SECONDS)
    return response


async def endless(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A body that begins and never ends."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        await response.write(b"{")
        while True:
            await response.write(_SPACES)
    return response


def headed(**heads: str) -> Effect:
    """The right answer below heads of the proxy's own; ``Retry_After`` is the head ``Retry-After``."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        whole = await forward()
        return answer(whole.status, whole.body, headers={name.replace("_", "-"): value for name, value in heads.items()})

    return effect


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
    return await _kept_open(request, response)


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


def marked(body: bytes) -> bytes:
    """A byte order mark before it."""
    return b"\xef\xbb\xbf" + body


def twice(body: bytes) -> bytes:
    """Two documents."""
    return body + b"\n" + body


def with_a_tail(body: bytes) -> bytes:
    """Something behind it."""
    return body + b"<!-- served by proxy-7 -->"


def as_table(body: bytes) -> bytes:
    """Rows for people."""
    return json.dumps({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": [], "rows": []}).encode()


def metadata_alone(body: bytes) -> bytes:
    """Objects without anything but their metadata, said to be such."""
    document = _decoded(body)
    listed = "items" in document
    document["kind"], document["apiVersion"] = "PartialObjectMetadata" + "List" * listed, "meta.k8s.io/v1"
    return _stripped(document)


def without_content(body: bytes) -> bytes:
    """Objects without spec and status, said to be whole."""
    return _stripped(_decoded(body))


def _stripped(document: dict[str, Any]) -> bytes:
    for item in document.get("items") or [document]:
        for field in ("spec", "status", "data"):
            item.pop(field, None)
    return json.dumps(document).encode()


def elsewhere(body: bytes) -> bytes:
    """The objects of another namespace."""
    document = _decoded(body)
    for item in document.get("items") or [document]:
        if (item.get("metadata") or {}).get("namespace"):
            item["metadata"]["namespace"] = "another"
    return json.dumps(document).encode()


def another_uid(body: bytes) -> bytes:
    """Objects of these names, and not those ones."""
    document = _decoded(body)
    for one in document.get("items") or [document]:
        if (one.get("metadata") or {}).get("uid"):
            one["metadata"]["uid"] = str(uuid.uuid4())
    return json.dumps(document).encode()


def not_allowed(body: bytes) -> bytes:
    """The opposite of what a review says."""
    document = _decoded(body)
    if isinstance(document.get("status"), dict) and "allowed" in document["status"]:
        document["status"]["allowed"] = not document["status"]["allowed"]
    return json.dumps(document).encode()


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


def partial(body: bytes) -> bytes:
    """Neither the groups of operators nor one that every Kubernetes has."""
    document = _decoded(body)
    kept = [item for item in document.get("items") or () if _group(item) != "apps" and not _of_an_operator(_group(item))]
    return json.dumps({**document, "items": kept}).encode()


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


async def _kept_open(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.2)
    return response


def _gone(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
