"""Whose cordon and whose fault it is, and that undos put back what is the experiment's and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities.nodes import cordon
from chaos.ledger.undos import Undo
from chaos.ledger.undos.agents import AgentRestarted, RestartedArgs
from chaos.ledger.undos.nodes import NodeCleared, NodeUnschedulable, cleared_args
from chaos.ledger.undos.workloads import EnvArgs, WorkloadEnv, value_of, with_value
from chaos.model.plan import Target
from chaos.model.records import UndoRefused
from chaos.observe.signals import SIGNALS
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.model.devices.gpu_names import names_another, names_of, names_this
from fixtures.model.nodes.holds import Kind
from fixtures.model.nodes.untyped_nodes import cordon as cordon_on
from fixtures.model.nodes.untyped_nodes import named_cordoner
from tests.chaos.ledger.simulated_cluster import acting, daemon_pod, fetch, ledger, node, soon, world
from tests.chaos.observe.made_up_cluster import Read, World
from tests.chaos.observe.made_up_cluster import node as seen
from tests.chaos.observe.made_up_cluster import plan as made_up_plan
from tests.chaos.tables import table

ROWS = table("cluster/messages")
STATE = "dgxc.nvidia.com/nvsentinel-state"
OURS, THEIRS = (f"GPU-{digit * 8}-2222-3333-4444-555555555555" for digit in "17")
NAMES = names_of({"uuid": OURS, "pci": "00000000:1B:00.0", "index": 7})


def write(cluster: Cluster, manager: str, body: Json, subresource: str = "") -> None:
    path, kind = cluster.path("nodes", "", "gpu-1", subresource), "application/strategic-merge-patch+json"
    assert cluster.request("PATCH", path, query={"fieldManager": manager}, body=body, content_type=kind).ok


def tracked(name: str = "gpu-1") -> Json:
    """A node whose writers the API server keeps from the start, as it does of every node that a kubelet registered."""
    found = node(name)
    kubelet = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-21T12:00:00Z", "fieldsType": "FieldsV1"}
    found["metadata"]["managedFields"] = [{**kubelet, "fieldsV1": {"f:metadata": {"f:labels": {}}}}]
    return found


def tell(cluster: Cluster, message: str, kind: str = "GpuXidError") -> None:
    write(cluster, "monitor", {"status": {"conditions": [{"type": kind, "status": "True", "reason": "X", "message": message}]}}, "status")


def stated(cluster: Cluster, kind: str = "GpuXidError") -> str:
    found = fetch(cluster, "nodes", "gpu-1")["status"]["conditions"]
    return str(next((item["status"] for item in found if item["type"] == kind), "absent"))


CORDON: Json = {"spec": {"unschedulable": True}}


def owned(*managers: tuple[str, Json], **more: Any) -> Json:
    found = node("n")
    found["spec"]["unschedulable"] = True
    found["metadata"]["managedFields"] = [{"manager": name, "fieldsV1": fields} for name, fields in managers]
    found["metadata"].update(more)
    return found


_SPEC: Json = {"f:spec": {"f:unschedulable": {}}}
_STATE: Json = {"f:metadata": {"f:labels": {f"f:{STATE}": {}}}}
_NOTE: Json = {"f:metadata": {"f:annotations": {"f:quarantineHealthEvent": {}}}}


@pytest.mark.parametrize(
    ("given", "who"),
    [
        (node("n"), None),
        (owned(("kubectl-cordon", _SPEC)), "kubectl-cordon"),
        (owned(("kubectl-cordon", _SPEC), ("fault-quarantine", _STATE)), "kubectl-cordon"),
        (owned(("gpu-conformance", _SPEC)), Kind.SUITE),
        (owned(("fault-quarantine", _SPEC)), Kind.REMEDIATION),
        (owned(("theirs", {**_SPEC, **_NOTE})), Kind.REMEDIATION),
        (owned(("theirs", _SPEC), ("theirs", _STATE)), Kind.REMEDIATION),
        (owned(), Kind.UNKNOWN),
        (owned(("ancient-changes", _SPEC)), Kind.UNKNOWN),
        (owned(labels={STATE: "quarantined"}), Kind.UNKNOWN),
        (owned(managedFields="nonsense"), Kind.UNKNOWN),
        (owned(managedFields=[7, {"manager": 3, "fieldsV1": "x"}]), Kind.UNKNOWN),
    ],
)
def test_a_cordon_is_somebodys(given: Json, who: Kind | str | None) -> None:
    found = cordon_on(given)
    assert found is None if who is None else found is not None and (found.kind == who or found.owner == who)
    assert named_cordoner(given) == ("" if who is None or isinstance(who, Kind) else who)


@pytest.mark.parametrize(("message", "another"), ROWS["another device"])
def test_a_message_is_about_a_device(message: str, another: bool) -> None:
    assert names_another(message, NAMES) is another
    assert not names_another(message, ())


def test_somebodys_cordon_outlives_the_undo_of_what_the_fault_led_to(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        args = cleared_args(cluster, "gpu-1", NAMES)
        write(cluster, "kubectl-cordon", CORDON)
        tell(cluster, f"Xid 79 of {OURS}")
        NodeCleared().undo(cluster, args, soon())
        assert NodeCleared().verify(cluster, args, soon()) == ""
        assert fetch(cluster, "nodes", "gpu-1")["spec"]["unschedulable"] is True
        assert stated(cluster) == "absent"


def test_the_fault_of_another_device_is_not_declared_over(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        args = cleared_args(cluster, "gpu-1", NAMES)
        tell(cluster, f"Xid 79 of {THEIRS}")
        tell(cluster, f"Xid 79 of {OURS}", "SysLogsXIDError")
        NodeCleared().undo(cluster, args, soon())
        assert NodeCleared().verify(cluster, args, soon()) == ""
        assert (stated(cluster), stated(cluster, "SysLogsXIDError")) == ("True", "absent")


def test_a_condition_that_was_there_is_set_back_and_one_that_came_with_the_fault_goes(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        write(cluster, "monitor", {"status": {"conditions": [{"type": "GpuXidError", "status": "False"}]}}, "status")
        tell(cluster, f"Xid 79 of {OURS}", "SysLogsXIDError")
        args = cleared_args(cluster, "gpu-1", NAMES)
        tell(cluster, f"Xid 79 of {OURS}")
        write(cluster, "monitor", {"status": {"conditions": [{"type": "GpuMemWatch", "status": "False"}]}}, "status")
        assert "condition GpuMemWatch, which was not there" in NodeCleared().verify(cluster, args, soon(0.2))
        NodeCleared().undo(cluster, args, soon())
        assert NodeCleared().verify(cluster, args, soon()) == ""
        assert (stated(cluster), stated(cluster, "SysLogsXIDError"), stated(cluster, "GpuMemWatch")) == ("False", "True", "absent")


def test_a_cordon_that_somebody_made_again_is_theirs(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        args = NodeUnschedulable().args(fetch(cluster, "nodes", "gpu-1"), True)
        cluster.patch("nodes", "gpu-1", CORDON)
        write(cluster, "kubectl-uncordon", {"spec": {"unschedulable": None}})
        write(cluster, "kubectl-cordon", CORDON)
        with pytest.raises(UndoRefused, match="somebody else"):
            NodeUnschedulable().undo(cluster, args, soon())
        assert fetch(cluster, "nodes", "gpu-1")["spec"]["unschedulable"] is True


def test_a_node_that_is_no_longer_given_is_not_cordoned_again(tmp_path: Path, cluster: Cluster) -> None:
    target = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1", facts={"unschedulable": True})
    book = ledger(tmp_path, cluster)
    acts = acting(tmp_path, cluster, book, target)
    with acts.as_current(), pytest.raises(ActivityFailed, match="put it back to work"):
        cordon()
    assert not fetch(cluster, "nodes", "gpu-1")["spec"].get("unschedulable")
    assert book.open_entries() == []
    assert cluster.patch("nodes", "gpu-1", CORDON).ok
    with acts.as_current():
        cordon()
    assert len(book.open_entries()) == 1


def test_a_node_that_its_administrator_put_back_to_work_stays_there(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        write(cluster, "kubectl-cordon", CORDON)
        args = NodeUnschedulable().args(fetch(cluster, "nodes", "gpu-1"), True)
        NodeUnschedulable().undo(cluster, args, soon())
        write(cluster, "kubectl-uncordon", {"spec": {"unschedulable": None}})
        with pytest.raises(UndoRefused, match="somebody else"):
            NodeUnschedulable().undo(cluster, args, soon())
        assert not fetch(cluster, "nodes", "gpu-1")["spec"].get("unschedulable")


@pytest.mark.parametrize("state", [None, "quarantined"])
def test_a_person_is_told_to_give_a_cordoned_node_the_state_label_that_it_had(tmp_path: Path, state: str | None) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        write(cluster, "kubectl-cordon", {"metadata": {"labels": {STATE: state}}, **CORDON})
        label = f"{STATE}-" if state is None else f"{STATE}={state}"
        assert NodeCleared().human(cleared_args(cluster, "gpu-1"))[1] == f"kubectl label node gpu-1 {label} --overwrite"


def test_a_cordon_of_the_experiment_that_an_administrator_lifted_is_not_set_again(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tracked()]) as (cluster, _):
        own = NodeUnschedulable().args(fetch(cluster, "nodes", "gpu-1"), True)
        write(cluster, "gpu-conformance", CORDON)
        reaction = cleared_args(cluster, "gpu-1")
        write(cluster, "fault-quarantine", {"metadata": {"labels": {STATE: "quarantined"}, "annotations": {NOTE: "true"}}})
        write(cluster, "kubectl-uncordon", {"spec": {"unschedulable": None}})
        both: list[tuple[Undo, Any]] = [(NodeCleared(), reaction), (NodeUnschedulable(), own)]
        for undo, args in both:
            undo.undo(cluster, args, soon())
            assert undo.verify(cluster, args, soon()) == ""
            assert not fetch(cluster, "nodes", "gpu-1")["spec"].get("unschedulable"), undo.name
        found = fetch(cluster, "nodes", "gpu-1")["metadata"]
        assert (STATE in found["labels"], NOTE in found["annotations"]) == (False, False)


# -- whether what a detector says is about the device of an experiment

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
FACTS = {"uuid": UUID, "pci": "0000:1B:00.0", "index": 1}


@pytest.mark.parametrize(("message", "this"), ROWS["this device"])
def test_a_device_is_named_by_whole_words(message: str, this: bool) -> None:
    assert names_this(message, names_of(FACTS)) is this


def test_a_fault_of_gpu_10_is_none_of_gpu_1() -> None:
    target = Target(kind="nodes", name="a", uid="1", node="a", facts=FACTS)
    stated = [
        World(nodes=[seen("a", conditions=[{"type": "GpuMemWatch", "status": "True", "message": f"GPU {index} is lost"}])])
        for index in (1, 10)
    ]
    found = [SIGNALS["node.faults.name.target"](Read(world, made_up_plan(target))) for world in stated]  # type: ignore[arg-type]
    assert found == [True, False]


NOTE = "dgxc.nvidia.com/nvsentinel-cordoned"


@pytest.mark.parametrize("extra", [[], [tracked()]], ids=["writers are not told", "writers are told"])
def test_what_remediation_did_is_put_back_and_its_condition_cleared(tmp_path: Path, extra: list[Json]) -> None:
    with world(tmp_path, extra=extra) as (cluster, _):
        args = cleared_args(cluster, "gpu-1")
        metadata = {"labels": {STATE: "quarantined"}, "annotations": {NOTE: "true", "owner": "me"}}
        write(cluster, "theirs", {**CORDON, "metadata": metadata})
        tell(cluster, "Xid 79", "SysLogsXIDError")
        assert "cordoned" in NodeCleared().verify(cluster, args, soon(0.2))
        NodeCleared().undo(cluster, args, soon())
        assert NodeCleared().verify(cluster, args, soon()) == ""
        node = fetch(cluster, "nodes", "gpu-1")
        assert STATE not in node["metadata"]["labels"]
        assert NOTE not in node["metadata"]["annotations"]
        assert node["metadata"]["annotations"]["owner"] == "me"
        assert not node["spec"].get("unschedulable")
        assert stated(cluster, "SysLogsXIDError") == "absent"
        NodeCleared().undo(cluster, args, soon())  # once more: nothing to do


PLUGIN, EXPORTER, PAUSED = (f"nvidia.com/gpu.deploy.{name}" for name in ("device-plugin", "dcgm-exporter", "mig-manager"))


@pytest.mark.parametrize("state", ["remediating", None])
def test_agents_that_a_repair_left_stopped_are_started_again(cluster: Cluster, state: str | None) -> None:
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PLUGIN: "true", EXPORTER: "false", PAUSED: "true"}}})
    args = cleared_args(cluster, "gpu-1")
    labels = {STATE: state, PLUGIN: "false", PAUSED: "paused-for-mig-change"}
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": labels}})
    NodeCleared().undo(cluster, args, soon(0.2))
    assert NodeCleared().verify(cluster, args, soon()) == ""
    found = fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]
    repaired = "true" if state else "false"  # without a sign of a repair, somebody else keeps the plugin off
    assert (found[PLUGIN], found[EXPORTER], found[PAUSED], STATE in found) == (repaired, "false", "paused-for-mig-change", False)


def test_a_cordon_that_no_remediation_explains_is_left(cluster: Cluster) -> None:
    args = cleared_args(cluster, "gpu-1")
    cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": True}})
    with pytest.raises(UndoRefused, match="no remediation shows"):
        NodeCleared().undo(cluster, args, soon())
    assert fetch(cluster, "nodes", "gpu-1")["spec"]["unschedulable"] is True


def test_a_condition_that_no_device_fault_leads_to_is_left_and_reported(cluster: Cluster) -> None:
    args = cleared_args(cluster, "gpu-1")
    tell(cluster, "Xid 79", "SysLogsXIDError")
    tell(cluster, "Xid 79", "ReadonlyFilesystem")
    with pytest.raises(UndoRefused, match="ReadonlyFilesystem"):
        NodeCleared().undo(cluster, args, soon())
    assert (stated(cluster, "SysLogsXIDError"), stated(cluster, "ReadonlyFilesystem")) == ("absent", "True")


def ended(cluster: Cluster, name: str) -> bool:
    """Whether a pod was asked to go; without a kubelet it is then taken away here."""
    pod = fetch(cluster, "pods", name, "gpu-operator")
    if "deletionTimestamp" not in pod["metadata"]:
        return False
    cluster.delete("pods", name, "gpu-operator", uid=pod["metadata"]["uid"], grace_seconds=0)
    return True


def restarted(**changes: object) -> RestartedArgs:
    owner = {"owner": "plugin", "owner_uid": "uid-plugin", "selector": "app=plugin"}
    base = {"namespace": "gpu-operator", **owner, "node": "gpu-1", "uids": ("uid-plugin-1",)}
    return RestartedArgs(**{**base, **changes})  # type: ignore[arg-type]


def test_only_the_pod_that_saw_the_fault_is_restarted(cluster: Cluster) -> None:
    undo = AgentRestarted()
    assert "still there" in undo.verify(cluster, restarted(), soon(0.2))
    undo.undo(cluster, restarted(), soon())
    assert ended(cluster, "plugin-1")
    assert not ended(cluster, "plugin-2")
    assert "no pod of plugin is Ready" in undo.verify(cluster, restarted(), soon(0.2))


def test_a_pod_that_came_since_is_enough_once_the_devices_are_back(cluster: Cluster) -> None:
    args = restarted(uids=("uid-long-gone",), allocatable={"nvidia.com/gpu": "8"})
    assert AgentRestarted().verify(cluster, args, soon()) == ""
    AgentRestarted().undo(cluster, args, soon())
    assert not ended(cluster, "plugin-1")


def test_a_plugin_that_started_during_the_fault_is_restarted_too(cluster: Cluster) -> None:
    args = restarted(uids=("uid-long-gone",), allocatable={"nvidia.com/gpu": "8"})
    write(cluster, "kubelet", {"status": {"allocatable": {"nvidia.com/gpu": "7", "cpu": "64"}}}, "status")
    assert "7 allocatable instead of 8" in AgentRestarted().verify(cluster, args, soon(0.2))
    AgentRestarted().undo(cluster, args, soon())
    assert ended(cluster, "plugin-1")
    assert not ended(cluster, "plugin-2")


def test_a_pod_that_runs_with_the_experiments_variable_is_restarted(tmp_path: Path) -> None:
    configured = daemon_pod("plugin-8", "gpu-1", uid="uid-8")
    configured["spec"]["containers"][0]["env"] = [{"name": "DP_ENABLE_HEALTHCHECKS", "value": "43"}]
    with world(tmp_path, extra=[configured]) as (cluster, _):
        args = restarted(uids=("uid-long-gone",), env={"DP_ENABLE_HEALTHCHECKS": "43"})
        assert "still runs with" in AgentRestarted().verify(cluster, args, soon(0.2))
        AgentRestarted().undo(cluster, args, soon())
        assert ended(cluster, "plugin-8")
        assert not ended(cluster, "plugin-1")


def daemon_set(*env: Json) -> Json:
    containers = [{"name": "plugin", "image": "i", "env": list(env)}, {"name": "side", "image": "i"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "gpu-operator", "uid": "uid-plugin"},
        "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": {"spec": {"containers": containers}}},
    }


def env(prior: str | None) -> EnvArgs:
    return EnvArgs(
        key="apps/daemonsets",
        namespace="gpu-operator",
        name="plugin",
        uid="uid-plugin",
        container="plugin",
        variable="X",
        prior=prior,
        ours="1",
    )


@pytest.mark.parametrize("prior", [None, "0"])
def test_a_variable_gets_its_prior_value_back(tmp_path: Path, prior: str | None) -> None:
    kept = [{"name": "KEPT", "value": "y"}, *([{"name": "X", "value": prior}] if prior else [])]
    with world(tmp_path, extra=[daemon_set(*kept)]) as (cluster, _):
        before = fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator")
        cluster.patch("apps/daemonsets", "plugin", with_value(before, "plugin", "X", "1"), "gpu-operator")
        assert value_of(fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator"), "plugin", "X") == "1"
        assert "'1'" in WorkloadEnv().verify(cluster, env(prior), soon(0.2))
        WorkloadEnv().undo(cluster, env(prior), soon())
        assert WorkloadEnv().verify(cluster, env(prior), soon()) == ""
        after = fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator")
        assert after["spec"]["template"] == before["spec"]["template"]


def test_a_variable_that_somebody_else_set_is_left(tmp_path: Path) -> None:
    with world(tmp_path, extra=[daemon_set({"name": "X", "value": "theirs"})]) as (cluster, _):
        with pytest.raises(UndoRefused):
            WorkloadEnv().undo(cluster, env(None), soon())
