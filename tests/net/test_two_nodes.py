from typing import Any

import pytest

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
