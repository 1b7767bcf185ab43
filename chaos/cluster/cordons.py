"""Who cordoned a node, by the API server's record of writes (``metadata.managedFields``) and by what programs leave on it.

A person's cordon, the experiment's own and that of a remediation system are one value, ``spec.unschedulable``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from chaos.cluster.requests import field
from fixtures.cluster.client import FIELD_MANAGER
from fixtures.kubernetes.models import Json

STATE_LABELS = ("dgxc.nvidia.com/nvsentinel-state",)
"""Labels by which remediation systems say how far they are with a node (docs/facts/device-health.md#nvsentinel)."""

STATES = (
    "quarantined",
    "draining",
    "drain-succeeded",
    "drain-failed",
    "remediating",
    "remediation-succeeded",
    "remediation-failed",
)
"""What those labels say (docs/facts/device-health.md#health-labels). A node without a fault has none."""

NOTES = ("dgxc.nvidia.com/", "nvsentinel.dgxc.nvidia.com/", "quarantineHealthEvent")
"""What the names of annotations begin with in which a remediation system keeps what it did to a node."""

REMEDIATION = "remediation"
SUITE = "this suite"
SOMEBODY = "somebody"
"""Who cordons, where it is not a name of the API server's: the last is who it keeps no name of."""

_REMEDIATION = re.compile(r"(?i)nvsentinel|fault-quarantine|node-drainer|fault-remediation")
_AUTOSCALERS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
)
"""Taints of nodes that an autoscaler is about to remove (docs/facts/nodes.md#taints-of-autoscalers)."""
_MERGED = "ancient-changes"
"""The manager that the API server puts in place of those that it kept too many of (docs/facts/nodes.md#field-managers)."""


def is_note(name: str) -> bool:
    """Whether an annotation of this name is one of remediation's."""
    return name.startswith(NOTES)


def is_cordoned(node: Json) -> bool:
    """Whether the node takes no new pods."""
    return field(node, "spec", "unschedulable") is True


def cordoner(node: Json) -> str:
    """Who cordoned the node: :data:`REMEDIATION`, :data:`SUITE`, :data:`SOMEBODY`, or a field manager; empty for one in service."""
    if not is_cordoned(node):
        return ""
    managers = {name for name, paths in _owned(node) if ("f:spec", "f:unschedulable") in paths} - {_MERGED, ""}
    if not managers:
        return REMEDIATION if _traces(node) else SOMEBODY
    if FIELD_MANAGER in managers:
        return SUITE
    if any(_REMEDIATION.search(name) for name in managers) or managers & {name for name, paths in _owned(node) if any(map(_trace, paths))}:
        return REMEDIATION
    return ", ".join(sorted(managers))


def cordoned_by_others(node: Json) -> str:
    """The person or program, neither remediation nor this suite, that cordoned the node; empty when there is none."""
    who = cordoner(node)
    return "" if who in (REMEDIATION, SUITE) else who


def cordoned_by_program(node: Json) -> str:
    """The program that shows to have cordoned the node; empty for an administrator's cordon."""
    if _traces(node):
        return REMEDIATION
    if any(taint.get("key") in _AUTOSCALERS for taint in field(node, "spec", "taints") or () if isinstance(taint, dict)):
        return "an autoscaler"
    who = cordoner(node)
    return who if who in (REMEDIATION, SUITE) else ""


def _traces(node: Json) -> bool:
    labels, annotations = (field(node, "metadata", name) or {} for name in ("labels", "annotations"))
    return any(labels.get(key) for key in STATE_LABELS) or any(map(is_note, annotations))


def _trace(path: tuple[str, ...]) -> bool:
    """Whether a field is one in which remediation systems keep what they do."""
    name = path[-1].removeprefix("f:")
    return ("f:labels" in path and name in STATE_LABELS) or ("f:annotations" in path and is_note(name))


def _owned(node: Json) -> Iterator[tuple[str, set[tuple[str, ...]]]]:
    """Field managers, each with the fields of the node's spec and metadata that it set last."""
    for entry in field(node, "metadata", "managedFields") or ():
        if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict):
            yield str(entry.get("manager") or ""), set(_paths(entry["fieldsV1"]))


def _paths(fields: Json, depth: int = 3) -> Iterator[tuple[str, ...]]:
    for name, below in fields.items():
        yield (name,)
        if depth > 1 and isinstance(below, dict):
            yield from ((name, *rest) for rest in _paths(below, depth - 1))
