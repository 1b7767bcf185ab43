"""Chaos experiments of two runs compared: verdicts, and times to recovery that differ by more than their uncertainty."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Verdict
from reports import chaos_phrases
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import WORD


class Bucket(StrEnum):
    """What became of an experiment, most urgent first."""

    NEW_FAILURE = "experiment fails now"
    NEW_RESIDUE = "experiment leaves residue now"
    NEW_INCONCLUSIVE = "experiment became inconclusive"
    STILL_FAILING = "experiment still fails"
    NO_LONGER_HELD = "experiment no longer applies"
    SLOWER = "recovery is slower"
    FASTER = "recovery is faster"
    FIXED = "experiment passes now"
    NOT_COMPARABLE = "recovery times not compared"
    ADDED = "experiment added"
    REMOVED = "experiment removed"


class Change(msgspec.Struct, kw_only=True, frozen=True):
    """One difference of an experiment; ``gating`` when it can fail a gate. A slower recovery within its bound gates nothing."""

    bucket: Bucket
    experiment: str
    title: str
    old: Verdict | None = None
    new: Verdict | None = None
    message: str = ""
    gating: bool = False

    @property
    def sentence(self) -> str:
        """``A3 … (passed -> passed): 4.0 s -> 31.2 s``."""
        words = " -> ".join(WORD[v] if v else "none" for v in (self.old, self.new))
        message = f": {one_line(self.message, 400)}" if self.message else ""
        return f"{one_line(self.experiment, NAME_LIMIT)} {one_line(self.title, NAME_LIMIT)} ({words}){message}"


_BAD = (Verdict.FAILED, Verdict.WARNED)
_UNSURE = (Verdict.INCONCLUSIVE, Verdict.ERROR)
_GATING = (Bucket.NEW_FAILURE, Bucket.NEW_RESIDUE, Bucket.NEW_INCONCLUSIVE, Bucket.NO_LONGER_HELD)


def compare(old: ChaosReport | None, new: ChaosReport | None) -> list[Change]:
    """What changed from ``old`` to ``new``, in the order of the new run, removed experiments last. A run may have held none."""
    before = {result.id: result for result in old.experiments} if old else {}
    after = {result.id: result for result in new.experiments} if new else {}
    changes: list[Change] = []
    for result in after.values():
        known = before.get(result.id)
        changes += _compare(known, result) if known else [_made(Bucket.ADDED, result, new=result.verdict, message=result.message)]
    changes += [_made(Bucket.REMOVED, r, old=r.verdict, message=r.message) for r in before.values() if r.id not in after]
    return changes


def _compare(old: ChaosResult, new: ChaosResult) -> Iterator[Change]:
    bucket = _bucket(old.verdict, new.verdict)
    if bucket:
        codes = chaos_phrases.reason(new)
        message = f"{codes}: {new.message}" if codes and new.message else codes or new.message
        yield _made(bucket, new, old=old.verdict, new=new.verdict, message=message)
    if new.residue and not old.residue:
        yield _made(Bucket.NEW_RESIDUE, new, old=old.verdict, new=new.verdict, message=new.residue[0])
    yield from _recovery(old, new)


def _bucket(old: Verdict, new: Verdict) -> Bucket | None:
    if new in _BAD:
        return Bucket.STILL_FAILING if old in _BAD else Bucket.NEW_FAILURE
    if new in _UNSURE:
        return None if old in _UNSURE else Bucket.NEW_INCONCLUSIVE
    if new is Verdict.NOT_APPLICABLE:
        return None if old is Verdict.NOT_APPLICABLE else Bucket.NO_LONGER_HELD
    return Bucket.FIXED if old in (*_BAD, *_UNSURE) else None


def _recovery(old: ChaosResult, new: ChaosResult) -> Iterator[Change]:
    """A change of the time to recovery, when it is larger than both uncertainties together."""
    before, after = chaos_phrases.recovery(old), chaos_phrases.recovery(new)
    if before is None or after is None:
        return
    for what, was, now in (
        ("target", old.target_kind.value, new.target_kind.value),
        ("fidelity", old.fidelity, new.fidelity),
        ("recovery is counted from", old.recovery_from, new.recovery_from),
    ):
        if was != now:
            yield _made(Bucket.NOT_COMPARABLE, new, old=old.verdict, new=new.verdict, message=f"{what}: {was or 'none'} -> {now or 'none'}")
            return
    if before.uncertainty is None or after.uncertainty is None:
        message = "the uncertainty of the time is not recorded"
        yield _made(Bucket.NOT_COMPARABLE, new, old=old.verdict, new=new.verdict, message=message)
        return
    if abs(after.seconds - before.seconds) > before.uncertainty + after.uncertainty:
        bucket = Bucket.SLOWER if after.seconds > before.seconds else Bucket.FASTER
        message = f"{before.words('+/-')} s -> {after.words('+/-')} s"
        yield _made(bucket, new, old=old.verdict, new=new.verdict, message=message)


def _made(bucket: Bucket, result: ChaosResult, *, old: Verdict | None = None, new: Verdict | None = None, message: str = "") -> Change:
    gating = bucket in _GATING
    return Change(bucket=bucket, experiment=result.id, title=result.title, old=old, new=new, message=message, gating=gating)
