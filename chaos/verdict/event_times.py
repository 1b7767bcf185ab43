"""Event times from samples, each with the uncertainty between two samples. Pure.

The time of a condition is that of the first sample in which it holds; the truth lies between that sample and the last one that told
otherwise. Nothing in between is made up: the difference is the uncertainty of the time, and it goes into the time to recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

import msgspec

from chaos.model.conditions import Condition, JsonValue, holds
from chaos.observe.sample import Sample


class EventTime(msgspec.Struct, frozen=True, kw_only=True):
    """It was so at ``t`` and may have been so for up to ``uncertainty`` seconds (the sampler's)."""

    t: float
    uncertainty: float

    @property
    def earliest(self) -> float:
        """The first moment at which it may have been so."""
        return self.t - self.uncertainty


class ConditionSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one sample says of a condition. ``end`` is when the sample's reading ended; ``holds`` is None where it does not tell."""

    t: float
    end: float
    holds: bool | None


def condition_samples(samples: Sequence[Sample], condition: Condition, baseline: Mapping[str, JsonValue]) -> list[ConditionSample]:
    """The condition in each sample."""
    return [ConditionSample(t=sample.t, end=sample.t + sample.took, holds=holds(condition, sample.values, baseline)) for sample in samples]


def first_held(found: Sequence[ConditionSample], start: float) -> EventTime | None:
    """The first sample from ``start`` on in which the condition holds. A reading that began before ``start`` saw the time before."""
    since = start
    for one in found:
        if one.t < start:
            continue
        if one.holds:
            return EventTime(t=one.end, uncertainty=max(one.end - since, 0.0))
        if one.holds is False:
            since = one.t
    return None


def not_held(found: Sequence[ConditionSample], start: float, end: float) -> ConditionSample | None:
    """The sample that shows the condition not to hold: the last before ``start`` that tells, or else the first from then to ``end``."""
    known = [one for one in found if one.holds is not None]
    before = next((one for one in reversed(known) if one.end <= start), None)
    if before is not None and not before.holds:
        return before
    return next((one for one in known if start < one.end <= end and not one.holds), None)


def never_lost(steady: Sequence[ConditionSample], injection: EventTime) -> bool:
    """Whether every sample from the injection on shows the steady state. A reading that went on beyond it may have seen the fault."""
    since = [one for one in steady if one.end >= injection.earliest]
    return bool(since) and all(one.holds for one in since)


def recovered(steady: Sequence[ConditionSample], injection: EventTime, settle: float) -> EventTime | None:
    """The start of the last unbroken steady stretch, if it lasts ``settle`` seconds.

    A sample that does not tell breaks the stretch: it is not known to be steady. Nor is it known not to be: the recovery may have
    been as early as the last sample that shows it lost, or as the injection.
    """
    since = [one for one in steady if one.end >= injection.earliest]
    stretch = list(takewhile(lambda one: one.holds is True, reversed(since)))
    if not stretch or stretch[0].end - stretch[-1].t < settle:
        return None
    begin = stretch[-1]
    lost = next((one.t for one in reversed(since) if one.holds is False), injection.earliest)
    return EventTime(t=begin.end, uncertainty=max(begin.end - lost, 0.0))


def longest_gap(samples: Sequence[Sample], start: float, end: float) -> float:
    """The longest time without a sample in a window: from the end of one reading to the end of the next, and to the window's borders."""
    ends = [sample.t + sample.took for sample in samples]
    inside = [moment for moment in ends if start <= moment <= end]
    points = [max((moment for moment in ends if moment < start), default=start), *inside, end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)


def longest_unknown(found: Sequence[ConditionSample], start: float, end: float) -> float:
    """The longest time within a window in which the condition was not known, because samples were missing or did not tell."""
    points = [start, *(one.end for one in found if one.holds is not None and start <= one.end <= end), end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)
