"""Whether a probe pod can get a device of a node, and what keeps it away."""

from __future__ import annotations

from conformance.scope import Scope
from fixtures.models import Node, Toleration


def foreign_taints(scope: Scope, node: Node) -> list[str]:
    """Hard taints of a node that neither its fence nor the policy's probe tolerations explain: probes cannot go there."""
    tolerations = [*scope.tolerations_for(node), *probe_tolerations(scope)]
    return [
        str(taint)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and taint.key != "node.kubernetes.io/unschedulable"  # said better by "cordoned"
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
    if not offered or any(scope.free(node, name) > 0 for name in offered):
        return ""
    held = scope.held.get(node.name, {})
    return ", ".join(f"{name} {held.get(name, 0)} of {count}" for name, count in sorted(offered.items()))
