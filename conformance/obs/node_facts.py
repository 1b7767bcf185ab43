"""What the cluster says of a node's devices, for comparing its exporter's page with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from conformance.obs.flaws import NodeFacts
from conformance.obs.page import Kind, Page, kinds
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.node_labels import GPU, NodeAdvertisement
from fixtures.model.devices.node_view import view_of
from fixtures.model.devices.physical import number, physical_counts
from fixtures.model.dra.inventory import DriverInventory
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.nodes.availability import withheld

_HOST_SERVICE = ("kubernetes.azure.com/dcgm-exporter", "enabled")
"""Marks machines whose exporter is a service of the host, which no pod stands for (docs/facts/telemetry.md#exporters)."""


def exporter_of(scope: Scope, node: Node) -> Kind | str:
    """What exports the metrics of a node's devices, or why this is not judged, as a clause."""
    if reason := scope.virtual(node) or withheld(scope, node):
        return reason
    if node.metadata.label.get(_HOST_SERVICE[0]) == _HOST_SERVICE[1]:
        return "its exporter is a service of the host, which no pod stands for"
    names = [*(name for name, count in scope.device_capacity(node).items() if count), *scope.marks.get(node.name, ())]
    drivers = [item.driver for item in scope.dra_inventory.get(node.name, ())]
    for kind in kinds():
        if any(name.startswith(f"{kind.vendor}/") for name in names) or any(driver in kind.drivers for driver in drivers):
            return kind
    labels = [source for source, yes in scope.sources.get(node.name, {}).items() if yes and source.startswith("label ")]
    if not names and not drivers and any("10de" in label or "nvidia" in label for label in labels):
        return kinds()[0]
    return f"no exporter of {', '.join([*names, *drivers][:3]) or 'its devices'} is known to the suite"


def facts_of(scope: Scope, node: Node, page: Page, places: Mapping[str, Sequence[str]]) -> NodeFacts:
    """What is said of a node with a page. ``places`` are the nodes on whose pages a UUID is."""
    view, inventory = view_of(scope, node), scope.dra_inventory.get(node.name, [])
    counts = [(one.devices, one.source) for one in physical_counts(node, view, scope.policy, inventory, slices=False)]
    if view.strategy == "none" and view.gpu.factor == 1 and (units := view.capacity.get(GPU)):
        counts.append((units, f"capacity {GPU}"))  # a label may be old or wrong, which is no fault of the exporter
    devices = _published(inventory)
    if any(scope.device_capacity(node).values()) or any(count != len(devices) for count, _ in counts):
        devices = {}  # others offer devices of the node too, and a driver may be told to leave some out
    whole = view.strategy != "single" and view.gpu.factor == 1 and not view.gpu.product.mig_profile
    return NodeFacts(
        name=node.name,
        others=scope.cached(_names),
        counts=tuple(counts),
        instances=instances_of(view),
        devices=devices or None,
        elsewhere={uuid: other for uuid in page.devices for other in places.get(uuid, ()) if other != node.name},
        memory_mib=number(node.metadata.label.get("nvidia.com/gpu.memory")) if whole else None,
        vgpu=view.vgpu,
    )


def _names(scope: Scope) -> frozenset[str]:
    return frozenset(node.name for node in scope.accelerator_nodes)


def instances_of(view: NodeAdvertisement) -> dict[str, int] | None:
    """MIG instances by profile that a node's plugin offers; None where it offers none, or they are being changed."""
    if view.mig_config_state not in ("", "success") or view.vgpu:
        return None
    if view.strategy == "single":
        profile = view.gpu.product.mig_profile
        return {profile: view.gpu.count} if profile and view.gpu.count is not None else None
    offered = {one.profile: one.count for one in view.mig if one.count}
    return offered if view.strategy == "mixed" and offered else None


def _published(inventory: Iterable[DriverInventory]) -> dict[str, str]:
    """UUIDs of whole devices with their PCI address; empty where some device has none that NVML knows."""
    found: dict[str, str] = {}
    for device in (device for item in inventory for device in item.devices if device.body.type != SHAPE_FOR_MACHINES):
        uuid = device.body.attribute("parentUUID") or device.body.attribute("uuid")
        if not uuid.startswith("GPU-"):
            return {}
        found[uuid] = found.get(uuid) or ("" if device.is_part else device.body.pci_address)
    return found
