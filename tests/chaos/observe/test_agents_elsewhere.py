"""Agents of nodes that are no target: what A3 says of other nodes is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.plan_facts import InstalledComponent, PlanFacts
from chaos.observe.sample import NoData
from chaos.observe.signals.registry import SIGNALS
from fixtures.kubernetes.models import Json
from tests.chaos.observe.made_up_cluster import Read, World, made_by, node, plan, pod

PLUGIN = InstalledComponent(
    component="device-plugin", key="apps/daemonsets", namespace="gpu", name="plugin", uid="u", selector="app=plugin"
)


def agent(on: str, **more: Any) -> Json:
    return pod(f"plugin-{on}", on, gpus=0, namespace="gpu", labels={"app": "plugin"}, meta=made_by("u"), **more)


def value(pods: list[Json], nodes: list[Json] | None = None) -> Any:
    world = World(pods=pods, nodes=nodes or [node("a"), node("b", gpus=4), node("z")])
    return SIGNALS["elsewhere.device-plugin"](Read(world, plan(facts=PlanFacts(components={"device-plugin": PLUGIN}))))  # type: ignore[arg-type]


def test_every_other_node_with_the_agent_is_told_and_the_target_is_not() -> None:
    eight, four = {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 4}
    assert value([agent("a"), agent("b"), agent("z", restarts=1)]) == {
        "b": ["uid-plugin-b 0", True, four, four],
        "z": ["uid-plugin-z 1", True, eight, eight],
    }


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        ([agent("b", restarts=1), agent("z")], None),
        ([agent("b", uid="another"), agent("z")], None),
        ([agent("b", phase="Pending"), agent("z")], None),
        ([agent("z")], None),
        ([agent("b"), agent("z")], [node("a"), node("b", gpus=4, allocatable=0), node("z")]),
        ([agent("b"), agent("z")], [node("a"), node("b", gpus=3), node("z")]),
    ],
    ids=["restarted", "replaced", "not ready", "gone", "devices out of service", "devices gone"],
)
def test_what_happens_to_another_node_shows(pods: list[Json], nodes: list[Json] | None) -> None:
    before = value([agent("a"), agent("b"), agent("z")])
    assert value(pods, nodes).get("b") != before["b"]


def test_without_the_agent_on_the_untouched_node_nothing_is_known() -> None:
    with pytest.raises(NoData, match="no pod on z"):
        value([agent("a"), agent("b")])
