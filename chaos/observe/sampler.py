"""Reads the signals of an experiment at a steady pace, from before the fault until after the recovery.

With it the labels that nodes had in turn, because a state may begin and end between two samples, and a way to wait for a sample from
another process.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from chaos.model.conditions import Condition, JsonValue, holds
from chaos.observe.view import NoData, Reading, Sample, Signal
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.model.objects import labels_of
from fixtures.text import typed

_TAIL = 1 << 20
_PERIOD = 0.05


class _When(msgspec.Struct):
    at: str


def await_sample(samples: Path, seconds: float, since: datetime | None = None) -> bool:
    """Whether a sample that began after ``since`` (this call) is in the file within ``seconds``.

    A state that is undone before it was sampled was never seen, and what was expected of it could not be judged. The file is
    another process's, so it is looked at again and again.
    """
    begun, deadline = since or datetime.now(UTC), time.monotonic() + seconds
    while time.monotonic() < deadline:
        newest = _newest(samples)
        if newest is not None and newest > begun:
            return True
        threading.Event().wait(min(_PERIOD, max(deadline - time.monotonic(), 0.0)))
    return False


def _newest(samples: Path) -> datetime | None:
    """When the last complete sample in the file began; None without one."""
    try:
        with samples.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            lines = file.read().split(b"\n")
        return datetime.fromisoformat(typed.decode(lines[-2], _When).at)
    except (OSError, IndexError, msgspec.MsgspecError, ValueError):
        return None


MEMORY = "node.history"
"""Under this name a reading's memory holds the history, where there is one."""


class NodeHistory:
    """Watches the nodes that it is asked about, from the first question on. A context manager: the watches end with it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open = contextlib.ExitStack()
        self._watches: dict[str, Observation] = {}
        self._labels: dict[str, list[dict[str, str]]] = {}

    def __enter__(self) -> "NodeHistory":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def labels(self, name: str) -> list[dict[str, str]]:
        """Every set of labels that the node is known to have had, in order, without waiting for more.

        Raises :class:`fixtures.cluster.trouble.ApiTrouble`.
        """
        if name not in self._watches:
            self._watches[name] = self._open.enter_context(Observation(self._cluster, "nodes", fields=f"metadata.name={name}"))
        known = self._labels.setdefault(name, [])
        for objects in self._watches[name].news():
            for node in objects.values():
                if not known or known[-1] != labels_of(node):
                    known.append(labels_of(node))
        return known


MAX_TEXT = 300
MAX_VALUE = 256 << 10
"""Bytes of JSON that one signal may put into one sample."""
LAST = 5
"""Samples that tell how fast the cluster answers now."""


class Sampler:
    """A thread that reads every ``period`` seconds, or as fast as the cluster answers, and appends each sample to a file.

    A context manager: the thread ends with it. ``wall`` is the Unix time of its second 0. Samples that are late are a gap, which
    the verdict sees; none is made up.
    """

    def __init__(self, read: Callable[[], Reading], signals: Mapping[str, Signal], path: Path, period: float) -> None:
        self.samples: list[Sample] = []
        self.failure = ""
        self._read = read
        self._signals = dict(signals)
        self._path = path
        self._period = period
        self._began = 0.0
        self.wall = 0.0
        self._news = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self._began, self.wall = time.monotonic(), time.time()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread after the sample it is taking."""
        self._ended.set()
        self._thread.join(60)

    @property
    def now(self) -> float:
        """Seconds since the sampler began."""
        return time.monotonic() - self._began

    @property
    def pace(self) -> float:
        """Seconds from one sample to the next: the period, or what the slowest of the last ones took."""
        return max([self._period, *(sample.took for sample in self.samples[-LAST:])])

    def at(self, moment: str) -> float:
        """An RFC 3339 time in the sampler's seconds."""
        return datetime.fromisoformat(moment).timestamp() - self.wall

    def wait(self, ready: Callable[[list[Sample]], bool], deadline: float) -> bool:
        """Whether the samples become what is asked for before ``deadline`` (the sampler's seconds); looked at with every sample."""
        with self._news:
            while not ready(self.samples):
                remaining = deadline - self.now
                if remaining <= 0 or self.failure or self._ended.is_set():
                    return False
                self._news.wait(min(remaining, 1.0))
            return True

    def wake(self) -> None:
        """Let waiters look again, for a reason that is no sample."""
        with self._news:
            self._news.notify_all()

    def _run(self) -> None:
        try:
            with self._path.open("ab", buffering=0) as file:
                while not self._ended.is_set():
                    due = self.now + self._period
                    sample = self._sample()
                    file.write(msgspec.json.encode(sample) + b"\n")
                    with self._news:
                        self.samples.append(sample)
                        self._news.notify_all()
                    self._ended.wait(due - self.now)
        except Exception as error:  # said, and seen as a gap: a sampler that died proves nothing
            self.failure = f"{type(error).__name__}: {error}"[:MAX_TEXT]
            self.wake()

    def _sample(self) -> Sample:
        began = self.now
        values: dict[str, JsonValue] = {}
        errors: dict[str, str] = {}
        reading = self._read()
        for name, signal in self._signals.items():
            try:
                values[name] = _checked(signal(reading))
            except (NoData, ApiTrouble) as error:
                errors[name] = (str(error) or type(error).__name__)[:MAX_TEXT]
            except Exception as error:  # a signal that trips over what a cluster answers has no data; the others go on
                errors[name] = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        at = datetime.fromtimestamp(self.wall + began, UTC).isoformat(timespec="milliseconds")
        return Sample(t=round(began, 4), at=at, took=round(self.now - began, 4), values=values, errors=errors)


def _checked(value: Any) -> JsonValue:
    """The value as JSON, of bounded size: what is judged now is what a stored sample says later."""
    text = msgspec.json.encode(value, order="deterministic")
    if len(text) > MAX_VALUE:
        raise NoData(f"{len(text)} bytes of JSON are too many for a sample")
    return msgspec.json.decode(text)


def steady_since(samples: list[Sample], condition: Condition, baseline: Mapping[str, JsonValue]) -> float | None:
    """Where the last unbroken steady stretch begins, in the sampler's seconds; None when the newest sample is not steady."""
    since = None
    for sample in reversed(samples):
        if holds(condition, sample.values, baseline) is not True:
            break
        since = sample.t
    return since
