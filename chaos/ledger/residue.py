"""Residue in words for a person: what is left, where, the value before and now, and a command that repairs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from chaos.ledger.registry import arguments
from chaos.ledger.undos.remediation import NodeCleared
from chaos.model.errors import LedgerError
from chaos.model.ledger_lines import Entry
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
