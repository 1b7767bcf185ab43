"""Which nodes a pod's own selector and required node affinity let it onto, as the scheduler reads them (core/v1 NodeSelectorTerm)."""

from __future__ import annotations

from typing import Any

from fixtures.kubernetes.models import Json, Node, PodSpec
from fixtures.kubernetes.untyped import mapping, sequence

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OF_EVERY_NODE = ("kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname")


def terms(spec: PodSpec) -> list[Json]:
    """The required node selector terms of a pod, of which one must match; empty when it states none."""
    node_affinity = mapping(mapping(spec.affinity).get("nodeAffinity"))
    found = mapping(node_affinity.get(_REQUIRED)).get("nodeSelectorTerms")
    return [term for term in found if isinstance(term, dict)] if isinstance(found, list) else []


def selects(spec: PodSpec) -> bool:
    """Whether a pod restricts the nodes it may go to by selector or required affinity."""
    return bool(spec.node_selector) or bool(terms(spec))


def names_nodes(spec: PodSpec) -> bool:
    """Whether a pod goes only to nodes that have some label, other than those of every node."""
    if any(key not in _OF_EVERY_NODE for key in spec.node_selector or {}):
        return True
    wanted = terms(spec)
    return bool(wanted) and all(any(map(_asks_for_label, sequence(term.get("matchExpressions")))) for term in wanted)


def _asks_for_label(requirement: Any) -> bool:
    item = mapping(requirement)
    return item.get("operator") in ("In", "Exists", "Gt", "Lt") and item.get("key") not in _OF_EVERY_NODE


def admits(spec: PodSpec, node: Node) -> bool:
    """Whether selector and required node affinity of a pod admit a node. Taints and resources are not looked at."""
    labels = node.metadata.label
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    wanted = terms(spec)
    return not wanted or any(_term_matches(term, node) for term in wanted)


def _term_matches(term: Json, node: Node) -> bool:
    expressions, fields = sequence(term.get("matchExpressions")), sequence(term.get("matchFields"))
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(_holds(item, node.metadata.label) for item in expressions) and all(
        _holds(item, {"metadata.name": node.name}) for item in fields
    )


def _holds(requirement: Any, values: dict[str, str]) -> bool:
    if not isinstance(requirement, dict):
        return False
    key, operator = str(requirement.get("key")), requirement.get("operator")
    value, wanted = values.get(key), [str(item) for item in sequence(requirement.get("values"))]
    if operator == "In":
        return value in wanted
    if operator == "NotIn":
        return value not in wanted
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    if operator in ("Gt", "Lt") and value is not None and len(wanted) == 1 and _whole(value) and _whole(wanted[0]):
        return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])
    return False


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 19
