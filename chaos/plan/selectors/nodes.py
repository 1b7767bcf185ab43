"""Selectors whose target is on one GPU node: the node, an agent's pod there, or one of its devices.

The node is healthy and in service, or, for what is destructive, healthy and taken out of service by an administrator.
"""

from __future__ import annotations

from typing import Any

from chaos.model.plan import Target
from chaos.observe.components import on_node, pods_of
from chaos.observe.view import dig, is_ready, labels_of, name_of, namespace_of, node_of, number_of, uid_of
from chaos.plan.selectors.base import Choice, NotApplicable, PlanningView, PlanRefused
from fixtures.kubernetes.models import Json


def choose_node(planning: PlanningView) -> Choice:
    """One healthy GPU node that offers what the experiment asks for; the one with most free devices."""
    candidates = _candidates(planning)
    node = candidates[0]
    return Choice(
        targets=(planning.node_target(node, _devices_of(planning, node)),),
        eligible=len(planning.comparable_nodes()),
        nodes=(name_of(node),),
    )


def choose_daemon_pod(planning: PlanningView) -> Choice:
    """The pod of an agent on one healthy GPU node, and the node as what the fault shows on."""
    found = planning.components.get(planning.wanted.component)
    if found is None:
        raise NotApplicable("ComponentAbsent", planning.components.absent.get(planning.wanted.component, f"no {planning.wanted.component}"))
    pods: dict[str, Json] = {}
    for pod in pods_of(planning.view, found):
        if is_ready(pod) and node_of(pod):
            pods[node_of(pod)] = pod
    candidates = [node for node in _candidates(planning) if name_of(node) in pods]
    if not candidates:
        raise PlanRefused("NoReadyPod", f"no healthy GPU node has a ready pod of {found}")
    node = candidates[0]
    pod, found = pods[name_of(node)], on_node(planning.view, found, name_of(node))
    return Choice(targets=(_pod_target(pod, found.key, found.name),), eligible=len(pods), nodes=(name_of(node),))


def choose_gpu(planning: PlanningView) -> Choice:
    """One device of a healthy GPU node, by what the node's exporter shows of it: the last one, which is given out last."""
    candidates = [node for node in _candidates(planning) if planning.known_devices(name_of(node))]
    if not candidates:
        raise NotApplicable("DevicesUnknown", "no exporter reports the UUIDs of devices of a healthy node, so no device can be named")
    node = candidates[0]
    every = sum(len(planning.known_devices(name_of(other))) for other in planning.comparable_nodes())
    return Choice(targets=(planning.node_target(node, _devices_of(planning, node)),), eligible=every, nodes=(name_of(node),))


def _devices_of(planning: PlanningView, node: Json) -> dict[str, Any]:
    """The device that a fault would hit: the node's last one, which is given out last. Empty when nothing tells its devices."""
    devices = sorted(planning.known_devices(name_of(node)), key=lambda device: device.index)
    if not devices:
        return {}
    chosen = devices[-1]
    units = sum(planning.devices(node, "capacity").values())
    return {"uuid": chosen.uuid, "index": chosen.index, "pci": chosen.pci, "units": units // len(devices), "gpus": len(devices)}


def _candidates(planning: PlanningView) -> list[Json]:
    """GPU nodes that may be the target and have what the target block asks for. Raises when there is none, with the reasons."""
    planning.require_name()
    nodes = planning.gpu_nodes()
    if not nodes:
        raise NotApplicable("NoGpuNode", "no node has devices in its capacity")
    fitting, reasons = [], []
    for node in planning.eligible():
        reason = _unfit(planning, node)
        if planning.named and name_of(node) != planning.named:
            continue
        if reason:
            reasons.append(reason)
        else:
            fitting.append(node)
    if not fitting:
        reasons += [reason for node in nodes if (reason := planning.target_obstacle(node))]
        kind = NotApplicable if reasons and all(reason.startswith("~") for reason in reasons) else PlanRefused
        shown = "; ".join(dict.fromkeys(reason.removeprefix("~") for reason in reasons[:5])) or "none is healthy"
        raise kind("NoFittingNode", f"no GPU node can be the target: {shown}")
    return fitting


def _unfit(planning: PlanningView, node: Json) -> str:
    """Why a healthy node will not do. What it will never be begins with ``~``."""
    wanted, name = planning.wanted, name_of(node)
    shared, mig = is_shared(node), is_mig(node)
    if wanted.shared is not None and wanted.shared != shared:
        return f"~{name} {'shares' if shared else 'does not share'} its devices"
    if wanted.mig is not None and wanted.mig != mig:
        return f"~{name} is {'in' if mig else 'not in'} MIG"
    missing = [key for key in wanted.labels if key not in labels_of(node)]
    if missing:
        return f"~{name} has no label {missing[0]}"
    if planning.free(node) < wanted.free:
        return f"{name} has {planning.free(node)} free devices, {wanted.free} are needed"
    if wanted.idle and planning.busy(node):
        return f"{name} has pods that hold devices"
    return ""


def is_shared(node: Json) -> bool:
    """Whether devices of a node are given to several pods (GFD's replicas above 1, docs/facts/labels.md#discovery-labels)."""
    labels = labels_of(node)
    return any(key.endswith(".replicas") and number_of(value) > 1 for key, value in labels.items() if key.startswith("nvidia.com/"))


def is_mig(node: Json) -> bool:
    """Whether a node offers MIG devices, under their own names (mixed) or as whole ones (single)."""
    sliced = any(name.startswith("nvidia.com/mig-") and number_of(count) for name, count in dig(node, "status", "capacity").items())
    return sliced or "-MIG-" in labels_of(node).get("nvidia.com/gpu.product", "")


def _pod_target(pod: Json, owner_key: str, owner: str) -> Target:
    return Target(
        kind="pods",
        name=name_of(pod),
        namespace=namespace_of(pod),
        uid=uid_of(pod),
        node=node_of(pod),
        facts={"owner_kind": owner_key, "owner": owner, "grace": number_of(dig(pod, "spec").get("terminationGracePeriodSeconds"))},
    )
