"""How much work something is, counted and not timed: the same on every machine, however busy."""

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


def growth(work_on: Callable[[int], Callable[[], object]], few: int) -> float:
    """How many times as much work four times as many things are: 4 where each costs the same, 16 where each is held against all."""
    work_on(few)()  # what is imported or kept for good is not counted
    return steps(work_on(4 * few)) / steps(work_on(few))


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
