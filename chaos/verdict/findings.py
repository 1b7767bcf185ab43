"""What an experiment's artefacts show. Pure.

Journal, ledger and the parent's own account: whether it was done and undone as written. chaostoolkit's own status is not believed: a
failed action, a failed rollback and an activity that never ran all end as ``completed``. Every activity must have a record that
succeeded, every fault must have landed, every undo must be verified (docs/facts/chaostoolkit.md#status-of-a-run).

Samples: steadiness before and after, the effect of the fault, expectations, collateral damage.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from chaos.model.conditions import holds, parse_condition
from chaos.model.experiment import Experiment
from chaos.model.records import STOP, EngineRecord, Line, State, landed_faults
from chaos.observe.view import Sample
from chaos.verdict.artefacts import ActivityRecord, Journal
from chaos.verdict.expectations import (
    TimeToRecovery,
    expectation_finding,
    finding,
    flapping,
    shown_value,
    steady_again,
    throughout,
    undecided,
    undecided_ends,
)
from chaos.verdict.timeline import ConditionSample, EventTime, Timeline, first_held, longest_gap, longest_unknown
from fixtures.text import typed
from fixtures.verdict.chaos_record import DETECTED, ChaosFinding
from fixtures.verdict.record import Verdict


def _error(name: str, code: str, message: str) -> ChaosFinding:
    return finding(Verdict.ERROR, name, code, message)


def engine_errors(engine: EngineRecord) -> Iterator[ChaosFinding]:
    """What the parent says went wrong."""
    if engine.interrupted:
        yield _error("run", "Interrupted", f"the run was interrupted: {engine.interrupted}")
    if engine.error:
        yield _error("run", "EngineFailed", engine.error)
    for gate in engine.gates:
        if not gate.ok:
            yield _error(f"gate {gate.name}", "GateFailed", gate.message)
    if engine.child_started is not None and not engine.gates:
        yield _error("gates", "GateFailed", "the experiment was begun, and no gate is on record")
    if engine.abort and engine.stopped is None:
        yield _error("run", "Aborted", f"the experiment was aborted: {engine.abort}")
    if engine.residue:
        yield _error("undo", "Residue", f"not restored: {'; '.join(engine.residue)}")
    if engine.finished is None:
        yield _error("run", "Unfinished", "the runner did not come to the end of this experiment")
    ending = engine.ending
    if ending is not None and engine.stopped is not None and not ending.deadline_passed:
        return  # the parent has ended it, and says why
    if ending is None:
        if not engine.error and all(gate.ok for gate in engine.gates):
            yield _error("child", "NotStarted", "the experiment's process was not started")
    elif ending.deadline_passed:
        sent = " and ".join(one.signal for one in ending.sent)
        yield _error("child", "DeadlinePassed", f"the experiment did not end by its deadline and was ended by {sent}")
    elif not ending.undisturbed:
        yield _error(
            "child", "ChildFailed", f"the experiment's process ended with {ending.code}" + f" ({ending.stopped})" * bool(ending.stopped)
        )


def journal_errors(journal: Journal, experiment: Experiment) -> Iterator[ChaosFinding]:
    """What the journal shows, read without chaostoolkit's status where that hides something."""
    if journal.status != "completed":
        why = f": {journal.error}" if journal.error else ""
        yield _error("journal", "NotCompleted", f"chaostoolkit ended with status {journal.status!r}{why}")
    for phase, kept, found in (("method", "run", journal.run), ("rollbacks", "rollbacks", journal.rollbacks)):
        wanted = [str(activity.get("name")) for activity in experiment.document.get(phase) or ()]
        try:
            records = typed.convert(found, list[ActivityRecord])
        except msgspec.ValidationError:
            yield _error("journal", "ArtefactGarbled", f"journal.json: {kept} is no list of records")
            continue
        names = [str((record.activity or {}).get("name")) for record in records]
        for name in wanted:
            if name not in names:
                yield _error(name, "NotDone", f"the journal has no record of {phase} activity {name!r}")
        yield from _records(records, names, phase)
    yield from _hypothesis(journal, experiment)


def _records(records: list[ActivityRecord], names: list[str], phase: str) -> Iterator[ChaosFinding]:
    code = "RollbackFailed" if phase == "rollbacks" else "ActivityFailed"
    for record, name in zip(records, names, strict=True):
        if record.status != "succeeded":
            lines = [str(line) for line in record.exception or () if str(line).strip()]
            ended = "it was interrupted: its record has no status" if record.status is None else f"status {record.status!r}"
            yield _error(name, code, lines[-1].strip() if lines else ended)


def _hypothesis(journal: Journal, experiment: Experiment) -> Iterator[ChaosFinding]:
    """chaostoolkit forgets a hypothesis that broke in between and held again at the end."""
    if not (experiment.document.get("steady-state-hypothesis") or {}).get("probes"):
        return
    states = journal.steady_states or {}
    during = states.get("during") or []
    for when, state in (("before", states.get("before")), *(("during", one) for one in during), ("after", states.get("after"))):
        if not isinstance(state, dict) or "steady_state_met" not in state:
            yield _error("hypothesis", "NotDone", f"the steady state was not probed {when} the method")
        elif state["steady_state_met"] is not True:
            yield finding(Verdict.FAILED, "hypothesis", "HypothesisBroken", f"chaostoolkit's steady state was not met {when} the method")


def refusals(lines: list[Line]) -> Iterator[ChaosFinding]:
    """Acts that had to be refused, by what their activity wrote down: one that was carried out is the cluster's failure."""
    for line in landed_faults(lines):
        refused = (line.detail or {}).get("refused")
        reported = str((line.detail or {}).get("said") or "")
        if refused is not None and (line.detail or {}).get("attempted") is False:
            text = "it was not asked for, so nothing was refused: no process was on the device, which the driver would have reset"
            yield finding(Verdict.INCONCLUSIVE, f"refusal {line.seq}", "EffectNotSeen", text)
        elif refused is True:
            yield finding(Verdict.PASSED, f"refusal {line.seq}", "", f"it was asked for and refused{f': {reported}' if reported else ''}")
        elif refused is not None:
            reported = reported or "nothing stood against it"
            yield finding(Verdict.FAILED, f"refusal {line.seq}", "ExpectationViolated", f"what was asked for was not refused: {reported}")


def interruptions(lines: list[Line]) -> Iterator[ChaosFinding]:
    """Acts that had to come in the middle of somebody's work, by what their activity saw before and after."""
    for line in landed_faults(lines):
        interrupted = (line.detail or {}).get("interrupted")
        if interrupted is True:
            yield finding(Verdict.PASSED, f"interruption {line.seq}", "", "the work was under way before the act and not done after it")
        elif interrupted is not None:
            words = {True: "under way", False: "not under way"}
            before, after = (words.get((line.detail or {}).get(when), "not known") for when in ("before", "after"))  # type: ignore[arg-type]
            text = f"the fault did not hit the work while it was going on: it was {before} just before, and {after} once it was through"
            yield finding(Verdict.INCONCLUSIVE, f"interruption {line.seq}", "FaultNotLanded", text)


def undo_errors(lines: list[Line]) -> Iterator[ChaosFinding]:
    """Whether each change was put back and read back."""
    for seq, entry in ((line.seq, line.entry) for line in lines if line.entry is not None):
        last = [line for line in lines if line.seq == seq][-1]
        if last.state is not State.VERIFIED:
            why = (last.detail or {}).get("message") or f"its last state is {last.state}"
            yield _error(f"undo {seq}", "NotRestored", f"{entry.undo} was not verified: {why}")


def fault_errors(lines: list[Line], experiment: Experiment) -> Iterator[ChaosFinding]:
    """Whether faults landed, as declared."""
    declared = experiment.extension.undo
    entries = {line.seq: line.entry for line in lines if line.entry is not None}
    landed = {line.seq for line in landed_faults(lines)}
    prepared = {line.seq for line in lines if line.state is State.APPLIED} - landed
    if declared and not landed:
        yield _error("fault", "NoFaultLanded", "no fault landed: the ledger shows no confirmed fault")
    carried_out = {entry.undo for seq, entry in entries.items() if seq in landed | prepared}
    if landed and (missing := [name for name in declared if name not in carried_out]):
        yield _error("fault", "FaultNotLanded", f"declared and never carried out: {', '.join(missing)}")
    for seq, entry in entries.items():
        if entry.undo not in declared and seq not in prepared:
            known = ", ".join(declared) or "none: it is a control run"
            yield _error(f"fault {seq}", "UndeclaredFault", f"{entry.undo} is not among the experiment's undo names ({known})")
        if seq not in landed | prepared:
            yield _error(f"fault {seq}", "FaultNotLanded", f"{entry.undo} was armed and its fault never confirmed")


def stop_findings(engine: EngineRecord, timeline: Timeline | None) -> Iterator[ChaosFinding]:
    """The conditions that end an experiment: which one did, by what value and when, and which of the user's held after that.

    What began before the first fault was made is not its doing, and what nobody can read decides nothing.
    """
    cause, began = engine.stopped, engine.sampler_began or 0.0
    fault = timeline.injection.earliest if timeline is not None else None
    if cause is not None:
        words, since = engine.stop_conditions.get(cause.signal, cause.signal), cause.at - began
        by_fault = fault is not None and since >= fault
        when = f"{since - fault:+.2f} s from the fault" if fault is not None and by_fault else "before any fault was made"
        text = f"{words}: {cause.value}, {when}; the experiment was ended and everything was undone"
        verdict = Verdict.FAILED if by_fault and not cause.unread else Verdict.INCONCLUSIVE
        yield finding(verdict, f"stop: {cause.signal}", "StopUnread" if cause.unread else "Stopped", text, since)
    for name, words in engine.stop_conditions.items() if timeline is not None else ():
        if (cause is None or name != cause.signal) and name.startswith(STOP) and timeline is not None:  # others have findings of their own
            yield _held_later(timeline, name, words)


def _held_later(timeline: Timeline, name: str, words: str) -> ChaosFinding:
    since = [sample for sample in timeline.samples if sample.end >= timeline.injection.earliest]
    known = [sample for sample in since if name in sample.values]
    held = next((sample for sample in known if sample.values[name]), None)
    if held is not None:
        text = f"{words}: {shown_value(held.values[name])}, {held.end - timeline.injection.t:+.2f} s from the fault, while it was undone"
        return finding(Verdict.FAILED, f"stop: {name}", "Stopped", text, held.end)
    if not since or name not in since[-1].values:
        return undecided(f"stop: {name}", "NoData", f"{words}: not known at the end: {_why_unread(timeline.samples, name)}")
    return finding(Verdict.PASSED, f"stop: {name}", "", f"{words}: did not hold in {len(known)} of {len(since)} samples")


DETECTORS = {
    "a condition of the node": ("node.faults", "node.fault.messages", "node.ready"),
    "what the node offers": ("allocatable.devices", "allocatable", "gpus.out"),
    "the kubelet's health of devices": ("pods.device.health",),
    "the exporter's metrics": ("metrics.xids", "metrics.xids.target"),
    "remediation": ("remediation.state", "node.unschedulable", "node.cordoned.by.others"),
}
"""Who may show a fault, and the signals that change then. Only signals that the experiment reads are looked at."""


def detections(timeline: Timeline, detect_if: Mapping[str, str]) -> Iterator[ChaosFinding]:
    """Who showed the fault, and after how long: the platform's own words, and conditions of the user's, such as an alert.

    A change counts until everything begins to be undone. ``detect_if``: the words of the user's conditions, by their signals.
    """
    own = timeline.extension.undo  # what the experiment itself changes, such as a cordon, shows nobody's detection
    names = {by: [name for name in signals if name in timeline.baseline and name not in own] for by, signals in DETECTORS.items()}
    names |= {words: [name] for name, words in detect_if.items()}
    start, end = timeline.injection.earliest, timeline.end if timeline.undo_began is None else timeline.undo_began
    for by, signals in names.items():
        changed = {"any": [{"signal": name, "differs": timeline.baseline.get(name, False)} for name in signals]}
        samples = [one for one in timeline.samples_of(changed) if one.end <= end] if signals else []
        seen = _since_injection(samples, start, timeline)
        if seen is not None:
            after, unsure = seen.t - timeline.injection.t, seen.uncertainty
            yield finding(Verdict.PASSED, f"{DETECTED}{by}", "", f"{after:.2f} s (± {unsure:.2f} s) after the fault", seen.t)
        elif by in detect_if.values():
            yield undecided(f"{DETECTED}{by}", "EffectNotSeen", "it did not show the fault before everything was undone")


def without_cut_short(found: ChaosFinding) -> ChaosFinding:
    """A finding of what was to come about, of an experiment that was ended before it could."""
    if found.verdict in (Verdict.PASSED, Verdict.NOT_APPLICABLE):
        return found
    return finding(Verdict.NOT_APPLICABLE, found.name, "", f"the experiment was stopped before: {found.message}", found.seconds)


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """When the effect was first seen, and when it was first seen to be contained; None where it was not, or was not asked for."""

    detected: EventTime | None = None
    contained: EventTime | None = None
    findings: tuple[ChaosFinding, ...] = ()


def effect_of(timeline: Timeline) -> Effect:
    """What the samples show of the effect. An experiment that names no condition for it has none."""
    detected, findings = None, []
    start = timeline.injection.earliest
    if timeline.extension.detect is not None:
        detected = _since_injection(timeline.samples_of(timeline.extension.detect), start, timeline)
        if detected is None:
            findings.append(undecided("detect", "EffectNotSeen", "the fault was confirmed, and no sample shows its effect"))
    if timeline.extension.contained is None:
        return Effect(detected=detected, findings=tuple(findings))
    samples = timeline.samples_of(timeline.extension.contained)
    start = detected.t if detected is not None else start
    contained = _since_injection(samples, start, timeline)
    if contained is None:
        findings.append(_not_contained(samples, start, timeline))
    return Effect(detected=detected, contained=contained, findings=tuple(findings))


def _not_contained(samples: Sequence[ConditionSample], start: float, timeline: Timeline) -> ChaosFinding:
    """A failure where samples tell so all along."""
    unknown = longest_unknown(samples, start, max(timeline.end, start))
    if unknown > timeline.seconds["gap"]:
        return undecided("contained", "NoData", f"not seen to be contained, and not known for {unknown:.2f} s")
    return finding(Verdict.FAILED, "contained", "NotContained", "the effect of the fault was never seen to be contained")


def _since_injection(samples: Sequence[ConditionSample], start: float, timeline: Timeline) -> EventTime | None:
    """The first sample that shows it, counted from the injection at the earliest."""
    seen = first_held(samples, start)
    if seen is None:
        return None
    injection = timeline.injection
    return EventTime(t=max(seen.t, injection.t), uncertainty=max(min(seen.uncertainty, seen.t - injection.earliest), 0.0))


UNSTEADY = "BaselineUnsteady"


class SampleFindings(msgspec.Struct, frozen=True, kw_only=True):
    """All that the samples of an experiment show.

    ``event_times`` are those of ``inject``, ``detect``, ``contained`` and ``recovered``, as far as they were seen. ``recovery``: the
    time to recovery; None where nothing recovered, or ``never_lost`` says that there was nothing to recover from. ``gap``: the longest
    time without a sample, seconds.
    """

    findings: list[ChaosFinding]
    event_times: dict[str, EventTime]
    recovery: TimeToRecovery | None
    never_lost: bool
    gap: float


def findings_of_samples(timeline: Timeline) -> SampleFindings:
    """Everything that the samples say.

    What differs from a baseline that was itself not steady is no failure that was seen.
    """
    data = list(_data_findings(timeline))
    control = not timeline.extension.undo
    shown = _control_run(timeline) if control else _fault_run(timeline)
    found = [*shown.findings, *_expected(timeline)]
    if any(one.reason_code == UNSTEADY for one in data):
        found = [undecided(one.name, UNSTEADY, one.message) if one.verdict is Verdict.FAILED else one for one in found]
    return msgspec.structs.replace(shown, findings=[*data, *found])


def _fault_run(timeline: Timeline) -> SampleFindings:
    """The effect of the fault, and whether the steady state came back."""
    effect, steady = effect_of(timeline), steady_again(timeline)
    if timeline.stopped:
        effect = msgspec.structs.replace(effect, findings=tuple(map(without_cut_short, effect.findings)))
    finding = steady.finding
    if finding.verdict is Verdict.PASSED:
        condition = parse_condition(timeline.extension.steady)
        finding = undecided_ends(timeline, finding.name, condition, timeline.injection.earliest, timeline.end) or finding
    times = {"inject": timeline.injection, "detect": effect.detected, "contained": effect.contained, "recovered": steady.recovered}
    return SampleFindings(
        findings=[*effect.findings, finding, *flapping(timeline)],
        event_times={name: moment for name, moment in times.items() if moment is not None},
        recovery=steady.recovery,
        never_lost=steady.never_lost,
        gap=_gap(timeline),
    )


def _control_run(timeline: Timeline) -> SampleFindings:
    """Without a fault the steady state holds from the baseline to the end."""
    steady = throughout(
        timeline, "steady state", timeline.extension.steady, "SteadyStateLost", timeline.baseline_t, timeline.end, wanted=True
    )
    return SampleFindings(findings=[steady], event_times={}, recovery=None, never_lost=False, gap=_gap(timeline))


def _expected(timeline: Timeline) -> Iterator[ChaosFinding]:
    """Expectations, and collateral damage: signals of objects that nobody may touch."""
    for expectation in timeline.extension.expect:
        found = expectation_finding(timeline, expectation)
        if found is not None:
            yield without_cut_short(found) if timeline.stopped and expectation.eventually is not None else found
    for name in timeline.extension.collateral:
        unchanged = {"signal": name, "equals": "baseline"}
        start, end = timeline.injection.earliest, timeline.end
        yield throughout(timeline, f"collateral: {name}", unchanged, "CollateralDamage", start, end, wanted=True)


def _data_findings(timeline: Timeline) -> Iterator[ChaosFinding]:
    """Samples that came in time, and a baseline of every signal that is compared with it."""
    limit, longest = timeline.seconds["gap"], _gap(timeline)
    if longest > limit:
        yield undecided("sampler", "SamplerGap", f"{longest:.2f} s between two samples, the limit is {limit:g} s")
    if not holds(parse_condition(timeline.extension.steady), timeline.baseline, timeline.baseline):
        yield undecided("baseline", UNSTEADY, "the steady state did not hold in the sample that everything is compared with")
    for name in timeline.extension.signals:
        if name not in timeline.baseline:
            yield undecided(f"signal {name}", "NoData", f"{name} had no data before the fault: {_why_unread(timeline.samples, name)}")
        elif not any(name in sample.values for sample in timeline.samples if sample.t >= timeline.injection.t):
            yield undecided(f"signal {name}", "NoData", f"{name} had no data since the fault: {_why_unread(timeline.samples, name)}")


def _gap(timeline: Timeline) -> float:
    return longest_gap(timeline.samples, timeline.baseline_t, timeline.end)


def _why_unread(samples: list[Sample], name: str) -> str:
    return next((sample.errors[name] for sample in reversed(samples) if name in sample.errors), "it was not read")
