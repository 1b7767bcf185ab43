"""Nodes that were replaced between two runs: an upgrade often brings new machines, and a name is not what a machine is.

A node that is gone and a new one with the same product and capacity stand for each other. Which one for which is decided for each
requirement by what it said, worst first: a fault that moved to another machine of the kind is an old fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from fixtures.text.sentences import in_order
from fixtures.verdict.record import InventoryRow, Report, Result, Verdict

_WORST_FIRST = (Verdict.FAILED, Verdict.WARNED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.WAIVED, Verdict.PASSED, Verdict.NOT_APPLICABLE)


class Replaced(msgspec.Struct, frozen=True):
    """Nodes of one product and capacity: names that are gone, and names that are new."""

    gone: tuple[str, ...]
    new: tuple[str, ...]


def replaced_nodes(old: Report, new: Report) -> list[Replaced]:
    """The kinds of nodes of which some are gone and some are new, from the inventories of both runs."""
    before, after = _by_kind(old), _by_kind(new)
    kept = {row.node for row in old.inventory} & {row.node for row in new.inventory}
    found = []
    for kind, names in before.items():
        gone = tuple(name for name in names if name not in kept)
        fresh = tuple(name for name in after.get(kind, ()) if name not in kept)
        if gone and fresh:
            found.append(Replaced(gone, fresh))
    return found


def other_nodes(old: Report, new: Report, replaced: Sequence[Replaced]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Accelerator nodes that only the later run has, and those that only the earlier one had, without replaced ones."""
    before, after = ({row.node for row in made.inventory} for made in (old, new))
    known = {name for kind in replaced for name in (*kind.gone, *kind.new)}
    return tuple(in_order(after - before - known)), tuple(in_order(before - after - known))


def renamed(old: Result, new: Result, replaced: Sequence[Replaced]) -> Result:
    """The older result as if its replaced nodes had the names of those that took their place."""
    names = _names(old, new, replaced)
    if not names:
        return old
    subjects = [
        msgspec.structs.replace(one, name=names[one.name]) if one.kind == "Node" and one.name in names else one for one in old.subjects
    ]
    return msgspec.structs.replace(old, subjects=subjects)


def _names(old: Result, new: Result, replaced: Sequence[Replaced]) -> Mapping[str, str]:
    before, after = _ranks(old), _ranks(new)
    names: dict[str, str] = {}
    for kind in replaced:
        gone = sorted((name for name in kind.gone if name in before), key=lambda name: (before[name], name))
        fresh = sorted((name for name in kind.new if name in after), key=lambda name: (after[name], name))
        names |= dict(zip(gone, fresh, strict=False))
    return names


def _ranks(result: Result) -> dict[str, int]:
    """The worst verdict of each node, as its place in the order of verdicts."""
    ranks: dict[str, int] = {}
    for one in result.subjects:
        if one.kind == "Node":
            ranks[one.name] = min(ranks.get(one.name, len(_WORST_FIRST)), _WORST_FIRST.index(one.verdict))
    return ranks


def _by_kind(report: Report) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[str]]:
    kinds: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = defaultdict(list)
    for row in report.inventory:
        if row.product or row.capacity:
            kinds[_kind(row)].append(row.node)
    return kinds


def _kind(row: InventoryRow) -> tuple[str, tuple[tuple[str, str], ...]]:
    return row.product, tuple(sorted(row.capacity.items()))
