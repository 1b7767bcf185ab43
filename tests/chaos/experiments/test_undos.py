"""Undos of what detectors and remediation remember, and of a plugin's configuration."""

from pathlib import Path

import pytest

from chaos.ledger.undos.agents import AgentRestarted, RestartedArgs
from chaos.ledger.undos.environment import EnvArgs, WorkloadEnv, value_of, with_value
from chaos.ledger.undos.remediation import NodeCleared, cleared_args
from chaos.model.errors import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from tests.chaos.ledger.simulated_cluster import daemon_pod, fetch, soon, world

STATE = "dgxc.nvidia.com/nvsentinel-state"
NOTE = "dgxc.nvidia.com/nvsentinel-cordoned"


def _status(cluster: Cluster, body: Json) -> None:
    path = cluster.path("nodes", "", "gpu-1", "status")
    answer = cluster.request("PATCH", path, body={"status": body}, content_type="application/strategic-merge-patch+json")
    assert answer.ok, answer.message


def _tell(cluster: Cluster, kind: str, status: str) -> None:
    _status(cluster, {"conditions": [{"type": kind, "status": status, "reason": "X", "message": "Xid 79"}]})


def test_what_remediation_did_is_put_back_and_its_condition_cleared(cluster: Cluster) -> None:
    args = cleared_args(cluster, "gpu-1")
    metadata = {"labels": {STATE: "quarantined"}, "annotations": {NOTE: "true", "owner": "me"}}
    cluster.patch("nodes", "gpu-1", {"metadata": metadata, "spec": {"unschedulable": True}})
    _tell(cluster, "SysLogsXIDError", "True")
    assert "cordoned" in NodeCleared().verify(cluster, args, soon(0.2))
    NodeCleared().undo(cluster, args, soon())
    assert NodeCleared().verify(cluster, args, soon()) == ""
    node = fetch(cluster, "nodes", "gpu-1")
    assert STATE not in node["metadata"]["labels"]
    assert NOTE not in node["metadata"]["annotations"]
    assert node["metadata"]["annotations"]["owner"] == "me"
    assert not node["spec"].get("unschedulable")
    assert "SysLogsXIDError" not in {item["type"] for item in node["status"]["conditions"]}
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


def test_a_condition_that_no_device_fault_leads_to_is_left_and_told(cluster: Cluster) -> None:
    args = cleared_args(cluster, "gpu-1")
    _tell(cluster, "SysLogsXIDError", "True")
    _tell(cluster, "ReadonlyFilesystem", "True")
    with pytest.raises(UndoRefused, match="ReadonlyFilesystem"):
        NodeCleared().undo(cluster, args, soon())
    found = {item["type"]: item["status"] for item in fetch(cluster, "nodes", "gpu-1")["status"]["conditions"]}
    assert ("SysLogsXIDError" in found, found["ReadonlyFilesystem"]) == (False, "True")


def test_a_condition_that_was_there_before_stays(cluster: Cluster) -> None:
    _tell(cluster, "GpuMemWatch", "True")
    args = cleared_args(cluster, "gpu-1")
    NodeCleared().undo(cluster, args, soon())
    assert NodeCleared().verify(cluster, args, soon()) == ""
    conditions = fetch(cluster, "nodes", "gpu-1")["status"]["conditions"]
    assert next(item["status"] for item in conditions if item["type"] == "GpuMemWatch") == "True"


def _ended(cluster: Cluster, name: str) -> bool:
    """Whether a pod was asked to go; without a kubelet it is then taken away here."""
    pod = fetch(cluster, "pods", name, "gpu-operator")
    if "deletionTimestamp" not in pod["metadata"]:
        return False
    cluster.delete("pods", name, "gpu-operator", uid=pod["metadata"]["uid"], grace_seconds=0)
    return True


def _restarted(**changes: object) -> RestartedArgs:
    owner = {"owner": "plugin", "owner_uid": "uid-plugin", "selector": "app=plugin"}
    base = {"namespace": "gpu-operator", **owner, "node": "gpu-1", "uids": ("uid-plugin-1",)}
    return RestartedArgs(**{**base, **changes})  # type: ignore[arg-type]


def test_only_the_pod_that_saw_the_fault_is_restarted(cluster: Cluster) -> None:
    undo = AgentRestarted()
    assert "still there" in undo.verify(cluster, _restarted(), soon(0.2))
    undo.undo(cluster, _restarted(), soon())
    assert _ended(cluster, "plugin-1")
    assert not _ended(cluster, "plugin-2")
    assert "no pod of plugin is Ready" in undo.verify(cluster, _restarted(), soon(0.2))


def test_a_pod_that_came_since_is_enough_once_the_devices_are_back(cluster: Cluster) -> None:
    args = _restarted(uids=("uid-long-gone",), allocatable={"nvidia.com/gpu": "8"})
    assert AgentRestarted().verify(cluster, args, soon()) == ""
    AgentRestarted().undo(cluster, args, soon())
    assert not _ended(cluster, "plugin-1")


def test_a_plugin_that_started_during_the_fault_is_restarted_too(cluster: Cluster) -> None:
    args = _restarted(uids=("uid-long-gone",), allocatable={"nvidia.com/gpu": "8"})
    _status(cluster, {"allocatable": {"nvidia.com/gpu": "7", "cpu": "64"}})
    assert "7 allocatable instead of 8" in AgentRestarted().verify(cluster, args, soon(0.2))
    AgentRestarted().undo(cluster, args, soon())
    assert _ended(cluster, "plugin-1")
    assert not _ended(cluster, "plugin-2")


def test_a_pod_that_runs_with_the_experiments_variable_is_restarted(tmp_path: Path) -> None:
    configured = daemon_pod("plugin-8", "gpu-1", uid="uid-8")
    configured["spec"]["containers"][0]["env"] = [{"name": "DP_ENABLE_HEALTHCHECKS", "value": "43"}]
    with world(tmp_path, extra=[configured]) as (cluster, _):
        args = _restarted(uids=("uid-long-gone",), env={"DP_ENABLE_HEALTHCHECKS": "43"})
        assert "still runs with" in AgentRestarted().verify(cluster, args, soon(0.2))
        AgentRestarted().undo(cluster, args, soon())
        assert _ended(cluster, "plugin-8")
        assert not _ended(cluster, "plugin-1")


def _daemon_set(*env: Json) -> Json:
    containers = [{"name": "plugin", "image": "i", "env": list(env)}, {"name": "side", "image": "i"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "gpu-operator", "uid": "uid-plugin"},
        "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": {"spec": {"containers": containers}}},
    }


def _env(prior: str | None) -> EnvArgs:
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
    with world(tmp_path, extra=[_daemon_set(*kept)]) as (cluster, _):
        before = fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator")
        cluster.patch("apps/daemonsets", "plugin", with_value(before, "plugin", "X", "1"), "gpu-operator")
        assert value_of(fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator"), "plugin", "X") == "1"
        assert "'1'" in WorkloadEnv().verify(cluster, _env(prior), soon(0.2))
        WorkloadEnv().undo(cluster, _env(prior), soon())
        assert WorkloadEnv().verify(cluster, _env(prior), soon()) == ""
        after = fetch(cluster, "apps/daemonsets", "plugin", "gpu-operator")
        assert after["spec"]["template"] == before["spec"]["template"]


def test_a_variable_that_somebody_else_set_is_left(tmp_path: Path) -> None:
    with world(tmp_path, extra=[_daemon_set({"name": "X", "value": "theirs"})]) as (cluster, _):
        with pytest.raises(UndoRefused):
            WorkloadEnv().undo(cluster, _env(None), soon())
