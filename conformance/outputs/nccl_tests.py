"""Reader of the nccl-tests (and rccl-tests) table, and the verdict over it (facts 5.5).

Sizes are bytes, times microseconds, algbw and busbw GB/s. The verdict looks at the row of the largest size (out of place), never at the
average, which mixes small sizes in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

TOLERANCE = 0.02  # of busbw / algbw against the collective's factor (facts 5.5)
_MAX_FIELDS = 32
_RANK = re.compile(
    r"#\s{1,8}Rank\s{1,8}(\d{1,7})\s.{0,120}?\bon\s{1,24}(\S{1,253})\s{1,8}device\s{1,8}\d{1,4}\s(?:\[\S{1,32}\]\s?)?(.{0,120})"
)
_RANGE = re.compile(r"#.{0,64}\bminBytes (\d{1,20}) maxBytes (\d{1,20})")
_BOUNDS = re.compile(r"#\s{0,4}Out of bounds values\s{0,4}:\s{0,4}(\d{1,20})\s{0,4}(OK|FAILED)?")
_AVERAGE = re.compile(r"#\s{0,4}Avg bus bandwidth\s{0,4}:\s{0,4}(\S{1,32})(?:\s{1,4}(OK|FAILED))?")
_STARTING = re.compile(r"#\s{0,4}Collective test (?:starting|concluded): (\w{1,64})")
_VERSION = re.compile(r"#\s{0,4}((?:nccl|rccl)-tests version .{1,160})")
_VALIDATION = re.compile(r"\bvalidation: (\d)")
_TYPE = re.compile(r"[a-z][a-z0-9_]{1,31}\Z")

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
    BELOW_MINIMUM = "BELOW_MINIMUM"
    CORRECTNESS_NOT_CHECKED = "CORRECTNESS_NOT_CHECKED"
    INCOMPLETE = "INCOMPLETE"


UNDECIDABLE_CODES = frozenset({NcclTestsCode.CORRECTNESS_NOT_CHECKED, NcclTestsCode.INCOMPLETE})


class Half(msgspec.Struct, frozen=True):
    """Out-of-place or in-place part of a row. ``wrong`` is ``None`` for ``N/A``: values were not checked."""

    time: float
    algbw: float
    busbw: float
    wrong: float | None


class Row(msgspec.Struct, frozen=True):
    """One size. ``in_place`` is ``None`` when the run left it blank."""

    size: int
    count: int
    type: str
    redop: str
    root: int | None
    out_of_place: Half
    in_place: Half | None


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


class NcclTestsVerdict(msgspec.Struct, frozen=True):
    """``code``, one sentence, and what was measured."""

    code: NcclTestsCode
    message: str
    facts: Mapping[str, object]

    @property
    def good(self) -> bool | None:
        """True for a complete, checked, consistent measurement; ``None`` when the output cannot tell."""
        return None if self.code in UNDECIDABLE_CODES else self.code is NcclTestsCode.OK


def _checked(row: Row) -> bool:
    return row.out_of_place.wrong is not None


def _float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _half(fields: list[str]) -> Half | None:
    numbers = [_float(field) for field in fields[:3]]
    wrong = None if fields[3] == "N/A" else _float(fields[3])
    if (wrong is None and fields[3] != "N/A") or any(number is None or number < 0 for number in numbers):
        return None
    return Half(numbers[0] or 0.0, numbers[1] or 0.0, numbers[2] or 0.0, wrong)


def parse_row(line: str) -> Row | None:
    """A table row of 13 fields (new), 12 or 11 (old), with blank in-place half or with ``-I`` columns; ``None`` for any other line."""
    fields = line.split(maxsplit=_MAX_FIELDS)
    if len(fields) < 7 or not (fields[0].isascii() and fields[0].isdigit() and fields[1].isascii() and fields[1].isdigit()):
        return None
    if len(fields[0]) > 20 or len(fields[1]) > 20 or not _TYPE.match(fields[2]):
        return None
    rest = fields[3:]
    redop = rest.pop(0) if _TYPE.match(rest[0]) else ""
    root = None
    if len(rest) % 4 == 1 and re.fullmatch(r"-?\d{1,7}", rest[0]):
        root = int(rest.pop(0))
    if len(rest) not in (4, 8, 16):
        return None
    width = len(rest) // 2 if len(rest) > 4 else 4
    first = _half(rest[:width])
    second = _half(rest[width:]) if len(rest) > 4 else None
    if first is None or (len(rest) > 4 and second is None):
        return None
    return Row(int(fields[0]), int(fields[1]), fields[2], redop, root, first, second)


def parse(text: str) -> NcclTests:
    """Read a captured run.

    Raises:
        Unreadable: empty, binary or oversized text, or neither a table nor a header of nccl-tests in it.
    """
    rows: list[Row] = []
    ranks: list[tuple[int, str, str]] = []
    found: dict[str, re.Match[str]] = {}
    header = error_column = False
    for line in log_lines(text):
        stripped = line.strip()
        if not stripped.startswith("#"):
            row = parse_row(stripped)
            if row is not None:
                rows.append(row)
            continue
        if "busbw" in stripped and "algbw" in stripped:
            header, error_column = True, "error" in stripped
        elif rank := _RANK.match(stripped):
            ranks.append((int(rank[1]), rank[2], rank[3].strip()))
        for name, pattern in (
            ("range", _RANGE),
            ("bounds", _BOUNDS),
            ("average", _AVERAGE),
            ("starting", _STARTING),
            ("version", _VERSION),
            ("validation", _VALIDATION),
        ):
            if match := pattern.match(stripped) or (pattern.search(stripped[:512]) if name == "validation" else None):
                found[name] = match
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
        average=_float(average[1]) if average else None,
        average_failed=bool(average and average[2] == "FAILED"),
    )


def largest(run: NcclTests) -> Row | None:
    """The row of the largest size (the last one when a size was run several times); ``None`` without rows."""
    return max(enumerate(run.rows), key=lambda pair: (pair[1].size, pair[0]))[1] if run.rows else None


def factor(collective: str, ranks: int) -> float | None:
    """busbw / algbw of a collective over ``ranks`` ranks (facts 5.5); ``None`` for an unknown collective or fewer than one rank."""
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


def judge(run: NcclTests, *, minimum_busbw: float | None = None, ranks: int | None = None) -> NcclTestsVerdict:
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
    return NcclTestsVerdict(code, message, facts)


def _code(run: NcclTests, row: Row | None, minimum: float | None, ranks: int | None) -> tuple[NcclTestsCode, str]:
    if row is None or row.out_of_place.busbw <= 0:
        return NcclTestsCode.NO_MEASUREMENT, "no row with a bandwidth: the run measured nothing"
    if run.wrong or run.out_of_bounds or run.out_of_bounds_failed:
        return NcclTestsCode.WRONG_VALUES, f"{run.wrong or run.out_of_bounds or 'some'} wrong values"
    repeated = len(run.rank_lines) - len({rank for rank, _, _ in run.rank_lines})
    if repeated and len(run.rank_lines) > 1 and {rank for rank, _, _ in run.rank_lines} == {0}:
        return (
            NcclTestsCode.RANKS_MISMATCH,
            f"{len(run.rank_lines)} independent runs of rank 0: the launcher and the binary do not share MPI",
        )
    if ranks is not None and run.rank_lines and run.ranks != ranks:
        return NcclTestsCode.RANKS_MISMATCH, f"{run.ranks} ranks took part, {ranks} were asked for"
    if problem := factor_problem(run, ranks):
        return NcclTestsCode.INCONSISTENT, problem
    measured = f"{row.out_of_place.busbw:g} GB/s at {row.size} bytes"
    if run.max_bytes is not None and row.size < run.max_bytes:
        return NcclTestsCode.NO_MEASUREMENT, f"largest row is {row.size} bytes, {run.max_bytes} were asked for: the run stopped early"
    if run.average_failed:
        return NcclTestsCode.BELOW_MINIMUM, f"nccl-tests' own minimum was missed (average {run.average} GB/s)"
    if minimum is not None and row.out_of_place.busbw < minimum:
        return NcclTestsCode.BELOW_MINIMUM, f"{measured}, expected at least {minimum:g} GB/s"
    if run.wrong is None:
        return NcclTestsCode.CORRECTNESS_NOT_CHECKED, f"{measured}, but values were not checked (#wrong N/A)"
    if run.out_of_bounds is None:
        return NcclTestsCode.INCOMPLETE, f"{measured}, but the run's last lines are missing"
    return NcclTestsCode.OK, f"{measured}, no wrong values"
