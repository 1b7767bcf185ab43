"""Ages of states, in words, and when to ask again about one that is younger than the policy allows."""

from __future__ import annotations

from collections.abc import Iterable

from fixtures.kubernetes.times import unix

_STEPS = ((86_400, "d", 2), (3_600, "h", 2), (60, "min", 1))
_STARTED_NEVER = 86_400.0
"""Times of the first day of 1970 stand for "never" (docs/facts/pod-lifecycle.md#containers-that-are-never-created)."""


def words(seconds: float) -> str:
    """``"45 s"``, ``"12 min"``, ``"5 h"``, ``"3 d"``."""
    for size, unit, least in _STEPS:
        if seconds >= least * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def ask_again(age: float, limit: float) -> str:
    """A clause: how long a state has lasted, and when it is too old."""
    return f"since {words(age)}; ask again in {words(limit - age)}"


def newest(texts: Iterable[str | None]) -> float | None:
    """The newest of some RFC 3339 times in Unix seconds; None when none of them is a time."""
    return max((moment for text in texts if (moment := real(text)) is not None), default=None)


def real(text: str | None) -> float | None:
    """A time in Unix seconds; None for what is no time or stands for never."""
    moment = unix(text)
    return moment if moment is not None and moment >= _STARTED_NEVER else None
