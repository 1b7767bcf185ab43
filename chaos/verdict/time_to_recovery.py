"""The time to recovery: from the fault, or from the undo where the undo ended it, with its uncertainty. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.model.conditions import parse_condition, signals_of
from chaos.verdict.event_times import ConditionSample, EventTime, longest_gap, never_lost, recovered
from chaos.verdict.findings import finding, shown_value, undecided
from chaos.verdict.timeline import Timeline
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

NAME = "recovery"


class TimeToRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to the recovery, ``since`` the ``fault`` or the beginning of the ``undo``; what they are at least and at most."""

    since: str
    seconds: float
    soonest: float
    latest: float

    @property
    def uncertainty(self) -> float:
        """Seconds of it that are not known."""
        return self.latest - self.soonest

    @property
    def words(self) -> str:
        """The time in words."""
        begin = "the undo began" if self.since == "undo" else "the fault"
        return f"recovered {self.seconds:.2f} s (± {self.uncertainty:.2f} s) after {begin}"


class SteadyAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and when the steady state came back. ``never_lost``: no sample since the fault shows it lost."""

    finding: ChaosFinding
    recovered: EventTime | None = None
    recovery: TimeToRecovery | None = None
    never_lost: bool = False


def steady_again(timeline: Timeline) -> SteadyAgain:
    """Steady again, for long enough, and in time: a time that could be on either side of the bound is undecided."""
    steady = timeline.samples_of(timeline.extension.steady)
    settle, bound = timeline.seconds["settle"], timeline.seconds["recovery"]
    unwatched = undecided(NAME, "NotSettled", f"the steady state was not watched for {settle:g} s, and until everything was undone")
    if never_lost(steady, timeline.injection):
        apart = longest_gap(timeline.samples, timeline.injection.earliest, timeline.end)
        text = f"never lost: no sample shows the steady state lost (they are up to {apart:.2f} s apart)"
        passed = finding(Verdict.PASSED, NAME, "", text)
        return SteadyAgain(finding=passed if _watched(timeline, steady[-1]) else unwatched, never_lost=True)
    moment = recovered(steady, timeline.injection, settle)
    if moment is None:
        return SteadyAgain(finding=_not_steady(timeline, steady))
    recovery = time_to_recovery(moment, timeline.injection, timeline.undo_began if timeline.held else None)
    text = f"{recovery.words}, bound {bound:g} s"
    if recovery.soonest > bound:
        found = finding(Verdict.FAILED, NAME, "RecoveryTooSlow", text, moment.t)
    elif not _watched(timeline, steady[-1]):
        found = unwatched
    elif recovery.latest > bound:
        found = undecided(NAME, "RecoveryUndecided", text)
    else:
        found = finding(Verdict.PASSED, NAME, "", text, moment.t)
    return SteadyAgain(finding=found, recovered=moment, recovery=recovery)


def time_to_recovery(moment: EventTime, injection: EventTime, undo_began: float | None) -> TimeToRecovery:
    """The time to a recovery. ``undo_began`` is None for a fault that heals by itself.

    What was steady again before the undoing began did not wait for it, whatever the fault: it counts from the fault.
    """
    origin, since = injection, "fault"
    if undo_began is not None and moment.t > undo_began:
        origin, since = EventTime(t=undo_began, uncertainty=0.0), "undo"
    soonest, latest = max(moment.earliest - origin.t, 0.0), max(moment.t - origin.earliest, 0.0)
    return TimeToRecovery(since=since, seconds=max(moment.t - origin.t, 0.0), soonest=soonest, latest=latest)


def _watched(timeline: Timeline, last: ConditionSample) -> bool:
    """Whether samples go on for long enough after the fault, or the undoing of what was held, and until everything was undone."""
    begin = timeline.undo_began if timeline.held and timeline.undo_began is not None else timeline.injection.t
    return last.end - begin >= timeline.seconds["settle"] and (timeline.undone is None or last.t >= timeline.undone)


def _not_steady(timeline: Timeline, steady: Sequence[ConditionSample]) -> ChaosFinding:
    """Why there is no recovery."""
    if not steady or steady[-1].holds is None:
        return undecided(NAME, "NoData", "whether the steady state came back is not known: the last samples do not tell")
    if steady[-1].holds:
        settle = timeline.seconds["settle"]
        return undecided(NAME, "NotSettled", f"the steady state came back and was not watched for {settle:g} s")
    text = f"the steady state did not come back: {_differences(timeline)}"
    return finding(Verdict.FAILED, NAME, "SteadyStateLost", text, timeline.end)


def _differences(timeline: Timeline) -> str:
    """Signals of the steady state that are not as they were, from the last sample."""
    last = timeline.samples[-1]
    names = dict.fromkeys(signals_of(parse_condition(timeline.extension.steady)))
    return "; ".join(
        f"{name} is {shown_value(last.values.get(name))}, was {shown_value(timeline.baseline.get(name))}"
        for name in names
        if last.values.get(name) != timeline.baseline.get(name)
    )
