"""From an experiment's folder to its entry in ``chaos.json``: the verdict, and the main signals as steps for the timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.experiment import Experiment
from chaos.model.plan import Plan
from chaos.model.records import EngineRecord
from chaos.observe.view import Sample
from chaos.verdict.artefacts import ArtefactError, Artefacts
from chaos.verdict.judge import ChaosVerdict
from fixtures.verdict.chaos_record import ChaosFinding, ChaosMark, ChaosResult, ChaosSeries, ChaosStep
from fixtures.verdict.record import TargetKind, Verdict

MAX_SERIES = 8
MAX_STEPS = 400
MAX_FINDINGS = 200
_TEXT = 80
_ORDER = ("inject", "detect", "contained", "recovered")


def result_of(folder: Path, verdict: ChaosVerdict, experiment: Experiment, kind: TargetKind) -> ChaosResult:
    """The entry of an experiment that was begun. What its folder does not tell stays empty: the verdict says so."""
    artefacts = Artefacts(folder)
    result = result_without_run(experiment, kind, verdict.verdict, verdict.reason_codes, verdict.message)
    result.findings = verdict.findings[:MAX_FINDINGS]
    result.never_lost, result.sampler_gap_seconds = verdict.never_lost, _rounded(verdict.gap)
    if verdict.recovery is not None:
        result.recovery_from, result.recovery_seconds = verdict.recovery.since, _rounded(verdict.recovery.seconds)
        result.recovery_uncertainty = _rounded(verdict.recovery.uncertainty)
    result.artefacts = f"chaos/{folder.name}"
    try:
        _describe(result, artefacts.plan())
        engine = artefacts.engine()
        result.started_at = _time(engine.started)
        result.duration_seconds = round((engine.finished or engine.started) - engine.started, 3)
        result.residue = list(engine.residue)
        result.marks = _marks(verdict, engine)
        _chart(result, experiment, engine, artefacts.samples())
    except ArtefactError:
        return result
    return result


def result_without_run(experiment: Experiment, kind: TargetKind, verdict: Verdict, codes: list[str], message: str) -> ChaosResult:
    """The entry of an experiment without a course: one that is not applicable, or that could not be planned."""
    extension = experiment.extension
    return ChaosResult(
        id=experiment.id,
        title=experiment.title,
        level=extension.level,
        area=[area.upper() for area in extension.area],
        verdict=verdict,
        reason_codes=list(codes),
        message=message,
        fidelity=extension.fidelity_on(kind),
        target_kind=kind,
        proves=extension.proves,
        expected_failure=extension.expected_failure,
    )


def result_of_error(experiment: Experiment, kind: TargetKind, verdict: Verdict, code: str, message: str) -> ChaosResult:
    """The entry of an experiment that was not begun, with one reason."""
    result = result_without_run(experiment, kind, verdict, [code], message)
    result.findings = [ChaosFinding(name="plan", verdict=verdict, reason_code=code, message=message)]
    return result


def _describe(result: ChaosResult, plan: Plan) -> None:
    result.targets = [str(target) for target in plan.targets]
    result.untouched = plan.untouched
    result.actions, result.undo = list(plan.actions), list(plan.undo)
    result.bound_seconds = plan.seconds.get("recovery")


def _marks(verdict: ChaosVerdict, engine: EngineRecord) -> list[ChaosMark]:
    began = engine.sampler_began or 0.0
    return [
        ChaosMark(name=name, seconds=round(mark.t, 3), uncertainty=round(mark.uncertainty, 3), at=_time(began + mark.t))
        for name in _ORDER
        if (mark := verdict.marks.get(name)) is not None
    ]


def _chart(result: ChaosResult, experiment: Experiment, engine: EngineRecord, samples: list[Sample]) -> None:
    """Signals that the verdict rests on, from the baseline on."""
    start = engine.baseline_t
    shown = [sample for sample in samples if start is not None and sample.t >= start]
    if not shown:
        return
    result.ended_seconds = round(shown[-1].t + shown[-1].took, 3)
    names = [name for name in experiment.extension.judged_signals if any(name in sample.values for sample in shown)]
    changing = [name for name in names if len({msgspec.json.encode(sample.values.get(name)) for sample in shown}) > 1]
    order = [*changing, *(name for name in names if name not in changing)]
    result.series = [_series(name, shown) for name in order[:MAX_SERIES]]


def _series(name: str, samples: list[Sample]) -> ChaosSeries:
    present = [sample.values[name] for sample in samples if name in sample.values]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present)
    baseline = samples[0].values.get(name)
    steps: list[ChaosStep] = []
    previous: object = object()
    for sample in samples:
        value: JsonValue = sample.values.get(name)
        known = name in sample.values
        if known == (previous is not None) and previous == [value]:
            continue
        previous = [value] if known else None
        drawn = float(value) if known and numeric else float(value == baseline) if known else None
        text = _short(value) if known else f"no data: {sample.errors.get(name, '')}"
        steps.append(ChaosStep(seconds=round(sample.t, 3), value=drawn, text=text[:_TEXT]))
    kept = steps[:MAX_STEPS]
    return ChaosSeries(signal=name, kind="number" if numeric else "state", steps=kept, steps_omitted=len(steps) - len(kept))


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
