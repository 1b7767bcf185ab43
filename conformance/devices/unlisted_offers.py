"""What a node offers beside the devices that the policy lists, and what may be its accelerators by another name."""

from __future__ import annotations

from conformance.devices.requests import is_extended, is_unlisted_accelerator
from conformance.devices.resource_words import beside_devices, names_share
from conformance.devices.vendors import vendors_of
from conformance.scope.scope import Scope, matches, whole
from fixtures.kubernetes.models import Node
from fixtures.text.sentences import listed

_MAKERS = (
    "amd.com",
    "cambricon.com",
    "furiosa.ai",
    "huawei.com",
    "hygon.com",
    "intel.com",
    "metax-tech.com",
    "mthreads.com",
    "qualcomm.com",
    "rebellions.ai",
    "tenstorrent.com",
    "xilinx.com",
)
"""Domains of those who offer devices that they make. A scheduler's domain (``volcano.sh``) may stand for devices of any maker."""

_DISCOVERED = ("nvidia.com/gpu.", "amd.com/gpu.")
"""Labels by which a vendor's own feature discovery describes the devices that a node has."""


def unlisted_offers(scope: Scope, node: Node) -> str:
    """That a node offers accelerators by names that the policy lacks, as a clause; empty where it offers none, or has offered listed ones.

    A device plugin of such a scheduler offers a vendor's devices by another name, and the vendor's plugin is not installed then. A
    listed resource at 0 tells of a plugin that went. Facts: docs/facts/scheduler-amounts.md#amounts.
    """
    if scope.device_capacity(node) or scope.dra_inventory.get(node.name):
        return ""
    own = vendors_of(node, scope) | {label.partition("/")[0] for label in node.metadata.label if label.startswith(_DISCOVERED)}
    offered = [name for name, amount in node.status.capacity.items() if whole(amount) > 0]
    names = sorted(name for name in offered if _may_be_accelerator(scope, name) and not _of_another_maker(name, own))
    return f"it offers {listed(names)}, which the policy does not list (accelerators.resources)" if names else ""


def _may_be_accelerator(scope: Scope, name: str) -> bool:
    """Whether a resource is an accelerator's, or an amount of GPUs of which the policy says nothing (``elasticgpu.com/gpu-core``)."""
    policy = scope.policy
    said = (*policy.accelerators.no_devices, *policy.accelerators.vm_resources, *policy.requests.scheduler_amounts)
    if beside_devices(name):
        return False
    return is_unlisted_accelerator(scope, name) or (is_extended(name) and names_share(name) and not matches(name, said))


def _of_another_maker(resource: str, vendors: set[str]) -> bool:
    """Whether a resource is certainly of another maker than the devices that the node's own labels tell of."""
    domain = ".".join(resource.partition("/")[0].split(".")[-2:])
    return bool(vendors) and domain in _MAKERS and domain not in vendors
