"""The parent's record of an experiment: gates, signals sent, times, residue."""

from __future__ import annotations

import msgspec

from fixtures.verdict.record import TargetKind


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


class EngineRecord(msgspec.Struct, kw_only=True):
    """What the parent did. Times are Unix seconds; ``None`` where it did not come to that."""

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
