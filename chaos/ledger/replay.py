"""Replay: undoes all entries of a ledger, newest first, with retries, verifies each by reading back, and says in words what is left."""

import contextlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from chaos.ledger.bounds import Terms, arguments
from chaos.ledger.file import Ledger
from chaos.ledger.undos import Undo
from chaos.ledger.undos.host import HostAction
from chaos.ledger.undos.nodes import NodeCleared
from chaos.model.records import Entry, LedgerError, State, UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.policy.allowlist import another_cluster
from fixtures.text.sentences import plain

_SHOWN = 300
_SAVED = 2000
"""Characters of what an undo would create or set: all of a usual Service or node, and no ledger of megabytes."""

_VALUE = 120
"""Characters of one value in it, so that a long one does not hide the others."""

_KEY = re.compile(r"[A-Za-z0-9./_-]{1,120}")
_FIRST = ("spec", "data", "binaryData", "taints", "unschedulable")
"""Parts that are shown first: what they say acts, what comes after only describes."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_CLEARED = {"unschedulable": "unschedulable", "labels": "labels", "notes": "annotations", "conditions": "conditions"}
"""Arguments of ``node.cleared`` that say what the node is to show, in the words of a node."""


class Reason(StrEnum):
    """Why it is still there."""

    CHANGED = "changed by another"
    REPLACED = "replaced"
    NOT_UNDONE = "not undone"
    NOT_VERIFIED = "not verified"
    UNREADABLE = "unreadable"
    OUTSIDE = "outside of its experiment"
    UNPROVEN = "not proven"


class Residue(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was. ``command`` is a line for a shell; it may be empty when nothing can be run."""

    run_id: str
    experiment: str
    seq: int
    undo: str
    what: str
    reason: Reason
    message: str
    prior: str = ""
    current: str = ""
    command: str = ""

    def __str__(self) -> str:
        text = f"{self.what}: {self.reason}: {self.message}"
        if self.prior or self.current:
            text += f" (was {self.prior or 'absent'}, is {self.current or 'absent'})"
        return f"{text}; entry {self.run_id}/{self.experiment}/{self.seq}" + (f"; by hand: {self.command}" if self.command else "")


def residue_of(entry: Entry, reason: Reason, message: str, *, prior: Any = None, current: Any = None) -> Residue:
    """The residue of an entry."""
    try:
        undo, args = arguments(entry)
        what, command = undo.human(args)
    except LedgerError:
        what, command = entry.undo, ""
    return Residue(
        run_id=entry.run_id,
        experiment=entry.experiment,
        seq=entry.seq,
        undo=entry.undo,
        what=plain(what),
        reason=reason,
        message=plain(" ".join(message.split()))[:_SHOWN],
        prior=_shown(prior),
        current=_shown(current),
        command="" if reason in (Reason.UNPROVEN, Reason.OUTSIDE) else command,  # else whoever wrote the entry says what to run
    )


def entry_words(entry: Entry) -> str:
    """An open entry for people: what it is about, what would be created or set, and the command that puts it back."""
    found = residue_of(entry, Reason.NOT_UNDONE, "open")
    text = f"{found.what} ({entry.undo}, entry {entry.run_id}/{entry.experiment}/{entry.seq})"
    words = _put_back_words(entry)
    return f"{text}{f', with {words}' if words else ''}; by hand: {found.command or '-'}"


def _put_back_words(entry: Entry) -> str:
    """What the undo creates or sets and its command does not say; empty when there is no more to say."""
    saved = entry.args.get("saved")
    if isinstance(saved, dict):
        return _words((path, value) for path, value in _leaves(saved) if value not in _EMPTY)
    if entry.undo != NodeCleared.name:
        return ""
    named = {word: entry.args.get(key) for key, word in _CLEARED.items()}
    return _words(_leaves({**named, "devices": entry.args.get("names") or "any"}))


def _words(found: Iterable[tuple[str, Any]]) -> str:
    """One ``path: value`` after the other, in plain text and with a bound."""
    text = ", ".join(f"{path}: {'none' if value in _EMPTY else _clipped(value)}" for path, value in found)
    return text if len(text) <= _SAVED else f"{text[:_SAVED]}… ({len(text) - _SAVED} more characters in the ledger)"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values in objects and lists, with their paths; the parts that act first."""
    if isinstance(value, dict) and value:
        for key in sorted(value, key=lambda key: (key not in _FIRST, key)):
            word = key if _KEY.fullmatch(key) else _clipped(key)
            yield from _leaves(value[key], f"{path}.{word}" if path else word)
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}[{place}]")
    else:
        yield path, value


def _clipped(value: Any) -> str:
    """One value as JSON, so that no text in it passes for another value."""
    text = plain(msgspec.json.encode(value).decode())
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return plain(text)[:_SHOWN]


FIRST_PAUSE = 0.1
LAST_PAUSE = 5.0
UNDOING_SHARE = 0.6
"""Of the time, for undoing; the rest is for what has to come back by itself."""

FLUSH_SECONDS = 5.0
"""For how long the cluster's copy is written after an undo. The end of the run writes it again, and tells if it could not."""
_REASONS = {"changed by another": Reason.CHANGED, "replaced": Reason.REPLACED}


class _Refusal(msgspec.Struct, frozen=True):
    """Why one entry is not put back. ``final`` when another attempt would say the same, ``later`` when one has to wait for others."""

    reason: Reason
    message: str
    final: bool = False
    prior: object = None
    current: object = None
    later: bool = False


def replay(
    ledger: Ledger, cluster: Cluster, deadline: float, *, terms: Terms, entries: Iterable[Entry] | None = None, pause: float = FIRST_PAUSE
) -> list[Residue]:
    """Undo what is open (or the open ones of ``entries``) and verify it, until ``deadline`` (monotonic seconds). Returns what remains.

    All are undone, newest first, before any is waited for: what one waits for may be what an older one withheld. Only entries
    about one object are closed one by one: below a newer change is an older one, not the state of before. An entry that fails
    does not keep others from being undone: each gets its share of the time, and those that failed are tried again with what is
    left of it. An entry closes with ``verified`` only. One that is not within ``terms`` is refused.
    """
    wanted = None if entries is None else {entry.seq for entry in entries}
    opened = [entry for entry in ledger.open_entries() if wanted is None or entry.seq in wanted]
    remaining = _Replay(ledger, cluster, opened, deadline, pause, terms).run()
    ledger.flush(time.monotonic() + FLUSH_SECONDS)
    return remaining


class _Replay:
    """One pass over entries, newest first."""

    def __init__(self, ledger: Ledger, cluster: Cluster, opened: Sequence[Entry], deadline: float, pause: float, terms: Terms) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._opened = opened
        self._deadline = deadline
        self._pause = pause
        self._terms = terms
        self._about = {entry.seq: _what(entry) for entry in opened}
        self._refused: dict[int, _Refusal] = {}
        self._undone: set[int] = set()
        self._closed: set[int] = set()

    def run(self) -> list[Residue]:
        now = time.monotonic()
        self._each(self._opened, self._undo_and_close_layers, now + max(self._deadline - now, 0) * UNDOING_SHARE)
        self._each([entry for entry in self._opened if entry.seq not in self._refused], self._close, self._deadline)
        again = [entry for entry in self._opened if entry.seq in self._refused and not self._refused[entry.seq].final]
        self._each(again, lambda entry, until: self._undo(entry, until) or self._close(entry, until), self._deadline)
        return [self._residue(entry) for entry in self._opened if entry.seq in self._refused]

    def _each(self, entries: Sequence[Entry], step: Callable[[Entry, float], _Refusal | None], deadline: float) -> None:
        """One step for every entry, each until it succeeds or its share of the time is over."""
        for position, entry in enumerate(entries):
            now = time.monotonic()
            share = now + max(deadline - now, 0) / (len(entries) - position)
            refusal, wait = step(entry, share), self._pause
            while refusal is not None and not refusal.final and not refusal.later and time.monotonic() + wait < share:
                threading.Event().wait(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, LAST_PAUSE)
                refusal = step(entry, share)
            if refusal is None:
                self._refused.pop(entry.seq, None)
            else:
                self._refused[entry.seq] = refusal

    def _undo_and_close_layers(self, entry: Entry, until: float) -> _Refusal | None:
        refusal = self._undo(entry, until)
        about = self._about[entry.seq]
        layered = any(older.seq < entry.seq and self._about[older.seq] == about for older in self._opened)
        return self._close(entry, until) if refusal is None and layered else refusal

    def _undo(self, entry: Entry, until: float) -> _Refusal | None:
        try:
            undo, args = self._tools(entry)
        except LedgerError as error:
            return _Refusal(Reason.UNREADABLE, str(error), True)
        if wrong := self._terms.outside(entry):
            return _Refusal(Reason.OUTSIDE, f"{wrong}; it is not carried out", True)
        about = self._about[entry.seq]
        for newer in self._opened:
            refusal = self._refused.get(newer.seq)
            layer = newer.seq > entry.seq and self._about[newer.seq] == about
            if layer and refusal is not None and not refusal.final and newer.seq not in self._undone:
                return _Refusal(Reason.NOT_UNDONE, f"entry {newer.seq}, made after it on the same object, is not undone", later=True)

        def step() -> str:
            if another := another_cluster(self._cluster, entry.cluster_uid):
                return another
            self._note(entry, State.UNDOING)
            undo.undo(self._cluster, args, until)
            self._note(entry, State.UNDONE)
            self._undone.add(entry.seq)
            return ""

        return _tried(step, Reason.NOT_UNDONE)

    def _close(self, entry: Entry, until: float) -> _Refusal | None:
        if entry.seq in self._closed:
            return None
        undo, args = self._tools(entry)

        def step() -> str:
            differs = undo.verify(self._cluster, args, until)
            if differs := differs or another_cluster(self._cluster, entry.cluster_uid):
                return differs
            try:
                self._ledger.mark(entry.seq, State.VERIFIED)
            except LedgerError as error:
                return f"it is restored, but the ledger cannot say so: {error}"
            self._closed.add(entry.seq)
            return ""

        return _tried(step, Reason.NOT_VERIFIED)

    def _tools(self, entry: Entry) -> tuple[Undo, Any]:
        """The undo, with the policy's means where it runs programs on a host, and its arguments. Raises LedgerError."""
        undo, args = arguments(entry)
        return (undo.by(self._terms.means(entry.run_id)) if isinstance(undo, HostAction) else undo), args

    def _residue(self, entry: Entry) -> Residue:
        refusal = self._refused[entry.seq]
        left = residue_of(entry, refusal.reason, refusal.message, prior=refusal.prior, current=refusal.current)
        detail = {"reason": left.reason.value, "message": left.message, "prior": left.prior, "current": left.current}
        self._note(entry, State.FAILED, detail)
        return left

    def _note(self, entry: Entry, state: State, detail: dict[str, str] | None = None) -> None:
        """Write a state down if possible: a full disk must not keep anything from being put back."""
        with contextlib.suppress(LedgerError):
            self._ledger.mark(entry.seq, state, detail)


def _what(entry: Entry) -> str:
    """What an entry is about; of one that cannot be read, itself."""
    try:
        undo, args = arguments(entry)
    except LedgerError:
        return f"entry {entry.seq}"
    return undo.human(args)[0]


def _tried(step: Callable[[], str], reason: Reason) -> _Refusal | None:
    try:
        differs = step()
    except UndoRefused as refusal:
        return _Refusal(_REASONS[refusal.reason], refusal.message, True, refusal.prior, refusal.current)
    except ApiTrouble as trouble:
        return _Refusal(reason, trouble.message)
    except Exception as error:  # an answer that nobody thought of must not keep the other entries from being undone
        return _Refusal(reason, f"{type(error).__name__}: {error}")
    return _Refusal(reason, differs) if differs else None
