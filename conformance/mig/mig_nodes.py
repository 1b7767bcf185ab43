"""One node's MIG as its labels tell it: strategy, model, instances per profile, requested configuration.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/resources.md#capacity, docs/facts/mig.md#configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.counts import PhysicalCount, physical_counts
from fixtures.model.devices.node_labels import NodeAdvertisement, view_of
from fixtures.model.devices.offers import why_none_offered

MIG_RESOURCE = "nvidia.com/mig-"
CONFIG = "nvidia.com/mig.config"
STATE = f"{CONFIG}.state"


class MigNode(msgspec.Struct, frozen=True, kw_only=True):
    """What one NVIDIA node says. ``layout`` maps profiles to instances on the whole node; ``devices`` None: nobody counts them."""

    node: Node
    view: NodeAdvertisement
    layout: Mapping[str, int]
    devices: PhysicalCount | None
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    elsewhere: str = ""
    """Why a node without plugin resources needs none (DRA, virtual machines), or empty."""

    @property
    def model(self) -> str:
        """Product without suffixes."""
        return self.view.gpu.product.model

    @property
    def strategy(self) -> str:
        """``none``, ``single`` or ``mixed``."""
        return self.view.strategy

    @property
    def all_cut(self) -> bool:
        """Whether every device is MIG-enabled: strategy single with a profile, or mixed with gpu.replicas 0.

        Facts: docs/facts/resources.md#capacity.
        """
        return bool(self.view.gpu.product.mig_profile) or (self.strategy == "mixed" and self.view.gpu.replicas == 0)

    @property
    def settled(self) -> bool:
        """Whether the MIG manager reports the requested configuration as applied."""
        return self.view.mig_config_state == "success"

    @property
    def mig_resources(self) -> dict[str, int]:
        """MIG resource names with units in capacity or allocatable, the larger of both."""
        names = {name for name in (*self.capacity, *self.allocatable) if name.startswith(MIG_RESOURCE)}
        units = {name: max(self.capacity.get(name, 0), self.allocatable.get(name, 0)) for name in sorted(names)}
        return {name: count for name, count in units.items() if count}


def mig_nodes(scope: Scope) -> Sequence[MigNode]:
    """Every accelerator node with NVIDIA devices, vGPU guests left out."""
    return scope.cached(_read)


def _read(scope: Scope) -> tuple[MigNode, ...]:
    return tuple(_mig_nodes(scope))


def _mig_nodes(scope: Scope) -> Iterator[MigNode]:
    for node in scope.accelerator_nodes:
        capacity, allocatable = scope.device_capacity(node), scope.device_allocatable(node)
        named = any(name.startswith("nvidia.com/") for name in (*capacity, *allocatable))
        view = view_of(scope, node)
        if view.vgpu or not (named or view.labelled or CONFIG in node.metadata.label):
            continue
        published_here = scope.dra_inventory.get(node.name, [])
        sources = physical_counts(node, view, scope.policy, published_here)
        yield MigNode(
            node=node,
            view=view,
            layout=_layout(view),
            devices=sources[0] if sources else None,
            capacity=capacity,
            allocatable=allocatable,
            elsewhere="" if any(capacity.values()) else why_none_offered(scope, node, published_here),
        )


def _layout(view: NodeAdvertisement) -> dict[str, int]:
    if view.strategy == "single" and view.gpu.product.mig_profile:
        return {view.gpu.product.mig_profile: view.gpu.count or 0}
    return {entry.profile: entry.count for entry in view.mig if entry.count}


def words(layout: Mapping[str, int]) -> str:
    """``16 of 1g.5gb, 8 of 3g.20gb``, or ``no MIG device``."""
    return ", ".join(f"{count} of {profile}" for profile, count in sorted(layout.items()) if count) or "no MIG device"


def times(layout: Mapping[str, int], devices: int) -> dict[str, int]:
    """A layout per device, on so many devices."""
    return {profile: count * devices for profile, count in layout.items() if count}


def geometry_words(model: str) -> str:
    """The table row of a product: ``A100 40GB: 1g.5gb ≤ 7, …``."""
    geometry = mig_geometry.geometry_of(model)
    if geometry is None:
        return f"no table for {model or 'an unnamed product'}"
    return f"{geometry.name}: " + ", ".join(f"{profile} ≤ {count}" for profile, count in geometry.maxima.items() if "+" not in profile)
