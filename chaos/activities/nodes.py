"""Faults of a Node object: labels, cordon, drain, deletion."""

import time
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import accepted, change, current, listed, node_target, plan_facts, poll, read_target, seconds, target_record
from chaos.cluster.requests import read
from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable, cleared_args
from chaos.ledger.undos.objects import NodeExists
from chaos.ledger.undos.workloads import BreakerArgs
from chaos.model.plan import OPT_OUT, canary_namespace
from chaos.model.records import PREPARATION
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.devices.gpu_names import names_of
from fixtures.model.objects import full_name, is_going, is_live, is_unschedulable, name_of, namespace_of, owners_of, uid_of
from fixtures.model.platform.remediators import BREAKER, CLOSED, breaker_status

EVICTION_SECONDS = 2.0
"""How long one eviction may take, its Retry-After included: a refusal is asked again, until the drain's own deadline."""


def remove_labels(keys: list[str]) -> dict[str, Any]:
    """Remove labels from the node. One that is not there makes the activity fail: nothing would be removed."""
    node = read_target(node_target())
    present = mapping(node, "metadata", "labels")
    if missing := [key for key in keys if key not in present]:
        raise ActivityFailed(f"{node_target()} has no label {missing[0]}")
    return _label(node, dict.fromkeys(keys))


def set_labels(values: dict[str, str]) -> dict[str, Any]:
    """Set labels of the node."""
    return _label(read_target(node_target()), dict(values))


def opt_out() -> dict[str, Any]:
    """Opt the node out of remediation where there is any, so that a fault is answered by what is tested and by nobody else.

    What its detectors say of the node meanwhile is cleared by the undo.
    """
    if "remediation" not in plan_facts().components:
        return {"opted_out": False}
    done = _label(read_target(node_target()), dict(OPT_OUT), preparation=True)
    acting = current()
    target = node_target()
    with acting.fault("node.cleared", cleared_args(acting.cluster, target.name, names_of(target.facts))) as fault:
        fault.applied({"node": target.name, PREPARATION: True})
    return done


def _label(node: Json, ours: dict[str, str | None], *, preparation: bool = False) -> dict[str, Any]:
    args = NodeLabels().args(node, ours)
    with current().fault("node.labels", args) as fault:
        change("nodes", node, {"metadata": {"labels": ours}}, lambda newer: NodeLabels().args(newer, ours) == args)
        fault.applied({"node": name_of(node), "labels": ours, PREPARATION: preparation})
    return {**target_record(node_target()), "labels": ours}


def keep_breaker() -> dict[str, Any]:
    """Write down that remediation's breaker is closed, so that the undo closes it again. Raises ActivityFailed when it is not."""
    acting, found = current(), plan_facts().components["remediation"]
    breaker = read(acting.cluster, "configmaps", BREAKER, found.namespace)
    if breaker_status(breaker) != CLOSED:
        raise ActivityFailed(f"the breaker of {found} is not closed: it would fence nothing")
    with acting.fault("breaker.closed", BreakerArgs(namespace=found.namespace, uid=uid_of(breaker))) as fault:
        fault.applied({"breaker": CLOSED, PREPARATION: True})
    return {"breaker": CLOSED}


def cordon() -> dict[str, Any]:
    """Make the node unschedulable. One that was planned as cordoned, and is not any more, is its administrator's again."""
    target = node_target()
    node = read_target(target)
    if target.facts.get("unschedulable") and not is_unschedulable(node):
        raise ActivityFailed(f"{target} was cordoned when it was planned, and somebody has put it back to work")
    args = NodeUnschedulable().args(node, True)
    with current().fault("node.unschedulable", args) as fault:
        change("nodes", node, {"spec": {"unschedulable": True}}, lambda newer: NodeUnschedulable().args(newer, True) == args)
        fault.applied({"node": target.name})
    return target_record(target)


def delete_node() -> dict[str, Any]:
    """Delete the Node object; its kubelet registers it again."""
    acting = current()
    target = node_target()
    node = read_target(target)
    with acting.fault("node.exists", NodeExists().args(node, seconds("registration"))) as fault:
        accepted(acting.cluster.delete("nodes", target.name, uid=target.uid), f"delete {target}")
        fault.applied({"node": target.name, "uid": target.uid})
    return target_record(target)


def drain(within: str, refused: bool = False) -> dict[str, Any]:
    """Evict the experiment's own device pods from the cordoned node, again while a budget refuses or a server throttles, to the deadline.

    Pods of DaemonSets and mirror pods stay. A pod without a controller, or of somebody else, makes the activity fail before anything
    is evicted. ``refused``: the drain is expected to be refused to the end; evictions that are granted are for the samples to show.
    """
    acting = current()
    target = node_target()
    node = read(acting.cluster, "nodes", target.name)
    if not is_unschedulable(node):
        raise ActivityFailed(f"{target} is not cordoned: what is evicted would come back to it")
    waiting = {uid_of(pod): pod for pod in _evictable(target.name)}
    if not waiting:
        raise ActivityFailed(f"no pod of this experiment is on {target}: there is nothing to drain")
    first, answers = len(waiting), {"evicted": 0, "refused": 0}
    start = time.monotonic()

    def step() -> bool:
        for uid, pod in list(waiting.items()):
            _evict(uid, pod, waiting, answers)
        return not waiting

    poll(step, seconds(within))
    result = {**target_record(target), "pods": first, **answers, "left": sorted(full_name(pod) for pod in waiting.values())}
    if refused and not answers["refused"] and not answers["evicted"]:
        raise ActivityFailed("no eviction was answered, so nobody knows whether the budget holds")
    if not refused and waiting:
        raise ActivityFailed(f"the drain did not end within {time.monotonic() - start:.1f} s: {', '.join(result['left'])}")
    return result


def _evict(uid: str, pod: Json, waiting: dict[str, Json], answers: dict[str, int]) -> None:
    cluster = current().cluster
    now = read(cluster, "pods", name_of(pod), namespace_of(pod))
    if now is None or uid_of(now) != uid or not is_live(now):
        del waiting[uid]
        return
    if is_going(now):
        return  # on its way
    body: Json = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod)},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    path = cluster.path("pods", namespace_of(pod), name_of(pod), "eviction")
    try:
        answer = cluster.request("POST", path, body=body, attempts=1, seconds=EVICTION_SECONDS)
    except ApiTrouble as trouble:
        if trouble.code != "TooManyRequests":
            raise
        return  # throttled: nobody has asked the budget
    if answer.refused_by_budget:
        answers["refused"] += 1
    elif answer.ok:
        answers["evicted"] += 1
    elif answer.status not in (404, 409):
        raise ActivityFailed(f"evict {full_name(pod)}: {answer.status} {answer.message}")


def _evictable(node: str) -> list[Json]:
    """The experiment's own pods on the node. Raises ActivityFailed when somebody else's device pods are there, or unmanaged ones."""
    acting = current()
    found = []
    own = canary_namespace(acting.plan)
    for pod in listed("pods", fields=f"spec.nodeName={node}"):
        if not is_live(pod) or namespace_of(pod) == acting.plan.namespace:
            continue
        owners = owners_of(pod)
        mirrored = "kubernetes.io/config.mirror" in mapping(pod, "metadata", "annotations")
        if mirrored or any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners):
            continue
        if namespace_of(pod) != own:
            if requested_devices(pod, plan_facts().is_device):
                raise ActivityFailed(f"{full_name(pod)} on {node} holds devices and is not one of this experiment's pods")
            continue  # nobody's pods but the experiment's own are evicted
        if not any(owner.get("controller") is True for owner in owners):
            raise ActivityFailed(f"{full_name(pod)} has no controller that would replace it")
        found.append(pod)
    return found
