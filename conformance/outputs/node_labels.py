"""The label arithmetic of a GPU node: what its labels say, what they predict, where capacity or the labels themselves disagree.

Grammar and arithmetic are those of k8s-device-plugin v0.20.0 (docs/facts/labels.md#discovery-labels,
docs/facts/labels.md#product-label, docs/facts/resources.md#capacity). A node is taken apart by :func:`advertisement` before.

vGPU guests (product ``GRID-…`` or ``nvidia.com/vgpu.present=true``) are not judged: nothing is expected and nothing is inconsistent.
"""

from __future__ import annotations

from conformance.outputs import mig_geometry
from conformance.outputs.label_rules import label_inconsistencies
from conformance.outputs.node_advertisement import (
    GPU,
    GPU_SHARED,
    MIG_INVALID,
    Inconsistency,
    NodeAdvertisement,
    Product,
    ResourceLabels,
    advertisement,
    parse_product,
)

__all__ = [
    "GPU",
    "GPU_SHARED",
    "MIG_INVALID",
    "Inconsistency",
    "NodeAdvertisement",
    "Product",
    "ResourceLabels",
    "advertisement",
    "allocatable_inconsistencies",
    "capacity_inconsistencies",
    "expectations",
    "inconsistencies",
    "label_inconsistencies",
    "parse_product",
]


def expectations(node: NodeAdvertisement) -> dict[str, int]:
    """Units per resource name that the labels predict for ``status.capacity`` (docs/facts/resources.md#capacity); 0 means absent or zero.

    A renamed resource predicts 0 for its plain name. Under ``mixed`` with some MIG and some whole devices, labels do not say how many
    devices are whole: ``nvidia.com/gpu`` is then left out, and :func:`capacity_inconsistencies` checks its bounds. ``{}`` for vGPU
    guests and for nodes whose labels hold no count.
    """
    if node.vgpu or not node.labelled:
        return {}
    expected: dict[str, int] = {}
    offered = node.mig if node.strategy == "mixed" else ()
    if node.gpu.count is not None:
        if node.gpu.product.mig_invalid or (node.strategy == "mixed" and node.gpu.replicas == 0):
            expected[GPU] = 0
        elif not any(entry.count for entry in offered):
            offered = (node.gpu, *offered)
    for entry in offered:
        if entry.count is None:
            continue
        if entry.renamed:
            expected[entry.resource] = 0
        expected[entry.advertised_as] = entry.count * entry.factor
    return expected


def inconsistencies(node: NodeAdvertisement, *, capacity: bool = True, allocatable: bool = True) -> list[Inconsistency]:
    """All disagreements: of the labels with each other, of capacity with the labels, of allocatable with capacity.

    ``capacity`` or ``allocatable`` False: not captured, and what needs it is left out.
    """
    found = label_inconsistencies(node)
    if capacity:
        found += capacity_inconsistencies(node)
    if capacity and allocatable:
        found += allocatable_inconsistencies(node)
    return found


def capacity_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    """Where ``status.capacity`` is not what the labels predict, MIG resources without labels included."""
    found = [Inconsistency(what, "not a whole number", "a whole number", "Kubernetes") for what in node.malformed if what.startswith("cap")]
    if node.vgpu or not node.labelled:
        return found
    expected = expectations(node)
    for resource, units in expected.items():
        observed = node.capacity.get(resource, 0)
        if observed != units:
            found.append(Inconsistency(f"capacity {resource}", str(observed), str(units), _formula(node, resource)))
    for resource, observed in node.capacity.items():
        if observed and resource.startswith("nvidia.com/mig-") and resource not in expected:
            why = "no labels of that resource" if node.strategy == "mixed" else f"MIG strategy {node.strategy} offers no MIG resource names"
            found.append(Inconsistency(f"capacity {resource}", str(observed), "0", why))
    if (observed := node.capacity.get(GPU_SHARED, 0)) and GPU_SHARED not in expected and GPU in expected:
        found.append(Inconsistency(f"capacity {GPU_SHARED}", str(observed), "0", _formula(node, GPU)))
    if node.strategy == "mixed" and GPU not in expected and node.gpu.count is not None:
        found += _whole_device_bounds(node)
    return found


def _formula(node: NodeAdvertisement, resource: str) -> str:
    base = resource.removesuffix(".shared")
    entry = next((entry for entry in (node.gpu, *node.mig) if entry.resource == base), node.gpu)
    if entry.product.mig_invalid:
        return f"{GPU}.product is {MIG_INVALID}: the plugin refuses"
    if entry is node.gpu and node.strategy == "mixed" and node.gpu.replicas == 0:
        return f"{GPU}.replicas is 0: all devices are MIG-enabled"
    text = f"{base}.count {entry.count} x replicas {entry.factor}"
    return f"{text}, renamed to {entry.advertised_as}" if entry.renamed else text


def _whole_device_bounds(node: NodeAdvertisement) -> list[Inconsistency]:
    """Mixed, some devices MIG-enabled: (G − E) × r with 1 ≤ E ≤ G, and E no smaller than the instances need."""
    gpus, factor = node.gpu.count or 0, node.gpu.factor
    layout = {entry.profile: entry.count or 0 for entry in node.mig}
    enabled = 1
    while enabled < min(gpus, mig_geometry.MAX_DEVICES) and not mig_geometry.fits_devices(node.gpu.product.model, enabled, layout)[0]:
        enabled += 1
    name = GPU_SHARED if node.gpu.renamed else GPU
    observed, most = node.capacity.get(name, 0), max(gpus - enabled, 0) * factor
    if observed > most or observed % factor:
        want = f"at most {most}, a multiple of {factor}"
        return [Inconsistency(f"capacity {name}", str(observed), want, f"{gpus} devices, at least {enabled} of them MIG-enabled")]
    return []


def allocatable_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    """Resources whose allocatable differs from capacity: fewer means unhealthy devices, more is impossible.

    Facts: docs/facts/resources.md#allocatable.
    """
    found = [Inconsistency(what, "not a whole number", "a whole number", "Kubernetes") for what in node.malformed if what.startswith("all")]
    for resource in sorted({*node.capacity, *node.allocatable}):
        have, can = node.capacity.get(resource, 0), node.allocatable.get(resource, 0)
        if have != can and f"allocatable {resource}" not in node.malformed:
            why = f"{have - can} unhealthy unit(s)" if can < have else "never above capacity"
            found.append(Inconsistency(f"allocatable {resource}", str(can), str(have), f"capacity; {why}"))
    return found
