"""Whether a probe pod can get a device of a node, and what keeps it away."""

from __future__ import annotations

from conformance.devices.claimable import claimable
from conformance.devices.unlisted_offers import unlisted_offers
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node, Toleration
from fixtures.model.nodes.cordons import UNSCHEDULABLE


def foreign_taints(scope: Scope, node: Node) -> list[str]:
    """Hard taints of a node that neither its fence nor the policy's probe tolerations explain: probes cannot go there."""
    tolerations = [*scope.tolerations_for(node), *probe_tolerations(scope)]
    return [
        str(taint)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and taint.key != UNSCHEDULABLE  # said better by "cordoned"
        and not any(toleration.tolerates(taint) for toleration in tolerations)
    ]


def probe_tolerations(scope: Scope) -> list[Toleration]:
    """The policy's further tolerations of probe pods."""
    return [
        Toleration(key=item.get("key", ""), operator=item.get("operator", ""), value=item.get("value", ""), effect=item.get("effect", ""))
        for item in scope.policy.probes.tolerations
    ]


def busy(scope: Scope, node: Node) -> str:
    """What holds a node whose every device is held (``"nvidia.com/gpu 8 of 8"``), or empty."""
    offered = {name: count for name, count in scope.device_allocatable(node).items() if count > 0}
    by_claim = claimable(scope, node)
    if not (offered or by_claim) or any(scope.free(node, name) > 0 for name in offered) or any(item.free for item in by_claim):
        return ""
    held = scope.held.get(node.name, {})
    words = [f"{name} {held.get(name, 0)} of {count}" for name, count in sorted(offered.items())]
    return ", ".join([*words, *(f"{item.device_class} {item.capacity} of {item.capacity}" for item in by_claim)])


_WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
_OPERANDS = "nvidia.com/gpu.deploy.operands"


def withheld(scope: Scope, node: Node) -> str:
    """Why a node's devices are said to be kept from containers, or empty (docs/facts/labels.md#operator-labels)."""
    labels = node.metadata.label
    if labels.get(_OPERANDS) == "false":
        return f"{_OPERANDS}=false: its owner keeps the agents off this node"
    if offered := scope.vm_devices(node):
        return f"it offers {offered}: its devices go to virtual machines"
    config = labels.get(_WORKLOAD_CONFIG, "")
    return f"{_WORKLOAD_CONFIG}={config}: its devices go to virtual machines" if config.startswith("vm-") else ""


def without_devices(scope: Scope, node: Node) -> str:
    """Why no pod can get a device of a node, because it offers none; empty when it offers some."""
    published = scope.dra_inventory.get(node.name, ())
    if any(scope.device_allocatable(node).values()) or any(item.allocatable for item in published):
        return ""
    if published:
        drivers = ", ".join(f"{item.driver} publishes {item.whole}" for item in published)
        return f"it offers no device ({drivers}, of which none can be claimed)"
    if reason := withheld(scope, node):
        return f"it offers no device ({reason})"
    if offers := unlisted_offers(scope, node):
        return offers
    had = [f"{name} {count} in capacity" for name, count in sorted(scope.device_capacity(node).items()) if count]
    marks = [source for source, yes in scope.sources.get(node.name, {}).items() if yes and source != "capacity"]
    known = ", ".join([*had, *marks, *scope.marks.get(node.name, ())][:5])
    return f"it offers no device (it counts as an accelerator node by {known})"
