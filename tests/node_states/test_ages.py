from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.node_states.ages import Since, ask_again, duration, moment, said


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-09-21T14:13:20Z", 1_790_000_000.0),
        ("2026-09-21T16:13:20+02:00", 1_790_000_000.0),
        ("2026-09-21T14-13-20Z", 1_790_000_000.0),
        ("1790000000", 1_790_000_000.0),
        ("2026-09-21T14:13:20", None),
        ("yesterday", None),
        ("179000000000000000000000000000000000000000000", None),
        ("9999-99-99T00:00:00Z", None),
        (1790000000, None),
        (None, None),
    ],
)
def test_times_are_read_as_clusters_write_them(text: object, wanted: float | None) -> None:
    assert moment(text) == wanted


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading_of_times(text: str) -> None:
    found = moment(text)
    assert found is None or isinstance(found, float)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7199, "119 minutes"),
        (90_000, "25 hours"),
        (259_200, "3 days"),
    ],
)
def test_durations_are_in_units_of_which_there_are_two(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_an_age_counts_from_the_latest_moment_and_is_never_negative() -> None:
    assert Since(latest=100.0).age(160.0) == 60.0
    assert Since(latest=200.0).age(160.0) == 0.0
    assert Since().age(160.0) is None


def test_a_young_state_says_when_to_ask_again() -> None:
    assert ask_again(3600, 4 * 3600) == "ask again in 3 hours"
    assert ask_again(3599, 3600) == "ask again in 60 seconds"


def test_text_of_the_cluster_is_short_and_harmless() -> None:
    assert said("a\x1b[2J\n b") == "a\\x1b[2J b"
    assert len(said("x" * 100_000)) == 161
