"""One sample of the cluster: what every signal gave at one moment, and the lists that it reads, each once, filtered by the API server."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.plan import Plan, Target
from fixtures.cluster.answer import Expected, problem_of
from fixtures.cluster.client import ATTEMPTS, Cluster
from fixtures.cluster.paging import PAGE, Pages
from fixtures.cluster.trouble import TOO_LARGE, ApiTrouble
from fixtures.cluster.versions_seen import VersionsSeen
from fixtures.kubernetes.models import Json
from fixtures.model.objects import NotListed, name_of, namespace_of, text_of
from fixtures.text import json_text, typed
from fixtures.text.json_text import NotJson

REQUEST_SECONDS = 10.0
"""A sampler that waits longer than this for one answer has a gap anyway."""


class NoData(NotListed):
    """A signal has nothing to say in this sample; the text says why. It never counts as a value.

    ``code`` is that of the API's trouble, where that is the reason.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``samples.jsonl``. ``t``: seconds since the sampler began; ``took``: seconds the reading lasted."""

    t: float
    at: str
    took: float
    values: dict[str, JsonValue] = {}
    errors: dict[str, str] = {}

    @property
    def end(self) -> float:
        """When the reading ended."""
        return self.t + self.took


class Reading:
    """The cluster at one moment, read lazily: one GET per path, shared by all signals of the sample.

    ``memory`` lives as long as the sampler: what a signal has to remember from sample to sample, under its own name.
    """

    def __init__(self, cluster: Cluster, plan: Plan, memory: dict[str, Any]) -> None:
        self.cluster = cluster
        self.plan = plan
        self.memory = memory
        self._texts: dict[str, bytes | NoData] = {}

    @property
    def now(self) -> float:
        """Unix seconds by the cluster's clock, by this machine's where no answer tells it. Ages of what pods say are by it."""
        stated = self.cluster.server_clock.now()
        return time.time() if stated is None else stated

    def text(self, path: str) -> bytes:
        """The body of one GET (a metrics endpoint through the pod proxy, a log). Raises :class:`NoData`."""
        if path not in self._texts:
            try:
                self._texts[path] = _body(self.cluster, path, attempts=1)
            except NoData as error:
                self._texts[path] = error
        body = self._texts[path]
        if isinstance(body, NoData):
            raise NoData(str(body), body.code)
        return body


def _body(cluster: Cluster, path: str, attempts: int = ATTEMPTS) -> bytes:
    """The body of one GET. Raises :class:`NoData`."""
    try:
        answer = cluster.request("GET", path, accept="*/*", attempts=attempts, seconds=REQUEST_SECONDS)
    except ApiTrouble as trouble:
        raise NoData(trouble.message, trouble.code) from trouble
    if not answer.ok:
        raise NoData(f"GET {path}: {answer.status} {answer.message}")
    return answer.body


Signal = Callable[[Reading], JsonValue]
"""Gives one JSON value of a reading, or raises :class:`NoData`. Registered in ``chaos.observe.signals.SIGNALS`` by name."""


def target_gpu(reading: Reading) -> Target:
    """The target whose facts name the GPU of the fault. Raises :class:`NoData` where the plan names none."""
    target = next((target for target in reading.plan.targets if target.facts.get("uuid")), None)
    if target is None:
        raise NoData("the plan names no device")
    return target


_MEMORY = "view"


class _List(msgspec.Struct, rename="camel"):
    """A list whose objects are not looked into yet."""

    kind: str
    api_version: str
    items: list[msgspec.Raw] | None
    metadata: dict[str, Any]


_LIST = typed.decoder(_List)


class _Page(msgspec.Struct):
    """One answer to a list, looked through: its objects as they stand in it, and each by its text."""

    text: bytes
    token: str
    version: object
    items: list[Json]
    objects: dict[bytes, Any]


class View:
    """Objects of one moment as JSON, each selection read at most once. ``fetch`` gives the body of a GET or raises :class:`NoData`.

    ``before`` is the view that was looked at last: what reads as it did then is that very object, so nobody may change one.
    ``versions_seen`` is what the server has shown to everybody in this process: no list may be older. ``resources`` is all that it
    serves, by kubectl's names; None where that is not known.
    """

    def __init__(
        self,
        fetch: Callable[[str], bytes],
        path: Callable[..., str],
        before: "View | None" = None,
        serves: Callable[[str], bool] = lambda _: True,
        versions_seen: VersionsSeen | None = None,
        resources: frozenset[str] | None = None,
    ) -> None:
        self._fetch = fetch
        self._path = path
        self.serves = serves
        self.resources = resources
        self._versions_seen = versions_seen or VersionsSeen()
        self._lists: dict[str, list[Json]] = {}
        self._pages: dict[str, _Page] = {}
        self._objects: dict[bytes, Any] = {}
        self._known_pages = before._pages if before is not None else {}
        self._known = before._objects if before is not None else {}

    @classmethod
    def of(cls, cluster: Cluster) -> "View":
        """A view of the cluster now, for planning."""
        fetch = cache(partial(_body, cluster))
        return cls(fetch, cluster.path, serves=cluster.serves, versions_seen=cluster.versions_seen, resources=cluster.resources)

    @classmethod
    def at(cls, reading: Reading) -> "View":
        """The view of a sample's reading: one for all of its signals."""
        kept, cluster = reading.memory.get(_MEMORY), reading.cluster
        if kept is None or kept[0] is not reading:
            kept = reading.memory[_MEMORY] = (
                reading,
                cls(reading.text, cluster.path, kept[1] if kept else None, cluster.serves, cluster.versions_seen),
            )
        view: View = kept[1]
        return view

    def select(self, key: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """Objects of one selection, read page by page. Raises :class:`NoData` when the API gives no whole list."""
        query = {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        path = f"{self._path(key, namespace)}?{urlencode(query)}"
        if path not in self._lists:
            self._lists[path] = list(self._items(key, path))
        return self._lists[path]

    def _items(self, key: str, path: str) -> Iterator[Json]:
        token, pages = "", Pages(f"list {key}")
        place, _, query = path.partition("?")
        expected = Expected.of("GET", place, {**dict(parse_qsl(query)), "limit": str(PAGE)}, None)
        try:
            while True:
                page = pages.ask(partial(self._page, path, token, expected))
                yield from page.items
                places = [(namespace_of(item), name_of(item)) for item in page.items]
                token = pages.take(places, page.token, len(page.text))
                if not token:
                    return
        except NotJson as error:
            raise NoData(f"list {key}: no list in the answer: {error}") from None
        except ApiTrouble as trouble:
            raise NoData(trouble.message, trouble.code) from None

    def _page(self, listed: str, token: str, expected: Expected, limit: int) -> _Page:
        """The answer to one GET. Where nothing was written since the view before it has the same bytes, and was looked through.

        Raises ApiTrouble for one that is too large or older than what was shown before, NoData where there is none.
        """
        before = self._versions_seen.shown(expected.key)
        path = f"{listed}&{urlencode({'limit': limit, **({'continue': token} if token else {})})}".replace("?&", "?")
        try:
            text, known = self._fetch(path), self._known_pages.get(path)
        except NoData as error:
            if error.code == TOO_LARGE:
                raise ApiTrouble(error.code, str(error)) from None
            raise
        page = known if known is not None and known.text == text else self._read(text, expected)
        if not token:
            self._versions_seen.check_list(expected.key, page.version, before, f"GET {listed.removesuffix('?')}")
        self._pages[path] = page
        self._objects.update(page.objects)
        return page

    def _read(self, text: bytes, expected: Expected) -> _Page:
        body: _List = json_text.decode_with(_LIST, text)
        parts = [bytes(item) for item in body.items or ()]
        objects = {part: self._object(part) for part in parts}
        items = [objects[part] for part in parts]
        whole = {"kind": body.kind, "apiVersion": body.api_version, "metadata": body.metadata, "items": items}
        if problem := problem_of(whole, expected):
            raise NotJson(problem)
        token, version = text_of(body.metadata.get("continue")), body.metadata.get("resourceVersion")
        return _Page(text=text, token=token, version=version, items=items, objects=objects)

    def _object(self, text: bytes) -> Any:
        """What the text says; most of it was said in the view before, and decoding it was a third of what a sample costs."""
        kept = self._objects if text in self._objects else self._known
        return kept[text] if text in kept else msgspec.json.decode(text)

    def find(self, key: str, name: str, namespace: str = "") -> Json | None:
        """One object by name, or None. Raises :class:`NoData` when the API gives no answer."""
        found = self.select(key, namespace, fields=f"metadata.name={name}")
        return next((item for item in found if name_of(item) == name), None)

    def pods_on(self, nodes: Iterable[str]) -> list[Json]:
        """Pods that are bound to the nodes."""
        return [pod for node in nodes for pod in self.select("pods", fields=f"spec.nodeName={node}")]

    def pod_page(self, namespace: str, pod: str, port: int, path: str) -> str:
        """A page that a pod serves, through the API server's proxy. Raises :class:`NoData`."""
        return self._fetch(self._path("pods", namespace, f"{pod}:{port}", "proxy") + path).decode(errors="replace")

    def log_tail(self, namespace: str, pod: str, lines: int, *, stamped: bool = False) -> str:
        """The last lines of a pod's log; ``stamped``: each begins with its time and a space. Raises :class:`NoData`."""
        query = {"tailLines": str(lines), **({"timestamps": "true"} if stamped else {})}
        return self._fetch(f"{self._path('pods', namespace, pod, 'log')}?{urlencode(query)}").decode(errors="replace")
