"""The names of series in a PromQL expression. It reads names and nothing else: what an expression means, Prometheus' own tools say.

Facts: docs/facts/telemetry.md#alert-rules.
"""

from __future__ import annotations

import re

import msgspec

_SKIPPED = re.compile(r"""#[^\n]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`""")
_MATCHERS = re.compile(r"\{[^{}]*\}")
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE)
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_DURATION = re.compile(r"(\d{1,6})(ms|s|m|h|d|w|y)")
_WORD = re.compile(r"(?<![\w:.])([A-Za-z_:][\w:]*)\b(?!\s*\()")
_KEYWORDS = frozenset(
    [
        "and",
        "or",
        "unless",
        "atan2",
        "bool",
        "offset",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "inf",
        "nan",
        "start",
        "end",
    ]
)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of an expression. ``unknown``: it also chooses series by a pattern of their names. ``longest`` range in seconds."""

    series: frozenset[str]
    unknown: bool
    longest: float
    alternatives: bool  # it has an "or" or "unless": a name that nobody serves may be meant for other clusters


def read_expression(text: str) -> Expression:
    """The names of series in an expression."""
    plain = _SKIPPED.sub('""', text)
    unknown = "__name__" in plain
    longest = max((seconds(found) for found in _RANGE.findall(plain)), default=0.0)
    bare = _RANGE.sub(" ", _LABELS.sub(" ", _MATCHERS.sub(" ", plain)))
    words = [word for word in _WORD.findall(bare) if word.lower() not in _KEYWORDS and not _DURATION.fullmatch(word)]
    return Expression(
        series=frozenset(words),
        unknown=unknown,
        longest=longest,
        alternatives=bool(re.search(r"\b(?:or|unless)\b", bare, re.IGNORECASE)),
    )


def seconds(duration: str) -> float:
    """A duration as Prometheus writes it (``1h30m``), or the range of a subquery (``1h:5m``), in seconds; 0 for none."""
    return sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(duration.partition(":")[0]))
