"""Acts of an experiment on the small cluster, each with its undo."""

from collections.abc import Callable
from typing import Any

import msgspec

from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable
from chaos.ledger.undos.objects import AbsentArgs, ObjectPresent
from chaos.ledger.undos.workloads import WorkloadReplicas
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import RUN, fetch

NAMESPACE = "gpu-operator"


class Act(msgspec.Struct, frozen=True):
    """One act: what it is called, and to what."""

    kind: str
    node: str = ""
    key: str = ""
    value: Any = None


def prepare(cluster: Cluster, act: Act) -> tuple[str, Any, Callable[[], object]]:
    """The undo's name and arguments by the state now, and the act itself."""
    if act.kind == "labels":
        args = NodeLabels().args(fetch(cluster, "nodes", act.node), {act.key: act.value})
        return "node.labels", args, lambda: cluster.patch("nodes", act.node, {"metadata": {"labels": args.ours}})
    if act.kind == "unschedulable":
        cordon = NodeUnschedulable().args(fetch(cluster, "nodes", act.node), act.value)
        return "node.unschedulable", cordon, lambda: cluster.patch("nodes", act.node, {"spec": {"unschedulable": act.value or None}})
    if act.kind == "replicas":
        found = fetch(cluster, "apps/deployments", "gpu-operator", NAMESPACE)
        scaled = WorkloadReplicas().args("apps/deployments", found, act.value)
        body = {"spec": {"replicas": act.value}}
        return "workload.replicas", scaled, lambda: cluster.patch("apps/deployments", "gpu-operator", body, NAMESPACE)
    if act.kind == "create":
        meta = {"name": act.key, "labels": owned.labels(RUN)}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        absent = AbsentArgs(key="configmaps", namespace=NAMESPACE, name=act.key, run_id=RUN)
        return "object.absent", absent, lambda: cluster.create("configmaps", obj, namespace=NAMESPACE)
    present = ObjectPresent().args("configmaps", fetch(cluster, "configmaps", "operand", NAMESPACE))
    return "object.present", present, lambda: cluster.delete("configmaps", "operand", NAMESPACE)
