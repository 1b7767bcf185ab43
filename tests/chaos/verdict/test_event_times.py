"""Marks and what is not known of them."""

from typing import Any

import pytest

from chaos.observe.view import Sample
from chaos.verdict.timeline import ConditionSample, EventTime, first_held, longest_gap, longest_unknown, never_lost, not_held, recovered


def condition_in(text: str, step: float = 1.0) -> list[ConditionSample]:
    """``+`` holds, ``-`` does not, ``?`` unknown, one each ``step`` seconds, read in a tenth of a second."""
    known = {"+": True, "-": False, "?": None}
    return [ConditionSample(t=index * step, end=index * step + 0.1, holds=known[char]) for index, char in enumerate(text)]


def about(t: float, uncertainty: float) -> Any:
    """A mark but for the rounding of its uncertainty."""
    return EventTime(t=t, uncertainty=pytest.approx(uncertainty))  # type: ignore[arg-type]


def test_the_first_sample_that_holds_with_what_lies_before_it_as_uncertainty() -> None:
    assert first_held(condition_in("--++"), 0.5) == about(2.1, 1.1)
    assert first_held(condition_in("-?++"), 0.5) == about(2.1, 1.6)
    assert first_held(condition_in("+---"), 0.5) is None


@pytest.mark.parametrize(
    ("shown", "stretch", "found"),
    [
        ("++--+-+++", 2.0, about(6.1, 1.1)),  # the last unbroken stretch
        ("++--+-++", 2.0, None),  # too short
        ("++--++?++", 3.0, None),  # a sample that does not tell breaks it
        ("++-++?+++", 2.0, about(6.1, 4.1)),  # lost at 2, nowhere else
        ("++?+++", 2.0, about(3.1, 1.7)),  # may be as early as the fault
    ],
)
def test_recovery_is_the_start_of_the_last_unbroken_stretch(shown: str, stretch: float, found: Any) -> None:
    assert recovered(condition_in(shown), EventTime(t=1.5, uncertainty=0.1), stretch) == found


@pytest.mark.parametrize(
    ("shown", "lost"), [("+++++", False), ("--+++", False), ("++-++", True), ("++?++", True), ("++", True), ("", True)]
)
def test_never_lost_is_what_every_sample_since_the_fault_shows(shown: str, lost: bool) -> None:
    assert never_lost(condition_in(shown), EventTime(t=1.5, uncertainty=0.2)) is not lost


@pytest.mark.parametrize(
    ("shown", "at"),
    [
        ("--++", 1.0),  # before the fault at 1.5
        ("-?++", 0.0),
        ("++-+", 2.0),  # lost since
        ("++++-", None),  # lost after the end at 3.5
        ("++??", None),
        ("??++", None),  # nobody knows what it was before
    ],
)
def test_what_is_not_there_is_not_there_before_or_since(shown: str, at: float | None) -> None:
    found = not_held(condition_in(shown), 1.5, 3.5)
    assert (found.t if found else None) == at


def test_the_longest_silence_counts_up_to_the_borders() -> None:
    taken = [Sample(t=t, at="", took=0.0) for t in (0.0, 1.0, 4.0, 5.0)]
    assert longest_gap(taken, 0.0, 5.0) == 3.0
    assert longest_gap(taken, 0.0, 9.0) == 4.0
    assert longest_gap([], 0.0, 9.0) == 9.0


def test_samples_that_do_not_tell_are_silent() -> None:
    assert longest_unknown(condition_in("+???+"), 0.0, 4.1) == pytest.approx(4.0)
    assert longest_unknown(condition_in("?????"), 0.0, 4.1) == pytest.approx(4.1)


def test_a_reading_that_went_on_beyond_the_injection_may_have_seen_the_fault() -> None:
    slow = [ConditionSample(t=0.0, end=0.1, holds=True), ConditionSample(t=1.4, end=2.4, holds=False), *condition_in("+++++++")[3:]]
    assert recovered(slow, EventTime(t=1.5, uncertainty=0.0), 2.0) == about(3.1, 1.7)
