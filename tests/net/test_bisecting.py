"""The search for bad parts of a slow group: named within its bound, and no healthy part ever."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.net.bisecting import Group, bound, halve, search

nodes = st.integers(2, 64).map(lambda count: [f"n{index}" for index in range(count)])


def answers(bad: set[str], runs: list[list[Group]]) -> Callable[[list[Group]], list[bool | None]]:
    def measure(groups: list[Group]) -> list[bool | None]:
        runs.append(groups)
        return [not bad.isdisjoint(group) for group in groups]

    return measure


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_one_or_two_bad_nodes_are_named_within_the_bound(data: st.DataObject) -> None:
    parts = data.draw(nodes)
    bad = set(data.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=2, unique=True)))
    anyone = data.draw(st.sampled_from(parts))
    first = tuple(parts) if data.draw(st.booleans()) else tuple({min(bad): 0, anyone: 0, parts[0]: 0, parts[1]: 0})[:2]
    runs: list[list[Group]] = []
    found = search(parts, first, answers(bad, runs), most=len(parts))
    assert set(found.named) <= bad
    assert len(runs) == found.rounds <= bound(len(parts))
    if len(parts) > 2 and (len(parts), len(bad)) != (3, 2):  # of two nothing tells which, and of two bad ones in three neither
        assert bad & set(first) <= set(found.named)
    for groups in runs:
        flat = list(itertools.chain(*groups))
        assert len(set(flat)) == len(flat) <= len(parts)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_measured_no_healthy_node_is_named(data: st.DataObject) -> None:
    parts = data.draw(nodes)
    changing = data.draw(st.sampled_from(parts))
    bad = set(data.draw(st.lists(st.sampled_from(parts), max_size=2, unique=True))) - {changing}
    most = data.draw(st.integers(1, 64))
    changes = bool((bad | {changing}) & set(parts[:2]))  # else the first run was the one measurement that is wrong

    def measure(groups: list[Group]) -> list[bool | None]:
        assert sum(map(len, groups)) <= most
        return [
            True if bad & set(group) else data.draw(st.sampled_from((True, False, None))) if changes and changing in group else False
            for group in groups
        ]

    found = search(parts, tuple(parts[:2]), measure, most=most)
    assert set(found.named) <= bad | {changing}
    assert not set(found.named) & set(found.fine)


@pytest.mark.parametrize("wrong", range(6))
def test_one_wrong_measurement_among_healthy_nodes_names_no_node_and_is_shown(wrong: int) -> None:
    count = itertools.count()
    found = search([f"n{index}" for index in range(6)], ("n0", "n1"), lambda groups: [next(count) == wrong for _ in groups], most=6)
    assert found.named == ()
    assert found.contradicting or found.open


def test_a_path_between_two_healthy_nodes_contradicts() -> None:
    found = search(list("abcd"), ("a", "b"), lambda groups: [set(group) == {"a", "b"} for group in groups], most=4)
    assert (found.named, found.contradicting, found.open) == ((), (("a", "b"),), ())


def test_no_part_is_named_of_two_nodes_or_where_every_run_is_slow() -> None:
    for parts in ("ab", "abcdef"):
        found = search(list(parts), ("a", "b"), lambda groups: [True for _ in groups], most=6)
        assert (found.named, found.fine) == ((), ())
        assert set(found.open) >= {"a", "b"}


@given(st.integers(1, 64), st.data())
@settings(max_examples=100, deadline=None)
def test_a_slow_adapter_is_named_after_a_run_by_itself(count: int, data: st.DataObject) -> None:
    parts = [f"mlx5_{index}" for index in range(count)]
    bad = set(data.draw(st.lists(st.sampled_from(parts), max_size=2, unique=True)))
    runs: list[Group] = []

    def slow(group: Group) -> bool:
        runs.append(group)
        return not bad.isdisjoint(group)

    name = halve(parts, slow)
    assert name in bad if len(bad) == 1 else name in bad | {""}, "where more are slow, leaving one out does not help"
    assert len(runs) <= bound(count)
    assert halve(parts, lambda _: None) == ""
    assert count == 1 or halve(parts, lambda _: True) == "", "the node is slow, whatever adapter it uses"
