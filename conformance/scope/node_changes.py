"""Changes of a node that are under way, by the node's own labels and age: what differs meanwhile is not yet a fault.

Facts: docs/facts/mig.md#mig-manager, docs/facts/labels.md#operator-labels, docs/facts/nodes.md#reboots.
"""

from __future__ import annotations

from conformance.policy.model import Policy
from fixtures.kubernetes.models import Node
from fixtures.kubernetes.times import moment, unix
from fixtures.model.nodes.changes import being_changed
from fixtures.text.ages import ask_again, duration, so_far


def change_under_way(node: Node, policy: Policy, now: float) -> str:
    """What is being done to a node just now, or empty; ``now`` in Unix seconds. Whether it takes too long is MIG-01's and OPS-06's."""
    return joining(node, policy, now) or rebooting(node, policy, now) or being_changed(node)


def rebooting(node: Node, policy: Policy, now: float) -> str:
    """That a node became NotReady, or Ready again, a moment ago, as a clause, or empty: its agents stop and start with it."""
    condition = node.condition("Ready")
    since = moment(condition.last_transition_time) if condition is not None else None
    if since is None:
        return ""
    age, minutes = max(now - since, 0.0), policy.accelerators.new_node_minutes if node.ready else policy.nodes.quarantine_minutes
    state = "Ready again" if node.ready else "NotReady"
    return f"{state} {so_far(age, minutes * 60)}" if age < minutes * 60 else ""


def joining(node: Node, policy: Policy, now: float) -> str:
    """That a node is new, as a clause, or empty."""
    joined, limit = unix(node.metadata.creation_timestamp), policy.accelerators.new_node_minutes
    if joined is None or now - joined >= limit * 60:
        return ""
    age = now - joined
    return f"it joined {duration(age)} ago (policy accelerators.newNodeMinutes: {limit:g}): {ask_again(age, limit * 60)}"
