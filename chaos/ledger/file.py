"""The ledger on disk: an append-only file of JSON lines, flushed to disk before the fault that a line is about.

A line whose write was cut off by a crash is the last one and has no newline: it never allowed an act, so it is dropped and
:attr:`Ledger.torn` says so. Anything else that cannot be read is an error: nobody may guess what a ledger said.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from chaos.model.records import Entry, LedgerError, Line, Origin, State, change_of, decode, digest, encode, now
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.proof import Proof
from fixtures.system import private_files

MODE = 0o600
MAX_BYTES = 64 << 20
"""Of a ledger's file, which has a few kilobytes."""


class Mirroring(Protocol):
    """A second place for the lines, written before the act."""

    def next_seq(self) -> int:
        """The first number that no entry of this experiment has had in this run."""

    def arm(self, line: Line) -> None:
        """Keep an armed line. Raises :class:`chaos.model.records.MirrorRefused` when it is not kept for certain."""

    def mark(self, line: Line) -> None:
        """Keep a later line, or try to: what could not be written goes with the next one."""

    def flush(self, deadline: float) -> bool:
        """Write what is still unwritten, trying until ``deadline`` (monotonic seconds); whether all of it is kept."""


class ExperimentView(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster knows of one experiment: lines of open entries, and the numbers of closed ones."""

    experiment: str
    lines: tuple[Line, ...] = ()
    closed: frozenset[int] = frozenset()

    @property
    def open_entries(self) -> list[Entry]:
        """Entries that are not verified, newest first."""
        return sorted((line.entry for line in self.lines if line.entry is not None), key=lambda entry: -entry.seq)


class Ledger:
    """Entries of one experiment and how far each is. One process writes at a time; any may read."""

    def __init__(
        self,
        path: Path | None,
        origin: Origin | None,
        mirror: Mirroring | None,
        lines: Iterable[Line],
        *,
        first: int,
        torn_at: int | None = None,
        vouching: Proof | None = None,
    ) -> None:
        self.path = path
        self.origin = origin
        self._where = str(path or "in the cluster")
        self.torn = torn_at is not None
        self._torn_at = torn_at  # cut off by whoever writes next: who only reads may be looking at a line half-written
        self._mirror = mirror
        self._vouching = vouching
        self._forgotten: set[int] = set()  # closed entries that nothing vouches for any more
        self._entries: dict[int, Entry] = {}
        self._states: dict[int, State] = {}
        self._details: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._next = first
        for line in lines:
            self._take(line)

    @classmethod
    def create(cls, path: Path, origin: Origin, mirror: Mirroring | None, vouching: Proof | None = None) -> "Ledger":
        """A new ledger. ``vouching`` makes its copy in the cluster count.

        Raises :class:`LedgerError` when the file exists or cannot be made durable, MirrorRefused by the mirror.
        """
        first = mirror.next_seq() if mirror else 1
        with _in_words(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            for made, flags in ((path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
                with _on_disk(made, flags):
                    pass
        return cls(path, origin, mirror, (), first=first, vouching=vouching)

    @classmethod
    def open(cls, path: Path, mirror: Mirroring | None = None, vouching: Proof | None = None) -> "Ledger":
        """A ledger that is there. A torn last line is left out. Raises :class:`LedgerError` for anything else that cannot be read."""
        with _in_words(path):
            content = private_files.read_own(path, MAX_BYTES)  # what is checked is what is believed: a path may change in between
        lines, kept = parse(content, str(path))
        entries = [line.entry for line in lines if line.entry is not None]
        origin = None
        if entries:
            last = entries[-1]
            origin = Origin(run_id=last.run_id, experiment=last.experiment, cluster_uid=last.cluster_uid, expires_at=last.expires_at)
        first = max([*(entry.seq + 1 for entry in entries), mirror.next_seq() if mirror else 1])
        return cls(path, origin, mirror, lines, first=first, torn_at=kept if kept < len(content) else None, vouching=vouching)

    @classmethod
    def in_cluster(cls, known: ExperimentView, mirror: Mirroring, vouching: Proof | None = None) -> "Ledger":
        """A ledger whose file is on another machine, or lost: only what the cluster holds of it, with a proof, is known."""
        return cls(None, None, mirror, known.lines, first=mirror.next_seq(), vouching=vouching)

    def absorb(self, known: ExperimentView) -> None:
        """Take over what the cluster knows and the file does not. Raises :class:`LedgerError` when the two contradict each other."""
        with self._lock:
            for line in known.lines:
                entry = line.entry
                if entry is None:
                    continue
                if entry.seq not in self._entries:
                    self._append(line)
                    self._take(line)
                elif self._entries[entry.seq] != entry:
                    raise LedgerError(f"ledger {self._where}: entry {entry.seq} is another one in the cluster")
            for seq in known.closed & self._states.keys():
                if self._states[seq] is not State.VERIFIED:
                    closed = Line(seq=seq, state=State.VERIFIED, at=now(), detail={"by": "the cluster's copy"})
                    self._append(closed)
                    self._take(closed)

    # -- writing ---------------------------------------------------------------------------------------

    def arm(self, undo: str, args: msgspec.Struct | Mapping[str, Any]) -> int:
        """Write down an undo before the act; its number. When this returns, disk and mirror hold it, and its proof says so.

        Raises :class:`LedgerError` when they may not: then nothing may be done. An entry that only one of the two holds is
        undone like any other, and finds nothing to undo.
        """
        with self._lock:
            entry = self.draft(undo, args)
            line = Line(seq=entry.seq, state=State.ARMED, at=now(), entry=entry)
            self._prove(entry, lambda vouching: vouching.vouch(digest(entry), change_of(entry)))
            self._append(line)
            self._next += 1
            self._take(line)
            if self._mirror:
                self._mirror.arm(line)
                self._prove(entry, lambda vouching: vouching.held(digest(entry)))
            return entry.seq

    def draft(self, undo: str, args: msgspec.Struct | Mapping[str, Any]) -> Entry:
        """The entry that :meth:`arm` would write next. Raises :class:`LedgerError` when nobody knows of which run it is."""
        if self.origin is None:
            raise LedgerError(f"ledger {self._where}: it was opened for reading, and no entry in it names its run")
        return Entry(seq=self._next, undo=undo, args=msgspec.to_builtins(args), **msgspec.structs.asdict(self.origin))

    def mark(self, seq: int, state: State, detail: Mapping[str, Any] | None = None) -> None:
        """Write down how far an entry is. Raises :class:`LedgerError` when the file cannot be written or has no such entry."""
        with self._lock:
            if seq not in self._entries:
                raise LedgerError(f"ledger {self._where}: no entry {seq}")
            if state is State.ARMED:
                raise LedgerError(f"ledger {self._where}: entry {seq} is armed by arm() only")
            line = Line(seq=seq, state=state, at=now(), detail=dict(detail) if detail else None)
            self._append(line)
            self._take(line)
            if self._mirror:
                self._mirror.mark(line)

    def flush(self, deadline: float) -> bool:
        """Whether the cluster knows all that the file knows, after trying until ``deadline`` (monotonic seconds)."""
        with self._lock:
            kept = self._mirror.flush(deadline) if self._mirror else True
            return kept and self._forget()

    def _prove(self, entry: Entry, write: Callable[[Proof], None]) -> None:
        if self._vouching is None:
            return
        try:
            write(self._vouching)
        except ApiTrouble as trouble:
            raise LedgerError(f"nothing in the cluster would vouch for entry {entry.seq}: {trouble.message}") from trouble

    def _forget(self) -> bool:
        """Remove closed entries from the proof; whether that succeeded."""
        closed = {seq for seq, state in self._states.items() if state is State.VERIFIED} - self._forgotten
        if self._vouching is None or not closed:
            return True
        try:
            self._vouching.forget({digest(self._entries[seq]) for seq in closed})
        except ApiTrouble:
            return False
        self._forgotten |= closed
        return True

    def _append(self, line: Line) -> None:
        """One write of a whole line, on disk when this returns."""
        if self.path is None:
            return
        data = encode(line)
        with _in_words(self.path):
            if self._torn_at is not None:  # else the line would continue the torn one
                with _on_disk(self.path, os.O_WRONLY) as descriptor:
                    os.ftruncate(descriptor, self._torn_at)
                self._torn_at = None
            with _on_disk(self.path, os.O_WRONLY | os.O_APPEND) as descriptor:
                if os.write(descriptor, data) != len(data):
                    raise LedgerError(f"ledger {self._where}: no space for a line")

    def _take(self, line: Line) -> None:
        if line.entry is not None:
            if line.seq in self._entries:
                raise LedgerError(f"ledger {self._where}: entry {line.seq} is armed twice")
            self._entries[line.seq] = line.entry
        elif line.seq not in self._entries:
            raise LedgerError(f"ledger {self._where}: a line about entry {line.seq}, which was never armed")
        self._states[line.seq] = line.state
        if line.detail is not None:
            self._details[line.seq] = line.detail

    # -- reading ---------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Every entry, oldest first."""
        return [self._entries[seq] for seq in sorted(self._entries)]

    def open_entries(self) -> list[Entry]:
        """Entries that are not verified, newest first: the order of undoing."""
        return [entry for entry in reversed(self.entries()) if self._states[entry.seq] is not State.VERIFIED]

    @property
    def closed(self) -> frozenset[int]:
        """Numbers of the entries that are verified."""
        return frozenset(seq for seq, state in self._states.items() if state is State.VERIFIED)

    def state(self, seq: int) -> State:
        """How far an entry is. Raises :class:`LedgerError` for an unknown one."""
        if seq not in self._states:
            raise LedgerError(f"ledger {self._where}: no entry {seq}")
        return self._states[seq]

    def detail(self, seq: int) -> dict[str, Any]:
        """What the last line with a detail said of an entry."""
        return dict(self._details.get(seq, {}))


def parse(content: bytes, where: str) -> tuple[list[Line], int]:
    """The lines, and up to which byte they were read: less than all when the last one is torn. Raises :class:`LedgerError`."""
    lines, position = [], 0
    while position < len(content):
        end = content.find(b"\n", position)
        if end < 0:
            break
        try:
            lines.append(decode(content[position:end]))
        except (msgspec.MsgspecError, ValueError) as error:
            raise LedgerError(f"ledger {where}: line {len(lines) + 1} cannot be read: {error}") from error
        position = end + 1
    return lines, position


@contextmanager
def _on_disk(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file or folder; what was written is on disk at the end. Raises ``OSError``."""
    descriptor = os.open(path, flags, MODE)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Raises :class:`LedgerError` for trouble with the file."""
    try:
        yield
    except OSError as error:
        raise LedgerError(f"ledger {path}: {error.strerror or error}") from error
