"""What DRA drivers of accelerators publish, by node. Pure.

A pool counts in its newest generation only, and the scheduler allocates nothing of a pool whose slices are not all there.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from conformance.dynamic_resources.drivers import NO_DEVICE_TYPES, DriverKind, kind_of
from conformance.outputs import resource_slice
from conformance.outputs.resource_slice import DeviceTaint, Slice, SliceDevice
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, text_of

SLICES = "resource.k8s.io/resourceslices"
CLASSES = "resource.k8s.io/deviceclasses"
TAINT_RULES = "resource.k8s.io/devicetaintrules"

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device: unique in the cluster."""


class InventoryDevice(msgspec.Struct, frozen=True):
    """One device of a pool. ``offered``: its pool is complete. ``taint``: what keeps it from new claims, or empty."""

    id: DeviceId
    body: SliceDevice
    offered: bool
    taint: str = ""

    @property
    def allocatable(self) -> bool:
        """Whether a new claim could get it, if nobody has it."""
        return self.offered and not self.taint

    @property
    def physical(self) -> str:
        """What tells the physical device apart: a part has its parent's, and so has one device in another shape (gpu, vfio)."""
        return _identity(self.body) or "/".join(self.id)

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a device (MIG, AMD's partitions)."""
        return self.body.type == "mig" or "partition" in self.body.type


class DriverInventory(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that one driver publishes for one node, in the newest generation of its pools.

    ``incomplete`` names pools that lack slices.
    """

    driver: str
    devices: tuple[InventoryDevice, ...]
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> int:
        """Physical devices: those published whole, and those of which only parts are (MIG devices, AMD's partitions)."""
        return len({device.physical for device in self.devices})

    @property
    def allocatable(self) -> int:
        """Physical devices of which something can be claimed."""
        return len({device.physical for device in self.devices if device.allocatable})

    @property
    def product(self) -> str:
        """Product names of the devices, as published."""
        names = (next((name for key in _PRODUCT if (name := device.body.attribute(key))), "") for device in self.devices)
        return ", ".join(sorted({name for name in names if name}))


_PRODUCT = ("productName", "model", "modelName", "product")


def _identity(device: SliceDevice) -> str:
    return (
        device.attribute("parentUUID")
        or (device.attribute("uuid") if device.type != "mig" and "partition" not in device.type else "")
        or device.attribute("pciBusID")
        or device.attribute("parentPciAddr")
        or device.attribute("pciAddr")
    )


class Slices:
    """All ResourceSlices of a cluster, with the taints of DeviceTaintRules."""

    def __init__(self, slices: Iterable[Json], rules: Iterable[Json], named: Callable[[str], bool]) -> None:
        self._slices = resource_slice.slices_of({**item, "kind": "ResourceSlice"} for item in slices if isinstance(item, dict))
        self._rules = [rule for item in rules if (rule := _rule(item))]
        self._named = named
        self._devices: dict[str, list[SliceDevice]] = {}
        for entry in self._slices:
            self._devices.setdefault(entry.driver, []).extend(entry.devices)
        self._kinds: dict[str, DriverKind] = {}

    def kind_of(self, driver: str) -> DriverKind:
        """What a driver serves, whether it publishes anything or not."""
        if driver not in self._kinds:
            self._kinds[driver] = kind_of(driver, self._devices.get(driver, ()), self._named)
        return self._kinds[driver]

    def by_node(self) -> dict[str, list[DriverInventory]]:
        """What drivers of accelerators publish for each node, also where it is no device at all."""
        pools: dict[tuple[str, str], list[Slice]] = {}
        for entry in self._slices:
            if self.kind_of(entry.driver) is DriverKind.ACCELERATOR:
                pools.setdefault((entry.driver, entry.pool), []).append(entry)
        found: dict[tuple[str, str], tuple[list[InventoryDevice], list[str]]] = {}
        for (driver, pool), members in sorted(pools.items()):
            newest = max(entry.generation for entry in members)
            live = [entry for entry in members if entry.generation == newest]
            wanted = max(entry.expected_slices for entry in live)
            lacking = f"pool {pool}: {len(live)} of {wanted} slices of generation {newest}" if len(live) != wanted else ""
            for entry in live:
                for node in {entry.node, *(device.node for device in entry.devices)} - {""}:
                    devices, incomplete = found.setdefault((node, driver), ([], []))
                    devices += [
                        self._device((driver, pool, device.name), device, not lacking)
                        for device in entry.devices
                        if (device.node or entry.node) == node and device.type not in NO_DEVICE_TYPES
                    ]
                    if lacking and lacking not in incomplete:
                        incomplete.append(lacking)
        table: dict[str, list[DriverInventory]] = {}
        for (node, driver), (devices, incomplete) in sorted(found.items()):
            table.setdefault(node, []).append(DriverInventory(driver=driver, devices=tuple(devices), incomplete=tuple(incomplete)))
        return table

    def _device(self, identity: DeviceId, body: SliceDevice, offered: bool) -> InventoryDevice:
        taint = body.tainted or next((taint for wanted, taint in self._rules if _covers(wanted, identity)), "")
        return InventoryDevice(identity, body, offered, taint)


def _rule(item: object) -> tuple[tuple[str | None, str | None, str | None], str] | None:
    """What a DeviceTaintRule selects (None: any) and its hard taint; None where it has none or selects by what is not read here."""
    spec = mapping(mapping(item).get("spec"))
    if not isinstance(spec.get("deviceSelector"), dict):
        return None  # without a selector it matches nothing, with an empty one everything
    raw, chosen = mapping(spec.get("taint")), mapping(spec.get("deviceSelector"))
    taint = DeviceTaint(*(text_of(raw.get(key)) for key in ("key", "value", "effect")))
    if not taint.hard or set(chosen) - {"driver", "pool", "device"}:
        return None
    wanted = [text_of(chosen[key]) if chosen.get(key) else None for key in ("driver", "pool", "device")]
    return (wanted[0], wanted[1], wanted[2]), f"{taint} (DeviceTaintRule)"


def _covers(wanted: tuple[str | None, str | None, str | None], identity: DeviceId) -> bool:
    return all(one is None or one == other for one, other in zip(wanted, identity, strict=True))


def published_twice(published: DriverInventory) -> list[str]:
    """Names that are published more than once for the node: a device that the scheduler takes for two."""
    names = Counter(device.id for device in published.devices)
    uuids = Counter(uuid for device in published.devices if device.body.type in ("gpu", "") and (uuid := device.body.attribute("uuid")))
    return [f"device {name[2]} {count} times" for name, count in sorted(names.items()) if count > 1] + [
        f"UUID {uuid} {count} times" for uuid, count in sorted(uuids.items()) if count > 1
    ]
