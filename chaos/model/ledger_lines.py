"""Lines of the ledger: data, never code. An undo is a name of the registry and the arguments it was given."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from fixtures.ownership.proof_record import digest_of
from fixtures.text import json_text, typed

PREPARATION = "preparation"
"""Key in the detail of an ``applied`` line of the ledger: true for what the experiment sets up before its fault. Such a line is
no injection, and what it made is part of the baseline."""

_CHANGE = 300
"""Characters of one change in a run's proof, which is bounded."""

_DIGITS = 10


class State(StrEnum):
    """How far one entry is. Only ``verified`` closes it: the prior state was read back."""

    ARMED = "armed"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"
    VERIFIED = "verified"
    FAILED = "failed"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose fault it is: the same in every entry of one experiment."""

    run_id: str
    experiment: str
    cluster_uid: str
    expires_at: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One change about to be made, and its undo by name. ``args`` are those of the undo; ``expires_at`` is RFC 3339."""

    seq: int
    run_id: str
    experiment: str
    cluster_uid: str
    undo: str
    args: dict[str, Any]
    expires_at: str


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger: an entry's new state. ``entry`` comes with ``armed`` only."""

    seq: int
    state: State
    at: str
    entry: Entry | None = None
    detail: dict[str, Any] | None = None


_decoder = typed.decoder(Line)


def encode(line: Line) -> bytes:
    """One line of JSON with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode(text: bytes) -> Line:
    """Read one line. Raises ValueError when it is not one, or when an armed line has no entry of its own number."""
    line: Line = json_text.decode_with(_decoder, text)
    if (line.state is State.ARMED) != (line.entry is not None):
        raise ValueError(f"line {line.seq}: an entry comes with 'armed', and with 'armed' only")
    if line.entry is not None and line.entry.seq != line.seq:
        raise ValueError(f"line {line.seq}: holds entry {line.entry.seq}")
    return line


def digest(entry: Entry) -> str:
    """The digest of an entry in a run's proof: it changes if anything of the entry is changed or if it is copied to another run."""
    return digest_of(msgspec.json.encode(entry, order="deterministic"))


def change_of(entry: Entry) -> str:
    """``EXPERIMENT/NUMBER``, the undo and the object's name: which entry it is, where its words may be lost (:func:`number_of_change`)."""
    names = (str(entry.args.get(key) or "") for key in ("key", "namespace", "name"))
    return " ".join((f"{entry.experiment}/{entry.seq}", entry.undo, *filter(None, names)))[:_CHANGE]


def number_of_change(change: str) -> tuple[str, int]:
    """Experiment and number of the entry that :func:`change_of` names; an empty name where it names none."""
    experiment, _, number = change.partition(" ")[0].partition("/")
    return (experiment, int(number)) if number.isascii() and number.isdigit() and len(number) < _DIGITS else ("", 0)


def now() -> str:
    """The time as RFC 3339 with microseconds, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def landed_faults(lines: list[Line]) -> list[Line]:
    """Lines in which a fault was confirmed: what an activity prepared for itself (canaries) is not a fault."""
    return [line for line in lines if line.state is State.APPLIED and not (line.detail or {}).get(PREPARATION)]
