"""Times as clusters write them, and ages as every message says them."""

import pytest

from fixtures.kubernetes.times import moment
from fixtures.text.ages import duration


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-09-21T14:13:20Z", 1_790_000_000.0),
        ("2026-09-21T16:13:20+02:00", 1_790_000_000.0),
        ("2026-09-21T14-13-20Z", 1_790_000_000.0),
        ("1790000000", 1_790_000_000.0),
        ("2026-09-21T14:13:20", None),
        ("1970-01-01T00:00:00Z", None),
        ("yesterday", None),
        ("179000000000000000000000000000000000000000000", None),
        ("9999-99-99T00:00:00Z", None),
        (1790000000, None),
        (None, None),
    ],
)
def test_times_are_read_as_clusters_write_them(text: object, wanted: float | None) -> None:
    assert moment(text) == wanted


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (1, "1 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (90_000, "25 h"),
        (172_799, "47 h 59 min"),
        (259_200, "3 days"),
    ],
)
def test_a_duration_is_as_short_as_it_can_be_said(seconds: float, words: str) -> None:
    assert duration(seconds) == words
