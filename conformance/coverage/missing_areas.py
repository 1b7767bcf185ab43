"""Areas that a cluster needs and the catalogue lacks: no run on such a cluster is conformant. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from conformance.scope.scope import Scope

DRA = "DRA"


def missing_areas(scope: Scope, areas: Collection[str]) -> Iterator[str]:
    """A sentence for each area that is not among ``areas`` although something in the cluster calls for it."""
    if DRA in areas:
        return
    nodes = [
        node.name for node in scope.accelerator_nodes if node.name in scope.dra_inventory and not any(scope.device_capacity(node).values())
    ]
    if nodes:
        drivers = sorted({item.driver for name in nodes for item in scope.dra_inventory[name]})
        count = f"{len(nodes)} accelerator node{'s offer' if len(nodes) > 1 else ' offers'}"
        yield (
            f"{count} devices through DRA only ({', '.join(drivers)}), and the catalogue has no requirements of the area DRA yet: "
            "whether claims are allocated, prepared and released correctly was not judged"
        )
