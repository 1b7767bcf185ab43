"""Work counted in calls of functions, Python's and C's: the same on every machine, so a test can hold it to a bound."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """How many calls some work makes."""
    count = 0

    def counted(_: object, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def growth(work_on: Callable[[int], Callable[[], object]], few: int) -> float:
    """How many times as much work four times as many things are: 4 where each costs the same, 16 where each is held against all."""
    work_on(few)()  # what is imported or kept for good is not counted
    return calls_of(work_on(4 * few)) / calls_of(work_on(few))
