"""Pairs of nodes, and the search for bad parts of a slow group: named within its bound, and no healthy part ever."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.net.bisecting import Group, bound, halve, search
from conformance.net.two_nodes import Plan
from fixtures.kubernetes.models import Node
from fixtures.policy.model import Policy
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.net.logs import make_plan
from tests.tables import each_row

RDMA = "rdma/a"


def nodes(count: int = 2, **more: Any) -> list[Node]:
    return [a_node(f"gpu-{index}", capacity={RDMA: "63"}, **more) for index in range(count)]


def plan(items: list[Node], policy: Policy | None = None, **more: Any) -> Plan:
    return make_plan(a_scope(policy, nodes=items, **more))


def test_two_free_nodes_are_taken_whole() -> None:
    found = plan(nodes(3))
    assert ([node.name for node in found.nodes], found.per_node, found.fabric, found.ranks) == (["gpu-0", "gpu-1"], 8, RDMA, 16)


def test_nodes_of_different_kinds_are_not_mixed() -> None:
    items = [*nodes(1), a_node("old-0", capacity={RDMA: "63"}, product="A100")]
    with pytest.raises(NotApplicable):
        plan(items)


def test_busy_nodes_make_it_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="gpu-1") as raised:
        plan(nodes(2), pods=[a_pod(devices=8, node="gpu-1")])
    assert raised.value.code == "NoFreeDevice"


@each_row
def test_without_two_able_nodes_it_does_not_apply(items: list[Node]) -> None:
    with pytest.raises(NotApplicable):
        plan(items)


@each_row
def test_nodes_that_cannot_be_used_now_make_it_inconclusive(state: dict[str, Any], word: str) -> None:
    with pytest.raises(Inconclusive, match=word):
        plan([*nodes(1), a_node("gpu-1", capacity={RDMA: "63"}, **state)])


def test_multi_node_nvlink_needs_no_resource_where_it_is_accepted() -> None:
    items = [a_node("gpu-0", gpus=4), a_node("gpu-1", gpus=4)]
    assert plan(items, a_policy(network={"accepted": ["MNNVL"]})).fabric == ""


def test_one_node_is_no_run_between_nodes() -> None:
    with pytest.raises(NotApplicable):
        plan(nodes(2), a_policy(network={"nodes": 1}))


named_nodes = st.integers(2, 64).map(lambda count: [f"n{index}" for index in range(count)])


def answers(bad: set[str], runs: list[list[Group]]) -> Callable[[list[Group]], list[bool | None]]:
    def measure(groups: list[Group]) -> list[bool | None]:
        runs.append(groups)
        return [not bad.isdisjoint(group) for group in groups]

    return measure


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_one_or_two_bad_nodes_are_named_within_the_bound(data: st.DataObject) -> None:
    parts = data.draw(named_nodes)
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
    parts = data.draw(named_nodes)
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
