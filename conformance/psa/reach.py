"""Whether a pod can be on an accelerator node at all."""

from __future__ import annotations

from conformance.scope.node_affinity import Choice, too_long
from conformance.scope.scope import Scope
from conformance.scope.tolerations import Tolerated
from fixtures.kubernetes.models import Node, PodSpec


class Reach:
    """Answers by node, selector and tolerations. Where no accelerator node is known, every pod may be on one.

    So may one whose affinity is too long to be held against all nodes.
    """

    def __init__(self, scope: Scope) -> None:
        listing = scope.snapshot.listing("nodes")
        known = listing.collected and not listing.trouble
        self._nodes: list[Node] = scope.accelerator_nodes if known else []
        accelerators = {node.name for node in self._nodes}
        self._others = {node.name for node in scope.snapshot.nodes if node.name not in accelerators} if known else set[str]()
        self._answers: dict[str, bool] = {}

    def accelerators(self, spec: PodSpec, *, asks_device: bool) -> bool:
        """Whether a pod is on an accelerator node, or could get to one. Admission may give pods that ask for a device its toleration."""
        if not self._nodes or asks_device:
            return True
        if spec.node_name:
            return spec.node_name not in self._others
        form = repr((spec.node_selector, spec.affinity, spec.tolerations))
        if form not in self._answers:
            self._answers[form] = bool(too_long(spec)) or self._one_lets_in(spec)
        return self._answers[form]

    def _one_lets_in(self, spec: PodSpec) -> bool:
        choice, tolerated = Choice(spec), Tolerated(spec.tolerations)
        return any(choice.admits(node) and tolerated.lets_onto(node) for node in self._nodes)
