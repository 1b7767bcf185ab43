"""What is simulated is told by its nodes' own marks, however it is reached; a mark changes words and softens nothing."""

from pathlib import Path

import pytest

from chaos.catalogue import load_all
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Meta, Node, NodeInfo, NodeStatus
from fixtures.simulator.interface import start
from fixtures.snapshot.collect import collect
from fixtures.snapshot.simulated_nodes import MARK, describe, is_simulated
from fixtures.snapshot.state import Listing
from fixtures.verdict.record import Target, TargetKind
from reports import phrases
from tests.tables import each_row

KWOK = {"kwok.x-k8s.io/node": "fake"}


def node(
    name: str = "n", *, info: NodeInfo | None = None, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> Node:
    return Node(
        metadata=Meta(name=name, annotations=annotations, labels=labels),
        status=NodeStatus(node_info=info or NodeInfo(kubelet_version="v1.37.0")),
    )


def stated(*nodes: Node, kind: TargetKind = TargetKind.LIVE) -> Target:
    target = Target(kind=kind, scenario="healthy")
    describe(target, Listing(key="nodes", items=nodes))
    return target


@each_row
def test_a_node_with_a_mark_is_simulated(marked: Node) -> None:
    assert is_simulated(marked)


@each_row
def test_a_node_without_a_mark_is_real(real: Node) -> None:
    assert not is_simulated(real)


def test_a_live_cluster_of_simulated_nodes_is_no_live_cluster() -> None:
    target = stated(node("a", annotations=KWOK), node("b", annotations=KWOK))
    assert (target.kind, target.nodes, target.simulated_nodes, target.simulated) == (TargetKind.SIMULATED_NODES, 2, 2, True)
    assert phrases.target_name(target) == "cluster of simulated nodes"
    assert phrases.banner(target).startswith("SIMULATED NODES: 2 of 2 nodes say that they are simulated")
    assert phrases.banner(target).endswith("This is not a real cluster's result.")


def test_a_mixed_cluster_says_how_many_nodes_are_simulated() -> None:
    target = stated(node("a"), node("b", annotations=KWOK), node("c"))
    assert target.partly_simulated
    assert phrases.target_name(target) == "cluster with 1 of 3 nodes simulated"
    assert "What was judged on them is not a real cluster's result" in phrases.banner(target)


def test_a_cluster_of_real_nodes_stays_live() -> None:
    target = stated(node("a"), node("b"))
    assert (target.kind, target.simulated_nodes, target.simulated, phrases.banner(target)) == (TargetKind.LIVE, 0, False, "")


@pytest.mark.parametrize("listing", [Listing(key="nodes", trouble="Forbidden"), Listing(key="nodes", collected=False)])
def test_nodes_that_were_not_read_are_not_known_to_be_real(listing: Listing[Node]) -> None:
    target = Target(kind=TargetKind.LIVE)
    describe(target, listing)
    assert (target.nodes, target.simulated_nodes) == (None, None)


def test_marks_of_nodes_soften_nothing() -> None:
    assert TargetKind.SIMULATED_NODES.treated_as is TargetKind.LIVE
    assert [kind for kind in TargetKind if kind.treated_as is not kind] == [TargetKind.SIMULATED_NODES]


def test_no_experiment_on_simulated_nodes_is_of_real_fidelity() -> None:
    for experiment in load_all():
        fidelity = experiment.extension.fidelity_on(TargetKind.SIMULATED_NODES)
        assert fidelity != "real", experiment.id
        assert bool(fidelity) == bool(experiment.extension.fidelity_on(TargetKind.LIVE)), experiment.id


def test_every_node_that_the_project_simulates_carries_the_mark(tmp_path: Path) -> None:
    running = start("healthy", tmp_path)
    try:
        snapshot = collect(Cluster.from_kubeconfig(running.kubeconfig), ["nodes"], version="")
        assert snapshot.nodes
        assert [one.name for one in snapshot.nodes if MARK not in one.metadata.annotation] == []
    finally:
        running.stop()
