"""What one GPU node advertises: its NVIDIA labels taken apart, capacity and allocatable.

Inputs are plain mappings: ``metadata.labels``, ``status.capacity``, ``status.allocatable`` of one node, all values strings.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs import mig_geometry
from fixtures.kubernetes.labels import keys_with

PREFIX = "nvidia.com/"
GPU = "nvidia.com/gpu"
GPU_SHARED = "nvidia.com/gpu.shared"
MIG_INVALID = "MIG-INVALID"
_COUNT = re.compile(r"[0-9]{1,9}\Z")
_UNITS = re.compile(r"[0-9]{1,18}\Z")  # a count times a factor
_MIG_PREFIX = "nvidia.com/mig-"
_MIG_LABEL = re.compile(r"nvidia\.com/mig-(\d{1,2}g\.\d{1,4}gb(?:[.-][a-z]{1,8}(?:\.all)?)?)\.(count|replicas|product|sharing-strategy)\Z")


class Product(msgspec.Struct, frozen=True):
    """A product label taken apart: ``<sanitised model>[-MIG-<profile>|-MIG-INVALID][-SHARED]`` (docs/facts/labels.md#product-label)."""

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
        """Whether units are advertised as ``<resource>.shared``: shared without the ``-SHARED`` suffix.

        Facts: docs/facts/labels.md#product-label.
        """
        return self.factor > 1 and bool(self.product.text) and not self.product.shared

    @property
    def advertised_as(self) -> str:
        """Resource name that carries the units."""
        return f"{self.resource}.shared" if self.renamed else self.resource


class NodeAdvertisement(msgspec.Struct, frozen=True, kw_only=True):
    """What one node says about its NVIDIA devices: by label, and by capacity and allocatable (whole units per resource name).

    ``malformed`` are values that are no whole numbers, as they are written: ``label <key>``, ``capacity <name>``, ``allocatable <name>``.
    """

    gpu: ResourceLabels
    mig: tuple[ResourceLabels, ...]
    strategy: str
    mig_capable: bool | None
    mig_config: str
    mig_config_state: str
    vgpu: bool
    """A guest with virtual devices: questions of MIG, GPUDirect RDMA and DCGM profiling do not apply."""
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    malformed: Mapping[str, str]

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


def _units(quantities: Mapping[str, str], where: str, malformed: dict[str, str]) -> dict[str, int]:
    units: dict[str, int] = {}
    for name, quantity in quantities.items():
        if not name.startswith(PREFIX):
            continue
        if _UNITS.match(str(quantity)):
            units[name] = int(quantity)
        else:
            malformed[f"{where} {name}"] = str(quantity)
    return units


def advertisement(
    labels: Mapping[str, str], capacity: Mapping[str, str] | None = None, allocatable: Mapping[str, str] | None = None
) -> NodeAdvertisement:
    """Take one node apart. Never raises: what is no whole number is ``malformed``."""
    own = {key: labels[key] for key in keys_with(labels, PREFIX)}
    matched = [match for key in own if key.startswith(_MIG_PREFIX) and (match := _MIG_LABEL.match(key))]
    numbers = [f"{GPU}.count", f"{GPU}.replicas", *(match[0] for match in matched if match[2] in ("count", "replicas"))]
    malformed = {f"label {key}": own[key] for key in numbers if key in own and _number(own[key]) is None}
    parts = sorted({match[1] for match in matched})
    capable = own.get("nvidia.com/mig.capable")
    return NodeAdvertisement(
        gpu=_resource_labels(own, GPU, ""),
        mig=tuple(_resource_labels(own, f"nvidia.com/mig-{part}", mig_geometry.profile_of(part) or part) for part in parts),
        strategy=own.get("nvidia.com/mig.strategy", "none"),
        mig_capable=None if capable is None else capable == "true",
        mig_config=own.get("nvidia.com/mig.config", ""),
        mig_config_state=own.get("nvidia.com/mig.config.state", ""),
        vgpu=own.get("nvidia.com/vgpu.present") == "true" or parse_product(own.get(f"{GPU}.product", "")).vgpu,
        capacity=_units(capacity or {}, "capacity", malformed),
        allocatable=_units(allocatable or {}, "allocatable", malformed),
        malformed=malformed,
    )
