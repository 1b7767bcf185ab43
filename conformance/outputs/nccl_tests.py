"""Reader of the nccl-tests (and rccl-tests) table, and the verdict over it (docs/facts/nccl.md#nccl-tests).

Sizes are bytes, times microseconds, algbw and busbw GB/s. The verdict looks at the row of the largest size (out of place), never at the
average, which mixes small sizes in.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from conformance.outputs.captured_text import Unreadable, log_lines
from conformance.outputs.inspection import OutputVerdict
from conformance.outputs.nccl_tests_rows import Row, RowReader, as_table, number, parse_rank

TOLERANCE = 0.02  # of busbw / algbw against the collective's factor (docs/facts/nccl.md#nccl-tests)
_HEADS = {
    "range": re.compile(r"#.{0,64}\bminBytes (\d{1,20}) maxBytes (\d{1,20})"),
    "bounds": re.compile(r"#\s{0,4}Out of bounds values\s{0,4}:\s{0,4}(\d{1,20})\s{0,4}(OK|FAILED)?"),
    "average": re.compile(r"#\s{0,4}Avg bus bandwidth\s{0,4}:\s{0,4}(\S{1,32})(?:\s{1,4}(OK|FAILED))?"),
    "starting": re.compile(r"#\s{0,4}Collective test (?:starting|concluded): (\w{1,64})"),
    "version": re.compile(r"#\s{0,4}((?:nccl|rccl)-tests version .{1,160})"),
    "validation": re.compile(r"#.{0,511}?\bvalidation: (\d)"),
}
"""Comments that say something of the run."""
_MAX_PREFIX = 120
_FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure .{1,200}|Invalid number of GPUs: .{1,200}|NCCL failure .{1,200}|\A# error: .{1,200}")

_RING: Callable[[int], float] = lambda n: (n - 1) / n  # noqa: E731
_PLAIN: Callable[[int], float] = lambda n: 1.0  # noqa: E731
FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": _RING,
    "reduce_scatter": _RING,
    "alltoall": _RING,
    "gather": _RING,
    "scatter": _RING,
    "broadcast": _PLAIN,
    "reduce": _PLAIN,
    "sendrecv": _PLAIN,
}


class NcclTestsCode(StrEnum):
    """Outcome of one captured run."""

    OK = "OK"
    WRONG_VALUES = "WRONG_VALUES"
    NO_MEASUREMENT = "NO_MEASUREMENT"
    INCONSISTENT = "INCONSISTENT"
    RANKS_MISMATCH = "RANKS_MISMATCH"
    FAILED = "FAILED"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    CORRECTNESS_NOT_CHECKED = "CORRECTNESS_NOT_CHECKED"
    INCOMPLETE = "INCOMPLETE"


Problem = tuple[NcclTestsCode, str]
UNDECIDABLE_CODES = frozenset({NcclTestsCode.CORRECTNESS_NOT_CHECKED, NcclTestsCode.INCOMPLETE})


class NcclTests(msgspec.Struct, frozen=True):
    """One captured run. ``rank_lines`` are (rank, host, device name); ``average`` is the tool's own, ``None`` when it is not printed."""

    rows: tuple[Row, ...]
    collective: str
    version: str
    rank_lines: tuple[tuple[int, str, str], ...]
    max_bytes: int | None
    validated: bool | None
    error_column: bool
    out_of_bounds: int | None
    out_of_bounds_failed: bool
    average: float | None
    average_failed: bool
    failures: tuple[str, ...] = ()

    @property
    def ranks(self) -> int | None:
        """Number of ranks by the ``# Rank`` lines: the highest rank plus one, which an excerpt keeps; ``None`` without such lines."""
        return max((rank for rank, _, _ in self.rank_lines), default=-1) + 1 or None

    @property
    def wrong(self) -> float | None:
        """Sum of wrong values over all rows and halves; ``None`` when no row was checked. Old ``error`` columns are not counts."""
        if self.error_column:
            return self.out_of_bounds if self.validated is not False and any(_checked(row) for row in self.rows) else None
        checked = [half.wrong for row in self.rows for half in (row.out_of_place, row.in_place) if half and half.wrong is not None]
        return sum(checked) if checked else None


def _checked(row: Row) -> bool:
    return row.out_of_place.wrong is not None


def parse(text: str) -> NcclTests:
    """Read a captured run.

    Raises:
        Unreadable: empty, binary or oversized text, or neither a table nor a header of nccl-tests in it.
    """
    reader = RowReader()
    ranks: list[tuple[int, str, str]] = []
    found: dict[str, re.Match[str]] = {}
    failures: list[str] = []
    header = error_column = False
    for line in as_table(text) or log_lines(text):
        stripped = line.strip()
        if failure := _FAILURE.search(stripped):
            failures.append(stripped[failure.start() :][:300])
        start = stripped.find("#", 0, _MAX_PREFIX)
        if start < 0 or len(stripped[:start].split()) > 3:
            reader.line(stripped)
            continue
        stripped = stripped[start:]
        if "busbw" in stripped and "algbw" in stripped:
            header, error_column = True, "error" in stripped
        elif rank := parse_rank(stripped):
            ranks.append(rank)
        found |= {name: match for name, pattern in _HEADS.items() if (match := pattern.match(stripped))}
    rows = reader.rows
    if not rows and not header and not found and not ranks:
        raise Unreadable("neither a table nor a header of nccl-tests found")
    bounds, average = found.get("bounds"), found.get("average")
    return NcclTests(
        rows=tuple(rows),
        collective=found["starting"][1].removesuffix("_perf") if "starting" in found else "",
        version=found["version"][1].strip() if "version" in found else "",
        rank_lines=tuple(ranks),
        max_bytes=int(found["range"][2]) if "range" in found else None,
        validated=found["validation"][1] != "0" if "validation" in found else None,
        error_column=error_column,
        out_of_bounds=int(bounds[1]) if bounds else None,
        out_of_bounds_failed=bool(bounds and bounds[2] == "FAILED"),
        average=number(average[1]) if average else None,
        average_failed=bool(average and average[2] == "FAILED"),
        failures=tuple(failures),
    )


def largest(run: NcclTests) -> Row | None:
    """The row of the largest size (the last one when a size was run several times); ``None`` without rows."""
    return max(enumerate(run.rows), key=lambda pair: (pair[1].size, pair[0]))[1] if run.rows else None


def factor(collective: str, ranks: int) -> float | None:
    """busbw / algbw of a collective over ``ranks`` ranks; ``None`` for an unknown collective or fewer than one rank.

    Facts: docs/facts/nccl.md#nccl-tests.
    """
    name = collective.removesuffix("_perf")
    return FACTORS[name](ranks) if name in FACTORS and ranks > 0 else None


def factor_problem(run: NcclTests, ranks: int | None = None) -> str:
    """Why busbw and algbw of the largest row do not belong together, or ``""`` when they do or nothing can be said.

    With an unknown collective any collective's factor is accepted; with an unknown number of ranks only the bound 2 is checked.
    """
    row = largest(run)
    if row is None or row.out_of_place.algbw < 1:
        return ""
    ratio = row.out_of_place.busbw / row.out_of_place.algbw
    n = ranks or run.ranks
    if n is None:
        return "" if ratio <= 2 * (1 + TOLERANCE) else f"busbw/algbw {ratio:.3f} is above 2, the bound of every collective"
    names = [run.collective] if run.collective in FACTORS else list(FACTORS)
    expected = {round(value, 3) for name in names if (value := factor(name, n)) is not None}
    if any(abs(ratio - value) <= TOLERANCE * max(value, TOLERANCE) for value in expected):
        return ""
    return f"busbw/algbw {ratio:.3f} over {n} ranks, expected {' or '.join(map(str, sorted(expected)))}"


def judge(run: NcclTests, *, minimum_busbw: float | None = None, ranks: int | None = None) -> OutputVerdict[NcclTestsCode]:
    """Verdict of one run. Pure.

    Args:
        run: what :func:`parse` read.
        minimum_busbw: GB/s that the largest size must reach out of place; not compared when ``None``.
        ranks: the number of ranks that was asked for; not compared when ``None``.
    """
    row = largest(run)
    facts: dict[str, object] = {
        "rows": len(run.rows),
        "largestBytes": row.size if row else None,
        "busbw": row.out_of_place.busbw if row else None,
        "algbw": row.out_of_place.algbw if row else None,
        "busbwInPlace": row.in_place.busbw if row and row.in_place else None,
        "wrong": run.wrong,
        "outOfBounds": run.out_of_bounds,
        "averageBusbw": run.average,
        "ranks": run.ranks,
        "collective": run.collective or None,
        "version": run.version or None,
    }
    code, message = _code(run, row, minimum_busbw, ranks)
    good = None if code in UNDECIDABLE_CODES else code is NcclTestsCode.OK  # complete, checked and consistent
    return OutputVerdict(code=code, message=message, facts=facts, good=good)


def _code(run: NcclTests, row: Row | None, minimum: float | None, ranks: int | None) -> Problem:
    found = [problem for problem in (participation(run, ranks), values(run), measurement(run, ranks)) if problem is not None]
    if run.failures:
        return NcclTestsCode.FAILED, f"the run failed: {run.failures[0][:200]}"
    if failed := next((problem for problem in found if problem[0] not in UNDECIDABLE_CODES), None):
        return failed
    measured = f"{row.out_of_place.busbw:g} GB/s at {row.size} bytes" if row else ""
    if run.average_failed:
        return NcclTestsCode.BELOW_MINIMUM, f"nccl-tests' own minimum was missed (average {run.average} GB/s)"
    if minimum is not None and row is not None and row.out_of_place.busbw < minimum:
        return NcclTestsCode.BELOW_MINIMUM, f"{measured}, expected at least {minimum:g} GB/s"
    if found:
        return found[0][0], f"{measured}, but {found[0][1]}"
    return NcclTestsCode.OK, f"{measured}, no wrong values"


def participation(run: NcclTests, asked: int | None = None) -> Problem | None:
    """Why other ranks took part than those that were asked for, each once; nothing where the output lists none."""
    seen = [rank for rank, _, _ in run.rank_lines]
    if len(seen) > 1 and set(seen) == {0}:
        return NcclTestsCode.RANKS_MISMATCH, f"{len(seen)} independent runs of rank 0: the launcher and the binary do not share MPI"
    if asked is None or not seen or sorted(seen) == list(range(asked)):
        return None
    return NcclTestsCode.RANKS_MISMATCH, f"{len(set(seen))} ranks in {len(seen)} lines took part, {asked} were asked for"


def values(run: NcclTests) -> Problem | None:
    """Why values are wrong, or are not known to be right."""
    if run.wrong or run.out_of_bounds or run.out_of_bounds_failed:
        return NcclTestsCode.WRONG_VALUES, f"{run.wrong or run.out_of_bounds or 'some'} wrong values"
    if run.wrong is None:
        return NcclTestsCode.CORRECTNESS_NOT_CHECKED, "values were not checked (#wrong is N/A or absent)"
    if run.out_of_bounds is None:
        return NcclTestsCode.INCOMPLETE, "the run's last lines are missing, so not all values were checked"
    return None


def measurement(run: NcclTests, ranks: int | None = None) -> Problem | None:
    """Why the largest size was not measured."""
    row = largest(run)
    if row is None or row.out_of_place.busbw <= 0:
        return NcclTestsCode.NO_MEASUREMENT, "no row with a bandwidth: the run measured nothing"
    if run.max_bytes is not None and row.size < run.max_bytes:
        return NcclTestsCode.NO_MEASUREMENT, f"the run stopped at {row.size} of {run.max_bytes} bytes, so the largest size was not measured"
    if problem := factor_problem(run, ranks):
        return NcclTestsCode.INCONSISTENT, f"the figures contradict each other: {problem}"
    return None
