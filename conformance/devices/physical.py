"""How many physical devices a node has, according to each source that says so."""

from __future__ import annotations

import msgspec

from conformance.devices.scheduler_amounts import split_of
from conformance.policy.model import Policy
from conformance.scope.scope import matches
from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import Node
from fixtures.model.devices.node_labels import NodeAdvertisement, parse_product
from fixtures.model.dra.inventory import DriverInventory

GPU_COUNT = "nvidia.com/gpu.count"
PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product", "cloud.google.com/gke-accelerator")
INTEL_COUNT = "gpu.intel.com/device.count"
COUNT_LABELS = (
    "cloud.google.com/gke-accelerator-count",
    "karpenter.k8s.aws/instance-gpu-count",
    "eks.amazonaws.com/instance-gpu-count",
    INTEL_COUNT,
)
"""Labels of clouds and of NFD rules that count whole devices (docs/facts/vendors-and-clouds.md#labels-that-count-devices)."""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""Names a kind of machine, also where no label names its devices."""

_AGENTS = (INTEL_COUNT,)
"""Among them: what an agent counted."""

_AMD_COUNTED = "beta.amd.com/gpu.device-id."


class PhysicalCount(msgspec.Struct, frozen=True):
    """A number of whole devices and who says so. ``boot``: it was stated without looking, so it stays when a device is lost."""

    devices: int
    source: str
    boot: bool = False


def number(text: str | None) -> int | None:
    """A label's whole number, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 10 else None


def model_of(node: Node) -> str:
    """The product of a node by its label, without the suffixes of MIG and sharing; empty when no label names one."""
    labels = node.metadata.label
    key = next((key for key in PRODUCT_LABELS if labels.get(key)), "")
    return parse_product(labels[key]).model if key == PRODUCT_LABELS[0] else labels.get(key, "")


def physical_counts(
    node: Node, view: NodeAdvertisement, policy: Policy, through_dra: list[DriverInventory], *, slices: bool = True
) -> list[PhysicalCount]:
    """Every source's count, the owner's first. Under MIG strategy ``single`` gpu.count is instances and is no source.

    ``view`` is the node taken apart. ``through_dra`` names the product where no label does; with ``slices`` its devices are a source too.
    """
    found = []
    labels = node.metadata.label
    products = [item.product for item in through_dra if item.product]
    names = [
        model_of(node),
        labels.get(PRODUCT_LABELS[0], ""),
        labels.get(INSTANCE_TYPE, ""),
        *products,
        *(product.replace(" ", "-") for product in products),
    ]
    for glob, devices in policy.advertisement.devices_per_node.items():
        if any(matches(name, (glob,)) for name in names):
            found.append(PhysicalCount(devices, "policy advertisement.devicesPerNode", boot=True))
            break
    whole_devices = not (view.gpu.product.mig_profile or view.gpu.product.mig_invalid)
    if view.gpu.count is not None and whole_devices and not view.vgpu:
        found.append(PhysicalCount(view.gpu.count, f"label {GPU_COUNT}"))
    for key in COUNT_LABELS:
        devices_of_label, agents = number(labels.get(key)), key in _AGENTS
        if devices_of_label or (agents and devices_of_label == 0):  # a cloud's catalogue says 0 of a type that it cannot count
            found.append(PhysicalCount(devices_of_label, f"label {key}", boot=not agents))
    counted = [count for key in keys_with(labels, _AMD_COUNTED) if (count := number(labels[key])) is not None]
    if counted:
        found.append(PhysicalCount(sum(counted), f"labels {_AMD_COUNTED}*"))
    if (split := split_of(node)) is not None and split.units:
        found.append(PhysicalCount(len(split.units), f"annotation {split.key}"))
    if slices:
        found += [PhysicalCount(item.whole, f"ResourceSlices of {item.driver}") for item in through_dra if item.whole]
    return found
