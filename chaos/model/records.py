"""What is written down of an experiment: lines of the ledger (data, never code), the parent's own record, and why a fault was not made.

An undo is a name of the registry and the arguments it was given.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from fixtures.ownership.proof_record import digest_of
from fixtures.text import json_text, typed
from fixtures.verdict.record import TargetKind


class LedgerError(Exception):
    """The ledger cannot be read or written. Nothing may be done that it does not hold."""


class MirrorRefused(LedgerError):
    """The ledger's copy in the cluster could not be written: another machine could not undo what is about to be done."""


class LeaseRefused(Exception):
    """This run may not act on the cluster now: another one does, it is halted, or an earlier one left something to recover."""


class Aborted(Exception):
    """Nothing more may be done: halted, expired, or the Lease is lost. One line saying which."""


class UndoRefused(Exception):
    """An undo that must not be forced: the object is another one, or somebody else changed the value since.

    ``reason`` is ``changed by another`` or ``replaced``; ``current`` what was found, ``prior`` what was recorded.
    """

    def __init__(self, reason: str, message: str, *, prior: object = None, current: object = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.prior = prior
        self.current = current


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


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One signal of the ladder. ``at``: Unix seconds."""

    signal: str
    at: float
    why: str


class Ending(msgspec.Struct, kw_only=True):
    """How a child ended. ``code`` as subprocess gives it: negative for a signal; None when it could not be ended."""

    code: int | None = None
    sent: list[Sent] = []
    deadline_passed: bool = False
    stopped: str = ""

    @property
    def undisturbed(self) -> bool:
        """Whether it ended by itself and in order."""
        return self.code == 0 and not self.sent


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One gate's answer."""

    name: str
    ok: bool
    message: str = ""


STOP, STEADY, DETECT = "if.stop.", "if.steady.", "if.detect."
"""How the names of signals of the user's own conditions begin; a number follows."""


class StopCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an experiment was ended in its middle: the condition's ``signal``, its value, and since when it is known (Unix seconds).

    ``unread``: nobody could tell any more whether the condition holds; the value says why.
    """

    signal: str
    value: str
    at: float
    unread: bool = False


class EngineRecord(msgspec.Struct, kw_only=True):
    """What the parent did. Times are Unix seconds; ``None`` where it did not come to that.

    ``stop_conditions``: the words of each condition that would have stopped it, by its signal; ``steady_conditions`` those of the user's
    in the steady state, ``detect_conditions`` those that are to show the fault. ``stopped``: the one that ended it. ``turn``: the id of
    the entry in ``chaos.json``. ``expectations``: digests of all that it goes by; runs of earlier versions have none.
    """

    experiment: str
    run_id: str
    plan_digest: str
    target_kind: TargetKind
    fidelity: str
    level: int
    started: float
    finished: float | None = None
    sampler_began: float | None = None
    baseline_t: float | None = None
    child_started: float | None = None
    child_ended: float | None = None
    gates: list[GateResult] = []
    ending: Ending | None = None
    abort: str = ""
    replayed: bool = False
    residue: list[str] = []
    sampler_failure: str = ""
    interrupted: str = ""
    error: str = ""
    stop_conditions: dict[str, str] = {}
    steady_conditions: dict[str, str] = {}
    detect_conditions: dict[str, str] = {}
    expectations: list[str] = []
    stopped: StopCause | None = None
    turn: str = ""
