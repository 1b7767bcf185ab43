"""What DRA drivers of accelerators publish, by node. Pure.

A pool counts in its newest generation only, and the scheduler allocates nothing of a pool whose slices are not all there.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from conformance.dynamic_resources.drivers import NO_DEVICE_TYPES, DriverKind, kind_of
from conformance.outputs import resource_slice
from conformance.outputs.resource_slice import SHAPE_FOR_MACHINES, DeviceTaint, Slice, SliceDevice, device_taint, lack_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, sequence, text_of

SLICES = "resource.k8s.io/resourceslices"
CLASSES = "resource.k8s.io/deviceclasses"
TAINT_RULES = "resource.k8s.io/devicetaintrules"

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device: unique in the cluster."""


class InventoryDevice(msgspec.Struct, frozen=True):
    """One device of a pool. ``offered``: its pool is complete. ``taint``: what keeps it from new claims, or empty.

    ``shape_of`` is ``physical`` of the device at the same PCI address, for a shape for machines, and of the device whose virtual function
    it is. ``function_of`` is the PCI address of the latter.
    """

    id: DeviceId
    body: SliceDevice
    offered: bool
    taint: str = ""
    shape_of: str = ""
    function_of: str = ""

    @property
    def allocatable(self) -> bool:
        """Whether a new claim could get it, if nobody has it."""
        return self.offered and not self.taint

    @property
    def physical(self) -> str:
        """What tells the physical device apart: a part has its parent's, and so has one device in another shape (gpu, vfio)."""
        return self.shape_of or _identity(self.body) or "/".join(self.id)

    @property
    def product(self) -> str:
        """Its product name, as published; empty without."""
        return next((name for key in _PRODUCT if (name := self.body.attribute(key))), "")

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a device (MIG, AMD's partitions, virtual functions)."""
        return self.body.type == "mig" or "partition" in self.body.type or bool(self.function_of)


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
        return ", ".join(sorted({device.product for device in self.devices} - {""}))


_OF_FUNCTION = re.compile(r"pf-([0-9a-f]{4,8})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-counter-set")
"""The set of counters that AMD's driver names after a physical function: its virtual ones draw on it (docs/facts/dra.md#other-drivers)."""

_PRODUCT = ("productName", "model", "modelName", "product")


def _identity(device: SliceDevice) -> str:
    if device.type == SHAPE_FOR_MACHINES:
        return device.pci_address or device.attribute("uuid")
    return (
        device.attribute("parentUUID")
        or (device.attribute("uuid") if device.type != "mig" and "partition" not in device.type else "")
        or device.attribute("pciBusID")
        or device.attribute("parentPciAddr")
        or device.attribute("pciAddr")
    )


def _function_of(device: SliceDevice) -> str:
    """The PCI address of the physical function that a virtual function belongs to; empty for what is none."""
    for name in device.counters:
        if found := _OF_FUNCTION.fullmatch(name):
            address = "{}:{}:{}.{}".format(*found.groups())
            return address if device.pci_address.lower() not in ("", address) or device.attribute("isVF") == "true" else ""
    return ""


def _tied(devices: Sequence[InventoryDevice]) -> tuple[InventoryDevice, ...]:
    """Devices of a node, each shape for machines tied to the device at its PCI address, and each virtual function to its physical one.

    The physical function may be in no slice: then what its virtual ones have in common is its address.
    Facts: docs/facts/dra.md#nvidia-driver, docs/facts/dra.md#other-drivers.
    """
    others = [device for device in devices if device.body.type != SHAPE_FOR_MACHINES and not device.function_of]
    if len(others) == len(devices):
        return tuple(devices)
    at = {address.lower(): device.physical for device in others if (address := device.body.pci_address)}
    return tuple(
        msgspec.structs.replace(device, shape_of=at.get(device.function_of, device.function_of))
        if device.function_of
        else msgspec.structs.replace(device, shape_of=at.get(device.body.pci_address.lower(), ""))
        if device.body.type == SHAPE_FOR_MACHINES
        else device
        for device in devices
    )


class Slices:
    """All ResourceSlices of a cluster (``every``), and the DeviceTaintRules that taint their devices (``rules``)."""

    def __init__(self, slices: Iterable[Json], rules: Iterable[Json], named: Callable[[str], bool]) -> None:
        self.every = resource_slice.slices_of({**item, "kind": "ResourceSlice"} for item in slices if isinstance(item, dict))
        self.rules = [rule for item in rules if isinstance(item, dict) and (rule := taint_rule(item))]
        self._named = named
        self._devices: dict[str, list[SliceDevice]] = {}
        for entry in self.every:
            self._devices.setdefault(entry.driver, []).extend(entry.devices)
        self._kinds: dict[str, DriverKind] = {}

    def kind_of(self, driver: str) -> DriverKind:
        """What a driver serves, whether it publishes anything or not."""
        if driver not in self._kinds:
            self._kinds[driver] = kind_of(driver, self._devices.get(driver, ()), self._named)
        return self._kinds[driver]

    def newest(self) -> dict[tuple[str, str], list[Slice]]:
        """Slices of the newest generation of every pool, by driver and pool, in order of name."""
        pools: dict[tuple[str, str], list[Slice]] = {}
        for entry in self.every:
            pools.setdefault((entry.driver, entry.pool), []).append(entry)
        found = {}
        for identity, members in sorted(pools.items()):
            newest = max(entry.generation for entry in members)
            found[identity] = [entry for entry in members if entry.generation == newest]
        return found

    def by_node(self) -> dict[str, list[DriverInventory]]:
        """What drivers of accelerators publish for each node, also where it is no device at all."""
        found: dict[tuple[str, str], tuple[list[InventoryDevice], list[str]]] = {}
        for (driver, pool), live in self.newest().items():
            if self.kind_of(driver) is not DriverKind.ACCELERATOR:
                continue
            lacking = f"pool {pool}: {lack}" if (lack := lack_of(live)) else ""
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
            table.setdefault(node, []).append(DriverInventory(driver=driver, devices=_tied(devices), incomplete=tuple(incomplete)))
        return table

    def of_no_node(self) -> list[tuple[str, str]]:
        """Driver and pool of accelerators that a slice offers to several nodes: they count for none."""
        return [
            (driver, pool)
            for (driver, pool), slices in self.newest().items()
            if self.kind_of(driver) is DriverKind.ACCELERATOR
            and any(not (entry.node or device.node) and device.type not in NO_DEVICE_TYPES for entry in slices for device in entry.devices)
        ]

    def _device(self, identity: DeviceId, body: SliceDevice, offered: bool) -> InventoryDevice:
        taint = body.tainted or next((f"{rule.taint} (DeviceTaintRule {rule.name})" for rule in self.rules if rule.covers(identity)), "")
        return InventoryDevice(identity, body, offered, taint, function_of=_function_of(body))


class TaintRule(msgspec.Struct, frozen=True, kw_only=True):
    """A DeviceTaintRule with a hard taint. ``wanted`` is driver, pool and device, None for any; ``manager`` wrote it, if known."""

    name: str
    taint: DeviceTaint
    wanted: tuple[str | None, str | None, str | None]
    created: str = ""
    manager: str = ""

    @property
    def since(self) -> float | None:
        """When its taint was set, in seconds since the epoch, if it says so."""
        return moment(self.taint.added) or moment(self.created)

    @property
    def covers_all(self) -> bool:
        """Whether it taints every device of every driver."""
        return not any(self.wanted)

    @property
    def names_some(self) -> bool:
        """Whether it names a pool or a device, and so does not taint all that a driver has in the cluster."""
        return any(self.wanted[1:])

    def covers(self, identity: DeviceId) -> bool:
        """Whether it taints a device."""
        return all(one is None or one == other for one, other in zip(self.wanted, identity, strict=True))


def taint_rule(item: Json) -> TaintRule | None:
    """A DeviceTaintRule; None where it has no hard taint, selects nothing, or selects by what is not read here."""
    spec, meta = mapping(item.get("spec")), mapping(item.get("metadata"))
    if not isinstance(spec.get("deviceSelector"), dict):
        return None  # without a selector it matches nothing, with an empty one everything
    taint, chosen = device_taint(mapping(spec.get("taint"))), mapping(spec.get("deviceSelector"))
    if not taint.hard or set(chosen) - {"driver", "pool", "device"}:
        return None
    wanted = [text_of(chosen[key]) if chosen.get(key) else None for key in ("driver", "pool", "device")]
    managers = [text_of(entry.get("manager")) for entry in map(mapping, sequence(meta.get("managedFields")))]
    return TaintRule(
        name=text_of(meta.get("name")),
        taint=taint,
        wanted=(wanted[0], wanted[1], wanted[2]),
        created=text_of(meta.get("creationTimestamp")),
        manager=next((name for name in managers if name), ""),
    )
