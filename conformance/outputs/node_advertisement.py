"""What one GPU node advertises: its NVIDIA labels taken apart, capacity and allocatable.

Inputs are plain mappings: ``metadata.labels``, ``status.capacity``, ``status.allocatable`` of one node, all values strings.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from conformance.outputs import mig_geometry

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


class LabelWords(msgspec.Struct, frozen=True):
    """The labels of one node taken apart. ``malformed`` are keys of counts that are no whole numbers."""

    gpu: ResourceLabels
    mig: tuple[ResourceLabels, ...]
    strategy: str
    mig_capable: bool | None
    mig_config: str
    mig_config_state: str
    vgpu: bool
    malformed: tuple[str, ...]


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
    words = _taken_apart(tuple([item for item in labels.items() if item[0].startswith(PREFIX)]))
    malformed = list(words.malformed)
    return NodeAdvertisement(
        gpu=words.gpu,
        mig=words.mig,
        strategy=words.strategy,
        mig_capable=words.mig_capable,
        mig_config=words.mig_config,
        mig_config_state=words.mig_config_state,
        vgpu=words.vgpu,
        capacity=_units(capacity or {}, "capacity", malformed),
        allocatable=_units(allocatable or {}, "allocatable", malformed),
        malformed=tuple(malformed),
    )


@lru_cache(maxsize=8192)
def _taken_apart(items: tuple[tuple[str, str], ...]) -> LabelWords:
    """NVIDIA's labels of a node. A score of requirements ask it of every node, and nodes of a pool have the same."""
    labels = dict(items)
    matched = [match for key in labels if key.startswith(_MIG_PREFIX) and (match := _MIG_LABEL.match(key))]
    numbers = [f"{GPU}.count", f"{GPU}.replicas", *(match[0] for match in matched if match[2] in ("count", "replicas"))]
    parts = sorted({match[1] for match in matched})
    capable = labels.get("nvidia.com/mig.capable")
    return LabelWords(
        gpu=_resource_labels(labels, GPU, ""),
        mig=tuple(_resource_labels(labels, f"nvidia.com/mig-{part}", mig_geometry.profile_of(part) or part) for part in parts),
        strategy=labels.get("nvidia.com/mig.strategy", "none"),
        mig_capable=None if capable is None else capable == "true",
        mig_config=labels.get("nvidia.com/mig.config", ""),
        mig_config_state=labels.get("nvidia.com/mig.config.state", ""),
        vgpu=is_vgpu(labels),
        malformed=tuple(f"label {key}" for key in numbers if key in labels and _number(labels[key]) is None),
    )
