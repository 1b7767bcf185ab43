"""INV-02: every accelerator node could be judged, or is listed as one that was not."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.scope import Scope, matches, subject
from fixtures.evidence import Finding, bad, not_judged, ok
from fixtures.models import Node, Toleration

_EXPECTED = "Ready, not cordoned, no taint that probes do not tolerate"


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


def check_judged(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node: judged, left out as the policy allows, or left out although it should not be."""
    policy = scope.policy.accelerators
    for node in scope.accelerator_nodes:
        reason = scope.why_not_judged(node)
        taints = foreign_taints(scope, node)
        if not reason and taints:
            reason = f"tainted away by {', '.join(taints)}"
        held = busy(scope, node)
        if reason and matches(node.name, policy.allow_not_judged):
            yield not_judged(subject(node), f"{reason}; the policy allows it", "policy accelerators.allowNotJudged")
        elif reason:
            message = f"{reason}: no probe ran on this node, so what the run says does not hold for it"
            yield bad(subject(node), reason, _EXPECTED, "node.spec, node.status.conditions", message)
        elif held and not policy.allow_busy:
            message = f"busy ({held}): no probe could ask for a device here, so what the run says does not hold for it"
            yield bad(subject(node), f"busy: {held}", "a free device", "requests of bound pods", message)
        elif held:
            yield not_judged(subject(node), f"busy ({held}): judged by requirements that only read", "requests of bound pods")
        else:
            yield ok(subject(node), "Ready and schedulable", _EXPECTED, "node.spec, node.status.conditions")
