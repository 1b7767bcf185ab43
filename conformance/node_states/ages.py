"""Moments that a cluster writes in several ways, and ages in words."""

from __future__ import annotations

import re

import msgspec

from fixtures.kubernetes.times import unix
from fixtures.text.sentences import plain

_UNIX = re.compile(r"\d{10}")
_DASHED = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2})-(\d{2})-(\d{2}(?:Z|[+-]\d{4})?)")
_STEPS = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def moment(text: object) -> float | None:
    """Unix seconds of a time as clusters write it, or None.

    RFC 3339, Unix seconds, or with dashes between hours, minutes and seconds, since labels take no colons
    (docs/facts/device-health.md#nvsentinel).
    """
    if not isinstance(text, str) or len(text) > 40:
        return None
    if _UNIX.fullmatch(text):
        return float(text)
    if dashed := _DASHED.fullmatch(text):
        text = ":".join(dashed.groups())
    return unix(text)


def duration(seconds: float) -> str:
    """``3 days``, ``5 hours``, ``1 minute``: the largest unit of which there are two, rounded down; below that the next one."""
    seconds = max(seconds, 0.0)
    for size, name in _STEPS:
        if seconds >= 2 * size or size == 1.0:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    raise AssertionError("a second is the smallest unit")


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """Since when something is as it is, and what says so. ``latest`` is the latest moment at which it can have begun, if known."""

    latest: float | None = None
    source: str = ""

    def age(self, now: float) -> float | None:
        """How old it is at least, in seconds; None when nobody knows. A clock that is ahead makes it new."""
        return None if self.latest is None else max(now - self.latest, 0.0)


UNKNOWN = Since()


def ask_again(age: float, limit: float) -> str:
    """The clause that says when a state that is younger than its limit can be judged."""
    return f"ask again in {duration(max(limit - age, 60.0))}"


def said(text: str, most: int = 160) -> str:
    """Text of a program in the cluster as a part of a message: harmless, on one line, and not long."""
    line = plain(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else f"{line[:most]}…"
