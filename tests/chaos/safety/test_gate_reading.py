"""What the gates are told is what the cluster says, and nothing when it does not."""

from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import namespaces
from chaos.cluster.rights import Reviewer, Right
from chaos.model.plan import Target
from chaos.model.plan_facts import InstalledComponent
from chaos.safety.gate_input import ClusterState
from chaos.safety.gate_reading import node_states, read_cluster_state
from chaos.safety.lease import halt
from chaos.safety.remediators import find_remediators
from fixtures.cluster.client import Cluster
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, Denied, Json, daemon_pod, deployment, ledger, node, plan, world
from tests.chaos.tables import table
from tests.troubles import Trouble

POD = Target(kind="pods", namespace="gpu-operator", name="plugin-1", uid="uid-plugin-1", node="gpu-1")
ROWS = table("safety/objects")
ON_GPU_1 = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1")
DEVICES = ("nvidia.com/gpu",)


def facts(cluster: Cluster, target: Target = POD, *, rights: tuple[str, ...] = ("patch nodes",), **more: Any) -> ClusterState:
    asked = [Right.parse(text) for text in rights]
    return read_cluster_state(cluster, plan(target), devices=DEVICES, rights=asked, ours=False, steady="", **more)


def budget(allowed: Any, selector: Json, *, counted: int | None = 1) -> Json:
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "gpu-operator", "generation": 1},
        "spec": {"selector": selector, "minAvailable": 1},
        "status": status | ({} if counted is None else {"observedGeneration": counted}),
    }


def test_a_healthy_cluster_gives_every_fact(cluster: Cluster) -> None:
    found = facts(cluster)
    assert (found.cluster_uid, found.cluster_names, found.uids) == (KUBE_SYSTEM, ("served",), {str(POD): POD.uid})
    assert (found.denied, found.remediators, found.budgets, found.open_entries, found.halted) == ((), (), (), 0, "")
    assert found.nodes is not None
    assert found.nodes["gpu-1"].obstacle == ""
    assert found.nodes["gpu-2"].gpu


@pytest.mark.parametrize(("verb", "resource", "unknown"), ROWS["refused"])
def test_what_is_refused_is_not_known(tmp_path: Path, verb: str, resource: str, unknown: list[str]) -> None:
    with world(tmp_path, Trouble(verb, resource, 403, 100)) as (cluster, _):
        if resource in ("configmaps", "coordination.k8s.io/leases"):
            namespaces.ensure_shared(cluster)  # without a namespace that is proven to be ours there is nothing to ask for
        found = facts(cluster)
        assert [name for name in ClusterState.__struct_fields__ if getattr(found, name) is None] == unknown


def test_open_entries_and_a_halt_are_seen(tmp_path: Path, cluster: Cluster) -> None:
    ledger(tmp_path, cluster, run_id="20261121-110000-dead").arm("node.labels", {"name": "gpu-1"})
    halt(cluster, on=False)  # nothing to lift
    halt(cluster)
    found = facts(cluster)
    assert (found.open_entries, bool(found.halted)) == (1, True)


@pytest.mark.parametrize(("selector", "covers"), ROWS["budget selectors"])
def test_a_spent_budget_counts_where_it_covers_a_target(tmp_path: Path, selector: Json, covers: bool) -> None:
    with world(tmp_path, extra=[budget(0, selector)]) as (cluster, _):
        assert facts(cluster).budgets == (("gpu-operator/keep",) if covers else ())


@pytest.mark.parametrize(("uid", "namespace", "counts"), [("uid-plugin", "gpu-operator", True), ("x", "gpu-operator", False)])
def test_a_spent_budget_counts_where_it_covers_an_agent_that_is_restarted(tmp_path: Path, uid: str, namespace: str, counts: bool) -> None:
    agent = InstalledComponent(
        component="device-plugin", key="apps/daemonsets", namespace=namespace, name="dp", uid=uid, selector="app=plugin"
    )
    with world(tmp_path, extra=[budget(0, {"matchLabels": {"app": "plugin"}})]) as (cluster, _):
        found = facts(cluster, ON_GPU_1, agents=[agent])
        assert found.budgets == (("gpu-operator/keep",) if counts else ())
        away = facts(cluster, Target(kind="nodes", name="x", uid="x", node="x"), agents=[agent])
        assert away.budgets == ()


@pytest.mark.parametrize("allowed", ["0", "1", -1, True, [0], None, 1.0])
def test_a_budget_is_spent_unless_a_whole_number_says_otherwise(tmp_path: Path, allowed: object) -> None:
    with world(tmp_path, extra=[budget(allowed, {})]) as (cluster, _):
        assert facts(cluster).budgets == ("gpu-operator/keep",)


@pytest.mark.parametrize("counted", [0, None])
def test_a_budget_that_was_changed_and_not_counted_since_is_spent(tmp_path: Path, counted: int | None) -> None:
    """As for the eviction subresource, which refuses then."""
    with world(tmp_path, extra=[budget(1, {}, counted=counted)]) as (cluster, _):
        assert facts(cluster).budgets == ("gpu-operator/keep",)


def test_missing_rights_are_named(tmp_path: Path) -> None:
    with world(tmp_path, authorizer=Denied([("patch", "", "nodes", ""), ("get", "", "pods", "log")])) as (cluster, _):
        assert facts(cluster, rights=("get nodes", "patch nodes", "get pods/log in x", "patch apps/deployments")).denied == (
            "patch nodes",
            "get pods/log in x",
        )
        sent = cluster.requests().count
        reviewer = Reviewer(cluster)
        for _ in range(3):
            assert [str(right) for right in reviewer.denied([Right.parse("patch nodes")])] == ["patch nodes"]
        assert cluster.requests().count == sent + 1


def test_nodes_are_judged_by_what_they_offer_and_who_uses_them() -> None:
    def changed(name: str, **status: Any) -> Json:
        found = node(name)
        found["status"].update(status)
        return found

    busy = daemon_pod("train", "gpu-1")
    busy["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    mine = daemon_pod("canary", "gpu-2")
    mine["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    mine["metadata"]["namespace"] = "gpu-conformance-chaos-run"
    busy["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpu-conformance"}  # any tenant may write it
    done = daemon_pod("done", "gpu-2")
    done["spec"]["resourceClaims"], done["status"]["phase"] = [{"name": "x"}], "Succeeded"
    nodes = [
        node("gpu-1"),
        node("gpu-2", **{"gpu-conformance.io/chaos": "allowed"}),
        changed("lost", allocatable={"nvidia.com/gpu": "7"}),
        changed("unready", conditions=[{"type": "Ready", "status": "Unknown"}]),
        changed("cpu", capacity={"cpu": "4"}, allocatable={"cpu": "4"}),
        node("control", **{"node-role.kubernetes.io/control-plane": ""}),
    ]
    found = node_states(nodes, [busy, mine, done], DEVICES, own=("gpu-conformance-chaos-run",))
    assert {name: (fact.gpu, not fact.obstacle) for name, fact in found.items()} == {
        "gpu-1": (True, True),
        "gpu-2": (True, True),
        "lost": (True, False),
        "unready": (True, False),
        "cpu": (False, True),
        "control": (True, True),
    }
    assert (found["gpu-1"].busy, found["gpu-2"].busy) == (("gpu-operator/train",), ())
    assert (found["gpu-2"].opted_in, found["gpu-1"].opted_in) == (True, False)
    assert [name for name, fact in found.items() if fact.control_plane] == ["control"]


@pytest.mark.parametrize(("name", "labels", "seen"), ROWS["remediators"])
def test_who_repairs_nodes_is_known_by_name_and_may_be_opted_out_of(name: str, labels: dict[str, str], seen: list[str]) -> None:
    found = find_remediators([deployment(name)], [node("gpu-1", **labels)], ["gpu-1"])
    assert [actor.name for actor in found] == seen


@pytest.mark.parametrize(("fields", "off"), ROWS["switched off"])
def test_a_remediator_that_was_switched_off_reacts_to_nothing(fields: dict[str, Any], off: bool) -> None:
    workload = {"metadata": {"name": "cluster-autoscaler", "namespace": "kube-system", "generation": 3}, **fields}
    assert [one.name for one in find_remediators([workload], [node("gpu-1")], ["gpu-1"])] == ([] if off else ["cluster-autoscaler"])
