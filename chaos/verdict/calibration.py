"""What a node without CPU time to spare does is nobody's failure: how fast the experiment's own pods were before the fault. Pure.

What a slow node can be late with is undecided there. What no slowness brings about stays a failure: a pod that ended, a device that two
pods hold, damage elsewhere. So does a stall on a node whose workers never paused for long before the fault.

Facts: docs/facts/kubelet.md#slow-machines.
"""

from collections.abc import Iterator

from chaos.model.conditions import JsonValue, Leaf, signals_of
from chaos.model.experiment import DEFAULT_SLOW_START, PATIENCE, PAUSE, SLOW_START, STALLED, START, Expectation
from chaos.observe.view import Sample
from chaos.verdict.expectations import undecided
from chaos.verdict.timeline import Timeline
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

SLOW = "SlowRuntime"
"""The reason code of what is undecided because the node was slow before the fault."""

_LATE = frozenset({"SteadyStateLost", "RecoveryTooSlow", "NotContained", "ConformanceLost", "NotAsBefore", "Flapping"})
_UNREAD = frozenset({"NoData", "SamplerGap"})
_NOT_DONE = frozenset({"ActivityFailed", "Aborted", "NotCompleted", "NotDone", "NoFaultLanded", "FaultNotLanded", "DeadlinePassed"})
"""Errors of an experiment that was not carried out as written. What was not undone stays an error."""


def without_slowness(timeline: Timeline, found: list[ChaosFinding]) -> list[ChaosFinding]:
    """The findings, with failures undecided that a node which was slow before the fault may have caused.

    What could not be read of it, or done on it, has that reason, too.
    """
    slow = "; ".join(_slow(timeline))
    late = {f"expect: {one.name}" for one in timeline.extension.expect if one.eventually is not None or _most(one) is not None}
    short = {f"expect: {one.name}": text for one in timeline.extension.expect if (text := _usual_pause(timeline, one))}
    result = []
    for one in found:
        why = ""
        if one.verdict is Verdict.FAILED:
            why = short.get(one.name) or (slow if one.reason_code in _LATE or one.name in late else "")
        elif one.reason_code in (_NOT_DONE if one.verdict is Verdict.ERROR else _UNREAD):
            why = slow
        result.append(undecided(one.name, SLOW, f"{one.message}, and before the fault {why}") if why else one)
    return result


def not_begun_for_slowness(samples: list[Sample], seconds: dict[str, float], found: list[ChaosFinding]) -> list[ChaosFinding]:
    """The findings of an experiment that made no fault: undecided where its own pods took too long to start before one could be made.

    Pods that never started are gone from the last samples.
    """
    slowest = max((one.values for one in samples), key=lambda values: _number(values.get(START)), default={})
    why = _slow_start(slowest, seconds)
    return [undecided(one.name, SLOW, f"{one.message}; {why}") if why and one.reason_code in _NOT_DONE else one for one in found]


def _slow_start(values: dict[str, JsonValue], seconds: dict[str, float]) -> str:
    """That a pod took longer to start than it may; empty where none did."""
    start, limit = _number(values.get(START)), seconds.get(SLOW_START, DEFAULT_SLOW_START)
    return f"a pod of the experiment took {start:.1f} s to start (policy probes.slowStartSeconds: {limit:g})" if start > limit else ""


def _slow(timeline: Timeline) -> Iterator[str]:
    """In which ways the node was slow before the fault."""
    if start := _slow_start(timeline.baseline, timeline.seconds):
        yield start
    pause, most = _number(timeline.baseline.get(PAUSE)), [most for one in timeline.extension.expect if (most := _most(one)) is not None]
    if most and pause > min(most):
        yield f"a worker paused for {pause:.2f} s, the limit is {min(most):g} s"


def _usual_pause(timeline: Timeline, expectation: Expectation) -> str:
    """That workers paused for hardly longer after the fault than before it; empty where they did, or may."""
    pause, most = _number(timeline.baseline.get(PAUSE)), _most(expectation)
    if most is None:
        return ""
    longest = max((_number(one.values.get(STALLED)) for one in timeline.samples if one.end >= timeline.injection.earliest), default=0.0)
    return f"a worker paused for {pause:.2f} s" if most < longest <= PATIENCE * pause else ""


def _most(expectation: Expectation) -> float | None:
    """The seconds for which a worker may stall, of an expectation about that; None of every other."""
    condition = expectation.condition
    if expectation.always is None or set(signals_of(condition)) != {STALLED} or not isinstance(condition, Leaf):
        return None
    return _number(condition.value) if condition.operator == "at_most" else None


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
