"""The timeline of an experiment: its samples, the baseline that they are compared with, and when it was injected and undone. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from chaos.model.conditions import JsonValue, parse_condition
from chaos.model.engine_record import EngineRecord
from chaos.model.experiment import SELF_HEALING, Extension
from chaos.model.ledger_lines import Line, State, landed_faults
from chaos.observe.sample import Sample
from chaos.verdict.event_times import ConditionSample, EventTime, condition_samples


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment's samples with what is needed to read them. Times are the sampler's seconds.

    ``held``: a fault lasts until it is undone, instead of healing by itself. ``undo_began``: when the undoing began, ``undone``: when
    the last undo was read back; both None where it did not come to that.
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

    def samples_of(self, condition: dict[str, JsonValue]) -> list[ConditionSample]:
        """What each sample says of a condition."""
        return condition_samples(self.samples, parse_condition(condition), self.baseline)


def build_timeline(
    extension: Extension, engine: EngineRecord, samples: list[Sample], lines: list[Line], seconds: dict[str, float]
) -> Timeline | None:
    """The timeline of an experiment; None when it never came to a baseline or to the fault."""
    injection = injection_of(extension, engine, lines)
    baseline = baseline_of(samples, engine, lines)
    if control := _control_baseline(extension, engine, samples, lines, seconds):
        injection, baseline = EventTime(t=control.t + control.took, uncertainty=0.0), control
    if injection is None or baseline is None or engine.baseline_t is None:
        return None
    return Timeline(
        extension=extension,
        samples=samples,
        seconds=seconds,
        baseline=baseline.values,
        baseline_t=baseline.t,
        injection=injection,
        undo_began=undo_began(lines, engine),
        held=bool(held_faults(lines)),
        end=samples[-1].t + samples[-1].took,
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
    return next((sample for sample in reversed(samples) if sample.t >= found.t and sample.t + sample.took <= armed), found)


def held_faults(lines: list[Line]) -> set[int]:
    """Numbers of the faults that do not heal by themselves: they last until they are undone."""
    names = {line.seq: line.entry.undo for line in lines if line.entry is not None}
    return {line.seq for line in landed_faults(lines) if names.get(line.seq) not in SELF_HEALING}


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
    return next((sample for sample in reversed(samples) if sample.t >= first and sample.t + sample.took <= last), None)


def _seconds(moment: str, engine: EngineRecord) -> float:
    return datetime.fromisoformat(moment).timestamp() - (engine.sampler_began or 0.0)
