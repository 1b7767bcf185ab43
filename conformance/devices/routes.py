"""Through which route a node offers its devices, and why some nodes offer none on purpose."""

from __future__ import annotations

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node
from fixtures.model.dra.inventory import DriverInventory

_PREFIX_OF_DRIVER = {
    "gpu.nvidia.com": "nvidia.com/",
    "gpu.amd.com": "amd.com/",
    "gpu.intel.com": "gpu.intel.com/",
    "gaudi.intel.com": "habana.ai/",
    "tpu.google.com": "google.com/tpu",
    "neuron.aws.com": "aws.amazon.com/neuron",
}


def same_devices(published: DriverInventory, resource: str) -> bool:
    """Whether a device plugin's resource is of the vendor that a DRA driver serves."""
    prefix = _PREFIX_OF_DRIVER.get(published.driver)
    return prefix is not None and resource.startswith(prefix)


def other_devices(driver: str, resource: str) -> bool:
    """Whether a device plugin's resource is certainly of another vendor than the devices of a DRA driver."""
    others = tuple(prefix for known, prefix in _PREFIX_OF_DRIVER.items() if known != driver)
    return driver in _PREFIX_OF_DRIVER and resource.startswith(others)


def why_none_offered(scope: Scope, node: Node, through_dra: list[DriverInventory]) -> str:
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
