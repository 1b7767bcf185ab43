"""The ledger's copy in the cluster: bounded, written before the act with optimistic locking, and read again.

If it cannot be written, or a read does not show it, no act follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator

from chaos.cluster import namespaces
from chaos.cluster.requests import accepted, read, uid_of
from chaos.ledger.config_maps import CLOSED, COMPONENT, LINES, config_map_name, format_ranges, parse_run
from chaos.ledger.file import ExperimentView
from chaos.model.errors import MirrorRefused
from chaos.model.ledger_lines import Line, State, encode
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.versions_seen import STALE, number_of
from fixtures.kubernetes.models import Json
from fixtures.ownership import owned

MAX_BYTES = 512 << 10
"""Half of what a ConfigMap may hold (docs/facts/kubernetes-limits.md#sizes)."""

ARM_SECONDS = 20.0
_MARK_SECONDS = 5.0
_FIRST_PAUSE = 0.05
_LAST_PAUSE = 2.0
_NOT_KEPT = "the write was answered as done, and the cluster does not show it"


class Mirror:
    """Lines of one experiment in the ConfigMap of its run."""

    def __init__(self, cluster: Cluster, run_id: str, config_map: Json, experiment: str) -> None:
        self._cluster = cluster
        self._space = str(config_map["metadata"]["namespace"])
        self._run_id = run_id
        self._experiment = experiment
        self._uid = uid_of(config_map)
        self._version = str(config_map["metadata"]["resourceVersion"])
        found = parse_run(config_map).of(experiment)
        self._armed = {line.seq: line for line in found.lines if line.entry is not None}
        self._last = {line.seq: line for line in found.lines if line.entry is None}
        self._closed = set(found.closed)
        self._written = self._keys(config_map)
        self._sent: list[dict[str, str]] = []  # since the last one that was answered: any of them may have taken place
        self._unseen: list[dict[str, str]] = []  # what came before each one that was answered and that no read has shown yet
        self._lock = threading.Lock()

    @classmethod
    def open(cls, cluster: Cluster, run_id: str, experiment: str, *, seconds: float = ARM_SECONDS) -> Mirror:
        """The copy of an experiment of a run, created when it is the first. Raises :class:`MirrorRefused` when it cannot be created."""
        deadline = time.monotonic() + seconds
        trouble = ApiTrouble("Timeout", "no answer in time")
        for _ in _attempts(deadline):
            try:
                space = namespaces.ensure_shared(cluster)
                found = read(cluster, "configmaps", config_map_name(run_id), space)
                if found is None:
                    labels = {**owned.labels(run_id), **COMPONENT}
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map_name(run_id), "labels": labels}}
                    answer = cluster.create("configmaps", body, namespace=space)
                    if answer.reason == "AlreadyExists":
                        continue
                    found = accepted(answer, f"create ledger of run {run_id}").json()
                return cls(cluster, run_id, found, experiment)
            except ApiTrouble as refused:
                trouble = refused
                if refused.code == "Forbidden":
                    break
        raise MirrorRefused(f"ledger in the cluster: {trouble.message}")

    @property
    def known(self) -> ExperimentView:
        """What it holds."""
        with self._lock:
            lines = [line for seq in sorted(self._armed) for line in (self._armed[seq], self._last.get(seq)) if line is not None]
            return ExperimentView(experiment=self._experiment, lines=tuple(lines), closed=frozenset(self._closed))

    def next_seq(self) -> int:
        """The first number that no entry of this experiment has had in this run."""
        with self._lock:
            return max([0, *self._armed, *self._closed]) + 1

    def arm(self, line: Line) -> None:
        """Keep an armed line. Raises :class:`MirrorRefused` when the cluster does not hold it for certain."""
        with self._lock:
            self._armed[line.seq] = line
            size = sum(len(value.encode()) for value in self._wanted().values())
            if size > MAX_BYTES:
                del self._armed[line.seq]
                raise MirrorRefused(f"ledger in the cluster: it would hold {size} bytes, and {MAX_BYTES} is the most that it takes")
            trouble = self._write(time.monotonic() + ARM_SECONDS)
            if trouble:
                raise MirrorRefused(f"ledger in the cluster: {trouble}")

    def mark(self, line: Line) -> None:
        """Keep a later line, or try once: what could not be written goes with the next one."""
        with self._lock:
            if line.seq in self._armed and line.state is State.VERIFIED:
                del self._armed[line.seq]
                self._last.pop(line.seq, None)
            elif line.seq in self._armed:
                self._last[line.seq] = line
            if line.state is State.VERIFIED:
                self._closed.add(line.seq)
            self._write(time.monotonic() + _MARK_SECONDS, once=True)

    def agree(self, closed: Collection[int]) -> None:
        """Close entries that the run's file knows to be closed. Raises :class:`MirrorRefused` when that cannot be written."""
        with self._lock:
            for seq in [seq for seq in self._armed if seq in closed]:
                del self._armed[seq]
                self._last.pop(seq, None)
                self._closed.add(seq)
            if trouble := self._write(time.monotonic() + _MARK_SECONDS):
                raise MirrorRefused(f"ledger in the cluster: {trouble}")

    def flush(self, deadline: float) -> bool:
        """Write what is still unwritten, trying until ``deadline`` (monotonic seconds); whether a read shows that all of it is kept."""
        with self._lock:
            return not self._write(deadline)

    def _wanted(self) -> dict[str, str]:
        lines = [line for seq in sorted(self._armed) for line in (self._armed[seq], self._last.get(seq)) if line is not None]
        return {
            self._experiment + LINES: b"".join(map(encode, lines)).decode(),
            self._experiment + CLOSED: format_ranges(self._closed),
        }

    def _keys(self, config_map: Json) -> dict[str, str]:
        data = config_map.get("data")
        data = data if isinstance(data, dict) else {}
        return {key: str(data.get(key) or "") for key in (self._experiment + LINES, self._experiment + CLOSED)}

    def _write(self, deadline: float, *, once: bool = False) -> str:
        """Bring the ConfigMap to what is wanted, from the version that was read last. Empty, or why it is not so.

        An act rests on it, or the word that nothing is open, so a read has to show it. One that does not may be behind: it is asked
        again. ``once``: nothing rests on it yet, so one answer is believed until the next write.
        """
        wanted, trouble = self._wanted(), "no answer in time"
        least = number_of(self._version)
        for _ in _attempts(deadline):
            try:
                if (self._sent or (self._unseen and not once)) and (gone := self._read_again(least)):
                    return gone
                if self._written == wanted:
                    return ""
                self._sent.append(wanted)
                answer = self._send(wanted, deadline)
                if answer.ok:
                    if self._keys(answer.json()) != wanted:
                        return _NOT_KEPT
                    version = str(answer.json()["metadata"]["resourceVersion"])
                    if once:
                        self._unseen.append(self._written)
                        self._written, self._version, self._sent = wanted, version, []
                        return ""
                    trouble, least = _NOT_KEPT, max(least, number_of(version))
                    if gone := self._read_again(least):
                        return gone
                    if self._written == wanted:
                        return ""
                else:
                    trouble = f"{answer.status} {answer.message}"
                    if answer.status != 409:
                        return trouble
            except ApiTrouble as error:
                trouble = error.message
            if once:
                return trouble
        return trouble

    def _send(self, wanted: dict[str, str], deadline: float) -> Answer:
        path = self._cluster.path("configmaps", self._space, config_map_name(self._run_id))
        body = {"metadata": {"resourceVersion": self._version}, "data": wanted}
        seconds = max(min(_MARK_SECONDS, deadline - time.monotonic()), 0.5)
        return self._cluster.request("PATCH", path, body=body, content_type="application/merge-patch+json", attempts=1, seconds=seconds)

    def _read_again(self, least: int) -> str:
        """Take over the version that is there. Says so when it is not the one that was written: somebody else is at work on it.

        ``least`` is the version that was last answered. Raises ApiTrouble for an older one: the read is behind, or that answer was wrong.
        """
        found = read(self._cluster, "configmaps", config_map_name(self._run_id), self._space)
        if found is None or uid_of(found) != self._uid:
            return "it was deleted while the experiment ran"
        now = self._keys(found)
        if now != (self._sent or [self._written])[-1] and 0 < number_of(found["metadata"]["resourceVersion"]) < least:
            raise ApiTrouble(STALE, _NOT_KEPT)
        if now not in (self._written, *self._sent, *self._unseen):
            return "somebody else wrote it: another machine may be recovering this run"
        self._written, self._version = now, str(found["metadata"]["resourceVersion"])
        self._sent, self._unseen = [], []
        return ""


def _attempts(deadline: float) -> Iterator[int]:
    """Numbers of attempts, with a pause before each but the first, until the deadline."""
    attempt, pause = 0, _FIRST_PAUSE
    while True:
        yield attempt
        attempt += 1
        if time.monotonic() + pause >= deadline:
            return
        threading.Event().wait(pause)
        pause = min(pause * 2, _LAST_PAUSE)
