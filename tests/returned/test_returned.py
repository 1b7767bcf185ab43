"""Nodes that came back from a repair: the table, and what runs say of its rows. ``make return`` prints that."""

from pathlib import Path

import pytest

from tests.returned.nodes import outcomes, rows


def test_there_are_thirty_of_each_with_a_source() -> None:
    for some in rows().values():
        assert len(some) == 30
        assert all(row.source.startswith("https://") and row.title for row in some.values())


@pytest.mark.test_all
def test_wrong_nodes_are_held_back(tmp_path: Path) -> None:
    found = outcomes("wrong", tmp_path, rows()["wrong"])
    assert [name for name, outcome in found.items() if not outcome.reasons] == []
    by = {"half-the-memory": "INV-06", "another-board": "INV-06", "link-of-an-older-generation": "HW-10", "older-firmware": "HW-09"}
    assert {name: id_ for name, id_ in by.items() if id_ not in found[name].reasons} == {}


@pytest.mark.test_all
def test_good_nodes_that_look_odd_may_take_work(tmp_path: Path) -> None:
    found = outcomes("good", tmp_path, rows()["good"])
    assert {name: outcome.reasons for name, outcome in found.items() if outcome.reasons} == {}
    assert all(outcome.judged >= 20 for outcome in found.values())
