"""Accelerator nodes that are held: cordoned, or under a temporary taint."""

from __future__ import annotations

from conformance.devices.products import pools
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node
from fixtures.model.nodes.cordons import is_cordoned
from fixtures.model.nodes.holds import Hold, holds, is_temporary
from fixtures.model.nodes.work import own_keys
from fixtures.model.since import Since
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.ages import ask_again, duration

HOUR = 3600.0


def maybe_held(scope: Scope) -> list[Node]:
    """Accelerator nodes whose managedFields are worth a look: cordoned ones, and those with a temporary taint."""
    return [node for node in scope.accelerator_nodes if is_cordoned(node) or any(is_temporary(taint) for taint in node.spec.taints)]


def held_nodes(scope: Scope, fields: FieldsByNode) -> dict[str, list[Hold]]:
    """What holds each accelerator node that is held, by name."""
    found = {}
    for nodes in pools(scope, scope.accelerator_nodes).values():
        permanent = own_keys(nodes, scope.is_fence_key)
        for node in nodes:
            if items := list(holds(node, fields.get(node.name), permanent)):
                found[node.name] = items
    return found


def limit_of(scope: Scope) -> float:
    """How long a node may be held, in seconds."""
    return scope.policy.nodes.held_hours * HOUR


def is_young(scope: Scope, since: Since) -> bool:
    """Whether something has a known age that is within what the policy allows."""
    age = since.age(scope.snapshot.taken_at)
    return age is not None and age <= limit_of(scope)


def age_words(scope: Scope, since: Since) -> str:
    """``for 3 days, by timeAdded of the taint`` or ``for an unknown time``."""
    age = since.age(scope.snapshot.taken_at)
    return f"for {duration(age)}, by {since.source}" if age is not None else "for a time that nothing tells"


def again(scope: Scope, since: Since) -> str:
    """When a young state can be judged."""
    return ask_again(since.age(scope.snapshot.taken_at) or 0.0, limit_of(scope))
