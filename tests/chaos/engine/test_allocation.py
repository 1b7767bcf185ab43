"""The invariants of the allocation ledger, each broken alone."""

from __future__ import annotations

import pytest

from chaos.allocation import Allocations, Holding, Snapshot, breaches

GPU = "nvidia.com/gpu"


def pod(name: str, *ids: str, asked: int | None = None, seen: list[str] | None = None, node: str = "n1", resource: str = GPU) -> Holding:
    requested = {resource: len(ids) if asked is None else asked}
    return Holding(namespace="a", name=name, node=node, requested=requested, ids={resource: list(ids)}, seen=seen)


def moments(*states: dict[str, Holding], inventory: list[list[str]] | None = None, shared: list[str] | None = None) -> list[Snapshot]:
    found = []
    for index, pods in enumerate(states):
        offered = inventory[index] if inventory else ["GPU-1", "GPU-2"]
        allocations = Allocations(pods=pods, inventory={"n1": {GPU: offered}}, shared=shared or [])
        found.append(Snapshot(t=float(index), phase="during", allocations=allocations))
    return found


def broken(snapshots: list[Snapshot]) -> list[tuple[str, float]]:
    return [(breach.invariant, breach.t) for breach in breaches(snapshots)]


def test_pods_that_come_and_go_break_nothing() -> None:
    assert broken(moments({"1": pod("p", "GPU-1")}, {"1": pod("p", "GPU-1"), "2": pod("q", "GPU-2")}, {"3": pod("r", "GPU-1")})) == []


def test_one_device_in_two_pods() -> None:
    assert broken(moments({"1": pod("p", "GPU-1")}, {"1": pod("p", "GPU-1"), "2": pod("q", "GPU-1")})) == [("exclusive", 1.0)]


def test_the_same_id_on_two_nodes_is_two_devices() -> None:
    assert broken(moments({"1": pod("p", "0"), "2": pod("q", "0", node="n2")})) == []


def test_declared_sharing_is_none() -> None:
    assert broken(moments({"1": pod("p", "GPU-1"), "2": pod("q", "GPU-1")}, shared=[GPU])) == []


def test_replicas_share_a_uuid_and_not_an_id() -> None:
    two = {"1": pod("p", "GPU-1::0", seen=["GPU-1"]), "2": pod("q", "GPU-1::1", seen=["GPU-1"])}
    assert broken(moments(two)) == []
    assert broken(moments({**two, "3": pod("r", "GPU-1::1")})) == [("exclusive", 0.0)]


def test_a_pod_that_stayed_with_another_device() -> None:
    assert broken(moments({"1": pod("p", "GPU-1")}, {"1": pod("p", "GPU-2")})) == [("kept", 1.0)]


@pytest.mark.parametrize("ids", [(), ("GPU-1", "GPU-2")])
def test_a_pod_with_fewer_or_more_devices_than_it_asks_for(ids: tuple[str, ...]) -> None:
    assert broken(moments({"1": pod("p", *ids, asked=1)})) == [("complete", 0.0)]


def test_a_container_that_sees_anothers_device() -> None:
    assert broken(moments({"1": pod("p", "GPU-1", seen=["GPU-1", "GPU-2"])})) == [("seen", 0.0)]


def test_a_device_that_is_lost() -> None:
    assert broken(moments({}, {}, {}, inventory=[["GPU-1", "GPU-2"], ["GPU-1"], ["GPU-1"]])) == [("lost", 2.0)]
    assert broken(moments({}, {}, {}, inventory=[["GPU-1", "GPU-2"], [], ["GPU-2", "GPU-1"]])) == []


def test_each_breach_is_told_once_at_its_first_sight() -> None:
    state = {"1": pod("p", "GPU-1"), "2": pod("q", "GPU-1")}
    assert broken(moments(state, state, state)) == [("exclusive", 0.0)]
