"""Rows of the nccl-tests table, also those that another writer has torn apart, and its JSON report (``-J``) as the same table.

Facts: docs/facts/nccl.md#nccl-tests.
"""

import math
import re
from collections.abc import Iterator

import msgspec

from conformance.outputs.captured_text import readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.text import json_text
from fixtures.text.json_text import NotJson

_MAX_FIELDS = 40
_MAX_PREFIX = 6
_TYPE = re.compile(r"[a-z][a-z0-9_]{1,31}\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_TIME = re.compile(r"\d\d:\d\d:\d\d\Z")
_RANK = re.compile(
    r"#\s{1,8}Rank\s{1,8}(\d{1,7})\s.{0,120}?\bon\s{1,24}(\S{1,253})\s{1,8}device\s{1,8}\d{1,4}(?:\s(?:\[\S{1,32}\]\s?)?(.{0,120}))?"
)
_BEGINNING = re.compile(
    r"(?:\S{1,64}\s{1,24}){0,3}?(?P<row>\d{1,20}\s{1,24}\d{1,20}\s{1,24}[a-z][a-z0-9_]{1,31}"
    r"(?:\s{1,24}[a-z][a-z0-9_]{1,31})?(?:\s{1,24}-?\d{1,7}(?![\d.]))?)"
    r"(?=\s{0,24}(?:\Z|[A-Za-z\[]|\d{1,3}\.\d{1,3}\.|\d[\w.-]{0,253}:\d{1,10}:\d))"
)


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


def number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _half(fields: list[str]) -> Half | None:
    numbers = [number(field) for field in fields[:3]]
    wrong = None if fields[3] == "N/A" else number(fields[3])
    if (wrong is None and fields[3] != "N/A") or any(number is None or number < 0 for number in numbers):
        return None
    return Half(numbers[0] or 0.0, numbers[1] or 0.0, numbers[2] or 0.0, wrong)


def parse_rank(line: str) -> tuple[int, str, str] | None:
    """Rank, host and device's name of a ``# Rank`` line; None for any other line."""
    match = _RANK.match(line)
    return (int(match[1]), match[2], (match[3] or "").strip()) if match else None


def parse_row(line: str) -> Row | None:
    """A table row of 13 fields (new), 12 or 11 (old), with blank in-place half or with ``-I`` columns; ``None`` for any other line.

    What a launcher put in front is skipped; so is the time that ``-S`` puts behind.
    """
    fields = line.split(maxsplit=_MAX_FIELDS)
    if len(fields) > 2 and _DATE.match(fields[-2]) and _TIME.match(fields[-1]):
        del fields[-2:]
    return next((row for start in range(_MAX_PREFIX) if (row := _row(fields[start:])) is not None), None)


def _row(fields: list[str]) -> Row | None:
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


class RowReader:
    """Rows line by line. nccl-tests prints the figures of a row after the run, so that NCCL's own lines may stand inside the row."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._begun = ""

    def line(self, line: str) -> None:
        """Take one line in that is no comment."""
        row = parse_row(line) or (parse_row(f"{self._begun} {line}") if self._begun and line[:1].isdigit() else None)
        if row is not None:
            self.rows.append(row)
            self._begun = ""
        elif begun := _BEGINNING.match(line):
            self._begun = begun["row"]


def as_table(text: str) -> list[str]:
    """Lines of the table; ``[]`` for any other text. Raises ``Unreadable`` on empty, binary or oversized text."""
    text = readable_text(text).strip()
    if not text.startswith("{") or '"results"' not in text:
        return []
    try:
        document = json_text.decode(text)
    except NotJson:
        return []
    return list(_lines(document)) if isinstance(document, dict) and isinstance(document.get("results"), list) else []


def _lines(document: Json) -> Iterator[str]:
    program = text_of(next(iter(sequence(document.get("args"))), "")).rpartition("/")[2]
    config = mapping(document.get("config"))
    yield f"# Collective test starting: {program}" if program.isidentifier() else "# size count type redop root time algbw busbw #wrong"
    if "maximum_bytes" in config:
        sizes = f"minBytes {config.get('minimum_bytes')} maxBytes {config['maximum_bytes']}"
        yield f"# nThread 1 {sizes} validation: {config.get('validation', '')}"
    for device in mappings(document.get("devices") or config.get("devices")):
        where = f"Pid 0 on {text_of(device.get('hostname'))} device {text_of(device.get('device'))}"
        name = f"[{text_of(device.get('device_hex'))}] {text_of(device.get('device_info'))}"
        yield f"#  Rank {text_of(device.get('rank'))} Group 0 {where} {name}"
    for result in mappings(document["results"]):
        halves = [half for name in ("out_of_place", "in_place") if (half := mapping(result.get(name)))]
        fields = [text_of(result.get(name)).strip() for name in ("size", "count", "type", "redop", "root")]
        yield " ".join([*fields, *(figure for half in halves for figure in _figures(half))])
    bounds, average = mapping(document.get("out_of_bounds")), mapping(document.get("average_bus_bandwidth"))
    if bounds:
        yield f"# Out of bounds values : {text_of(bounds.get('count'))} {'FAILED' if bounds.get('okay') is False else 'OK'}"
    if average:
        yield f"# Avg bus bandwidth : {text_of(average.get('bandwidth'))} {'FAILED' if average.get('okay') is False else ''}"
    for error in sequence(document.get("errors")):
        yield f"Test NCCL failure {text_of(error) or 'in errors of the report'}"


def _figures(half: Json) -> Iterator[str]:
    yield text_of(half.get("time", half.get("cpu_time")))
    yield text_of(half.get("alg_bw"))
    yield text_of(half.get("bus_bw"))
    yield "N/A" if half.get("nwrong") is None else text_of(half["nwrong"])
