"""Operands deleted by hand, and workloads scaled."""

from functools import partial
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import accepted, change, current, read_target, target_record, targets
from chaos.cluster.requests import read
from chaos.ledger.undos.objects import ObjectPresent
from chaos.ledger.undos.workloads import ReplicasArgs, WorkloadReplicas
from fixtures.kubernetes.models import Json


def delete_operand() -> list[dict[str, Any]]:
    """Delete the plan's operands, each only if it still is that very object; they are saved whole before."""
    acting = current()
    done = []
    for target in [target for target in acting.plan.targets if target.kind not in ("nodes", "pods")]:
        obj = read_target(target)
        with acting.fault("object.present", ObjectPresent().args(target.kind, obj)) as fault:
            accepted(acting.cluster.delete(target.kind, target.name, target.namespace, uid=target.uid), f"delete {target}")
            fault.applied({"deleted": target_record(target)})
        done.append(target_record(target))
    if not done:
        raise ActivityFailed("the plan names no operand")
    return done


def _same_replicas(args: ReplicasArgs, newer: Json) -> bool:
    return WorkloadReplicas().args(args.key, newer, args.ours).prior == args.prior


def scale_owner(replicas: int) -> list[dict[str, Any]]:
    """Scale the Deployment that runs the plan's pods."""
    acting = current()
    done = []
    for target in targets("pods"):
        key, name = str(target.facts.get("owner_kind")), str(target.facts.get("owner"))
        obj = read(acting.cluster, key, name, target.namespace)
        if obj is None or obj["metadata"]["uid"] != target.facts.get("owner_uid"):
            raise ActivityFailed(f"{key} {target.namespace}/{name} was replaced since it was planned")
        args = WorkloadReplicas().args(key, obj, replicas)
        with acting.fault("workload.replicas", args) as fault:
            change(key, obj, {"spec": {"replicas": replicas}}, partial(_same_replicas, args))
            fault.applied({"scaled": f"{target.namespace}/{name}", "replicas": replicas})
        done.append({"kind": key, "namespace": target.namespace, "name": name, "replicas": replicas})
    return done
