"""A section for each accelerator node: what was found of it, how much was judged of it without a finding, and what was left out and why.

Above them the devices of each pool, by what is known of their nodes. From the record alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from fixtures.verdict.record import InventoryRow, Report, Result, SubjectResult, Verdict
from reports import phrases
from reports.causes import device_count, need_words, nodes_in_need, nodes_of
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
    """One node. ``passed`` counts requirements, and is None where the record does not keep all that passed.

    ``left_out`` say why they did not judge it.
    """

    name: str
    pool: str
    devices: int
    message: str
    found: list[Said]
    more: int
    passed: int | None
    left_out: list[Said]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of the nodes of one product, and how many of them pods hold, are sick, and are on nodes in need of attention or not judged.

    ``held`` is None where nobody counted. ``bars`` have x and width of the held ones, of the others and of the sick ones, with a class.
    """

    name: str
    nodes: int
    devices: int
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
    """Nodes that need attention, those with most findings first. ``words`` say how many they are."""

    rows: list[NodeRow]
    words: str
    pools: list[Pool]
    more: int


def nodes(report: Report) -> Nodes | None:
    """The nodes of a report; None where none was read."""
    if not report.inventory:
        return None
    in_need = nodes_in_need(report)
    said = _said(report)
    in_part = any(result.subjects_omitted for result in report.results)
    rows = [_row(row, said.get(row.node, []), in_part) for row in report.inventory if row.node in in_need]
    rows.sort(key=lambda row: (-(len(row.found) + row.more), row.name))
    return Nodes(
        rows=rows[:MAX_NODES],
        words=need_words(report),
        pools=_pools(report.inventory, in_need),
        more=len(rows) - len(rows[:MAX_NODES]),
    )


def _said(report: Report) -> Mapping[str, list[tuple[Result, SubjectResult]]]:
    found: dict[str, list[tuple[Result, SubjectResult]]] = {}
    for result in report.results:
        for subject in result.subjects:
            for node in nodes_of(subject):
                found.setdefault(node, []).append((result, subject))
    return found


def _row(row: InventoryRow, said: list[tuple[Result, SubjectResult]], in_part: bool) -> NodeRow:
    found = [_one(result, subject) for result, subject in said if subject.verdict in ATTENTION]
    bad = {one.result.id for one in found}
    left_out = [_one(result, subject) for result, subject in said if subject.verdict is Verdict.NOT_APPLICABLE]
    ordered = phrases.by_urgency(found)
    return NodeRow(
        name=row.node,
        pool=row.product,
        devices=device_count(row),
        message=row.message,
        found=ordered[:MAX_FOUND],
        more=len(ordered) - len(ordered[:MAX_FOUND]),
        passed=None if in_part else len({result.id for result, subject in said if subject.verdict is Verdict.PASSED} - bad),
        left_out=left_out[:MAX_LEFT_OUT],
    )


def _one(result: Result, subject: SubjectResult) -> Said:
    name = "" if subject.kind.lower() == "node" else f"{phrases.subject_name(subject)}: "
    return Said(result, subject.verdict, name + phrases.subject_detail(subject, 300))


def _pools(inventory: list[InventoryRow], in_need: set[str]) -> list[Pool]:
    counts: dict[str, Counter[str]] = {}
    for row in inventory:
        pool = counts.setdefault(row.product or "product not known", Counter())
        number = device_count(row)
        pool["in_need" if row.node in in_need else "good" if row.judged else "not_judged"] += number
        pool["devices"] += number
        claimed = sum(bool(device.claims) for one in row.slices for device in one.devices)
        pool["held"] += max(row.held or 0, claimed)
        pool["uncounted"] += row.held is None and not row.slices
        pool["sick"] += row.sick or 0
        pool["nodes"] += 1
    most = max((found["devices"] for found in counts.values()), default=0) or 1
    return [_pool(name, found, most) for name, found in sorted(counts.items(), key=lambda one: (-one[1]["in_need"], one[0]))[:MAX_POOLS]]


def _pool(name: str, found: Counter[str], most: int) -> Pool:
    bars, x = [], 0
    sick = min(found["sick"], found["devices"])
    held = min(found["held"], found["devices"] - sick)
    for kind, number in (("held", held), ("free", found["devices"] - held - sick), ("failed", sick)):
        width = round(WIDTH * number / most)
        bars.append((x, width, kind))
        x += width
    return Pool(
        name=name,
        nodes=found["nodes"],
        devices=found["devices"],
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
