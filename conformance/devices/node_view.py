"""The view of a node that every check takes: labels, capacity and allocatable of its NVIDIA devices, taken apart once per snapshot."""

from __future__ import annotations

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node
from fixtures.model.devices.node_labels import NodeAdvertisement, advertisement


def view_of(scope: Scope, node: Node) -> NodeAdvertisement:
    """What a node of the snapshot says of its NVIDIA devices. Amounts are those of resources that the policy calls devices."""
    return scope.cached_for(node, _view)


def _view(scope: Scope, node: Node) -> NodeAdvertisement:
    capacity = {name: str(units) for name, units in scope.device_capacity(node).items()}
    allocatable = {name: str(units) for name, units in scope.device_allocatable(node).items()}
    return advertisement(node.metadata.label, capacity, allocatable)
