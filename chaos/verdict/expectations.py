"""What was expected of the samples: always and never over a window, eventually within a bound. Pure."""

from __future__ import annotations

import msgspec

from chaos.model.conditions import All, AnyOf, Condition, JsonValue, Leaf, parse_condition, signals_of
from chaos.model.experiment import Expectation
from chaos.verdict.event_times import ConditionSample, first_held, longest_unknown, not_held
from chaos.verdict.findings import finding, shown_value, undecided
from chaos.verdict.timeline import Timeline
from chaos.verdict.undecided_ends import undecided_ends
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

OWN = "canaries."
"""How the signals of the experiment's own pods begin: their baseline is never empty by nature."""


def expectation_finding(timeline: Timeline, expectation: Expectation) -> ChaosFinding | None:
    """What one expectation came to, and on how many subjects; None for one that names no condition."""
    found = _finding(timeline, expectation)
    among = subject_counts(expectation.condition, timeline.baseline)
    if found is None or found.verdict is not Verdict.PASSED or not among:
        return found
    return msgspec.structs.replace(found, message=f"{found.message}, for {among}")


def subject_counts(condition: Condition, baseline: dict[str, JsonValue]) -> str:
    """What a condition is about, where its signals list it: how many entries each had before the fault."""
    counted = {name: len(value) for name in signals_of(condition) if isinstance(value := baseline.get(name), (dict, list)) and value}
    return ", ".join(f"{count} in {name}" for name, count in counted.items())


def _finding(timeline: Timeline, expectation: Expectation) -> ChaosFinding | None:
    name = f"expect: {expectation.name}"
    start = timeline.injection.earliest
    end = timeline.undo_began if expectation.until == "undo" and timeline.undo_began is not None else timeline.end
    if expectation.always is not None:
        return throughout(timeline, name, expectation.always, "ExpectationViolated", start, end, wanted=True)
    if expectation.never is not None:
        return throughout(timeline, name, expectation.never, "ExpectationViolated", start, end, wanted=False)
    if expectation.eventually is not None:
        return _eventually(timeline, name, expectation.eventually, timeline.seconds[expectation.within])
    return None


def throughout(
    timeline: Timeline, name: str, document: dict[str, JsonValue], code: str, start: float, end: float, *, wanted: bool
) -> ChaosFinding:
    """The condition is ``wanted`` in every sample of a window. One that broke it stays found, whatever is not known of the others.

    Where it held, and pods of others ended that may be the fault's doing, that is undecided.
    """
    if wanted and (empty := unbreakable(parse_condition(document), timeline.baseline)):
        if empty.startswith(OWN):
            return undecided(name, "NoData", f"{empty} was empty before the fault: the experiment's own pods were never seen")
        return finding(Verdict.NOT_APPLICABLE, name, "", f"{empty} was empty before the fault: there was nothing that could be lost")
    samples = [one for one in timeline.samples_of(document) if start <= one.end <= end]  # a reading beyond the end saw what came after it
    broken = next((one for one in samples if one.holds is (not wanted)), None)
    if broken is not None:
        return finding(Verdict.FAILED, name, code, _difference(timeline, document, broken), broken.t)
    unknown = longest_unknown(samples, start, max(end, start))
    since = [one for one in samples if one.t >= start]  # a reading that began before saw the time before as well
    if not any(one.holds is wanted for one in since) or unknown > timeline.seconds["gap"]:
        return undecided(name, "NoData", f"not known for {unknown:.2f} s, the limit is {timeline.seconds['gap']:g} s")
    if ends := undecided_ends(timeline, name, parse_condition(document), start, end):
        return ends
    count = sum(one.holds is wanted for one in samples)
    return finding(Verdict.PASSED, name, "", f"held in {count} of {count} samples that tell")


def unbreakable(condition: Condition, baseline: dict[str, JsonValue]) -> str:
    """The signal of a comparison that holds whatever comes, because it must contain a baseline that is empty; else nothing."""
    if isinstance(condition, All):
        found = [unbreakable(part, baseline) for part in condition.parts]
        return found[0] if all(found) else ""
    if isinstance(condition, AnyOf):
        return next(filter(None, (unbreakable(part, baseline) for part in condition.parts)), "")
    if isinstance(condition, Leaf) and condition.operator == "contains" and condition.of_baseline:
        return condition.signal if baseline.get(condition.signal, 0) in ({}, [], "") else ""
    return ""


def _difference(timeline: Timeline, document: dict[str, JsonValue], where: ConditionSample) -> str:
    """How a sample differs from the baseline, in the signals of a condition."""
    sample = next(sample for sample in timeline.samples if sample.t == where.t)
    parts = []
    for name in dict.fromkeys(signals_of(parse_condition(document))):
        parts.append(f"{name} was {shown_value(timeline.baseline.get(name))} and is {shown_value(sample.values.get(name))}")
    return f"at {where.t - timeline.injection.t:+.2f} s: {'; '.join(parts)}"


def _eventually(timeline: Timeline, name: str, document: dict[str, JsonValue], within: float) -> ChaosFinding:
    """Became true after the fault, in time: it did not hold before it, or was lost first. What held all along shows nothing."""
    samples, start = timeline.samples_of(document), timeline.injection.earliest
    inside = [one for one in samples if start < one.end <= start + within]
    missing = not_held(samples, start, start + within)
    if missing is None and any(one.holds for one in inside):
        return undecided(name, "HeldBefore", "nothing to see: no sample shows it not to hold, neither before the fault nor since")
    met = None if missing is None else first_held(samples, max(missing.t, start))
    if met is None or met.earliest - timeline.injection.t > within:
        return _not_met(timeline, name, inside, within)
    soonest, latest = max(met.earliest - timeline.injection.t, 0.0), met.t - start
    text = f"seen {max(met.t - timeline.injection.t, 0.0):.2f} s after the fault (± {latest - soonest:.2f} s), bound {within:g} s"
    return undecided(name, "ExpectationUndecided", text) if latest > within else finding(Verdict.PASSED, name, "", text, met.t)


def _not_met(timeline: Timeline, name: str, inside: list[ConditionSample], within: float) -> ChaosFinding:
    """Not within the bound. That is a failure where samples tell so all along."""
    until = max((one.end for one in inside if one.holds is False), default=timeline.injection.t)
    unknown = longest_unknown(inside, timeline.injection.earliest, timeline.injection.earliest + within)
    if unknown > timeline.seconds["gap"]:
        text = f"not seen within {max(until - timeline.injection.t, 0):.2f} s, and not known for {unknown:.2f} s of {within:g} s"
        return undecided(name, "NoData", f"{text}, the limit is {timeline.seconds['gap']:g} s")
    return finding(Verdict.FAILED, name, "ExpectationViolated", f"not seen within {within:g} s", until)
