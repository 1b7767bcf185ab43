"""Whether the labels of a GPU node agree with each other: numbers, suffixes, strategy, profiles, geometry.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label, docs/facts/resources.md#capacity.
"""

from __future__ import annotations

from conformance.outputs import mig_geometry
from conformance.outputs.node_advertisement import GPU, Inconsistency, NodeAdvertisement, ResourceLabels


def label_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    """Where the labels disagree with each other: numbers, suffixes, strategy, profiles, geometry, applied MIG config."""
    found = [
        Inconsistency(what, written, "a whole number", "label format")
        for what, written in node.malformed.items()
        if what.startswith("label ")
    ]
    if node.vgpu:
        return found
    for entry in (node.gpu, *node.mig):
        found += _sharing_labels(entry)
    found += _strategy_labels(node)
    found += _geometry_labels(node)
    return found


def sharing_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    """Where product suffix, replicas and sharing strategy of one resource disagree, or a MIG product label with its resource."""
    return [] if node.vgpu else [item for entry in (node.gpu, *node.mig) for item in _sharing_labels(entry)]


def strategy_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    """Where the MIG strategy label disagrees with the product or with the resources that are labelled."""
    return [] if node.vgpu else _strategy_labels(node)


def _sharing_labels(entry: ResourceLabels) -> list[Inconsistency]:
    found = []
    product = entry.product
    if product.shared and entry.replicas is not None and entry.replicas <= 1:
        found.append(Inconsistency(f"label {entry.resource}.product", product.text, "no -SHARED", f"replicas {entry.replicas}"))
    if entry.sharing_strategy == "none" and entry.factor > 1:
        found.append(Inconsistency(f"label {entry.resource}.sharing-strategy", "none", "time-slicing or mps", f"replicas {entry.replicas}"))
    if entry.sharing_strategy in ("time-slicing", "mps") and entry.replicas is not None and entry.replicas <= 1:
        found.append(
            Inconsistency(
                f"label {entry.resource}.replicas", str(entry.replicas), "2 or more", f"sharing-strategy {entry.sharing_strategy}"
            )
        )
    if entry.profile and product.text and product.mig_profile != entry.profile:
        found.append(Inconsistency(f"label {entry.resource}.product", product.text, f"…-MIG-{entry.profile}", "resource name"))
    return found


def _strategy_labels(node: NodeAdvertisement) -> list[Inconsistency]:
    found = []
    product = node.gpu.product
    if node.strategy not in ("none", "single", "mixed"):
        found.append(Inconsistency("label nvidia.com/mig.strategy", node.strategy, "single, mixed or absent", "label format"))
    if product.mig_invalid:
        found.append(
            Inconsistency(f"label {GPU}.product", product.text, "one profile on all devices", "strategy single refuses uneven devices")
        )
    if product.mig_profile and node.strategy != "single":
        found.append(
            Inconsistency(f"label {GPU}.product", product.text, "no -MIG- part", f"MIG strategy {node.strategy} labels whole devices")
        )
    if node.strategy != "mixed":
        found += [
            Inconsistency(f"label {entry.resource}.count", str(entry.count), "absent", f"MIG strategy {node.strategy}")
            for entry in node.mig
            if entry.count
        ]
    if node.mig_capable is False and (product.mig_profile or any(entry.count for entry in node.mig)):
        found.append(Inconsistency("label nvidia.com/mig.capable", "false", "true", "MIG devices are labelled"))
    return found


def _geometry_labels(node: NodeAdvertisement) -> list[Inconsistency]:
    product, gpus = node.gpu.product, node.gpu.count
    model = product.model
    if node.strategy == "single" and product.mig_profile:
        if mig_geometry.max_instances(model, product.mig_profile) == 0:
            return [Inconsistency(f"label {GPU}.product", product.text, "a profile of the product", f"geometry of {model}")]
        return _applied_single(node)
    layout = {entry.profile: entry.count or 0 for entry in node.mig if entry.count}
    if node.strategy != "mixed" or gpus is None or not layout:
        return []
    possible, reason = mig_geometry.fits_devices(model, gpus, layout)
    if not possible:
        what = f"label nvidia.com/mig-*.count on {gpus} device(s)"
        return [Inconsistency(what, ", ".join(f"{p} {n}" for p, n in sorted(layout.items())), "a possible geometry", reason)]
    wanted = mig_geometry.config_layout(model, node.mig_config) if node.mig_config_state == "success" else None
    if wanted is None or node.gpu.replicas:
        return []
    return [
        Inconsistency(
            f"label {mig_geometry.resource_name(profile)}.count",
            str(layout.get(profile, 0)),
            str(wanted.get(profile, 0) * gpus),
            f"mig.config {node.mig_config} on {gpus} device(s)",
        )
        for profile in sorted({*layout, *wanted})
        if layout.get(profile, 0) != wanted.get(profile, 0) * gpus
    ]


def _applied_single(node: NodeAdvertisement) -> list[Inconsistency]:
    """Strategy single with an ``all-<profile>`` config applied: the profile is the one asked for, and devices are full."""
    product = node.gpu.product
    wanted = mig_geometry.config_layout(product.model, node.mig_config) if node.mig_config_state == "success" else None
    if not wanted or len(wanted) != 1:
        return []
    ((profile, maximum),) = wanted.items()
    if profile != product.mig_profile:
        return [Inconsistency(f"label {GPU}.product", product.text, f"…-MIG-{profile}", f"mig.config {node.mig_config}")]
    if node.gpu.count is not None and node.gpu.count % maximum:
        return [Inconsistency(f"label {GPU}.count", str(node.gpu.count), f"a multiple of {maximum}", f"mig.config {node.mig_config}")]
    return []
