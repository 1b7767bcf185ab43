"""Whose devices a node has, by its resources, DRA drivers and PCI labels."""

from __future__ import annotations

import re
from functools import lru_cache

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node

_OF_PCI = {"10de": "nvidia.com", "1002": "amd.com", "amd": "amd.com", "1da3": "habana.ai"}
"""Facts: docs/facts/vendors-and-clouds.md#pci-vendors."""

_OF_DRIVER = {"gaudi.intel.com": "habana.ai", "neuron.aws.com": "amazon.com"}
"""Vendors whose DRA drivers have another domain than their resources."""

_PCI = re.compile(r"feature\.node\.kubernetes\.io/(?:pci-(?:[0-9a-f]{4}_)?)?([0-9a-z]{3,4})[.-]")


def vendors_of(node: Node, scope: Scope) -> set[str]:
    """Vendor domains that a node's PCI labels, device resources and DRA drivers name (``nvidia.com``)."""
    found = {_domain(name.partition("/")[0]) for name in scope.device_capacity(node)}
    found |= {_of_driver(item.driver) for item in scope.dra_drivers.get(node.name, ())}
    return found | {vendor for label, value in node.metadata.label.items() if value == "true" and (vendor := vendor_of_label(label))}


@lru_cache(maxsize=4096)  # labels of nodes: nodes of a cluster have the same keys
def vendor_of_label(label: str) -> str:
    """The vendor domain that a PCI label of Node Feature Discovery names, or empty."""
    match = _PCI.match(label)
    return _OF_PCI.get(match[1], "") if match else ""


def shared_pools(scope: Scope, node: Node) -> list[str]:
    """Pools of devices that several nodes can reach, and that may be those of this node, each with its driver."""
    vendors = vendors_of(node, scope)
    return [f"{driver} in pool {pool}" for driver, pool in scope.slices.of_no_node() if not vendors or _of_driver(driver) in vendors]


def _of_driver(driver: str) -> str:
    return _OF_DRIVER.get(driver, _domain(driver))


def _domain(name: str) -> str:
    return ".".join(name.split(".")[-2:])
