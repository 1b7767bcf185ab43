"""Pods of other people that ended since the fault, where nothing tells whether the fault did it. Pure."""

from __future__ import annotations

from chaos.model.companions import companions
from chaos.model.conditions import Condition, JsonValue, signals_of
from chaos.verdict.event_times import ConditionSample, longest_unknown
from chaos.verdict.findings import OTHERS_AT_WORK, shown_value, undecided
from chaos.verdict.timeline import Timeline
from fixtures.verdict.chaos_record import ChaosFinding


def undecided_ends(timeline: Timeline, name: str, condition: Condition, start: float, end: float) -> ChaosFinding | None:
    """What the companions of a condition's signals leave undecided in a window; None where they show nothing.

    Samples of an older version have no companions: their signals show every pod that ended.
    """
    for signal in companions(signals_of(condition)):
        if any(signal in sample.values or signal in sample.errors for sample in timeline.samples):
            found = _undecided(timeline, name, signal, start, end)
            if found is not None:
                return found
    return None


def _undecided(timeline: Timeline, name: str, signal: str, start: float, end: float) -> ChaosFinding | None:
    known = [sample for sample in timeline.samples if signal in sample.values]
    if signal not in timeline.baseline:
        return undecided(name, "NoData", f"{signal} had no data before the fault")
    earlier = (sample.values[signal] for sample in reversed(known) if timeline.baseline_t < sample.t and sample.t + sample.took <= start)
    before = next(earlier, timeline.baseline[signal])
    inside = [sample for sample in known if start <= sample.t + sample.took <= end]
    for sample in inside:
        if news := _news(timeline.baseline[signal], before, sample.values[signal]):
            text = f"at {sample.t - timeline.injection.t:+.2f} s: {shown_value(news)}: nothing tells whether the fault did it"
            return undecided(name, OTHERS_AT_WORK, f"pods of others ended {text}")
    told = [ConditionSample(t=sample.t, end=sample.t + sample.took, holds=True) for sample in inside]
    unknown = longest_unknown(told, start, max(end, start))
    if unknown > timeline.seconds["gap"]:
        return undecided(name, "NoData", f"{signal} is not known for {unknown:.2f} s, the limit is {timeline.seconds['gap']:g} s")
    return None


def _news(baseline: JsonValue, before: JsonValue, now: JsonValue) -> list[str]:
    """Pods that ended since the last sample before the fault, of those that were there at the baseline, where a signal lists all."""
    if isinstance(now, dict):
        return [f"{pod} {now[pod]}" for pod in baseline if now.get(pod) and not before.get(pod)]
    return [pod for pod in now if pod not in before]
