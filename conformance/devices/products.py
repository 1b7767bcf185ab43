"""The product of an accelerator node, and the nodes of one product: a pool."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node
from fixtures.model.devices.node_labels import parse_product
from fixtures.text.sentences import natural

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
PRODUCT_LABELS = (
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "kubernetes.azure.com/accelerator",
    "node.kubernetes.io/instance-type",
)
"""Labels that name a node's product, most exact first. NVIDIA's comes before all of them.

Facts: docs/facts/vendors-and-clouds.md#labels-of-products.
"""


def product_label(node: Node) -> tuple[str, str] | None:
    """The label (key, value) by which workloads would select a node's product, or None."""
    labels = node.metadata.label
    key = next((key for key in (NVIDIA_PRODUCT, *PRODUCT_LABELS) if labels.get(key)), None)
    return (key, labels[key]) if key else None


def labelled_product(node: Node) -> str:
    """The product of a node by its labels alone: its model without suffixes of MIG and sharing; empty without such a label."""
    key, value = product_label(node) or ("", "")
    return parse_product(value).model or value if key == NVIDIA_PRODUCT else value


def product_of(scope: Scope, node: Node) -> str:
    """The product of a node of the snapshot: its model without suffixes of MIG and sharing, else what its DRA drivers
    publish, else its device resources."""
    return scope.cached_for(node, _product_of)


def _product_of(scope: Scope, node: Node) -> str:
    if product := labelled_product(node):
        return product
    published = sorted({item.product for item in scope.dra_inventory.get(node.name, ()) if item.product})
    return ", ".join(published or sorted(scope.device_capacity(node))) or "unknown product"


def pools(scope: Scope, nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Nodes by product, both in order of name."""
    found: dict[str, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: natural(node.name)):
        found.setdefault(product_of(scope, node), []).append(node)
    return dict(sorted(found.items()))
