"""Nodes about which something is said, short to write."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fixtures.kubernetes.models import Condition, Json, Node, Taint
from tests.builders import FENCE, a_node, a_taint

NOW = 1_790_000_000.0
"""The moment at which :func:`tests.builders.a_snapshot` says that it was taken."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def ago(seconds: float) -> str:
    """A moment before :data:`NOW` as the API writes it."""
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_condition(kind: str, status: str = "True", *, reason: str = "", message: str = "", age: float | None = DAY) -> Condition:
    """A condition that has been so for ``age`` seconds; None: no time."""
    since = None if age is None else ago(age)
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=since)


def stated(
    *conditions: Condition,
    name: str = "gpu-0",
    cordoned: float | None = None,
    taints: Sequence[str | Taint] = (),
    annotations: Mapping[str, str] | None = None,
    age: float = 30 * DAY,
    boot: str = "",
    **more: Any,
) -> Node:
    """A GPU node with these conditions; ``cordoned`` is the age of its cordon, as the node lifecycle controller notes it."""
    node = a_node(name, cordoned=cordoned is not None, **more)
    extra = [a_taint(text) if isinstance(text, str) else text for text in taints]
    if cordoned is not None:
        extra.append(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added=ago(cordoned)))
    node.spec.taints = [a_taint(FENCE), *extra]
    node.status.conditions = [*node.status.conditions, *conditions]
    node.status.node_info.boot_id = boot
    node.metadata.annotations = dict(annotations or {})
    node.metadata.creation_timestamp = ago(age)
    return node


def written(path: Sequence[str], manager: str = "kubectl-cordon", age: float = DAY) -> list[Json]:
    """managedFields of one manager that owns the field at ``path``."""
    owned: Json = {}
    for name in reversed(path):
        owned = {name: owned}
    return [{"manager": manager, "operation": "Update", "time": ago(age), "fieldsV1": owned}]
