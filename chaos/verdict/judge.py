"""The verdict of an experiment: a pure function of what is in its folder, to be judged again at any time.

``error``: it was not done or not undone as written, or what says so is missing. ``failed``: it was, and the cluster was seen not to
stand it. ``inconclusive``: what was seen does not tell. ``passed``: none of these. The first that applies counts: what is not known
elsewhere does not hide what was seen, and error and inconclusive never pass.

With it the experiment's entry in ``chaos.json``: the verdict, and the main signals as steps for the timeline.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.experiment import Experiment
from chaos.model.plan import Plan
from chaos.model.records import EngineRecord, Line, landed_faults
from chaos.observe.view import Sample
from chaos.verdict.allocation_snapshots import SIGNAL, allocation_findings
from chaos.verdict.artefacts import AFTER, BEFORE, ArtefactError, Artefacts, Conformance
from chaos.verdict.calibration import not_begun_for_slowness, without_slowness
from chaos.verdict.expectations import OTHERS_AT_WORK, TimeToRecovery, finding, shown_value, undecided
from chaos.verdict.findings import (
    SampleFindings,
    detections,
    engine_errors,
    fault_errors,
    findings_of_samples,
    interruptions,
    journal_errors,
    refusals,
    stop_findings,
    undo_errors,
)
from chaos.verdict.timeline import EventTime, Timeline, build_timeline
from fixtures.verdict.chaos_record import ChaosFinding, ChaosMark, ChaosResult, ChaosSeries, ChaosStep
from fixtures.verdict.record import TargetKind, Verdict

MEANWHILE = {
    "node.cordoned.by.others": "somebody else cordoned the node",
    "node.faults.of.others": "the node reports a fault of a device that is not the experiment's",
}
"""Signals that list what others did, empty while nobody did anything, and what one of their entries means."""

EXPLAINED = frozenset(
    {"ExpectationViolated", "SteadyStateLost", "NotContained", "RecoveryTooSlow", "ConformanceLost", "NotAsBefore", "Flapping"}
)
"""Reasons that somebody else's work on the target nodes may give a failure. Damage elsewhere and to allocations has others."""


def interference_findings(timeline: Timeline) -> Iterator[ChaosFinding]:
    """The first sample that shows each of them, from the baseline on. One that the experiment judges itself is a finding of its own."""
    judged = timeline.extension.judged_signals
    for name, words in MEANWHILE.items():
        if name not in timeline.extension.signals or name in judged:
            continue
        seen = next((sample for sample in timeline.samples if sample.t >= timeline.baseline_t and sample.values.get(name)), None)
        if seen is not None:
            text = f"{words} ({shown_value(seen.values[name])}), {seen.t - timeline.injection.t:+.2f} s from the fault: it is left as it is"
            yield undecided(_finding_name(name), OTHERS_AT_WORK, text)


def explains_failures(found: Iterable[ChaosFinding]) -> bool:
    """Whether somebody else was at work on the target nodes, and every failure may come of that.

    A tenant's pod that ended explains nothing but itself: there is one on most clusters.
    """
    found, at_work = list(found), {_finding_name(name) for name in MEANWHILE}
    failed = {one.reason_code for one in found if one.verdict is Verdict.FAILED}
    return failed <= EXPLAINED and any(one.name in at_work for one in found)


def _finding_name(signal: str) -> str:
    return f"others: {signal}"


_HELD = frozenset({Verdict.PASSED, Verdict.WARNED, Verdict.WAIVED})


def conformance_findings(artefacts: Artefacts) -> Iterator[ChaosFinding]:
    """What conformed before conforms after. What did not is no finding about the fault."""
    try:
        before, after = artefacts.conformance(BEFORE), artefacts.conformance(AFTER)
    except ArtefactError as error:
        yield finding(Verdict.ERROR, "conformance", error.code, str(error))
        return
    for name, read in ((BEFORE, before), (AFTER, after)):
        if read.trouble:
            yield undecided("conformance", "ConformanceUndecided", f"{name}: {read.trouble}")
            return
    if not before.requirements:
        yield finding(Verdict.NOT_APPLICABLE, "conformance", "", "no requirement of these areas applies to this cluster")
        return
    yield from _regressions(before, after)


def _regressions(before: Conformance, after: Conformance) -> Iterator[ChaosFinding]:
    worse = 0
    for id_, was in before.requirements.items():
        now = after.requirements.get(id_)
        if was.verdict not in _HELD or (now is not None and now.verdict in _HELD):
            continue
        worse += 1
        name = f"conformance {id_}"
        if now is None or now.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR):
            text = f"passed before, and could not be judged after: {now.message if now else ''}"
            yield undecided(name, "ConformanceUndecided", text)
        else:
            yield finding(Verdict.FAILED, name, "ConformanceLost", f"passed before, {now.verdict} after: {now.message}")
    held = sum(was.verdict in _HELD for was in before.requirements.values())
    if not held:
        message = f"none of the {len(before.requirements)} requirements of these areas held before the fault"
        yield finding(Verdict.NOT_APPLICABLE, "conformance", "", message)
    elif not worse:
        yield finding(Verdict.PASSED, "conformance", "", f"{held} requirements held before and after")


def standing_findings(artefacts: Artefacts) -> Iterator[ChaosFinding]:
    """What of the GPU stack is not as it was before the fault, object by object. What somebody else wrote is named, and no failure."""
    try:
        kept = artefacts.standing()
    except ArtefactError as error:
        yield finding(Verdict.ERROR, "standing", error.code, str(error))
        return
    for kind, why in kept.unread.items():
        yield undecided(f"standing {kind}", "NoData", f"read before the fault and not after it: {why}")
    by_subject: dict[tuple[str, str], list[str]] = {}
    for one in kept.differences:
        by_subject.setdefault((one.subject, one.by), []).append(str(one))
    for (subject, by), texts in by_subject.items():
        text = "; ".join(texts[:MAX_TEXTS]) + f" (and {len(texts) - MAX_TEXTS} more)" * (len(texts) > MAX_TEXTS)
        if by:
            yield finding(Verdict.NOT_APPLICABLE, f"standing {subject}", "", f"changed by {by}: {text}")
        else:
            yield finding(Verdict.FAILED, f"standing {subject}", "NotAsBefore", text)
    if not by_subject:
        yield finding(Verdict.PASSED, "standing", "", f"{kept.objects} objects of the GPU stack are as before")


MAX_TEXTS = 6
"""Fields that one finding names."""

_RANK = (Verdict.ERROR, Verdict.FAILED, Verdict.INCONCLUSIVE)
KNOWN_CODES = {"ExpectationViolated"}
"""Why an experiment with an expected failure may fail."""


class ChaosVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict with all that it rests on. ``gap`` is the longest time without a sample, seconds; ``marks`` are event times.

    ``recovery``: the time to recovery; None where nothing recovered, or ``never_lost`` says that there was nothing to recover from.
    """

    verdict: Verdict
    reason_codes: list[str] = []
    message: str = ""
    findings: list[ChaosFinding] = []
    marks: dict[str, EventTime] = {}
    recovery: TimeToRecovery | None = None
    never_lost: bool = False
    gap: float | None = None


def judge(folder: Path) -> ChaosVerdict:
    """Judge an experiment's folder. Never raises for what is in it: what cannot be read is an error of the experiment."""
    artefacts = Artefacts(folder)
    found: list[ChaosFinding] = []
    timeline: Timeline | None = None
    expected = ""
    try:
        experiment, plan, engine = artefacts.experiment(), artefacts.plan(), artefacts.engine()
        expected = experiment.extension.expected_failure
        found += [*_identity(experiment, plan, engine), *engine_errors(engine)]
        if any(not gate.ok for gate in engine.gates):
            return _conclude(found, None, "")  # nothing was touched, so nothing else is missing
        found += _execution(artefacts, experiment, stopped=engine.stopped is not None)
        samples, lines = artefacts.samples(), _lines(artefacts)
        if engine.sampler_failure:
            found.append(undecided("sampler", "SamplerFailed", engine.sampler_failure))
        if lines is not None:
            timeline = _timeline(engine, experiment, plan, samples, lines)
            found = [*stop_findings(engine, timeline), *found]
            if timeline is None and engine.child_started is not None and not any(one.verdict is Verdict.ERROR for one in found):
                found.append(undecided("sampler", "NoData", "there is no sample from before the fault"))
            if not landed_faults(lines) and experiment.extension.undo:
                found = not_begun_for_slowness(samples, plan.seconds, found)
    except ArtefactError as error:
        found.append(finding(Verdict.ERROR, "artefacts", error.code, str(error)))
    shown = findings_of_samples(timeline) if timeline is not None else None
    if timeline is not None and shown is not None:
        found += [*shown.findings, *detections(timeline, engine.detect_conditions), *interference_findings(timeline)]
        found += [*_allocations(artefacts, timeline), *standing_findings(artefacts)]
        found = [_in_users_words(one, engine.steady_conditions) for one in found]
    found += conformance_findings(artefacts)
    if timeline is not None:
        found = without_slowness(timeline, found)
    return _conclude(found, shown, expected)


def _in_users_words(one: ChaosFinding, conditions: dict[str, str]) -> ChaosFinding:
    """A finding that names a condition of the user's as the user wrote it."""
    message = one.message
    for name, words in conditions.items():
        message = message.replace(f"{name} was", f"--steady-if {words} was")
    return msgspec.structs.replace(one, message=message)


def _identity(experiment: Experiment, plan: Plan, engine: EngineRecord) -> Iterator[ChaosFinding]:
    """Whether the pieces belong together."""
    if plan.digest != engine.plan_digest:
        yield finding(Verdict.ERROR, "artefacts", "ArtefactGarbled", "plan.json is not the plan that was carried out")
    if not experiment.id == plan.experiment == engine.experiment or plan.run_id != engine.run_id:
        yield finding(
            Verdict.ERROR, "artefacts", "ArtefactGarbled", "experiment.json, plan.json and engine.json are not of the same experiment"
        )
    if not plan.targets:
        yield finding(Verdict.ERROR, "plan", "NoTarget", "the plan names no target")


def _execution(artefacts: Artefacts, experiment: Experiment, *, stopped: bool) -> list[ChaosFinding]:
    """Journal and ledger, each judged even when the other is missing. An experiment that was ``stopped`` has to be undone, and not done."""
    found: list[ChaosFinding] = []
    for read in (_ledger,) if stopped else (lambda artefacts, experiment: journal_errors(artefacts.journal(), experiment), _ledger):
        try:
            found += read(artefacts, experiment)
        except ArtefactError as error:
            found.append(finding(Verdict.ERROR, "artefacts", error.code, str(error)))
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            message = f"journal.json or ledger.jsonl is not of the shape that is written: {type(error).__name__}: {error}"
            found.append(finding(Verdict.ERROR, "artefacts", "ArtefactGarbled", message))
    return found


def _ledger(artefacts: Artefacts, experiment: Experiment) -> Iterable[ChaosFinding]:
    plan, lines, stopped = artefacts.plan(), artefacts.ledger(), artefacts.engine().stopped is not None
    if any(line.entry is not None and (line.entry.run_id, line.entry.experiment) != (plan.run_id, plan.experiment) for line in lines):
        raise ArtefactError("ArtefactGarbled", "ledger.jsonl holds entries of another run or experiment")
    if stopped:
        return list(undo_errors(lines))
    return [*fault_errors(lines, experiment), *undo_errors(lines), *refusals(lines), *interruptions(lines)]


def _lines(artefacts: Artefacts) -> list[Line] | None:
    """The ledger's lines; None where it cannot be read, which is found elsewhere."""
    try:
        return artefacts.ledger()
    except ArtefactError:
        return None


def _timeline(engine: EngineRecord, experiment: Experiment, plan: Plan, samples: list[Sample], lines: list[Line]) -> Timeline | None:
    """The timeline, if it came to one. Raises :class:`ArtefactError` for times that are none."""
    try:
        return build_timeline(experiment.extension, engine, samples, lines, plan.seconds)
    except (ValueError, KeyError) as error:
        raise ArtefactError("ArtefactGarbled", f"the times of the artefacts cannot be read: {error}") from None


def _allocations(artefacts: Artefacts, timeline: Timeline) -> Iterator[ChaosFinding]:
    if SIGNAL not in timeline.extension.signals:
        return
    try:
        snapshots = artefacts.allocations()
    except ArtefactError as error:
        yield finding(Verdict.ERROR, "artefacts", error.code, str(error))
        return
    yield from allocation_findings(snapshots, timeline.injection.t)


def _verdict(found: list[ChaosFinding], expected: str) -> Verdict:
    """The first that applies. The failure that an experiment is known for is no news: what is not known beside it counts."""
    kinds = {one.verdict for one in found}
    codes = {one.reason_code for one in found if one.verdict is Verdict.FAILED}
    if expected and codes == KNOWN_CODES and Verdict.INCONCLUSIVE in kinds:
        kinds.discard(Verdict.FAILED)
    if explains_failures(found):
        kinds.discard(Verdict.FAILED)
    return next((rank for rank in _RANK if rank in kinds), Verdict.PASSED)


def _conclude(found: list[ChaosFinding], shown: SampleFindings | None, expected: str) -> ChaosVerdict:
    verdict = _verdict(found, expected)
    decisive = [one for one in found if one.verdict is verdict] if verdict is not Verdict.PASSED else []
    codes = list(dict.fromkeys(one.reason_code for one in decisive if one.reason_code))
    message = "; ".join(f"{one.name}: {one.message}" for one in decisive[:3]) + f" (and {len(decisive) - 3} more)" * (len(decisive) > 3)
    if expected and verdict in (Verdict.PASSED, Verdict.FAILED):
        verdict, codes, message = _as_expected(verdict, codes, message, expected)
    concluded = ChaosVerdict(verdict=verdict, reason_codes=codes, message=message, findings=found)
    if shown is None:
        return concluded
    seen = {"marks": shown.event_times, "recovery": shown.recovery, "never_lost": shown.never_lost, "gap": shown.gap}
    return msgspec.structs.replace(concluded, **seen)


def _as_expected(verdict: Verdict, codes: list[str], message: str, expected: str) -> tuple[Verdict, list[str], str]:
    """An experiment that is known to fail: failing in the way that is known is its pass, and passing is news."""
    if verdict is Verdict.PASSED:
        return Verdict.FAILED, ["UnexpectedPass"], f"it passes now, although it was expected to fail: {expected}"
    if set(codes) == KNOWN_CODES:
        return Verdict.PASSED, ["ExpectedFailure"], f"{expected} ({message})"
    return verdict, codes, message


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
        plan, engine = artefacts.plan(), artefacts.engine()
        result.targets, result.untouched = [str(target) for target in plan.targets], plan.untouched
        result.actions, result.undo = list(plan.actions), list(plan.undo)
        result.bound_seconds = plan.seconds.get("recovery")
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
    result.ended_seconds = round(shown[-1].end, 3)
    judged = [*experiment.extension.judged_signals, *engine.stop_conditions, *engine.steady_conditions, *engine.detect_conditions]
    names = [name for name in dict.fromkeys(judged) if any(name in sample.values for sample in shown)]
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
