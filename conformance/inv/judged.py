"""INV-02: every accelerator node could be judged, or is listed as one that was not."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.reach import busy, foreign_taints
from conformance.scope import Scope, matches, subject
from fixtures.evidence import Finding, bad, not_judged, ok

_EXPECTED = "Ready, not cordoned, no taint that probes do not tolerate"


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
