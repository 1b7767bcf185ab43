"""Ledgers in the cluster: one ConfigMap for each run, so that any machine can undo what the run has changed.

For each experiment there are two keys: ``<id>.jsonl`` with the lines of its open entries, and ``<id>.verified`` with the numbers of
those that are closed (``1-14,16``), which is all that is kept of them. A running experiment's copy is bounded, written before the act with
optimistic locking, and read again: if it cannot be written, or a read does not show it, no act follows.
"""

import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from chaos.cluster import namespaces
from chaos.cluster.requests import accepted, read
from chaos.ledger.file import ExperimentView, parse
from chaos.model.records import Entry, LedgerError, Line, MirrorRefused, State, encode, number_of_change
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.versions_seen import STALE, number_of
from fixtures.kubernetes.models import Json
from fixtures.model.objects import labels_of, name_of, uid_of, version_of
from fixtures.ownership import owned
from fixtures.ownership.proof_record import ProofView
from fixtures.ownership.read_proofs import read_proofs
from fixtures.text.sentences import plain

LINES = ".jsonl"
CLOSED = ".verified"
PREFIX = "gpu-conformance-chaos-"
"""What the name of a run's ledger has before the run's id."""

COMPONENT = {"app.kubernetes.io/component": "chaos-ledger"}

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_NUMBERS = 100_000
"""Closed entries of one ConfigMap. Whoever writes the ranges decides how many there would be."""

_FEW = 8
"""How many unproven ledgers are read, to report them. Written in escapes, each of them may be a body of several megabytes."""


def config_map_name(run_id: str) -> str:
    """Name of a run's ConfigMap."""
    return f"{PREFIX}{run_id}"


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run's ConfigMap."""

    run_id: str
    uid: str
    version: str
    experiments: tuple[ExperimentView, ...]

    @property
    def open_entries(self) -> list[Entry]:
        """Open entries of all its experiments."""
        return [entry for known in self.experiments for entry in known.open_entries]

    def of(self, experiment: str) -> ExperimentView:
        """One experiment; an empty view of one that it does not hold."""
        return next((known for known in self.experiments if known.experiment == experiment), ExperimentView(experiment=experiment))


def parse_run(config_map: Json) -> RunView:
    """Read a ConfigMap. Raises :class:`LedgerError` when it is no ledger, or its name, its label and its entries do not agree on whose:

    nobody may guess what it said. That it can be read says nothing of who wrote it (:mod:`chaos.ledger.authentic`).
    """
    name = plain(name_of(config_map))
    run_id = labels_of(config_map).get(owned.RUN_LABEL, "")
    if not owned.is_run_id(run_id) or name != config_map_name(run_id):
        raise LedgerError(f"ConfigMap {name}: its label says run {plain(run_id)!r}, which is not the run of its name")
    data = config_map.get("data") or {}
    if not isinstance(data, dict):
        raise LedgerError(f"ConfigMap {name}: its data are no object")
    texts = {str(key): str(value) for key, value in data.items()}
    names = dict.fromkeys(key.removesuffix(suffix) for key in texts for suffix in (LINES, CLOSED) if key.endswith(suffix))
    experiments: list[ExperimentView] = []
    left = _MOST_NUMBERS
    for experiment in names:
        experiments.append(_experiment(name, experiment, texts, left))
        left -= len(experiments[-1].closed)
    found = RunView(
        run_id=run_id,
        uid=uid_of(config_map),
        version=version_of(config_map),
        experiments=tuple(experiments),
    )
    for known in found.experiments:
        for entry in known.open_entries:
            if (entry.run_id, entry.experiment) != (run_id, known.experiment):
                whose = plain(f"{entry.experiment} of run {entry.run_id}")
                raise LedgerError(f"ConfigMap {name}: {plain(known.experiment)}{LINES} holds an entry of {whose}")
    return found


def _experiment(where: str, experiment: str, data: Mapping[str, str], most: int) -> ExperimentView:
    content = data.get(experiment + LINES, "").encode()
    lines, kept = parse(content, f"ConfigMap {where}")
    if kept < len(content):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} ends within a line")
    entries = [line.seq for line in lines if line.entry is not None]
    armed = set(entries)
    if len(armed) < len(entries):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} holds two entries of one number")
    if any(line.seq not in armed or line.state is State.VERIFIED for line in lines):
        raise LedgerError(f"ConfigMap {where}: {experiment}{LINES} has lines of entries that it does not hold open")
    return ExperimentView(experiment=experiment, lines=tuple(lines), closed=parse_ranges(data.get(experiment + CLOSED, ""), most))


def parse_ranges(text: str, most: int = _MOST_NUMBERS) -> frozenset[int]:
    """``1-3,7`` as numbers, ``most`` at most, each range counted in full. Raises :class:`LedgerError` for anything else."""
    found: set[int] = set()
    left = most
    for part in filter(None, text.strip().split(",")):
        match = _RANGE.fullmatch(part)
        numbered = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        left -= len(numbered)
        if not numbered or left < 0:
            raise LedgerError(f"closed entries: {plain(text[:60])!r} is no list of numbers")
        found.update(numbered)
    return frozenset(found)


def format_ranges(closed: Iterable[int]) -> str:
    """Numbers as ``1-3,7``."""
    parts: list[list[int]] = []
    for number in sorted(closed):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def readable_runs(cluster: Cluster, space: str) -> tuple[list[RunView], dict[str, str]]:
    """What look like ledgers in a namespace and can be read, and what is wrong with each that cannot, by the run that its name says.

    Anybody who can write ConfigMaps may have made any of them. Raises ApiTrouble.
    """
    return _sorted(_listed(cluster, space))


def find_run(cluster: Cluster, run_id: str) -> list[str]:
    """The run's ledger in the shared namespace, as a line for people; none when it is not there. Raises ApiTrouble."""
    space, name = namespaces.find_shared(cluster), config_map_name(run_id)
    return [f"configmaps {space}/{name}"] if space and read(cluster, "configmaps", name, space) is not None else []


def are_needed(cluster: Cluster, space: str) -> bool:
    """Whether a ledger of the shared namespace has open entries or has lost some, or cannot be read. Raises ApiTrouble."""
    runs, unreadable = readable_runs(cluster, space)
    proofs = read_proofs(cluster)
    return bool(unreadable) or any(_is_needed(run, proofs) for run in runs)


def _is_needed(run: RunView, proofs: Mapping[str, ProofView]) -> bool:
    """Whether something of the run is open. Where its proof lists an entry that is gone, the ledger still tells what is closed."""
    if run.open_entries or run.run_id not in proofs:
        return bool(run.open_entries)
    changes = proofs[run.run_id].changes
    listed = (number_of_change(changes.get(one, "")) for one in proofs[run.run_id].digests)
    return any(number not in run.of(experiment).closed for experiment, number in listed)


def foreign_config_maps(cluster: Cluster, space: str, runs: Collection[str]) -> tuple[list[RunView], dict[str, str]]:
    """The same in a namespace that is not known to be ours: the ledgers of some runs, and the first few of any others.

    Whoever made it may put as much into it as he likes. Raises ApiTrouble.
    """
    named = [found for run in sorted(runs) if (found := read(cluster, "configmaps", config_map_name(run), space)) is not None]
    names = {name_of(item) for item in named}
    few = _listed(cluster, space, limit=_FEW)[:_FEW]
    return _sorted([*named, *(item for item in few if name_of(item) not in names)])


def _listed(cluster: Cluster, space: str, limit: int = 0) -> list[Json]:
    selector = ",".join(f"{key}={value}" for key, value in {owned.MANAGED_BY: owned.SUITE, **COMPONENT}.items())
    query = {"labelSelector": selector, **({"limit": str(limit)} if limit else {})}
    answer = cluster.request("GET", cluster.path("configmaps", space), query=query)
    return [] if answer.status == 404 else list(accepted(answer, "list ledgers").json().get("items") or ())


def _sorted(items: Iterable[Json]) -> tuple[list[RunView], dict[str, str]]:
    found, unreadable = [], {}
    for item in items:
        try:
            found.append(parse_run(item))
        except LedgerError as error:
            unreadable[name_of(item).removeprefix(PREFIX)] = str(error)
    return found, unreadable


def remove_clean(cluster: Cluster, space: str, run_id: str = "") -> None:
    """Delete ledgers that nobody needs (of one run, or of all) from the shared namespace. Raises ApiTrouble."""
    proofs = read_proofs(cluster)
    for run in readable_runs(cluster, space)[0]:
        if not _is_needed(run, proofs) and run_id in ("", run.run_id):
            answer = cluster.delete("configmaps", config_map_name(run.run_id), space, uid=run.uid)
            if answer.status not in (404, 409):
                accepted(answer, f"delete ledger of run {run.run_id}")


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
    def open(cls, cluster: Cluster, run_id: str, experiment: str, *, seconds: float = ARM_SECONDS) -> "Mirror":
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
