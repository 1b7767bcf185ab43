"""Whether a pod can be on an accelerator node at all."""

from __future__ import annotations

from conformance.scope.node_affinity import admits
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node, PodSpec


class Reach:
    """Answers by node, selector and tolerations. Where no accelerator node is known, every pod may be on one."""

    def __init__(self, scope: Scope) -> None:
        listing = scope.snapshot.listing("nodes")
        known = listing.collected and not listing.trouble
        self._nodes: list[Node] = scope.accelerator_nodes if known else []
        self._names = {node.name for node in self._nodes}
        self._answers: dict[str, bool] = {}

    def accelerators(self, spec: PodSpec, *, asks_device: bool) -> bool:
        """Whether a pod is on an accelerator node, or could get to one. Admission may give pods that ask for a device its toleration."""
        if not self._nodes or asks_device:
            return True
        if spec.node_name:
            return spec.node_name in self._names
        form = repr((spec.node_selector, spec.affinity, spec.tolerations))
        if form not in self._answers:
            self._answers[form] = any(self._lets_in(node, spec) for node in self._nodes)
        return self._answers[form]

    @staticmethod
    def _lets_in(node: Node, spec: PodSpec) -> bool:
        hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
        return admits(spec, node) and all(any(item.tolerates(taint) for item in spec.tolerations or ()) for taint in hard)
