"""Finds the bad parts of a slow group by runs of smaller groups: nodes of a fabric, adapters of a node. Pure.

A run is slow if a bad part is in it. One that is not slow clears all of its parts. A part is named only after two slow runs in which all
others are cleared, with no other part in common: one measurement that was wrong, or one part that is slow at times, names no other part.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

Group = tuple[str, ...]


class Ran(msgspec.Struct, frozen=True):
    """One run: its parts, and whether it was slow; None when nothing was measured."""

    group: Group
    slow: bool | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the runs. ``open`` parts were in a slow run and are neither named nor fine; ``rounds`` is how many were needed.

    ``contradicting`` are slow groups of which every part was fine elsewhere.
    """

    named: Group
    fine: Group
    open: Group
    contradicting: tuple[Group, ...]
    rounds: int


def bound(parts: int) -> int:
    """The most rounds of a search among so many parts."""
    return (parts - 1).bit_length() + 1


def search(parts: Sequence[str], first: Group, measure: Callable[[list[Group]], Sequence[bool | None]], *, most: int) -> Found:
    """Find what made the run of ``first`` slow, with the others of ``parts`` for comparison.

    ``measure`` runs groups at the same time that have no part in common; ``most`` is how many parts may run at a time.
    """
    runs = [Ran(first, True)]
    rounds = 0
    while rounds < bound(len(parts)) and (groups := next_round(parts, runs, most)):
        runs += [Ran(group, slow) for group, slow in zip(groups, measure(groups), strict=True)]
        rounds += 1
    return conclude(runs, rounds)


def conclude(runs: Sequence[Ran], rounds: int = 0) -> Found:
    """What follows from these runs."""
    fine = {part for run in runs if run.slow is False for part in run.group}
    slow = [run.group for run in runs if run.slow]
    suspects = dict.fromkeys(part for group in slow for part in group if part not in fine)
    named = tuple(part for part in suspects if _proven(part, slow, fine))
    return Found(
        named=named,
        fine=tuple(sorted(fine)),
        open=tuple(part for part in suspects if part not in named),
        contradicting=tuple(group for group in slow if fine.issuperset(group)),
        rounds=rounds,
    )


def _proven(part: str, slow: Sequence[Group], fine: set[str]) -> bool:
    """Whether two slow runs, with nothing else in common, leave this part alone to blame."""
    partners = [set(group) - {part} for group in slow if part in group and fine.issuperset(set(group) - {part})]
    return any(one.isdisjoint(other) for number, one in enumerate(partners) for other in partners[:number])


def next_round(parts: Sequence[str], runs: Sequence[Ran], most: int) -> list[Group]:
    """Pairs without a part in common, at most ``most`` parts together: each suspect with a part that it has not run with.

    What was fine is the best partner, then what is not known, then another suspect. Where nothing is known to be fine, one pair of
    unknown parts runs too: no more nodes are loaded than it takes.
    """
    state = conclude(runs)
    suspects, fine = list(state.open), [part for part in state.fine if part in parts]
    if not suspects:
        return []
    tried = {frozenset(run.group) for run in runs}
    unknown = [part for part in parts if part not in {*suspects, *fine, *state.named}]
    # those that are in most slow runs come first: they are the nearest to a proof
    suspects.sort(key=lambda part: -sum(part in run.group for run in runs if run.slow))
    rows = [*_pairs(suspects, [fine, unknown, suspects], tried, set())]
    if not fine:
        rows += islice(_pairs(unknown, [unknown], tried, {part for pair in rows for part in pair}), 1)
    return rows[: most // 2]


def _pairs(wanting: Sequence[str], pools: Sequence[Sequence[str]], tried: set[frozenset[str]], used: set[str]) -> Iterator[Group]:
    for part in wanting:
        if part in used:
            continue
        free = (other for pool in pools for other in pool if other != part and other not in used and frozenset((part, other)) not in tried)
        if (partner := next(free, None)) is not None:
            used |= {part, partner}
            yield part, partner


def halve(parts: Sequence[str], slow: Callable[[Group], bool | None]) -> str:
    """The one part that is slow by itself, where others are not. For parts of which one group can run at a time.

    Empty where none is, where all are, or a run measured nothing. It takes :func:`bound` runs at most.
    """
    left, alone, others_fine = tuple(parts), False, False
    while len(left) > 1:
        half = left[: len(left) // 2]
        answer = slow(half)
        if answer is None:
            return ""
        others_fine = others_fine or not answer
        left, alone = (half, len(half) == 1) if answer else (left[len(half) :], False)
    if not alone:
        return left[0] if left and slow(left) else ""
    return left[0] if others_fine or slow(tuple(part for part in parts if part not in left)) is False else ""
