"""FENCE-10: no temporary taint and no cordon is older than the policy allows; each is named with its age and owner.

Facts: docs/facts/nodes.md#temporary-taints, docs/facts/nodes.md#cordons.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, matches, subject
from fixtures.model.nodes.held_nodes import age_words, held_nodes, limit_of
from fixtures.model.nodes.holds import Hold, soft_holds
from fixtures.snapshot.managed_fields import MOST_ASKED, FieldsByNode
from fixtures.text.ages import duration
from fixtures.verdict.findings import About, Finding, allowed, not_judged, ok
from fixtures.verdict.subjects import Subject

_SOURCE = "node.spec.taints, node.spec.unschedulable, metadata.managedFields"


def check_temporary(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per hold of an accelerator node, and one for each node that nothing holds."""
    held = held_nodes(scope, fields)
    expected = f"nothing that holds a node for more than {duration(limit_of(scope))}"
    for node in scope.accelerator_nodes:
        for hold in held.get(node.name, ()):
            yield _judge(scope, hold, expected)
        for taint in soft_holds(node):
            message = f"{taint} only asks the scheduler to avoid the node"
            yield not_judged(_place(node, f"taint {taint.key}"), message=message, source=_SOURCE)
        if node.name not in held:
            taints = ", ".join(str(taint) for taint in node.spec.taints) or "none"
            yield ok(subject(node), observed=f"not cordoned; taints: {taints}", expected=expected, source=_SOURCE)


def _judge(scope: Scope, hold: Hold, expected: str) -> Finding:
    place = _place(hold.node, hold.name)
    owner = hold.owner or (f"not known ({hold.doubt})" if hold.doubt else "not known")
    if matches(hold.node.name, scope.policy.accelerators.allow_not_judged):
        message = f"{hold.name} on {hold.node.name} {age_words(scope, hold.since)}, owner {owner}: the policy allows it"
        return allowed(place, message=message, source="policy accelerators.allowNotJudged")
    about, now, limit = About(place, _SOURCE, expected, str(hold)), scope.snapshot.taken_at, limit_of(scope)
    unknown = f"{hold.name} on {hold.node.name}, owner {owner}: since when is not known{_hint(scope, hold)}"
    words = f"{hold.name} on {hold.node.name} {age_words(scope, hold.since)}, owner {owner}"
    age = overdue(about, hold.since.latest, now, limit, words, cause="AgeUnknown", unknown=unknown, aged=True)
    if isinstance(age, Finding):
        return age
    return about.bad(f"{words}: no new pod gets its devices, and the hold was left or forgotten", cause="HeldTooLong")


def _hint(scope: Scope, hold: Hold) -> str:
    if hold.node.name in scope.snapshot.managed_fields:
        return ""
    if scope.snapshot.offline:
        return "; save the snapshot with --show-managed-fields"
    return f"; a run asks for the managedFields of {MOST_ASKED} nodes at most, which may tell"


def _place(node: Node, name: str) -> Subject:
    return Subject("Node", f"{node.name} {name}")
