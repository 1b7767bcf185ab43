"""Agents of nodes that are no target: what A3 says of other nodes is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.plan import Target
from chaos.model.plan_facts import PlanFacts
from chaos.observe.sample import NoData
from chaos.observe.signals.registry import SIGNALS
from fixtures.kubernetes.models import Json
from tests.chaos.observe.made_up_cluster import Read, World, installed, made_by, node, plan, pod

PLUGIN = installed()


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


def test_a_node_that_joins_changes_nothing_of_the_agents() -> None:
    def world(*names: str, ready: int, desired: int) -> World:
        status = {"desiredNumberScheduled": desired, "numberReady": ready, "updatedNumberScheduled": desired}
        plugin = {"metadata": {"name": "plugin", "namespace": "gpu", "uid": "u"}, "status": status}
        nodes = [node(name, ready="True" if name in "ab" else "False", taints=JOINING if name == "new" else []) for name in names]
        return World(nodes=nodes, pods=[agent("a"), agent("b"), *late], apps__daemonsets=[plugin])

    late: list[Json] = []
    names = ("agents.pods", "daemonsets", "daemonsets.settled", "nodes.quarantined")
    read = Read(world("a", "b", ready=2, desired=2), plan(facts=PlanFacts(components={"device-plugin": PLUGIN})))
    before = [SIGNALS[name](read) for name in names]  # type: ignore[arg-type]
    assert before[2:] == [True, []]
    read = read.again(world("a", "b", "new", ready=2, desired=3))
    assert [SIGNALS[name](read) for name in names] == before  # type: ignore[arg-type]
    late.append(agent("new"))
    read = read.again(world("a", "b", "new", ready=3, desired=3))
    assert [SIGNALS[name](read) for name in names] == before  # type: ignore[arg-type]
    read = read.again(world("a", "b", "new", ready=2, desired=3))  # the new one is ready, one of the others is not
    assert SIGNALS["daemonsets.settled"](read) is False  # type: ignore[arg-type]


JOINING = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_the_owners_consent_is_no_label_that_a_new_node_must_have() -> None:
    labels = {"gpu-conformance.io/chaos": "allowed", "nvidia.com/gpu.product": "H100"}
    target = Target(kind="nodes", name="a", uid="first", node="a", facts={"labels": labels, "taints": []})
    for kept, anew in ((["nvidia.com/gpu.product"], True), ([], False)):
        again = node("a", labels={key: labels[key] for key in kept})
        assert SIGNALS["node.registered.anew"](Read(World(nodes=[again]), plan(target))) is anew  # type: ignore[arg-type]
