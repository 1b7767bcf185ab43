"""Through which route a node offers its devices, and why some nodes offer none on purpose."""

from __future__ import annotations

import msgspec

from conformance.outputs import resource_slice
from conformance.outputs.resource_slice import SliceDevice
from conformance.scope import Scope
from fixtures.models import Node

SLICES = "resource.k8s.io/resourceslices"
NVIDIA = "nvidia.com/"

_PREFIX_OF_DRIVER = {
    "gpu.nvidia.com": NVIDIA,
    "gpu.amd.com": "amd.com/",
    "gpu.intel.com": "gpu.intel.com/",
    "gaudi.intel.com": "habana.ai/",
    "tpu.google.com": "google.com/tpu",
    "neuron.aws.com": "aws.amazon.com/neuron",
}
_NO_DEVICE_TYPES = frozenset({"channel", "daemon"})  # ComputeDomain's own (facts 3.6)


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that one DRA driver publishes for one node, in the newest generation of its pools."""

    driver: str
    devices: tuple[SliceDevice, ...]

    @property
    def whole(self) -> int:
        """Whole devices: those published as such, and those of which only MIG devices are (facts 3.6, parentUUID)."""
        whole = [device for device in self.devices if device.type in ("gpu", "vfio", "")]
        parents = {device.attribute("parentUUID") for device in self.devices if device.type == "mig"}
        return len(whole) + len(parents - {device.attribute("uuid") for device in whole} - {""})

    def same_as(self, resource: str) -> bool:
        """Whether a device plugin's resource is of the vendor that this driver serves."""
        prefix = _PREFIX_OF_DRIVER.get(self.driver)
        return prefix is not None and resource.startswith(prefix)


def published(scope: Scope) -> dict[str, list[Published]]:
    """What DRA drivers of accelerators publish, by node. Empty where ResourceSlices are not served or were not read."""
    listing = scope.snapshot.listing(SLICES)
    newest: dict[tuple[str, str], int] = {}
    slices = resource_slice.slices_of({"kind": "ResourceSlice", **item} for item in listing.items if isinstance(item, dict))
    for item in slices:
        pool = (item.driver, item.pool)
        newest[pool] = max(newest.get(pool, item.generation), item.generation)
    found: dict[tuple[str, str], list[SliceDevice]] = {}
    for item in slices:
        if item.node and item.generation == newest[(item.driver, item.pool)]:
            devices = [device for device in item.devices if device.type not in _NO_DEVICE_TYPES]
            if devices and scope.is_accelerator_driver(item.driver):
                found.setdefault((item.node, item.driver), []).extend(devices)
    by_node: dict[str, list[Published]] = {}
    for (node, driver), devices in sorted(found.items()):
        by_node.setdefault(node, []).append(Published(driver=driver, devices=tuple(devices)))
    return by_node


def exempt(scope: Scope, node: Node, through_dra: list[Published]) -> str:
    """Why a node without plugin resources is not expected to have any, or empty."""
    labels = node.metadata.label
    if through_dra:
        return f"its devices are offered through DRA ({', '.join(item.driver for item in through_dra)}), not by a device plugin"
    if (config := labels.get("nvidia.com/gpu.workload.config", "container")) not in ("container", ""):
        return f"nvidia.com/gpu.workload.config is {config}: its devices are for virtual machines"
    if offered := scope.vm_devices(node):
        return f"it offers {offered}: its devices are for virtual machines"
    if labels.get("nvidia.com/gpu.deploy.operands") == "false":
        return "nvidia.com/gpu.deploy.operands is false: the owner keeps the operator's agents off this node"
    return ""
