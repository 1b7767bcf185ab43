"""The label arithmetic of a GPU node: what its labels say, what they predict, where capacity or the labels themselves disagree.

Grammar and arithmetic of facts 1.3, 1.4 and 1.5 (gpu-feature-discovery and k8s-device-plugin v0.20.0). Inputs are plain mappings:
``metadata.labels``, ``status.capacity``, ``status.allocatable`` of one node, all values strings.

vGPU guests (product ``GRID-…`` or ``nvidia.com/vgpu.present=true``) are not judged: nothing is expected and nothing is inconsistent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs import mig_geometry

PREFIX = "nvidia.com/"
GPU = "nvidia.com/gpu"
GPU_SHARED = "nvidia.com/gpu.shared"
MIG_INVALID = "MIG-INVALID"
_COUNT = re.compile(r"[0-9]{1,9}\Z")
_UNITS = re.compile(r"[0-9]{1,18}\Z")  # a count times a factor
_MIG_LABEL = re.compile(r"nvidia\.com/mig-(\d{1,2}g\.\d{1,4}gb(?:[.-][a-z]{1,8}(?:\.all)?)?)\.(count|replicas|product|sharing-strategy)\Z")


class Product(msgspec.Struct, frozen=True):
    """A product label taken apart: ``<sanitised model>[-MIG-<profile>|-MIG-INVALID][-SHARED]`` (facts 1.4)."""

    text: str
    model: str
    mig_profile: str
    mig_invalid: bool
    shared: bool

    @property
    def vgpu(self) -> bool:
        """Whether the model is a vGPU profile (``GRID-A100-10C``)."""
        return self.model.upper().startswith("GRID-")


class ResourceLabels(msgspec.Struct, frozen=True):
    """The ``R.*`` labels of one resource ``R``. ``None`` where a label is absent or not a whole number."""

    resource: str
    profile: str
    count: int | None
    replicas: int | None
    product: Product
    sharing_strategy: str

    @property
    def factor(self) -> int:
        """Units advertised per device: ``max(replicas, 1)``; an absent label means not shared."""
        return max(self.replicas or 0, 1)

    @property
    def renamed(self) -> bool:
        """Whether units are advertised as ``<resource>.shared``: shared without the ``-SHARED`` suffix (facts 1.4)."""
        return self.factor > 1 and bool(self.product.text) and not self.product.shared

    @property
    def advertised_as(self) -> str:
        """Resource name that carries the units."""
        return f"{self.resource}.shared" if self.renamed else self.resource


class NodeAdvertisement(msgspec.Struct, frozen=True):
    """What one node says about its NVIDIA devices: by label, and by capacity and allocatable (whole units per resource name)."""

    gpu: ResourceLabels
    mig: tuple[ResourceLabels, ...]
    strategy: str
    mig_capable: bool | None
    mig_config: str
    mig_config_state: str
    vgpu: bool
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    malformed: tuple[str, ...]

    @property
    def labelled(self) -> bool:
        """Whether a device count is known from labels at all; without it no arithmetic is possible."""
        return self.gpu.count is not None or bool(self.mig)


class Inconsistency(msgspec.Struct, frozen=True):
    """One disagreement. ``what`` is ``capacity <resource>``, ``allocatable <resource>`` or ``label <key>``; ``source`` what predicts."""

    what: str
    observed: str
    expected: str
    source: str


def parse_product(label: str) -> Product:
    """Take a product label apart; every text is a product (an unknown suffix belongs to the model)."""
    shared = label.endswith("-SHARED")
    rest = label.removesuffix("-SHARED")
    model, marker, profile = rest.rpartition("-MIG-")
    if not marker:
        return Product(label, rest, "", False, shared)
    if profile == "INVALID":
        return Product(label, model, "", True, shared)
    known = mig_geometry.profile_of(profile)
    return Product(label, model if known else rest, known or "", False, shared)


def is_vgpu(labels: Mapping[str, str]) -> bool:
    """Whether the node is a vGPU guest, for which MIG, GPUDirect RDMA and DCGM profiling questions do not apply."""
    return labels.get("nvidia.com/vgpu.present") == "true" or parse_product(labels.get(f"{GPU}.product", "")).vgpu


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _COUNT.match(text) else None


def _resource_labels(labels: Mapping[str, str], resource: str, profile: str) -> ResourceLabels:
    return ResourceLabels(
        resource=resource,
        profile=profile,
        count=_number(labels.get(f"{resource}.count")),
        replicas=_number(labels.get(f"{resource}.replicas")),
        product=parse_product(labels.get(f"{resource}.product", "")),
        sharing_strategy=labels.get(f"{resource}.sharing-strategy", ""),
    )


def _units(quantities: Mapping[str, str], where: str, malformed: list[str]) -> dict[str, int]:
    units: dict[str, int] = {}
    for name, quantity in quantities.items():
        if not name.startswith(PREFIX):
            continue
        if _UNITS.match(str(quantity)):
            units[name] = int(quantity)
        else:
            malformed.append(f"{where} {name}")
    return units


def advertisement(
    labels: Mapping[str, str], capacity: Mapping[str, str] | None = None, allocatable: Mapping[str, str] | None = None
) -> NodeAdvertisement:
    """Read one node. Never raises: values that are not whole numbers are named in ``malformed`` (``label <key>``, ``capacity <name>``)."""
    malformed = [
        f"label {key}"
        for key, value in labels.items()
        if (key in (f"{GPU}.count", f"{GPU}.replicas") or ((m := _MIG_LABEL.match(key)) and m[2] in ("count", "replicas")))
        and _number(value) is None
    ]
    parts = sorted({match[1] for key in labels if (match := _MIG_LABEL.match(key))})
    capable = labels.get("nvidia.com/mig.capable")
    return NodeAdvertisement(
        gpu=_resource_labels(labels, GPU, ""),
        mig=tuple(_resource_labels(labels, f"nvidia.com/mig-{part}", mig_geometry.profile_of(part) or part) for part in parts),
        strategy=labels.get("nvidia.com/mig.strategy", "none"),
        mig_capable=None if capable is None else capable == "true",
        mig_config=labels.get("nvidia.com/mig.config", ""),
        mig_config_state=labels.get("nvidia.com/mig.config.state", ""),
        vgpu=is_vgpu(labels),
        capacity=_units(capacity or {}, "capacity", malformed),
        allocatable=_units(allocatable or {}, "allocatable", malformed),
        malformed=tuple(malformed),
    )


def expectations(labels: Mapping[str, str]) -> dict[str, int]:
    """Units per resource name that the labels predict for ``status.capacity`` (facts 1.5); 0 means absent or zero.

    A renamed resource predicts 0 for its plain name. Under ``mixed`` with some MIG and some whole devices, labels do not say how many
    devices are whole: ``nvidia.com/gpu`` is then left out, and :func:`capacity_inconsistencies` checks its bounds. ``{}`` for vGPU
    guests and for nodes whose labels hold no count.
    """
    return _expectations(advertisement(labels))


def _expectations(node: NodeAdvertisement) -> dict[str, int]:
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


def inconsistencies(
    labels: Mapping[str, str], capacity: Mapping[str, str] | None = None, allocatable: Mapping[str, str] | None = None
) -> list[Inconsistency]:
    """All disagreements: of the labels with each other, of capacity with the labels, of allocatable with capacity.

    ``capacity`` or ``allocatable`` of ``None`` means not captured: what needs it is left out (an empty mapping means nothing offered).
    """
    node = advertisement(labels, capacity, allocatable)
    found = label_inconsistencies(labels)
    if capacity is not None:
        found += _capacity_inconsistencies(node)
    if capacity is not None and allocatable is not None:
        found += _allocatable_inconsistencies(node)
    return found


def capacity_inconsistencies(labels: Mapping[str, str], capacity: Mapping[str, str]) -> list[Inconsistency]:
    """Where ``status.capacity`` is not what the labels predict, MIG resources without labels included."""
    return _capacity_inconsistencies(advertisement(labels, capacity))


def _capacity_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    found = [Inconsistency(what, "not a whole number", "a whole number", "Kubernetes") for what in node.malformed if what.startswith("cap")]
    if node.vgpu or not node.labelled:
        return found
    expected = _expectations(node)
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


def allocatable_inconsistencies(capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> list[Inconsistency]:
    """Resources whose allocatable differs from capacity: fewer means unhealthy devices, more is impossible (facts 1.5)."""
    return _allocatable_inconsistencies(advertisement({}, capacity, allocatable))


def _allocatable_inconsistencies(node: NodeAdvertisement) -> list[Inconsistency]:
    found = [Inconsistency(what, "not a whole number", "a whole number", "Kubernetes") for what in node.malformed if what.startswith("all")]
    for resource in sorted({*node.capacity, *node.allocatable}):
        have, can = node.capacity.get(resource, 0), node.allocatable.get(resource, 0)
        if have != can and f"allocatable {resource}" not in node.malformed:
            why = f"{have - can} unhealthy unit(s)" if can < have else "never above capacity"
            found.append(Inconsistency(f"allocatable {resource}", str(can), str(have), f"capacity; {why}"))
    return found


def label_inconsistencies(labels: Mapping[str, str]) -> list[Inconsistency]:
    """Where the labels disagree with each other: numbers, suffixes, strategy, profiles, geometry, applied MIG config."""
    node = advertisement(labels)
    found = [
        Inconsistency(what, labels[what.removeprefix("label ")], "a whole number", "label format")
        for what in node.malformed
        if what.startswith("label ")
    ]
    if node.vgpu:
        return found
    for entry in (node.gpu, *node.mig):
        found += _sharing_labels(entry)
    found += _strategy_labels(node)
    found += _geometry_labels(node)
    return found


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
