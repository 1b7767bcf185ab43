"""The JSON report of nccl-tests (``-J``) as the table that the same run prints (docs/facts/nccl.md#nccl-tests)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.outputs.unreadable import readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.text import json_text
from fixtures.text.json_text import NotJson


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
