"""Which nodes a pod's own selector and required node affinity let it onto, as the scheduler reads them (core/v1 NodeSelectorTerm)."""

from __future__ import annotations

from typing import Any

from fixtures.kubernetes.labels import LabelRequirement
from fixtures.kubernetes.models import Json, Node, PodSpec
from fixtures.kubernetes.untyped import mapping, sequence

AFFINITY_TERMS = 1_000
"""Terms and expressions of one pod that are held against all nodes. Pods have a handful, those of a DaemonSet one."""

VALUES_PER_EXPRESSION = 100
"""So many values count as one more expression: they are looked up, and only read once."""

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


def too_long(spec: PodSpec) -> str:
    """Why the required affinity of a pod is not held against many nodes, as a clause, or empty: a tenant may write megabytes of it."""
    count = 0
    for term in terms(spec):
        for requirement in (*sequence(term.get("matchExpressions")), *sequence(term.get("matchFields"))):
            count += 1 + len(sequence(mapping(requirement).get("values"))) // VALUES_PER_EXPRESSION
        count += 1
    if count <= AFFINITY_TERMS:
        return ""
    return f"its required node affinity has more than {AFFINITY_TERMS} terms and expressions, which are not held against all nodes"


def admits(spec: PodSpec, node: Node) -> bool:
    """Whether selector and required node affinity of a pod admit a node. Taints and resources are not looked at."""
    return Choice(spec).admits(node)


class Choice:
    """Selector and required node affinity of a pod, read once for all nodes that are held against them."""

    def __init__(self, spec: PodSpec) -> None:
        self._selector = spec.node_selector or {}
        self._terms = [_Term(term) for term in terms(spec)]

    def admits(self, node: Node) -> bool:
        """Whether the pod may go to a node. Taints and resources are not looked at."""
        labels = node.metadata.label
        if any(labels.get(key) != value for key, value in self._selector.items()):
            return False
        return not self._terms or any(term.matches(node) for term in self._terms)


class _Term:
    def __init__(self, term: Json) -> None:
        self._labels = [LabelRequirement(item) for item in sequence(term.get("matchExpressions"))]
        self._fields = [LabelRequirement(item) for item in sequence(term.get("matchFields"))]

    def matches(self, node: Node) -> bool:
        if not self._labels and not self._fields:
            return False  # an empty term matches nothing
        labels, fields = node.metadata.label, {"metadata.name": node.name}
        return all(item.holds(labels) for item in self._labels) and all(item.holds(fields) for item in self._fields)
