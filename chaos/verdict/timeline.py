"""The timeline of an experiment: its samples, the baseline that they are compared with, when it was injected and undone. Pure.

The time of a condition is that of the first sample in which it holds; the truth lies between that sample and the last one that told
otherwise. Nothing in between is made up: the difference is the uncertainty of the time, and it goes into the time to recovery.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise, takewhile

import msgspec

from chaos.model.conditions import JsonValue, holds, parse_condition
from chaos.model.experiment import SELF_HEALING, START, Extension, stretched
from chaos.model.records import EngineRecord, Line, State, landed_faults
from chaos.observe.view import Sample


class EventTime(msgspec.Struct, frozen=True, kw_only=True):
    """It was so at ``t`` and may have been so for up to ``uncertainty`` seconds (the sampler's)."""

    t: float
    uncertainty: float

    @property
    def earliest(self) -> float:
        """The first moment at which it may have been so."""
        return self.t - self.uncertainty


class ConditionSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one sample says of a condition. ``end`` is when the sample's reading ended; ``holds`` is None where it does not tell."""

    t: float
    end: float
    holds: bool | None


def first_held(found: Sequence[ConditionSample], start: float) -> EventTime | None:
    """The first sample from ``start`` on in which the condition holds. A reading that began before ``start`` saw the time before."""
    since = start
    for one in found:
        if one.t < start:
            continue
        if one.holds:
            return EventTime(t=one.end, uncertainty=max(one.end - since, 0.0))
        if one.holds is False:
            since = one.t
    return None


def not_held(found: Sequence[ConditionSample], start: float, end: float) -> ConditionSample | None:
    """The sample that shows the condition not to hold: the last before ``start`` that tells, or else the first from then to ``end``."""
    known = [one for one in found if one.holds is not None]
    before = next((one for one in reversed(known) if one.end <= start), None)
    if before is not None and not before.holds:
        return before
    return next((one for one in known if start < one.end <= end and not one.holds), None)


def never_lost(steady: Sequence[ConditionSample], injection: EventTime) -> bool:
    """Whether every sample from the injection on shows the steady state. A reading that went on beyond it may have seen the fault."""
    since = [one for one in steady if one.end >= injection.earliest]
    return bool(since) and all(one.holds for one in since)


def recovered(steady: Sequence[ConditionSample], injection: EventTime, settle: float) -> EventTime | None:
    """The start of the last unbroken steady stretch, if it lasts ``settle`` seconds.

    A sample that does not tell breaks the stretch: it is not known to be steady. Nor is it known not to be: the recovery may have
    been as early as the last sample that shows it lost, or as the injection.
    """
    since = [one for one in steady if one.end >= injection.earliest]
    stretch = list(takewhile(lambda one: one.holds is True, reversed(since)))
    if not stretch or stretch[0].end - stretch[-1].t < settle:
        return None
    begin = stretch[-1]
    lost = next((one.t for one in reversed(since) if one.holds is False), injection.earliest)
    return EventTime(t=begin.end, uncertainty=max(begin.end - lost, 0.0))


def longest_gap(samples: Sequence[Sample], start: float, end: float) -> float:
    """The longest time without a sample in a window: from the end of one reading to the end of the next, and to the window's borders."""
    ends = [sample.end for sample in samples]
    inside = [moment for moment in ends if start <= moment <= end]
    points = [max((moment for moment in ends if moment < start), default=start), *inside, end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)


def longest_unknown(found: Sequence[ConditionSample], start: float, end: float) -> float:
    """The longest time within a window in which the condition was not known, because samples were missing or did not tell."""
    points = [start, *(one.end for one in found if one.holds is not None and start <= one.end <= end), end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment's samples with what is needed to read them. Times are the sampler's seconds.

    ``held``: a fault lasts until it is undone, instead of healing by itself. ``undo_began``: when the undoing began, ``undone``: when
    the last undo was read back; both None where it did not come to that. ``disturbances``: how often faults, or undos after faults that
    were held, take the steady state away by themselves; ``faults``: how many landed. ``stopped``: a condition ended it in its middle.
    """

    extension: Extension
    samples: list[Sample]
    seconds: dict[str, float]
    baseline: dict[str, JsonValue]
    baseline_t: float
    injection: EventTime
    undo_began: float | None
    held: bool
    end: float
    undone: float | None = None
    disturbances: int = 1
    faults: int = 1
    stopped: bool = False

    def samples_of(self, condition: dict[str, JsonValue]) -> list[ConditionSample]:
        """What each sample says of a condition."""
        wanted = parse_condition(condition)
        return [ConditionSample(t=one.t, end=one.end, holds=holds(wanted, one.values, self.baseline)) for one in self.samples]


def build_timeline(
    extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]
) -> Timeline | None:
    """The timeline of an experiment; None when it never came to a baseline or to the fault."""
    injection = injection_of(extension, engine, lines)
    baseline = baseline_of(samples, engine, lines)
    if control := _control_baseline(extension, engine, samples, lines, seconds):
        injection, baseline = EventTime(t=control.end, uncertainty=0.0), control
    if injection is None or baseline is None or engine.baseline_t is None:
        return None
    return Timeline(
        extension=extension,
        samples=samples,
        seconds=stretched(seconds, extension.starting, baseline.values.get(START)),
        baseline=baseline.values,
        baseline_t=baseline.t,
        injection=injection,
        undo_began=undo_began(lines, engine),
        held=bool(held_faults(lines)),
        end=samples[-1].end,
        disturbances=_disturbances(lines),
        faults=len(landed_faults(lines)),
        stopped=engine.stopped is not None,
        undone=max((_seconds(line.at, engine) for line in lines if line.state is State.VERIFIED), default=None),
    )


def injection_of(extension: Extension, engine: EngineRecord, lines: list[Line]) -> EventTime | None:
    """When the first fault was confirmed, and how much earlier it may have happened; a control run's begins with its process."""
    landed = landed_faults(lines)
    if engine.sampler_began is None:
        return None
    if landed:
        first = min(landed, key=lambda line: line.at)
        applied = _seconds(first.at, engine)
        armed = min((_seconds(line.at, engine) for line in lines if line.state is State.ARMED and line.seq == first.seq), default=applied)
        return EventTime(t=applied, uncertainty=max(applied - armed, 0.0))
    if not extension.undo and engine.child_started is not None:
        return EventTime(t=engine.child_started - engine.sampler_began, uncertainty=0.0)
    return None


def baseline_of(samples: list[Sample], engine: EngineRecord, lines: list[Line]) -> Sample | None:
    """The sample that everything is compared with: the first steady one, or the last before the fault if something was prepared.

    What was set up for the experiment (canaries) is part of the state that the fault disturbs.
    """
    found = next((sample for sample in samples if sample.t == engine.baseline_t), None)
    landed = {line.seq for line in landed_faults(lines)}
    prepared = [line for line in lines if line.state is State.APPLIED and line.seq not in landed]
    if found is None or not prepared or not landed:
        return found
    armed = min(_seconds(line.at, engine) for line in lines if line.state is State.ARMED and line.seq in landed)
    return next((sample for sample in reversed(samples) if sample.t >= found.t and sample.end <= armed), found)


def held_faults(lines: list[Line]) -> set[int]:
    """Numbers of the faults that do not heal by themselves: they last until they are undone."""
    names = {line.seq: line.entry.undo for line in lines if line.entry is not None}
    return {line.seq for line in landed_faults(lines) if names.get(line.seq) not in SELF_HEALING}


def _disturbances(lines: list[Line]) -> int:
    """Most faults, or restarts of the same agent by undos, one after the other: each may take its part of the steady state away once."""
    entries = {line.seq: line.entry for line in lines if line.entry is not None}
    if not held_faults(lines):
        return max(len(landed_faults(lines)), 1)
    restarts = Counter(str(entry.args.get("owner")) for entry in entries.values() if entry.undo == "agent.restarted")
    return max(restarts.values(), default=1)


def undo_began(lines: list[Line], engine: EngineRecord) -> float | None:
    """When the undoing began, of faults and of what was prepared, in the sampler's seconds; None when it did not."""
    return min((_seconds(line.at, engine) for line in lines if line.state is State.UNDOING), default=None)


def _control_baseline(
    extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]
) -> Sample | None:
    """The baseline of a control run that set something up: read ``settle`` before that is taken away again. None for every other run."""
    undoing = undo_began(lines, engine)
    if extension.undo or undoing is None or engine.baseline_t is None:
        return None
    first, last = engine.baseline_t, undoing - seconds["settle"]
    return next((sample for sample in reversed(samples) if sample.t >= first and sample.end <= last), None)


def _seconds(moment: str, engine: EngineRecord) -> float:
    return datetime.fromisoformat(moment).timestamp() - (engine.sampler_began or 0.0)
