"""One sample: what every signal of the experiment said at one moment."""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.plan import Plan
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble

REQUEST_SECONDS = 10.0
"""A sampler that waits longer than this for one answer has a gap anyway."""


class NoData(Exception):
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
        told = self.cluster.server_clock.now()
        return time.time() if told is None else told

    def text(self, path: str) -> bytes:
        """The body of one GET (a metrics endpoint through the pod proxy, a log). Raises :class:`NoData`."""
        if path not in self._texts:
            self._texts[path] = self._get(path)
        body = self._texts[path]
        if isinstance(body, NoData):
            raise NoData(str(body), body.code)
        return body

    def _get(self, path: str) -> bytes | NoData:
        try:
            answer = self.cluster.request("GET", path, accept="*/*", attempts=1, seconds=REQUEST_SECONDS)
        except ApiTrouble as trouble:
            return NoData(trouble.message, trouble.code)
        return answer.body if answer.ok else NoData(f"GET {path}: {answer.status} {answer.message}")


class Signal(Protocol):
    """Gives one JSON value of a reading, or raises :class:`NoData`. Registered in ``chaos.observe.signals.registry.SIGNALS`` by name."""

    def __call__(self, reading: Reading) -> JsonValue:
        """The value now."""
        ...
