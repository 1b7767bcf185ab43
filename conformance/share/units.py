"""Shared resources of a node: how many units each device is offered as, and who says so.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/resources.md#capacity, docs/facts/vendors-and-clouds.md#gke.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import GKE, gke_terms, number
from fixtures.model.devices.node_labels import ResourceLabels, view_of

SHARED_SUFFIX = ".shared"


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """One shared resource of one node. ``resource`` is the advertised name; ``devices`` and ``factor`` None when no label tells."""

    node: Node
    resource: str
    devices: int | None
    factor: int | None
    strategy: str
    labels: ResourceLabels | None
    source: str

    @property
    def units(self) -> int | None:
        """Units that devices and factor give."""
        return None if self.devices is None or self.factor is None else self.devices * self.factor


def shared_resources(scope: Scope, node: Node) -> Iterator[Shared]:
    """Resources of a node that are shared by any sign: replicas, strategy, suffix of the product, name, GKE's labels."""
    labels, capacity = node.metadata.label, scope.device_capacity(node)
    clients = number(labels.get(f"{GKE}max-shared-clients-per-gpu"))
    if clients and gke_terms(labels, capacity):
        count = number(labels.get(f"{GKE}accelerator-count"))
        strategy = labels.get(f"{GKE}gpu-sharing-strategy", "")
        units = gke_terms(labels, capacity)[0].expected or 0
        yield Shared(
            node=node,
            resource="nvidia.com/gpu",
            devices=units // clients if count else None,
            factor=clients,
            strategy=strategy,
            labels=None,
            source="labels cloud.google.com/gke-*",
        )
        return
    view = view_of(scope, node)
    if view.vgpu:
        return
    seen = set()
    for entry in (view.gpu, *view.mig):
        renamed = f"{entry.resource}{SHARED_SUFFIX}"
        signs = (
            entry.factor > 1 or entry.product.shared or entry.sharing_strategy in ("time-slicing", "mps") or capacity.get(renamed, 0) > 0
        )
        if not signs or (entry is view.gpu and view.strategy == "mixed" and entry.replicas == 0):
            continue
        name = renamed if capacity.get(renamed) and not capacity.get(entry.resource) else entry.advertised_as
        seen.add(name)
        yield Shared(
            node=node,
            resource=name,
            devices=entry.count,
            factor=entry.replicas,
            strategy=entry.sharing_strategy,
            labels=entry,
            source=f"labels {entry.resource}.count, replicas",
        )
    for name, count in sorted(capacity.items()):
        if count and name.endswith(SHARED_SUFFIX) and name not in seen:
            yield Shared(node=node, resource=name, devices=None, factor=None, strategy="", labels=None, source="node.status.capacity")
