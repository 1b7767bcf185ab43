"""What could not be put back, told so that a person can: what, where, as it was, as it is, and a command."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from chaos.ledger.record import Entry
from chaos.ledger.undo import arguments
from chaos.trouble import LedgerError
from fixtures.text import plain

_SHOWN = 300


class Reason(StrEnum):
    """Why it is still there."""

    CHANGED = "changed by another"
    REPLACED = "replaced"
    NOT_UNDONE = "not undone"
    NOT_VERIFIED = "not verified"
    UNREADABLE = "unreadable"
    OUTSIDE = "outside of its experiment"


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
        told = f"{self.what}: {self.reason}: {self.message}"
        if self.prior or self.current:
            told += f" (was {self.prior or 'absent'}, is {self.current or 'absent'})"
        return f"{told}; entry {self.run_id}/{self.experiment}/{self.seq}" + (f"; by hand: {self.command}" if self.command else "")


def residue(entry: Entry, reason: Reason, message: str, *, prior: Any = None, current: Any = None) -> Residue:
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
        command=command,
    )


def residue_of(entry: Entry) -> str:
    """An open entry for people: what it is about, and the command that puts it back."""
    told = residue(entry, Reason.NOT_UNDONE, "open")
    return f"{told.what} ({entry.undo}, entry {entry.run_id}/{entry.experiment}/{entry.seq}); by hand: {told.command or '-'}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return plain(text)[:_SHOWN]
