"""The effect of the fault: when it was detected, and when it was contained. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.verdict.event_times import ConditionSample, EventTime, first_held, longest_unknown
from chaos.verdict.findings import finding, undecided
from chaos.verdict.timeline import Timeline
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
