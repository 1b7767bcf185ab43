"""What the samples show: steadiness before and after, the effect of the fault, expectations, collateral damage. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chaos.model.conditions import holds, parse_condition
from chaos.observe.view import Sample
from chaos.verdict.expectations import TimeToRecovery, expectation_finding, finding, steady_again, throughout, undecided, undecided_ends
from chaos.verdict.timeline import ConditionSample, EventTime, Timeline, first_held, longest_gap, longest_unknown
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict


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
    finding = steady.finding
    if finding.verdict is Verdict.PASSED:
        condition = parse_condition(timeline.extension.steady)
        finding = undecided_ends(timeline, finding.name, condition, timeline.injection.earliest, timeline.end) or finding
    times = {"inject": timeline.injection, "detect": effect.detected, "contained": effect.contained, "recovered": steady.recovered}
    return SampleFindings(
        findings=[*effect.findings, finding],
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
            yield found
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
            yield undecided(f"signal {name}", "NoData", f"{name} had no data before the fault: {_error(timeline.samples, name)}")
        elif not any(name in sample.values for sample in timeline.samples if sample.t >= timeline.injection.t):
            yield undecided(f"signal {name}", "NoData", f"{name} had no data since the fault: {_error(timeline.samples, name)}")


def _gap(timeline: Timeline) -> float:
    return longest_gap(timeline.samples, timeline.baseline_t, timeline.end)


def _error(samples: list[Sample], name: str) -> str:
    return next((sample.errors[name] for sample in reversed(samples) if name in sample.errors), "it was not read")
