"""Samples out of captured metrics: Prometheus text, OpenMetrics, and the JSON that Prometheus' own API answers.

The parser of Prometheus' own client is no part of the suite: it renames counters by their types, and ends at the first bad line.
Tests hold this one against it.

Facts: docs/facts/telemetry.md#forms-of-metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from conformance.outputs.unreadable import lines_of, readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.text import json_text
from fixtures.text.json_text import NotJson

_SAMPLE = re.compile(
    r"([A-Za-z_:][\w:]{0,255})(?:\{(.*)\})?\s{1,16}(\S{1,64})(?:\s{1,16}-?\d{1,20}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?)?\s*\Z"
)
_EXEMPLAR = re.compile(r" # \{[^{}]{0,512}\} \S{1,64}(?: \S{1,32})?\s*\Z")
_LABEL = re.compile(r'([A-Za-z_]\w{0,127})="((?:[^"\\]|\\.)*)"\s{0,8},?\s{0,8}')
_ESCAPE = re.compile(r"\\(.)")


class Sample(msgspec.Struct, frozen=True):
    """One series with its value. Label names as exported."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_samples(text: str) -> list[Sample]:
    """All samples of a text; comments and other lines are skipped.

    Raises:
        Unreadable: empty, binary or oversized text.
    """
    answer = _answer(readable_text(text))
    labels: dict[str, Mapping[str, str]] = {}
    return [found for line in lines_of(text) if (found := _of_line(line, labels))] if answer is None else list(_of_answer(answer))


def parse_page(text: str) -> tuple[list[Sample], list[str]]:
    """Samples of a page as an exporter serves it, and the lines that are none: Prometheus refuses the whole page for one of these.

    Raises:
        Unreadable: empty, binary or oversized text.
    """
    samples, broken = [], []
    labels: dict[str, Mapping[str, str]] = {}
    for line in lines_of(text):
        if line.strip() and not line.lstrip().startswith("#"):
            found = _of_line(line, labels)
            samples.append(found) if found else broken.append(line)
    return samples, broken


def _of_line(raw: str, known: dict[str, Mapping[str, str]]) -> Sample | None:
    """The sample of a line. ``known`` are labels by their text: all series of a device have the same, and share them."""
    line = raw.strip()
    if line.startswith("#"):
        return None
    if " # {" in line:
        line = _EXEMPLAR.sub("", line)
    match = _SAMPLE.match(line)
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    text = match[2] or ""
    if text not in known:
        known[text] = {name: _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], raw) for name, raw in _LABEL.findall(text)}
    return Sample(match[1], known[text], value)


def _answer(text: str) -> Json | None:
    """The ``data`` of an answer of Prometheus' query API; ``None`` for any other text."""
    stripped = text.lstrip()
    if not stripped.startswith("{") or '"result"' not in stripped:
        return None
    try:
        document = json_text.decode(stripped)
    except NotJson:
        return None
    data = mapping(document, "data") if isinstance(document, dict) else {}
    return data if isinstance(data.get("result"), list) else None


def _of_answer(data: Json) -> Iterator[Sample]:
    for item in mappings(data["result"]):
        labels = {str(name): text_of(value) for name, value in mapping(item.get("metric")).items()}
        # a range has one value a step: the last is the newest
        value = sequence(item.get("value")) or sequence(next(iter(reversed(sequence(item.get("values")))), None))
        try:
            yield Sample(labels.pop("__name__", ""), labels, float(text_of(value[1])))
        except (IndexError, ValueError):
            continue
