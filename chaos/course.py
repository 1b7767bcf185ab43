"""What the samples show: steadiness before and after, the four marks, expectations, collateral damage. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from chaos import expectations, marks
from chaos.acts import faults, finding, undecided
from chaos.artefacts import EngineRecord
from chaos.conditions import JsonValue, holds, parse, signals
from chaos.engine.block import SELF_HEALING
from chaos.experiment import Extension
from chaos.ledger.record import Line, State
from chaos.marks import Mark, Told
from chaos.sampling.sample import Sample
from fixtures.chaos_record import ChaosFinding
from fixtures.record import Verdict


class Course(msgspec.Struct, kw_only=True):
    """One experiment's samples with what is needed to read them. Times are the sampler's seconds.

    ``held``: a fault lasts until it is undone, instead of healing by itself. ``undone``: when the last undo was read back.
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

    @property
    def origin(self) -> tuple[str, Mark]:
        """From when the recovery counts: the injection of what heals by itself, the beginning of the undoing of what was held."""
        if self.held and self.undo_began is not None:
            return "undo", Mark(t=self.undo_began, uncertainty=0.0)
        return "inject", self.inject

    @property
    def recovery(self) -> tuple[float, float] | None:
        """Seconds from the origin to the recovery, at the earliest and at the latest; 0 for what was there before it. None without."""
        mark, origin = self.found.get("recovered"), self.origin[1]
        if mark is None:
            return None
        return max(mark.earliest - origin.t, 0.0), max(mark.t - origin.earliest, 0.0)

    def told(self, document: dict[str, JsonValue]) -> list[Told]:
        """A condition over all samples."""
        return marks.told(self.samples, parse(document), self.baseline)


def build(extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]) -> Course | None:
    """The course of an experiment; None when it never came to a baseline or to the fault."""
    inject = injection(extension, engine, lines)
    baseline = baseline_of(samples, engine, lines)
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
    """Everything that the samples say. Fills ``course.found`` with the marks."""
    yield from _data(course)
    if course.extension.undo:
        course.found["inject"] = course.inject
        yield from _detected(course)
        yield from _recovery(course)
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
        yield undecided("baseline", "BaselineUnsteady", "the steady state did not hold in the sample that everything is compared with")
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
        else:
            yield finding(Verdict.FAILED, "contained", "NotContained", "the effect of the fault was never seen to be contained")


def _from(told: list[Told], start: float, course: Course) -> Mark | None:
    """The first sample that shows it, counted from the injection at the earliest."""
    mark = marks.first(told, start)
    if mark is None:
        return None
    return Mark(t=max(mark.t, course.inject.t), uncertainty=max(min(mark.uncertainty, mark.t - course.inject.earliest), 0.0))


def _recovery(course: Course) -> Iterator[ChaosFinding]:
    """Steady again, for long enough, and in time: a time that could be on either side of the bound is undecided."""
    steady = course.told(course.extension.steady)
    settle, bound = course.seconds["settle"], course.seconds["recovery"]
    mark = marks.recovered(steady, course.inject, settle)
    name = "recovery"
    if mark is None:
        if steady and steady[-1].holds is None:
            yield undecided(name, "NoData", "whether the steady state came back is not known: the last samples do not tell")
        elif steady and steady[-1].holds:
            yield undecided(name, "NotSettled", f"the steady state came back and was not watched for {settle:g} s")
        else:
            yield finding(
                Verdict.FAILED, name, "SteadyStateLost", f"the steady state did not come back: {_differences(course)}", course.end
            )
        return
    course.found["recovered"] = mark
    soonest, latest = course.recovery or (0.0, 0.0)
    text = f"{_recovered(course, mark, latest - soonest)}, bound {bound:g} s"
    if soonest > bound:
        yield finding(Verdict.FAILED, name, "RecoveryTooSlow", text, mark.t)
    elif steady[-1].end - course.origin[1].t < settle or (course.undone is not None and steady[-1].t < course.undone):
        yield undecided(name, "NotSettled", f"the steady state was not watched for {settle:g} s, and until everything was undone")
    elif latest > bound:
        yield undecided(name, "RecoveryUndecided", text)
    else:
        yield finding(Verdict.PASSED, name, "", text, mark.t)


def _recovered(course: Course, mark: Mark, uncertainty: float) -> str:
    """When it was steady again, in words: what was never lost, or was back before the undo, did not come back after it."""
    word, origin = course.origin
    if mark == course.inject:
        apart = marks.gap(course.samples, course.inject.earliest, course.end)
        return f"no sample shows the steady state lost (they are up to {apart:.2f} s apart)"
    if word == "undo" and mark.t <= origin.t:
        return (
            f"steady again {mark.t - course.inject.t:.2f} s after the fault, {origin.t - mark.t:.2f} s before the undo began: "
            "counted as 0.00 s after undo"
        )
    return f"recovered {max(mark.t - origin.t, 0.0):.2f} s after {word} (± {uncertainty:.2f} s)"


def _differences(course: Course) -> str:
    """Signals of the steady state that are not as they were, from the last sample."""
    last = course.samples[-1]
    names = dict.fromkeys(signals(parse(course.extension.steady)))
    return "; ".join(
        f"{name} is {expectations.short(last.values.get(name))}, was {expectations.short(course.baseline.get(name))}"
        for name in names
        if last.values.get(name) != course.baseline.get(name)
    )


def leaf_signals(extension: Extension) -> list[str]:
    """Signals that conditions rest on, the most telling first: what a timeline shows."""
    documents = [extension.steady, extension.detect, extension.contained]
    documents += [getattr(expectation, expectation.mode) for expectation in extension.expect]
    return list(dict.fromkeys(name for document in documents if document is not None for name in signals(parse(document))))
