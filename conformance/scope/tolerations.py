"""Which taints a pod tolerates, its tolerations read once for all nodes: a tenant may write fifty thousand."""

from __future__ import annotations

from collections.abc import Iterable

from fixtures.kubernetes.models import Node, Taint, Toleration


class Tolerated:
    """Answers as :meth:`Toleration.tolerates` of any of the tolerations, in a time that does not grow with their number."""

    def __init__(self, tolerations: Iterable[Toleration] | None) -> None:
        every = list(tolerations or ())
        self._keys = {(item.key, item.effect) for item in every if item.operator == "Exists"}
        self._values = {(item.key, item.effect, item.value) for item in every if item.operator in ("", "Equal") and item.key}

    def matches(self, taint: Taint) -> bool:
        """Whether one of the tolerations matches a taint."""
        return any(
            ("", effect) in self._keys or (taint.key, effect) in self._keys or (taint.key, effect, taint.value) in self._values
            for effect in ("", taint.effect)
        )

    def lets_onto(self, node: Node) -> bool:
        """Whether each taint of a node that keeps pods away is tolerated."""
        return all(self.matches(taint) for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute"))
