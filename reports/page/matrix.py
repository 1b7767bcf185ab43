"""The matrix of accelerator nodes and requirements, which shows at a glance which node fails where. Pure.

Columns are the requirements that found something on some node. With many nodes, those of a pool that show the same share a row.
"""

from collections.abc import Container, Mapping

import msgspec

from fixtures.verdict.record import Report, Result, Verdict
from fixtures.verdict.subjects import causes_that_blame_nodes, node_concerned
from reports.causes import UNKNOWN_POOL, is_capped, pool_of
from reports.phrases import ATTENTION, SUBJECT_ORDER

MAX_SINGLE = 40
"""Up to so many nodes have a row each; more are grouped by pool."""

MAX_ROWS = 60
MAX_COLUMNS = 40


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one pool with the same verdicts. ``cells`` are as the columns; None: not judged there, or not in the record."""

    pool: str
    nodes: list[str]
    cells: list[Verdict | None]

    @property
    def is_good(self) -> bool:
        """Whether no requirement found anything on these nodes."""
        return not any(cell in ATTENTION for cell in self.cells)


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by pool, worst first. ``good`` requirements looked at nodes and found nothing; ``more`` rows and columns are left out.

    ``partial``: the record does not keep every subject of some column, so that an empty cell there may stand for a good one.
    """

    columns: list[Result]
    rows: list[Row]
    good: list[Result]
    nodes: int
    grouped: bool
    partial: bool
    more_rows: int
    more_columns: int


def matrix(report: Report) -> Matrix | None:
    """The matrix of a report; None where no requirement looked at a node."""
    blaming = causes_that_blame_nodes(report)
    looked = [(result, nodes) for result in report.results if (nodes := _cells(result, blaming))]
    if not looked:
        return None
    found = [(result, nodes) for result, nodes in looked if any(cell in ATTENTION for cell in nodes.values())]
    columns = found[:MAX_COLUMNS]
    pools = {row.node: pool_of(row) for row in report.inventory}
    names = dict.fromkeys([*pools, *(node for _, nodes in columns for node in nodes)])
    capped = [is_capped(result) for result, _ in columns]
    grouped = len(names) > MAX_SINGLE
    rows: dict[tuple[object, ...], Row] = {}
    for node in names:
        cells = [nodes.get(node) for _, nodes in columns]
        pool = pools.get(node, UNKNOWN_POOL)
        stated = (cell if cell in ATTENTION or unsure else None for cell, unsure in zip(cells, capped, strict=True))
        key = (pool, *stated) if grouped else (node,)
        if key in rows:
            rows[key] = _joined(rows[key], node, cells)
        else:
            rows[key] = Row(pool=pool, nodes=[node], cells=cells)
    ordered = sorted(rows.values(), key=_urgency)
    kept = ordered[:MAX_ROWS]
    return Matrix(
        columns=[result for result, _ in columns],
        rows=sorted(kept, key=lambda row: row.pool),
        good=[result for result, nodes in looked if not any(cell in ATTENTION for cell in nodes.values())],
        nodes=len(names),
        grouped=grouped,
        partial=any(result.subjects_omitted for result, _ in columns),
        more_rows=len(ordered) - len(kept),
        more_columns=len(found) - len(columns),
    )


def _joined(row: Row, node: str, cells: list[Verdict | None]) -> Row:
    row.nodes.append(node)
    return Row(pool=row.pool, nodes=row.nodes, cells=[one or other for one, other in zip(row.cells, cells, strict=True)])


def _urgency(row: Row) -> tuple[bool, int, int]:
    """Rows with findings first, those with most of them first."""
    return row.is_good, -sum(cell in ATTENTION for cell in row.cells), -len(row.nodes)


def _cells(result: Result, blaming: Container[str]) -> Mapping[str, Verdict]:
    """The worst verdict of each node among the subjects."""
    found: dict[str, Verdict] = {}
    for one in result.subjects:
        node = node_concerned(one, blaming)
        if node and (node not in found or SUBJECT_ORDER.index(one.verdict) < SUBJECT_ORDER.index(found[node])):
            found[node] = one.verdict
    return found
