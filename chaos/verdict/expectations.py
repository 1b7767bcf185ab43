"""What was expected of the samples: always and never over a window, eventually within a bound, and steady again in time. Pure.

A time to recovery counts from the fault, or from the undo where the undo ended it. Pods of other people that ended since the fault are
undecided, where nothing tells whether the fault did it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from chaos.model.conditions import All, AnyOf, Condition, JsonValue, Leaf, holds, parse_condition, signals_of
from chaos.model.experiment import Expectation, companions
from chaos.verdict.timeline import (
    ConditionSample,
    EventTime,
    Timeline,
    first_held,
    longest_gap,
    longest_unknown,
    never_lost,
    not_held,
    recovered,
)
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

OTHERS_AT_WORK = "OthersAtWork"
"""The reason code of what may be other people's doing."""


def finding(verdict: Verdict, name: str, code: str, message: str, seconds: float | None = None) -> ChaosFinding:
    """A finding; its message on one line and bounded."""
    return ChaosFinding(name=name, verdict=verdict, reason_code=code, message=" ".join(message.split())[:1000], seconds=seconds)


def undecided(name: str, code: str, message: str) -> ChaosFinding:
    """A finding that something is not known."""
    return finding(Verdict.INCONCLUSIVE, name, code, message)


def shown_value(value: JsonValue) -> str:
    """A value in a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 160 else text[:157] + "..."


def change(name: str, before: JsonValue, now: JsonValue) -> str:
    """How a signal changed, in words: of an object only the entries that did."""
    while isinstance(before, dict) and isinstance(now, dict) and before and now:
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if len(keys) == 1 and keys[0] in before and keys[0] in now:
            name, before, now = f"{name} {keys[0]}", before[keys[0]], now[keys[0]]
            continue
        before, now = ({key: one[key] for key in keys if key in one} for one in (before, now))
        break
    return f"{name} was {shown_value(before)} and is {shown_value(now)}"


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
    earlier = (sample.values[signal] for sample in reversed(known) if timeline.baseline_t < sample.t and sample.end <= start)
    before = next(earlier, timeline.baseline[signal])
    inside = [sample for sample in known if start <= sample.end <= end]
    for sample in inside:
        if news := _news(timeline.baseline[signal], before, sample.values[signal]):
            text = f"at {sample.t - timeline.injection.t:+.2f} s: {shown_value(news)}: nothing tells whether the fault did it"
            return undecided(name, OTHERS_AT_WORK, f"pods of others ended {text}")
    stated = [ConditionSample(t=sample.t, end=sample.end, holds=True) for sample in inside]
    unknown = longest_unknown(stated, start, max(end, start))
    if unknown > timeline.seconds["gap"]:
        return undecided(name, "NoData", f"{signal} is not known for {unknown:.2f} s, the limit is {timeline.seconds['gap']:g} s")
    return None


def _news(baseline: JsonValue, before: JsonValue, now: JsonValue) -> list[str]:
    """Pods that ended since the last sample before the fault, of those that were there at the baseline, where a signal lists all."""
    if isinstance(now, dict):
        return [f"{pod} {now[pod]}" for pod in baseline if now.get(pod) and not before.get(pod)]
    return [pod for pod in now if pod not in before]


NAME = "recovery"


class TimeToRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to the recovery, ``since`` the ``fault`` or the beginning of the ``undo``; what they are at least and at most."""

    since: str
    seconds: float
    soonest: float
    latest: float

    @property
    def uncertainty(self) -> float:
        """Seconds of it that are not known."""
        return self.latest - self.soonest

    @property
    def words(self) -> str:
        """The time in words."""
        begin = "the undo began" if self.since == "undo" else "the fault"
        return f"recovered {self.seconds:.2f} s (± {self.uncertainty:.2f} s) after {begin}"


class SteadyAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and when the steady state came back. ``never_lost``: no sample since the fault shows it lost."""

    finding: ChaosFinding
    recovered: EventTime | None = None
    recovery: TimeToRecovery | None = None
    never_lost: bool = False


def steady_again(timeline: Timeline) -> SteadyAgain:
    """Steady again, for long enough, and in time: a time that could be on either side of the bound is undecided."""
    steady = timeline.samples_of(timeline.extension.steady)
    settle, bound = timeline.seconds["settle"], timeline.seconds["recovery"]
    unwatched = undecided(NAME, "NotSettled", f"the steady state was not watched for {settle:g} s, and until everything was undone")
    if never_lost(steady, timeline.injection):
        apart = longest_gap(timeline.samples, timeline.injection.earliest, timeline.end)
        text = f"never lost: no sample shows the steady state lost (they are up to {apart:.2f} s apart)"
        passed = finding(Verdict.PASSED, NAME, "", text)
        return SteadyAgain(finding=passed if _watched(timeline, steady[-1]) else unwatched, never_lost=True)
    moment = recovered(steady, timeline.injection, settle)
    if moment is None:
        return SteadyAgain(finding=_not_steady(timeline, steady))
    recovery = time_to_recovery(moment, timeline.injection, timeline.undo_began if timeline.held else None)
    text = f"{recovery.words}, bound {bound:g} s"
    if recovery.soonest > bound:
        found = finding(Verdict.FAILED, NAME, "RecoveryTooSlow", text, moment.t)
    elif not _watched(timeline, steady[-1]):
        found = unwatched
    elif recovery.latest > bound:
        found = undecided(NAME, "RecoveryUndecided", text)
    else:
        found = finding(Verdict.PASSED, NAME, "", text, moment.t)
    return SteadyAgain(finding=found, recovered=moment, recovery=recovery)


def flapping(timeline: Timeline) -> Iterator[ChaosFinding]:
    """Parts of the steady state that came back more than once, and agents that were replaced again: there is one recovery.

    Each disturbance takes a part away at most once. While a fault is held, nothing is expected to be steady.
    """
    start = timeline.undo_began if timeline.held and timeline.undo_began is not None else timeline.injection.earliest
    after = [one for one in timeline.samples if one.end >= start]
    steady, origin = parse_condition(timeline.extension.steady), "the undo began" if timeline.held else "the fault"
    for part in steady.parts if isinstance(steady, All) else (steady,):
        states = [(one, state) for one in after if (state := holds(part, one.values, timeline.baseline)) is not None]
        back = [now for (_, before), (now, state) in pairwise(states) if state and not before]
        if len(back) > timeline.disturbances:
            name = next(signals_of(part))
            lost = next(one for one, state in reversed(states) if not state)
            times = ", ".join(f"{one.t - timeline.injection.t:+.2f} s" for one in back)
            how = change(name, timeline.baseline.get(name), lost.values.get(name))
            text = f"{how}: it came back {len(back)} times after {origin}: {times}"
            yield finding(Verdict.FAILED, NAME, "Flapping", text, back[-1].t)
    for name in (name for name in timeline.extension.signals if name.startswith("uids.")):
        first = timeline.baseline.get(name) or []
        others = {one for sample in timeline.samples if sample.end >= timeline.injection.earliest for one in sample.values.get(name) or []}
        if len(new := others - set(first)) > timeline.faults * max(len(first), 1):
            text = f"{name} was {shown_value(first)} and became {shown_value(sorted(new))}: replaced more often than there were faults"
            yield finding(Verdict.FAILED, NAME, "Flapping", text)


def time_to_recovery(moment: EventTime, injection: EventTime, undo_began: float | None) -> TimeToRecovery:
    """The time to a recovery. ``undo_began`` is None for a fault that heals by itself.

    What was steady again before the undoing began did not wait for it, whatever the fault: it counts from the fault.
    """
    origin, since = injection, "fault"
    if undo_began is not None and moment.t > undo_began:
        origin, since = EventTime(t=undo_began, uncertainty=0.0), "undo"
    soonest, latest = max(moment.earliest - origin.t, 0.0), max(moment.t - origin.earliest, 0.0)
    return TimeToRecovery(since=since, seconds=max(moment.t - origin.t, 0.0), soonest=soonest, latest=latest)


def _watched(timeline: Timeline, last: ConditionSample) -> bool:
    """Whether samples go on for long enough after the fault, or the undoing of what was held, and until everything was undone."""
    begin = timeline.undo_began if timeline.held and timeline.undo_began is not None else timeline.injection.t
    return last.end - begin >= timeline.seconds["settle"] and (timeline.undone is None or last.t >= timeline.undone)


def _not_steady(timeline: Timeline, steady: Sequence[ConditionSample]) -> ChaosFinding:
    """Why there is no recovery."""
    if not steady or steady[-1].holds is None:
        return undecided(NAME, "NoData", "whether the steady state came back is not known: the last samples do not tell")
    if steady[-1].holds:
        settle = timeline.seconds["settle"]
        return undecided(NAME, "NotSettled", f"the steady state came back and was not watched for {settle:g} s")
    text = f"the steady state did not come back: {_differences(timeline)}"
    return finding(Verdict.FAILED, NAME, "SteadyStateLost", text, timeline.end)


def _differences(timeline: Timeline) -> str:
    """Signals of the steady state that are not as they were, from the last sample."""
    last = timeline.samples[-1]
    names = dict.fromkeys(signals_of(parse_condition(timeline.extension.steady)))
    return "; ".join(
        change(name, timeline.baseline.get(name), last.values.get(name))
        for name in names
        if last.values.get(name) != timeline.baseline.get(name)
    )


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
    if expectation.eventually is None:
        return None
    met = _eventually(timeline, name, expectation.eventually, timeline.seconds[expectation.within])
    if met.verdict is not Verdict.PASSED or not expectation.until or met.seconds is None:
        return met
    told = timeline.samples_of(expectation.eventually)
    if any(one.holds is False and end <= one.t < met.seconds for one in told):
        return finding(Verdict.FAILED, name, "ExpectationViolated", "it was not so before the undo began, and only after it", met.seconds)
    stayed = throughout(timeline, name, expectation.eventually, "ExpectationViolated", met.seconds, end, wanted=True)
    return stayed if stayed.verdict is Verdict.FAILED else met


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
        parts.append(change(name, timeline.baseline.get(name), sample.values.get(name)))
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
