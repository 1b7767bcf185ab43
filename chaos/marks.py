"""When a fault was injected, detected, contained and recovered from: four marks, each with what is not known of it. Pure.

A mark of a condition is the first sample in which it holds; the truth lies between that sample and the last one that told
otherwise. Nothing in between is made up: the difference is the mark's uncertainty, and it goes into the recovery time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from chaos.conditions import Condition, JsonValue, holds
from chaos.sampling.sample import Sample


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """It was so at ``t`` and may have been so for up to ``uncertainty`` seconds (the sampler's)."""

    t: float
    uncertainty: float

    @property
    def earliest(self) -> float:
        """The first moment at which it may have been so."""
        return self.t - self.uncertainty


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one sample says of a condition. ``end`` is when the sample's reading ended."""

    t: float
    end: float
    holds: bool | None


def told(samples: Sequence[Sample], condition: Condition, baseline: Mapping[str, JsonValue]) -> list[Told]:
    """The condition over the samples."""
    return [Told(t=sample.t, end=sample.t + sample.took, holds=holds(condition, sample.values, baseline)) for sample in samples]


def first(found: Sequence[Told], start: float) -> Mark | None:
    """The first sample from ``start`` on in which the condition holds. A reading that began before ``start`` saw the time before."""
    since = start
    for one in found:
        if one.t < start:
            continue
        if one.holds:
            return Mark(t=one.end, uncertainty=max(one.end - since, 0.0))
        if one.holds is False:
            since = one.t
    return None


def recovered(steady: Sequence[Told], inject: Mark, settle: float) -> Mark | None:
    """The start of the last unbroken steady stretch, if it lasts ``settle`` seconds; the injection itself if nothing was ever lost.

    A sample that does not tell breaks the stretch: it is not known to be steady.
    """
    stretch: list[Told] = []
    broken: Told | None = None
    for one in reversed(steady):
        if one.holds is not True:
            broken = one
            break
        stretch.append(one)
    if not stretch:
        return None
    if broken is None or broken.end < inject.earliest:  # a reading that went on beyond the injection may have seen the fault
        after = [one for one in stretch if one.t >= inject.t]
        if not after or after[0].end - inject.t < settle:
            return None
        return Mark(t=inject.t, uncertainty=inject.uncertainty)
    begin = stretch[-1]
    if stretch[0].end - begin.t < settle:
        return None
    return Mark(t=begin.end, uncertainty=max(begin.end - broken.t, 0.0))


def gap(samples: Sequence[Sample], start: float, end: float) -> float:
    """The longest silence within a window: from the end of one reading to the end of the next, and to the window's borders."""
    ends = [sample.t + sample.took for sample in samples]
    inside = [moment for moment in ends if start <= moment <= end]
    points = [max((moment for moment in ends if moment < start), default=start), *inside, end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)


def silence(found: Sequence[Told], start: float, end: float) -> float:
    """The longest time within a window in which the condition was not known, because samples were missing or did not tell."""
    points = [start, *(one.end for one in found if one.holds is not None and start <= one.end <= end), end]
    return max((later - earlier for earlier, later in pairwise(points)), default=0.0)
