"""Areas that the catalogue lacks and the cluster needs: a run over it is not conformant, whatever it judged. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from conformance.scope import Scope

DRA = "DRA"


def missing_areas(scope: Scope, areas: Collection[str]) -> Iterator[str]:
    """A sentence for each area that is not among ``areas`` although something in the cluster calls for it."""
    if DRA in areas:
        return
    nodes = [
        node.name for node in scope.accelerator_nodes if node.name in scope.published and not any(scope.device_capacity(node).values())
    ]
    if nodes:
        drivers = sorted({item.driver for name in nodes for item in scope.published[name]})
        count = f"{len(nodes)} accelerator node{'s offer' if len(nodes) > 1 else ' offers'}"
        yield (
            f"{count} devices through DRA only ({', '.join(drivers)}), and the catalogue has no requirements of the area DRA yet: "
            "whether claims are allocated, prepared and released as they should be was not judged"
        )
