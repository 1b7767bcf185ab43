"""Selectors whose target is on one GPU node: the node, an agent's pod there, or one of its devices.

The node is healthy and in service, or, for what is destructive, healthy and taken out of service by an administrator.
"""

from __future__ import annotations

from typing import Any

from chaos.components import pods_of
from chaos.sampling.signals.view import dig, is_ready, labels_of, name_of, namespace_of, node_of, number_of, uid_of
from chaos.selectors.base import Choice, Field, NotApplicable, PlanRefused
from chaos.target import Target
from fixtures.models import Json


def choose_node(field: Field) -> Choice:
    """One healthy GPU node that offers what the experiment asks for; the one with most free devices."""
    candidates = _candidates(field)
    node = candidates[0]
    return Choice(targets=(field.node_target(node, _devices_of(field, node)),), eligible=len(field.fleet()), nodes=(name_of(node),))


def choose_daemon_pod(field: Field) -> Choice:
    """The pod of an agent on one healthy GPU node, and the node as what the fault shows on."""
    found = field.components.get(field.wanted.component)
    if found is None:
        raise NotApplicable("ComponentAbsent", field.components.absent.get(field.wanted.component, f"no {field.wanted.component}"))
    pods: dict[str, Json] = {}
    for pod in pods_of(field.view, found):
        if is_ready(pod) and node_of(pod):
            pods[node_of(pod)] = pod
    candidates = [node for node in _candidates(field) if name_of(node) in pods]
    if not candidates:
        raise PlanRefused("NoReadyPod", f"no healthy GPU node has a ready pod of {found}")
    node = candidates[0]
    pod = pods[name_of(node)]
    return Choice(targets=(_pod_target(pod, found.key, found.name),), eligible=len(pods), nodes=(name_of(node),))


def choose_gpu(field: Field) -> Choice:
    """One device of a healthy GPU node, by what the node's exporter tells of it: the last one, which is given out last."""
    candidates = [node for node in _candidates(field) if field.known_devices(name_of(node))]
    if not candidates:
        raise NotApplicable("DevicesUnknown", "no exporter tells the UUIDs of a healthy node's devices, so that none can be named")
    node = candidates[0]
    every = sum(len(field.known_devices(name_of(other))) for other in field.fleet())
    return Choice(targets=(field.node_target(node, _devices_of(field, node)),), eligible=every, nodes=(name_of(node),))


def _devices_of(field: Field, node: Json) -> dict[str, Any]:
    """The device that a fault would hit: the node's last one, which is given out last. Empty when nothing tells its devices."""
    devices = sorted(field.known_devices(name_of(node)), key=lambda device: device.index)
    if not devices:
        return {}
    chosen = devices[-1]
    units = sum(field.devices(node, "capacity").values())
    return {"uuid": chosen.uuid, "index": chosen.index, "pci": chosen.pci, "units": units // len(devices), "gpus": len(devices)}


def _candidates(field: Field) -> list[Json]:
    """GPU nodes that may be the target and have what the target block asks for. Raises when there is none, with the reasons."""
    field.require_name()
    nodes = field.gpu_nodes()
    if not nodes:
        raise NotApplicable("NoGpuNode", "no node has devices in its capacity")
    fitting, reasons = [], []
    for node in field.eligible():
        reason = _unfit(field, node)
        if field.named and name_of(node) != field.named:
            continue
        if reason:
            reasons.append(reason)
        else:
            fitting.append(node)
    if not fitting:
        reasons += [reason for node in nodes if (reason := field.barred(node))]
        kind = NotApplicable if reasons and all(reason.startswith("~") for reason in reasons) else PlanRefused
        shown = "; ".join(dict.fromkeys(reason.removeprefix("~") for reason in reasons[:5])) or "none is healthy"
        raise kind("NoFittingNode", f"no GPU node can be the target: {shown}")
    return fitting


def _unfit(field: Field, node: Json) -> str:
    """Why a healthy node will not do. What it will never be begins with ``~``."""
    wanted, name = field.wanted, name_of(node)
    shared, mig = is_shared(node), is_mig(node)
    if wanted.shared is not None and wanted.shared != shared:
        return f"~{name} {'shares' if shared else 'does not share'} its devices"
    if wanted.mig is not None and wanted.mig != mig:
        return f"~{name} is {'in' if mig else 'not in'} MIG"
    missing = [key for key in wanted.labels if key not in labels_of(node)]
    if missing:
        return f"~{name} has no label {missing[0]}"
    if field.free(node) < wanted.free:
        return f"{name} has {field.free(node)} free devices, {wanted.free} are needed"
    if wanted.idle and field.busy(node):
        return f"{name} has pods that hold devices"
    return ""


def is_shared(node: Json) -> bool:
    """Whether devices of a node are given to several pods (GFD's replicas above 1, facts 1.3)."""
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
