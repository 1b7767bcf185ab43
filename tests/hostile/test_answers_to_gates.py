"""A gate stays closed where the answer to its list is none: it would open on a budget or a node that was not told of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster.rights import Right
from chaos.model.plan import Target
from chaos.safety.gate_input import ClusterState
from chaos.safety.gate_reading import read_cluster_state
from conformance.cli import publish
from conformance.delivery.node_labels import read_nodes
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from tests.chaos.ledger.simulated_cluster import plan
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, said, status
from tests.hostile.test_answers import NO_ANSWERS, every

POD = an_object("Pod", "plugin", spec={"containers": []}, status={})
NODE = an_object("Node", "gpu-1", namespace="", status={"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}})
TARGET = Target(kind="pods", namespace="default", name="plugin", uid=POD["metadata"]["uid"], node="gpu-1")
BUDGET = an_object("PodDisruptionBudget", "keep", "policy/v1", spec={"selector": {}, "minAvailable": 1}, status={"disruptionsAllowed": 0})
BUDGETS = a_list("PodDisruptionBudget", BUDGET, api_version="policy/v1")
EMPTY = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {"resourceVersion": "9"}, "items": []}


def facts(cluster: Cluster) -> ClusterState:
    rights = [Right.parse("patch nodes")]
    return read_cluster_state(cluster, plan(TARGET), devices=("nvidia.com/gpu",), rights=rights, ours=False, steady="")


def honest_but(**lists: Said) -> Callable[[Asked], Said]:
    """Lists by plural: those given, or a pod, a node, a budget that is spent, and no workload."""
    told = {
        "pods": said(a_list("Pod", POD)),
        "nodes": said(a_list("Node", NODE)),
        "poddisruptionbudgets": said(BUDGETS),
        "deployments": said(a_list("Deployment", api_version="apps/v1")),
        "daemonsets": said(a_list("DaemonSet", api_version="apps/v1")),
        **lists,
    }
    return lambda asked: told.get(asked.path.rpartition("/")[2], status(404, "NotFound"))


def test_an_honest_answer_is_taken(tmp_path: Path) -> None:
    with lying(tmp_path, honest_but()) as (cluster, _):
        found = facts(cluster)
        assert (found.budgets, found.remediators, list(found.nodes or {})) == (("default/keep",), (), ["gpu-1"])
        assert [node["metadata"]["name"] for node in read_nodes(cluster)] == ["gpu-1"]


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_what_is_no_list_leaves_every_gate_closed(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(NO_ANSWERS[name])) as (cluster, _):
        found = facts(cluster)
        assert (found.nodes, found.remediators, found.budgets, found.denied) == (None, None, None, None)
        with pytest.raises(ApiTrouble):
            read_nodes(cluster)


@pytest.mark.parametrize(
    "lie",
    [
        said({}),
        said({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403}),
        said({**EMPTY, "metadata": {"resourceVersion": "9", "remainingItemCount": 1}}),
        said({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": []}),
        said(a_list("Secret", an_object("Secret", "s"))),
        said({**EMPTY, "items": None, "metadata": True}),
        said({**BUDGETS, "metadata": {"resourceVersion": "9", "continue": "the same"}}),
    ],
    ids=["empty", "failure", "one is missing", "table", "secrets", "metadata", "endless"],
)
def test_a_budget_that_is_not_told_of_does_not_open_its_gate(tmp_path: Path, lie: Said) -> None:
    with lying(tmp_path, honest_but(poddisruptionbudgets=lie)) as (cluster, asked):
        assert facts(cluster).budgets is None
        assert len(asked) < 40


ODD: list[dict[str, Any]] = [{"status": {"capacity": [1]}}, {"status": {"conditions": [1]}}, {"spec": "x"}]


@pytest.mark.parametrize("part", ODD, ids=["capacity", "conditions", "spec"])
def test_a_node_of_another_shape_is_not_judged_by_its_gates(tmp_path: Path, part: dict[str, Any]) -> None:
    with lying(tmp_path, honest_but(nodes=said(a_list("Node", {**NODE, **part})))) as (cluster, _):
        assert facts(cluster).nodes is None


@pytest.mark.parametrize("name", ["empty object", "another kind", "items that are not objects", "list that is not there"])
def test_labels_are_not_swept_by_what_is_no_list_of_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with lying(tmp_path, every(NO_ANSWERS[name])):
        assert publish.main(["publish", "--kubeconfig", str(tmp_path / "kubeconfig"), "--sweep"]) in (4, 10)
    told = capsys.readouterr()
    assert told.err.count("\n") == 1, told.err
