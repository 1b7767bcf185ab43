"""A section for each accelerator node that needs attention or that ``--nodes`` names: what was found of it, how much was judged of it
without a finding, and what was left out and why. A named node has all of it, and the reason of every requirement that says nothing.

Above them the devices of each pool, by what is known of their nodes. From the record alone.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from fixtures.text.sentences import listed
from fixtures.verdict.coverage import groups
from fixtures.verdict.record import InventoryRow, Report, Result, SubjectResult, Verdict
from fixtures.verdict.subjects import causes_that_blame_nodes, node_concerned
from reports import phrases
from reports.causes import device_count, need_words, nodes_in_need, pool_of
from reports.phrases import ATTENTION

MAX_NODES = 150
"""Nodes that need attention and have a section. With ten findings each the page of 1,000 nodes stays below 2 MB."""
MAX_FOUND, MAX_LEFT_OUT = 20, 20
MAX_POOLS = 20
MAX_MEASURED = 50
WIDTH = 240
"""Of the longest bar of a pool."""


class Said(msgspec.Struct, frozen=True):
    """What one requirement says of a node."""

    result: Result
    verdict: Verdict
    words: str


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node. ``passed`` are requirements without a finding, and None where the record does not keep all that passed.

    ``left_out`` say why they did not judge it. Of a node that ``--nodes`` names, ``blank`` has ids by why they say nothing of it.
    """

    name: str
    pool: str
    named: bool
    devices: int
    message: str
    found: list[Said]
    more: int
    passed: list[Result] | None
    left_out: list[Said]
    blank: list[tuple[str, list[str]]]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that the nodes of one pool advertise, and how many of them are held, sick, and on nodes in need of attention or not judged.

    ``held`` is None where nobody counted. ``sick`` are as the inventory counts them. ``products`` are those of a
    pool that a label names. ``bars`` have x and width of the held ones, of the others and of the sick ones, with a class.
    """

    name: str
    products: str
    nodes: int
    advertised: int
    held: int | None
    sick: int
    in_need: int
    not_judged: int
    bars: list[tuple[int, int, str]]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that a requirement measured. ``width`` of a bar and ``mark``, where the least is, are parts of :data:`WIDTH`."""

    result: Result
    name: str
    verdict: Verdict
    value: str
    least: str
    width: int
    mark: int | None


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that need attention, those with most findings first, and those that ``--nodes`` names. ``words`` say how many need it."""

    rows: list[NodeRow]
    words: str
    pools: list[Pool]
    more: int
    named: bool


def nodes(report: Report) -> Nodes | None:
    """The nodes of a report; None where none was read."""
    if not report.inventory:
        return None
    in_need = nodes_in_need(report)
    said = _said(report)
    in_part = any(result.subjects_omitted for result in report.results)
    named = set(report.scope.nodes) if report.scope else set()
    rows = [
        _row(row, said.get(row.node, []), in_part, report if row.node in named else None)
        for row in report.inventory
        if row.node in in_need | named
    ]
    rows.sort(key=lambda row: (-(len(row.found) + row.more), row.name))
    return Nodes(
        rows=rows[:MAX_NODES],
        words=need_words(report),
        pools=_pools(report.inventory, in_need),
        more=len(rows) - len(rows[:MAX_NODES]),
        named=bool(named),
    )


def _said(report: Report) -> Mapping[str, list[tuple[Result, SubjectResult]]]:
    found: dict[str, list[tuple[Result, SubjectResult]]] = {}
    blaming = causes_that_blame_nodes(report)
    for result in report.results:
        for subject in result.subjects:
            found.setdefault(node_concerned(subject, blaming), []).append((result, subject))
    return found


def _row(row: InventoryRow, said: list[tuple[Result, SubjectResult]], in_part: bool, report: Report | None) -> NodeRow:
    """``report`` is given for a node that ``--nodes`` names."""
    found = [_one(result, subject) for result, subject in said if subject.verdict in ATTENTION]
    bad = {one.result.id for one in found}
    left_out = [_one(result, subject) for result, subject in said if subject.verdict is Verdict.NOT_APPLICABLE]
    ordered = phrases.by_urgency(found)
    return NodeRow(
        name=row.node,
        pool=", ".join(dict.fromkeys(filter(None, (row.pool, row.product)))),
        named=report is not None,
        devices=device_count(row),
        message=row.message,
        found=ordered[:MAX_FOUND],
        more=len(ordered) - len(ordered[:MAX_FOUND]),
        passed=None if in_part else [one for one in _passed(said) if one.id not in bad],
        left_out=left_out[:MAX_LEFT_OUT],
        blank=_blank(report, {result.id for result, _ in said}) if report else [],
    )


def _passed(said: list[tuple[Result, SubjectResult]]) -> list[Result]:
    return list({result.id: result for result, subject in said if subject.verdict is Verdict.PASSED}.values())


def _blank(report: Report, said: set[str]) -> list[tuple[str, list[str]]]:
    """Requirements that say nothing of a node, by the reason: what the scope says, else that they judged something else."""
    found = (
        [(group.reason, [one.id for one in group.requirements if one.id not in said]) for group in groups(report.scope)]
        if report.scope
        else []
    )
    told = said.union(*(ids for _, ids in found))
    found.append(("because what they judged names another node or none", [one.id for one in report.results if one.id not in told]))
    return [(reason, ids) for reason, ids in found if ids]


def _one(result: Result, subject: SubjectResult) -> Said:
    name = "" if subject.kind.lower() == "node" else f"{phrases.subject_name(subject)}: "
    return Said(result, subject.verdict, name + phrases.subject_detail(subject, 300))


def _pools(inventory: list[InventoryRow], in_need: set[str]) -> list[Pool]:
    counts: dict[str, Counter[str]] = {}
    products: dict[str, dict[str, None]] = {}
    for row in inventory:
        name = pool_of(row)
        pool = counts.setdefault(name, Counter())
        products.setdefault(name, {}).update(dict.fromkeys([row.product] if row.pool and row.product else []))
        number = device_count(row)
        pool["in_need" if row.node in in_need else "good" if row.judged else "not_judged"] += number
        pool["advertised"] += number
        published = [device for one in row.slices for device in one.devices]
        claimed = sum(bool(device.claims) for device in published)
        pool["held"] += max(row.held or 0, claimed)
        pool["uncounted"] += row.held is None and not any(device.claims is not None for device in published)
        pool["sick"] += max(row.sick or 0, sum(bool(device.taint) for device in published))
        pool["nodes"] += 1
    most = max((found["advertised"] for found in counts.values()), default=0) or 1
    worst = sorted(counts.items(), key=lambda one: (-one[1]["in_need"], one[0]))[:MAX_POOLS]
    return [_pool(name, listed(products[name], 3), found, most) for name, found in worst]


def _pool(name: str, products: str, found: Counter[str], most: int) -> Pool:
    bars, x = [], 0
    sick = min(found["sick"], found["advertised"])
    held = min(found["held"], found["advertised"] - sick)
    for kind, number in (("held", held), ("free", found["advertised"] - held - sick), ("failed", sick)):
        width = round(WIDTH * number / most)
        bars.append((x, width, kind))
        x += width
    return Pool(
        name=name,
        products=products,
        nodes=found["nodes"],
        advertised=found["advertised"],
        held=None if found["uncounted"] else found["held"],
        sick=found["sick"],
        in_need=found["in_need"],
        not_judged=found["not_judged"],
        bars=bars,
    )


def measured(report: Report) -> list[Measured]:
    """What requirements measured, those that fall short first."""
    found = [(result, subject, subject.measure) for result in report.results for subject in result.subjects if subject.measure]
    rows = []
    for result, subject, measure in found:
        alike = [one for _, _, one in found if one.unit == measure.unit]
        most = max(max(one.value, one.least or 0) for one in alike) or 1
        least = measure.least
        rows.append(
            Measured(
                result=result,
                name=subject.name,
                verdict=subject.verdict,
                value=f"{measure.value:g} {measure.unit}",
                least="" if least is None else f"{least:g} {measure.unit}",
                width=round(WIDTH * max(measure.value, 0) / most),
                mark=None if least is None else round(WIDTH * least / most),
            )
        )
    return sorted(rows, key=lambda row: row.verdict is not Verdict.FAILED)[:MAX_MEASURED]
