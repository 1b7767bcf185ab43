"""What the samples show: steadiness before and after, the four marks, expectations, collateral damage. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from chaos import expectations, marks, recovery
from chaos.acts import faults, finding, undecided
from chaos.artefacts import EngineRecord
from chaos.conditions import JsonValue, holds, parse, signals
from chaos.engine.block import SELF_HEALING
from chaos.experiment import Extension
from chaos.ledger.record import Line, State
from chaos.marks import Mark, Told
from chaos.recovery import Recovery
from chaos.sampling.sample import Sample
from fixtures.chaos_record import ChaosFinding
from fixtures.record import Verdict

UNSTEADY = "BaselineUnsteady"


class Course(msgspec.Struct, kw_only=True):
    """One experiment's samples with what is needed to read them. Times are the sampler's seconds.

    ``held``: a fault lasts until it is undone, instead of healing by itself. ``undone``: when the last undo was read back.
    ``never_lost``: no sample since the fault shows the steady state lost.
    """

    extension: Extension
    samples: list[Sample]
    seconds: dict[str, float]
    baseline: dict[str, JsonValue]
    baseline_t: float
    inject: Mark
    undo_began: float | None
    held: bool
    end: float
    undone: float | None = None
    found: dict[str, Mark] = {}
    never_lost: bool = False
    recovered: Recovery | None = None

    def told(self, document: dict[str, JsonValue]) -> list[Told]:
        """A condition over all samples."""
        return marks.told(self.samples, parse(document), self.baseline)


def build(extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]) -> Course | None:
    """The course of an experiment; None when it never came to a baseline or to the fault."""
    inject = injection(extension, engine, lines)
    baseline = baseline_of(samples, engine, lines)
    if calm := _calm(extension, engine, samples, lines, seconds):
        inject, baseline = Mark(t=calm.t + calm.took, uncertainty=0.0), calm
    if inject is None or baseline is None or engine.baseline_t is None:
        return None
    return Course(
        extension=extension,
        samples=samples,
        seconds=seconds,
        baseline=baseline.values,
        baseline_t=baseline.t,
        inject=inject,
        undo_began=began_undoing(lines, engine),
        held=bool(held(lines)),
        end=samples[-1].t + samples[-1].took,
        undone=max((_seconds(line.at, engine) for line in lines if line.state is State.VERIFIED), default=None),
    )


def _calm(extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]) -> Sample | None:
    """The baseline of a control run that set something up: read ``settle`` before that is taken away again. None for every other run."""
    undoing = began_undoing(lines, engine)
    if extension.undo or undoing is None or engine.baseline_t is None:
        return None
    first, last = engine.baseline_t, undoing - seconds["settle"]
    return next((sample for sample in reversed(samples) if sample.t >= first and sample.t + sample.took <= last), None)


def injection(extension: Extension, engine: EngineRecord, lines: list[Line]) -> Mark | None:
    """When the first fault was confirmed, and how much earlier it may have happened; a control run's begins with its process."""
    landed = faults(lines)
    if engine.sampler_began is None:
        return None
    if landed:
        first = min(landed, key=lambda line: line.at)
        applied = _seconds(first.at, engine)
        armed = min((_seconds(line.at, engine) for line in lines if line.state is State.ARMED and line.seq == first.seq), default=applied)
        return Mark(t=applied, uncertainty=max(applied - armed, 0.0))
    if not extension.undo and engine.child_started is not None:
        return Mark(t=engine.child_started - engine.sampler_began, uncertainty=0.0)
    return None


def baseline_of(samples: list[Sample], engine: EngineRecord, lines: list[Line]) -> Sample | None:
    """The sample that everything is compared with: the first steady one, or the last before the fault if something was prepared.

    What was set up for the experiment (canaries) is part of the state that the fault disturbs.
    """
    found = next((sample for sample in samples if sample.t == engine.baseline_t), None)
    landed = {line.seq for line in faults(lines)}
    prepared = [line for line in lines if line.state is State.APPLIED and line.seq not in landed]
    if found is None or not prepared or not landed:
        return found
    armed = min(_seconds(line.at, engine) for line in lines if line.state is State.ARMED and line.seq in landed)
    return next((sample for sample in reversed(samples) if sample.t >= found.t and sample.t + sample.took <= armed), found)


def _seconds(moment: str, engine: EngineRecord) -> float:
    return datetime.fromisoformat(moment).timestamp() - (engine.sampler_began or 0.0)


def held(lines: list[Line]) -> set[int]:
    """Numbers of the faults that do not heal by themselves: they last until they are undone."""
    names = {line.seq: line.entry.undo for line in lines if line.entry is not None}
    return {line.seq for line in faults(lines) if names.get(line.seq) not in SELF_HEALING}


def began_undoing(lines: list[Line], engine: EngineRecord) -> float | None:
    """When the undoing began, of faults and of what was prepared, in the sampler's seconds; None when it did not."""
    return min((_seconds(line.at, engine) for line in lines if line.state is State.UNDOING), default=None)


def findings(course: Course) -> Iterator[ChaosFinding]:
    """Everything that the samples say. Fills ``course.found`` with the marks.

    What differs from a baseline that was itself not steady is no failure that was seen.
    """
    data = list(_data(course))
    yield from data
    unsteady = any(one.reason_code == UNSTEADY for one in data)
    for one in _judged(course):
        yield undecided(one.name, UNSTEADY, one.message) if unsteady and one.verdict is Verdict.FAILED else one


def _judged(course: Course) -> Iterator[ChaosFinding]:
    if course.extension.undo:
        course.found["inject"] = course.inject
        yield from _detected(course)
        yield from recovery.judged(course)
    else:
        yield from expectations.always(
            course, "steady state", course.extension.steady, "SteadyStateLost", course.baseline_t, course.end, wanted=True
        )
    for expectation in course.extension.expect:
        yield from expectations.judged(course, expectation)
    for name in course.extension.collateral:
        unchanged = {"signal": name, "equals": "baseline"}
        yield from expectations.always(
            course, f"collateral: {name}", unchanged, "CollateralDamage", course.inject.earliest, course.end, wanted=True
        )


def _data(course: Course) -> Iterator[ChaosFinding]:
    """Samples that came in time, and a baseline of every signal that is compared with it."""
    limit = course.seconds["gap"]
    longest = marks.gap(course.samples, course.baseline_t, course.end)
    if longest > limit:
        yield undecided("sampler", "SamplerGap", f"{longest:.2f} s between two samples, the limit is {limit:g} s")
    if not holds(parse(course.extension.steady), course.baseline, course.baseline):
        yield undecided("baseline", UNSTEADY, "the steady state did not hold in the sample that everything is compared with")
    for name in course.extension.signals:
        if name not in course.baseline:
            yield undecided(f"signal {name}", "NoData", f"{name} had no data before the fault: {_why(course.samples, name)}")
        elif not any(name in sample.values for sample in course.samples if sample.t >= course.inject.t):
            yield undecided(f"signal {name}", "NoData", f"{name} had no data since the fault: {_why(course.samples, name)}")


def _why(samples: list[Sample], name: str) -> str:
    return next((sample.errors[name] for sample in reversed(samples) if name in sample.errors), "it was not read")


def _detected(course: Course) -> Iterator[ChaosFinding]:
    for name, document in (("detect", course.extension.detect), ("contained", course.extension.contained)):
        if document is None:
            continue
        start = course.found["detect"].t if name == "contained" and "detect" in course.found else course.inject.earliest
        mark = _from(course.told(document), start, course)
        if mark is not None:
            course.found[name] = mark
        elif name == "detect":
            yield undecided("detect", "EffectNotSeen", "the fault was confirmed, and no sample shows its effect")
        elif (silent := marks.silence(course.told(document), start, max(course.end, start))) > course.seconds["gap"]:
            yield undecided("contained", "NoData", f"not seen to be contained, and not known for {silent:.2f} s")
        else:
            yield finding(Verdict.FAILED, "contained", "NotContained", "the effect of the fault was never seen to be contained")


def _from(told: list[Told], start: float, course: Course) -> Mark | None:
    """The first sample that shows it, counted from the injection at the earliest."""
    mark = marks.first(told, start)
    if mark is None:
        return None
    return Mark(t=max(mark.t, course.inject.t), uncertainty=max(min(mark.uncertainty, mark.t - course.inject.earliest), 0.0))


def leaf_signals(extension: Extension) -> list[str]:
    """Signals that conditions rest on, the most telling first: what a timeline shows."""
    documents = [extension.steady, extension.detect, extension.contained]
    documents += [getattr(expectation, expectation.mode) for expectation in extension.expect]
    return list(dict.fromkeys(name for document in documents if document is not None for name in signals(parse(document))))
