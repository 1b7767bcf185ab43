"""Residue in words for a person: what is left, where, the value before and now, and a command that repairs it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from chaos.ledger.registry import arguments
from chaos.model.errors import LedgerError
from chaos.model.ledger_lines import Entry
from fixtures.text.sentences import plain

_SHOWN = 300


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
        command="" if reason is Reason.UNPROVEN else command,  # it would be whoever wrote the entry who says what to run
    )


def entry_words(entry: Entry) -> str:
    """An open entry for people: what it is about, and the command that puts it back."""
    found = residue_of(entry, Reason.NOT_UNDONE, "open")
    return f"{found.what} ({entry.undo}, entry {entry.run_id}/{entry.experiment}/{entry.seq}); by hand: {found.command or '-'}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return plain(text)[:_SHOWN]
