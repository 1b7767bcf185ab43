"""Values that experiments set, while somebody else writes to the same object."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import change, must_be_alone
from chaos.ledger.undos.nodes import NodeUnschedulable
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from tests.chaos.ledger.simulated_cluster import acting, daemon_pod, fetch, ledger, plan, world

OURS = {"spec": {"unschedulable": True}}


def try_cordon(cluster: Cluster, meanwhile: Json) -> None:
    """Cordon from a version of the node that is not the newest one: somebody has written ``meanwhile``."""
    node = fetch(cluster, "nodes", "gpu-1")
    args = NodeUnschedulable().args(node, True)
    cluster.patch("nodes", "gpu-1", meanwhile)
    change("nodes", node, OURS, lambda newer: NodeUnschedulable().args(newer, True) == args)


def test_a_status_that_was_written_meanwhile_does_not_matter(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        try_cordon(cluster, {"metadata": {"annotations": {"heartbeat": "1"}}})
        assert fetch(cluster, "nodes", "gpu-1")["spec"]["unschedulable"] is True


def test_a_cordon_of_somebody_else_is_not_taken_for_the_experiments(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        with pytest.raises(ActivityFailed, match="somebody else has just changed the value"):
            try_cordon(cluster, OURS)


def test_a_node_that_somebody_has_begun_to_use_is_left_alone(tmp_path: Path) -> None:
    def using(name: str, namespace: str, phase: str = "Running") -> Json:
        found = daemon_pod(name, "gpu-1")
        found["metadata"]["namespace"], found["status"]["phase"] = namespace, phase
        found["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        return found

    known = plan()
    free = [using("mine", f"{known.namespace}-canaries"), using("over", "team", "Succeeded")]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with world(tmp_path / "a", extra=free) as (cluster, _), acting(tmp_path / "a", cluster, ledger(tmp_path / "a")).as_current():
        must_be_alone("gpu-1")
    with world(tmp_path / "b", extra=[*free, using("train", "team")]) as (cluster, _):
        with (
            acting(tmp_path / "b", cluster, ledger(tmp_path / "b")).as_current(),
            pytest.raises(ActivityFailed, match="team/train on gpu-1"),
        ):
            must_be_alone("gpu-1")
