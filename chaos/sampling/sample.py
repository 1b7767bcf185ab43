"""One sample: what every signal of the experiment said at one moment, and the lists they said it from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from chaos.conditions import JsonValue
from fixtures.cluster import Cluster
from fixtures.kinds import KINDS
from fixtures.trouble import ApiTrouble

if TYPE_CHECKING:
    from chaos.target import Plan

Shape = TypeVar("Shape")
PAGE = 500
REQUEST_SECONDS = 10.0
"""A sampler that waits longer than this for one answer has a gap anyway."""

MAX_PAGES = 200


class NoData(Exception):
    """A signal has nothing to say in this sample; the text says why. It never counts as a value."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``samples.jsonl``. ``t``: seconds since the sampler began; ``took``: seconds the reading lasted."""

    t: float
    at: str
    took: float
    values: dict[str, JsonValue] = {}
    errors: dict[str, str] = {}


class Reading:
    """The cluster at one moment, read lazily: one LIST per kind, one GET per path, shared by all signals of the sample.

    ``memory`` lives as long as the sampler: what a signal has to remember from sample to sample, under its own name.
    """

    def __init__(self, cluster: Cluster, plan: Plan, memory: dict[str, Any]) -> None:
        self.cluster = cluster
        self.plan = plan
        self.memory = memory
        self._pages: dict[str, list[bytes] | NoData] = {}
        self._texts: dict[str, bytes | NoData] = {}
        self._decoded: dict[tuple[str, int], list[Any]] = {}

    def items(self, key: str) -> list[Any]:
        """All objects of a kind, as :mod:`fixtures.kinds` decodes it. Raises :class:`NoData`."""
        return self.items_as(key, KINDS[key].shape if key in KINDS else dict[str, Any])

    def items_as(self, key: str, shape: type[Shape]) -> list[Shape]:
        """All objects of a kind, decoded into a shape of the signal's own: the list is read once for all shapes."""
        cached = self._decoded.get((key, id(shape)))
        if cached is not None:
            return cached
        page_type: Any = msgspec.defstruct("_Items", [("items", list[shape] | None, None)])  # type: ignore[valid-type]
        decoder = msgspec.json.Decoder(page_type, strict=False)
        try:
            found = [item for body in self._raw(key) for item in decoder.decode(body).items or ()]
        except msgspec.MsgspecError as error:
            raise NoData(f"{key}: {error}") from None
        self._decoded[key, id(shape)] = found
        return found

    def text(self, path: str) -> bytes:
        """The body of one GET (a metrics endpoint through the pod proxy, a log). Raises :class:`NoData`."""
        if path not in self._texts:
            self._texts[path] = self._get(path)
        body = self._texts[path]
        if isinstance(body, NoData):
            raise NoData(str(body))
        return body

    def _get(self, path: str) -> bytes | NoData:
        try:
            answer = self.cluster.request("GET", path, accept="*/*", attempts=1, seconds=REQUEST_SECONDS)
        except ApiTrouble as trouble:
            return NoData(trouble.message)
        return answer.body if answer.ok else NoData(f"GET {path}: {answer.status} {answer.message}")

    def _raw(self, key: str) -> list[bytes]:
        if key not in self._pages:
            self._pages[key] = self._list(key)
        pages = self._pages[key]
        if isinstance(pages, NoData):
            raise NoData(str(pages))
        return pages

    def _list(self, key: str) -> list[bytes] | NoData:
        pages: list[bytes] = []
        token = ""
        for _ in range(MAX_PAGES):
            query = {"limit": str(PAGE)} | ({"continue": token} if token else {})
            try:
                answer = self.cluster.request("GET", self.cluster.path(key), query=query, attempts=1, seconds=REQUEST_SECONDS)
            except ApiTrouble as trouble:
                return NoData(f"{key}: {trouble.message}")
            if not answer.ok:
                return NoData(f"{key}: {answer.status} {answer.message}")
            pages.append(answer.body)
            try:
                token = msgspec.json.decode(answer.body, type=_Page).metadata.continue_
            except msgspec.MsgspecError as error:
                return NoData(f"{key}: {error}")
            if not token:
                return pages
        return NoData(f"{key}: more than {MAX_PAGES} pages")


class _PageMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMeta = msgspec.field(default_factory=_PageMeta)


class Signal(Protocol):
    """Gives one JSON value of a reading, or raises :class:`NoData`. Registered in ``chaos.sampling.signals.registry.SIGNALS`` by name."""

    def __call__(self, reading: Reading) -> JsonValue:
        """The value now."""
        ...
