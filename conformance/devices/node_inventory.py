"""The inventory of a report: accelerator nodes, who names them, their products and devices."""

from __future__ import annotations

from conformance.devices.availability import without_devices
from conformance.devices.products import product_of
from conformance.devices.published_devices import published_slices
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node
from fixtures.snapshot.simulated_nodes import is_simulated
from fixtures.verdict.findings import Inconclusive, NotApplicable
from fixtures.verdict.record import InventoryRow


def inventory(scope: Scope) -> list[InventoryRow]:
    """A row per accelerator node; none where nodes were not read, or where half of what is known of them was not."""
    nodes = scope.snapshot.listing("nodes")
    if nodes.trouble or not nodes.collected:
        return []
    rows: list[InventoryRow] = []
    try:
        found, slices = sorted(scope.sources.items()), published_slices(scope)
    except (Inconclusive, NotApplicable):  # requirements say why; the inventory holds nothing that is half known
        return rows
    for name, sources in found:
        node = scope.snapshot.node_by_name.get(name)
        reason = scope.why_not_judged(node) or without_devices(scope, node) if node else "no such node"
        rows.append(
            InventoryRow(
                node=name,
                uid=node.metadata.uid if node else "",
                system_uuid=node.status.node_info.system_uuid if node else "",
                sources=[*(source for source, yes in sources.items() if yes), *scope.marks.get(name, ())],
                product=node.metadata.label.get("nvidia.com/gpu.product", "") or product_of(scope, node) if node else "",
                capacity=_capacity(scope, node) if node else {},
                judged=not reason,
                message=reason,
                slices=slices.get(name, []),
                simulated=node is not None and is_simulated(node),
            )
        )
    return rows


def _capacity(scope: Scope, node: Node) -> dict[str, str]:
    """Devices by resource name, and by the DRA driver that publishes them."""
    published = {item.driver: str(len(item.devices)) for item in scope.dra_drivers.get(node.name, ())}
    return {**{key: str(count) for key, count in scope.device_capacity(node).items()}, **published}
