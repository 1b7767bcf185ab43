"""What is said about the health of each accelerator node, read once for all requirements that ask."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.scope.scope import Scope
from fixtures.model.nodes.health_words import Word, health_words


def words_by_node(scope: Scope) -> Mapping[str, list[Word]]:
    """Everything that is said about the health of accelerator nodes, by name."""
    return scope.cached(_words)


def _words(scope: Scope) -> dict[str, list[Word]]:
    return {node.name: health_words(node) for node in scope.accelerator_nodes}
