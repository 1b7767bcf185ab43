"""How much work something is, counted and not timed: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Calls of functions, Python's own included, that the work makes in this thread, whatever it raises.

    Loops inside a single function of C are one step: use sizes that would never end if such a loop began anew for each item.
    """
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    _profiled(work, note)
    return count


def calls(function: Callable[..., object], work: Callable[[], object]) -> int:
    """Calls of one function of Python among them, under whatever name a module knows it."""
    code, count = function.__code__, 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is code

    _profiled(work, note)
    return count


def _profiled(work: Callable[[], object], note: Callable[[FrameType, str, object], None]) -> None:
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
