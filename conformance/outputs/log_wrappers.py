"""Log text without what collectors put around it: json-file, CRI, JSON objects (docs/facts/container-runtimes.md#log-files).

What is not understood stays as it is: a wrapper is taken off or left, no line is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.kubernetes.models import Json
from fixtures.text import json_text
from fixtures.text.json_text import NotJson

_CRI = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP])(?::[\w:]{0,32})? ?")
_TEXT_FIELDS = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "text")
_NESTED_FIELDS = ("jsonPayload", "fields", "_source")
_OBJECT_FIELDS = ("kind", "apiVersion", "involvedObject", "spec")
_MAX_WRAPPED = 4 * 1024 * 1024


def unwrapped(text: str) -> str:
    """``text`` with its wrapped lines unwrapped, and lines that a wrapper had cut joined again. Other lines are untouched."""
    if "{" not in text and _CRI.search(text) is None:
        return text
    entries = _entries(text)
    return "\n".join(_lines(text) if entries is None else entries)


def _lines(text: str) -> Iterator[str]:
    cut: dict[str, list[str]] = {}
    for line in text.split("\n"):
        stream, part, whole = _one(line)
        if not whole:
            cut.setdefault(stream, []).append(part)
        elif begun := cut.pop(stream, None):
            yield from ("".join(begun) + part).split("\n")
        else:
            yield from part.split("\n")
    for begun in cut.values():
        yield from "".join(begun).split("\n")


def _one(line: str) -> tuple[str, str, bool]:
    """Stream, text and whether the text ends there. ``("", line, True)`` for a line without a wrapper."""
    if match := _CRI.match(line):
        return match[1], line[match.end() :], match[2] == "F"
    stripped = line.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return "", line, True
    entry = _decoded(stripped) if len(stripped) <= _MAX_WRAPPED else None
    if not isinstance(entry, dict) or (text := _text_of(entry)) is None:
        return "", line, True
    # json-file writes a line of more than 16 KiB as several entries, of which only the last ends it
    by_docker = "log" in entry and "stream" in entry
    return str(entry.get("stream", "json"))[:16] if by_docker else "json", text.removesuffix("\n"), not by_docker or text.endswith("\n")


def _decoded(text: str) -> object:
    try:
        return json_text.decode(text)
    except NotJson:
        return None


def _text_of(entry: Json) -> str | None:
    """The text that a log entry carries; ``None`` for an object of Kubernetes, whose ``message`` is no log line, and for any other."""
    if any(name in entry for name in _OBJECT_FIELDS):
        return None
    for name in _TEXT_FIELDS:
        if isinstance(entry.get(name), str):
            return str(entry[name])
    nested = next((entry[name] for name in _NESTED_FIELDS if isinstance(entry.get(name), dict)), None)
    return _text_of(nested) if nested else None


def _entries(text: str) -> list[str] | None:
    """Log entries of a text that is one JSON list (or a mapping with one list) of them; ``None`` where any entry is something else."""
    head = text.lstrip()
    if head[:1] not in ("[", "{") or not head.rstrip().endswith(("]", "}")):
        return None
    document = _decoded(head)
    if isinstance(document, dict) and not any(name in document for name in _OBJECT_FIELDS):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else None
    if not isinstance(document, list) or not document or not all(isinstance(item, dict) for item in document):
        return None
    texts = [_text_of(item) for item in document]
    if any(item is None for item in texts):
        return None
    return [line for item in texts if item is not None for line in item.removesuffix("\n").split("\n")]
