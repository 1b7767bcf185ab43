"""Lines of an NCCL log taken apart by writer: processes that write at once leave several lines in one.

Facts: docs/facts/nccl.md#nccl-log-lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from conformance.outputs.unreadable import MAX_LINE_CHARACTERS

_PREFIX = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]{0,253}):\d{1,10}:\d{1,10} \[-?\d{1,4}\]")
_WRITTEN = re.compile(r"NCCL (?:INFO|WARN) |Channel \d|CollNet \d")
_CHANNEL = re.compile(r"(?:NCCL INFO )?(?:Channel|CollNet|Ring) \d")
_TAIL = re.compile(r"(?:GDRDMA|Shared|CUMEM|IPC|MNNVL|read|CE|direct)(?=.)")


class Segment(msgspec.Struct, frozen=True):
    """What one process wrote into one line. ``glued`` is what follows in the same line, by another."""

    text: str
    host: str
    glued: str = ""


def segments(lines: Sequence[str]) -> Iterator[Segment]:
    """Every line, cut before each ``host:pid:tid [device]`` behind another writer's text. No segment is longer than a line may be."""
    found = [list(_PREFIX.finditer(line)) for line in lines]
    hosts = {match[1] for line, matches in zip(lines, found, strict=True) for match in matches[:1] if not line[: match.start()].strip()}
    for line, matches in zip(lines, found, strict=True):
        parts: list[tuple[int, str]] = []
        if not matches or _WRITTEN.search(line, 0, matches[0].start()):
            parts.append((0, ""))
        for match in matches:
            # what a launcher put in front belongs to the line
            parts.append((match.start(), _host(match, line, hosts)) if parts else (0, match[1]))
        following = matches[len(matches) + 1 - len(parts) :]
        for number, (start, name) in enumerate(parts):
            after = following[number] if number < len(following) else None
            # the name of the next host may be glued to this one's last word: this one keeps both
            end = after.end(1) if after else len(line)
            yield from _bounded(line[start:end], name, after[0] if after else "")


def _bounded(text: str, host: str, glued: str) -> Iterator[Segment]:
    """One segment, or one for each channel of a text that is longer than a line may be."""
    if len(text) <= MAX_LINE_CHARACTERS:
        yield Segment(text, host, glued)
        return
    starts = [0, *(match.start() for match in _CHANNEL.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        yield Segment(text[start : min(end, start + MAX_LINE_CHARACTERS)], host, glued if end == len(text) else "")


def _host(match: re.Match[str], line: str, hosts: set[str]) -> str:
    """The host of a prefix behind other text; empty where it is glued to a word and cannot be told from it."""
    name = match[1]
    if name in hosts:
        return name
    if known := max((host for host in hosts if name.endswith(host)), key=len, default=""):
        return known
    if tail := _TAIL.match(name):
        return name[tail.end() :]
    return "" if line[: match.start()].endswith(("/", ")")) else name
