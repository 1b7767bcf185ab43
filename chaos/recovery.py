"""The time to recovery: from the fault, or from the undo where the undo ended it, with what is not known of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from chaos import marks
from chaos.acts import finding, undecided
from chaos.conditions import parse, signals
from chaos.expectations import short
from chaos.marks import Mark, Told
from fixtures.chaos_record import ChaosFinding
from fixtures.record import Verdict

if TYPE_CHECKING:
    from chaos.course import Course

NAME = "recovery"


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
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


def measured(mark: Mark, inject: Mark, undo_began: float | None) -> Recovery:
    """The time to a mark. ``undo_began`` is None for a fault that heals by itself.

    What was steady again before the undoing began did not wait for it, whatever the fault: it counts from the fault.
    """
    origin, since = inject, "fault"
    if undo_began is not None and mark.t > undo_began:
        origin, since = Mark(t=undo_began, uncertainty=0.0), "undo"
    soonest, latest = max(mark.earliest - origin.t, 0.0), max(mark.t - origin.earliest, 0.0)
    return Recovery(since=since, seconds=max(mark.t - origin.t, 0.0), soonest=soonest, latest=latest)


def judged(course: Course) -> Iterator[ChaosFinding]:
    """Steady again, for long enough, and in time: a time that could be on either side of the bound is undecided."""
    steady = course.told(course.extension.steady)
    settle, bound = course.seconds["settle"], course.seconds["recovery"]
    unwatched = undecided(NAME, "NotSettled", f"the steady state was not watched for {settle:g} s, and until everything was undone")
    course.never_lost = marks.never_lost(steady, course.inject)
    if course.never_lost:
        apart = marks.gap(course.samples, course.inject.earliest, course.end)
        text = f"never lost: no sample shows the steady state lost (they are up to {apart:.2f} s apart)"
        yield finding(Verdict.PASSED, NAME, "", text) if _watched(course, steady[-1]) else unwatched
        return
    mark = marks.recovered(steady, course.inject, settle)
    if mark is None:
        yield _lost(course, steady)
        return
    course.found["recovered"] = mark
    found = course.recovered = measured(mark, course.inject, course.undo_began if course.held else None)
    text = f"{found.words}, bound {bound:g} s"
    if found.soonest > bound:
        yield finding(Verdict.FAILED, NAME, "RecoveryTooSlow", text, mark.t)
    elif not _watched(course, steady[-1]):
        yield unwatched
    elif found.latest > bound:
        yield undecided(NAME, "RecoveryUndecided", text)
    else:
        yield finding(Verdict.PASSED, NAME, "", text, mark.t)


def _watched(course: Course, last: Told) -> bool:
    """Whether samples go on for long enough after the fault, or the undoing of what was held, and until everything was undone."""
    begin = course.undo_began if course.held and course.undo_began is not None else course.inject.t
    return last.end - begin >= course.seconds["settle"] and (course.undone is None or last.t >= course.undone)


def _lost(course: Course, steady: list[Told]) -> ChaosFinding:
    """Why there is no recovery."""
    if not steady or steady[-1].holds is None:
        return undecided(NAME, "NoData", "whether the steady state came back is not known: the last samples do not tell")
    if steady[-1].holds:
        settle = course.seconds["settle"]
        return undecided(NAME, "NotSettled", f"the steady state came back and was not watched for {settle:g} s")
    text = f"the steady state did not come back: {_differences(course)}"
    return finding(Verdict.FAILED, NAME, "SteadyStateLost", text, course.end)


def _differences(course: Course) -> str:
    """Signals of the steady state that are not as they were, from the last sample."""
    last = course.samples[-1]
    names = dict.fromkeys(signals(parse(course.extension.steady)))
    return "; ".join(
        f"{name} is {short(last.values.get(name))}, was {short(course.baseline.get(name))}"
        for name in names
        if last.values.get(name) != course.baseline.get(name)
    )
