"""Times as clusters write them, and ages as every message says them."""

from fixtures.kubernetes.times import moment
from fixtures.text.ages import duration
from tests.tables import each_row


@each_row
def test_times_are_read_as_clusters_write_them(text: object, wanted: float | None) -> None:
    assert moment(text) == wanted


@each_row
def test_a_duration_is_as_short_as_it_can_be_said(seconds: float, words: str) -> None:
    assert duration(seconds) == words
