"""INV-02: every accelerator node could be judged, or is listed as one that was not."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.reach import busy, foreign_taints, without_devices
from conformance.scope import Scope, matches, subject
from fixtures.evidence import Finding, allowed, missed, ok, undecided
from fixtures.models import Node

_EXPECTED = "Ready, not cordoned, devices to ask for, no taint that probes do not tolerate"
_STATE = "node.spec, node.status"


def check_judged(scope: Scope, *, probing: bool = True) -> Iterator[Finding]:
    """One finding per accelerator node: judged, left out as the policy allows, or left out although it should not be.

    ``probing`` is False where the run may create no pods: then a node is judged by reading alone, and what would keep probes
    away keeps nothing away.
    """
    for node in scope.accelerator_nodes:
        finding = _left_out(scope, node, probing)
        if finding is not None and matches(node.name, scope.policy.accelerators.allow_not_judged):
            reason = finding.observed or finding.message
            finding = allowed(finding.subject, f"{reason}; the policy allows it", "policy accelerators.allowNotJudged")
        yield finding or _reached(scope, node, probing)


def _left_out(scope: Scope, node: Node, probing: bool) -> Finding | None:
    """Why a node was left out although its devices may be free; None when it was not."""
    place, state = subject(node), scope.why_not_judged(node)
    if state == "NotReady":
        message = "NotReady: what is read of it is old and nothing runs on it, so what the run says does not hold for it"
        return missed(place, state, _EXPECTED, _STATE, message)
    if state and probing:
        message = f"{state}: no probe ran on this node, so what the run says does not hold for it"
        return missed(place, state, _EXPECTED, _STATE, message)
    if state:
        return undecided(place, f"{state}: it was read, and nothing new can run on it", _STATE)
    if reason := without_devices(scope, node):
        if scope.vm_devices(node):
            return allowed(place, f"{reason}; containers cannot ask for them", "node.status.capacity")
        return undecided(place, f"{reason}; if that is meant, name the node in accelerators.allowNotJudged", _STATE)
    if probing and (taints := foreign_taints(scope, node)):
        reason = f"tainted away by {', '.join(taints)}"
        message = f"{reason}: no probe ran on this node, so what the run says does not hold for it"
        return missed(place, reason, _EXPECTED, "node.spec.taints", message)
    return None


def _reached(scope: Scope, node: Node, probing: bool) -> Finding:
    """A node that can be judged; a busy one by reading alone."""
    place, held = subject(node), busy(scope, node) if probing else ""
    if not held:
        how = "Ready and schedulable" if probing else "Ready; judged by reading, because this run may create no pods"
        return ok(place, how, _EXPECTED if probing else "Ready, not cordoned, devices to ask for", _STATE)
    if scope.policy.accelerators.allow_busy:
        message = f"busy ({held}): judged by requirements that only read, as the policy's accelerators.allowBusy has it"
        return allowed(place, message, "requests of bound pods")
    message = f"busy ({held}): no probe could ask for a device here, so what the run says does not hold for it"
    return missed(place, f"busy: {held}", "a free device", "requests of bound pods", message)
