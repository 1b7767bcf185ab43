"""Captured text as lines: bytes decoded, hostile text bounded, and what collectors, launchers and terminals put around lines taken off.

What is not understood stays as it is: a wrapper is taken off or left, no line is dropped.

Facts: docs/facts/container-runtimes.md#log-files, docs/facts/nccl.md#nccl-log-lines.
"""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from fixtures.kubernetes.models import Json
from fixtures.text import json_text, yaml_text
from fixtures.text.json_text import NotJson

COLUMNS = yaml_text.packaged(Path(__file__).with_name("columns.yaml"), dict[str, dict[str, str]])
"""What columns and series of other names stand for."""

MAX_CHARACTERS = 32 * 1024 * 1024
MAX_LINE_CHARACTERS = 16 * 1024


class Unreadable(Exception):
    """The text is not what the reader reads (empty, binary, another format, too large). The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class EmptyList(Unreadable):
    """A list of Kubernetes objects without any."""


def readable_text(text: str) -> str:
    """``text`` without a byte order mark and with ``\\n`` line ends.

    Raises:
        Unreadable: the text is empty, holds NUL characters (a binary file) or is longer than ``MAX_CHARACTERS``.
    """
    if "\0" in text:
        raise Unreadable("binary data: the text holds NUL characters")
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"text of {len(text)} characters is longer than {MAX_CHARACTERS}")
    if not text.strip():
        raise Unreadable("the text is empty")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def lines_of(text: str) -> list[str]:
    """Lines of ``text`` cut at ``MAX_LINE_CHARACTERS``, so that no pattern sees an unbounded line. Raises as ``readable_text`` does."""
    return cut_lines(readable_text(text))


def cut_lines(text: str) -> list[str]:
    """Lines of a text that is readable, each cut at ``MAX_LINE_CHARACTERS``."""
    return [line[:MAX_LINE_CHARACTERS] for line in text.split("\n")]


_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 4096


def decoded(data: bytes) -> str:
    """The text of a captured file, without a byte order mark.

    Raises:
        Unreadable: too large, or binary: NUL characters, or more than a few bytes that are no text in the encoding found.
    """
    if len(data) > MAX_CHARACTERS:
        raise Unreadable(f"more than {MAX_CHARACTERS} bytes")
    mark, encoding = next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", _unmarked(data)))
    text = data[len(mark) :].decode(encoding, errors="replace").removeprefix("\ufeff")
    if "\0" in text:
        raise Unreadable("binary data: the text holds NUL characters")
    if text.count("\ufffd") > 8 + len(text) // 100:
        raise Unreadable(f"binary data: not {encoding.upper()} text")
    return text


def _unmarked(data: bytes) -> str:
    """The encoding of bytes without a mark: every other byte of Latin text in UTF-16 is NUL."""
    sample = data[:_SAMPLE]
    even, odd = sample[::2], sample[1::2]
    for zeros, others, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 4 and zeros.count(0) > 0.7 * len(zeros) and others.count(0) == 0:
            return encoding
    return "utf-8"


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


_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_PREFIXES = re.compile(
    r"(?:"
    r"\[\d{1,6},\d{1,6}\](?:<std(?:out|err)>)?:"  # mpirun --tag-output
    r"|\[\d{1,6},\d{1,6}\]<std(?:out|err)>:?"
    r"|\[pod/[^\]\s]{1,300}\]\s"  # kubectl logs --prefix
    r"|\([A-Za-z_][\w.]{0,63} pid=\d{1,9}(?:, ip=[0-9a-fA-F.:]{1,45})?\)\s"  # Ray
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]{0,10}(?:Z|[+-]\d\d:\d\d)\s"  # kubectl logs --timestamps
    r"|\d{1,6}:\s"  # srun --label
    r"|\[(?:default|rank)?\d{1,6}\]:\s?"  # torchrun --tee
    r"|[a-z0-9][a-z0-9.-]{0,62}\s{1,24}\|\s"  # docker compose
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,253} [\w./-]{1,64}(?:\[\d{1,9}\])?:\s"  # journalctl, syslog
    r")"
)


def strip_launcher(line: str) -> str:
    """``line`` without ANSI escapes and without up to three launcher prefixes; the rest, leading blanks included, is untouched."""
    line = _ANSI.sub("", line)
    for _ in range(3):
        match = _PREFIXES.match(line.lstrip(" ") if line.startswith(" ") and line.lstrip(" ")[:1] in "[(" else line)
        if match is None:
            break
        line = line.lstrip(" ")[match.end() :] if line.startswith(" ") else line[match.end() :]
    return line


def log_lines(text: str) -> list[str]:
    """Lines of a captured log without wrappers and launcher prefixes. Raises ``Unreadable`` on empty, binary or oversized text."""
    return [strip_launcher(line) for line in cut_lines(unwrapped(readable_text(text)))]
