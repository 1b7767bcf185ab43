"""Quotas of Kueue that count claims, and the devices that such claims can get (docs/facts/gangs.md#claims-of-gangs)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from conformance.gang.adapters.kueue import class_mappings
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import sequence, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.inventory import DeviceId, InventoryDevice
from fixtures.model.dra.kinds import BY_CLASS
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.placement.claimable import counter_sets
from fixtures.text.sentences import listed
from fixtures.verdict.subjects import Inconclusive

_KNOWN = frozenset({"name", "deviceClassNames"})


class ClaimQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The DeviceClasses of which a quota counts claims. ``doubt``: why that may be no number of accelerators, as a clause, or empty."""

    classes: tuple[str, ...]
    doubt: str


def claim_quotas(scope: Scope, names: Iterable[str]) -> dict[str, ClaimQuota]:
    """Quotas that count claims of accelerators, or may, by the name that they have in queues; ``names`` are those that queues have.

    Raises :class:`Inconclusive` for a configuration that cannot be read, and for two that say different things.
    """
    if not any(map(_may_count_claims, names)):
        return {}  # a configuration that cannot be read matters to none of them
    found: dict[str, ClaimQuota | None] = {}
    for item in class_mappings(scope):
        name, quota = text_of(item.get("name")), _quota(scope, item)
        if found.setdefault(name, quota) != quota:
            raise Inconclusive("TwoCandidates", f"configurations of Kueue map different DeviceClasses to the quota {name}")
    return {name: quota for name, quota in found.items() if quota is not None}


def device_quotas(scope: Scope, names: Iterable[str]) -> frozenset[str]:
    """Those of the names in queues that count devices: a device's own name, and what claims of accelerators are counted by.

    Raises :class:`Inconclusive` as :func:`claim_quotas` does.
    """
    every = frozenset(names)
    own = frozenset(filter(scope.names_device, every))
    return own | (every & claim_quotas(scope, every - own).keys())


def _may_count_claims(name: str) -> bool:
    return name not in ("cpu", "memory", "ephemeral-storage", "pods") and not name.startswith("hugepages-")


def _quota(scope: Scope, item: Json) -> ClaimQuota | None:
    """One mapping; None where none of its classes is for accelerators, or may be."""
    classes = tuple(name for name in map(text_of, sequence(item.get("deviceClassNames"))) if name in scope.claims.classes)
    demands = {name: scope.claims.by_resource(f"{BY_CLASS}{name}") for name in classes}
    if not any(demand.devices or demand.unknown for demand in demands.values()):
        return None
    fields = sorted(str(field) for field, value in item.items() if field not in _KNOWN and value)
    doubts = [demand.unknown or f"DeviceClass {name} is for other devices" for name, demand in demands.items() if not demand.devices]
    if fields:
        doubts.append(f"its mapping has {listed(fields)}, so it may be no number of devices")
    return ClaimQuota(classes=classes, doubt="; ".join(doubts))


def devices_of_claims(scope: Scope, node: Node, classes: Iterable[str]) -> tuple[int, int | None]:
    """How many devices of a node claims of these classes can get at a time, taken ones included: at least and at most.

    The most is None where a device may be given to several claims.
    """
    certain: dict[DeviceId, InventoryDevice] = {}
    possible: dict[DeviceId, InventoryDevice] = {}
    for known in (scope.claims.classes[name] for name in classes):
        for item in scope.dra_inventory.get(node.name, ()):
            for device in item.devices:
                chosen = known.selector.chooses(item.driver, device.body)
                if chosen is not False:
                    possible[device.id] = device
                if chosen and device.allocatable and device.body.type != SHAPE_FOR_MACHINES:
                    certain[device.id] = device
    shared = any(device.body.shareable for device in possible.values())
    return _apart(certain.values()), None if shared else len(possible)


def reach_further(scope: Scope, classes: Iterable[str]) -> bool:
    """Whether claims of these classes may get devices that count for no node, since several nodes reach them."""
    drivers = {driver for driver, _ in scope.slices.of_no_node()}
    named = [scope.claims.classes[name].drivers for name in classes]
    return any(not known or not drivers.isdisjoint(known) for known in named) if drivers else False


def _apart(devices: Iterable[InventoryDevice]) -> int:
    """How many of the devices there are at a time for certain: of those that draw on the same counters one."""
    taken: set[str] = set()
    count = 0
    for device in devices:
        sets = counter_sets(device)
        if taken.isdisjoint(sets):
            taken.update(sets)
            count += 1
    return count
