"""DRA-03, what devices are like: attributes and capacity have the values of the product's other devices, and of the node's labels. Pure.

Facts: docs/facts/dra.md#nvidia-driver, docs/facts/labels.md#discovery-labels, docs/facts/labels.md#names-in-labels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import msgspec

from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, matches
from fixtures.model.devices.memory import LABEL as MEMORY
from fixtures.model.devices.memory import device_memory
from fixtures.model.devices.node_labels import parse_product
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES

_NVIDIA = "gpu.nvidia.com"
_DRIVER = "nvidia.com/cuda.driver-version.full"
_VERSIONS = frozenset({"driverversion", "cudadriverversion"})
_OF_PRODUCT = frozenset({"architecture", "family", "brand", "cudacomputecapability"})
_PRODUCT = "nvidia.com/gpu.product"
_NOT_IN_LABELS = re.compile(r"[^\w.\s-]+", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}")

_TOLERANCE = Fraction(7, 100)
"""By so much capacity may differ: ECC keeps a sixteenth of GDDR memory, a driver a little. Devices of one product differ by half or by
nothing."""

_Key = tuple[str, ...]


class Unlike(msgspec.Struct, frozen=True):
    """A value that differs, as a clause. ``version``: only in a driver's version that the node's own label confirms, from other nodes'."""

    words: str
    version: bool = False


class Usual:
    """What the devices of one product have for the most part: values of attributes and capacity, by what devices are alike in."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._values: dict[tuple[_Key, str], Counter[str]] = {}
        for drivers in scope.dra_inventory.values():
            for device in (device for item in drivers for device in item.devices):
                for name, value in _compared(device):
                    self._values.setdefault((_alike(device), name), Counter())[value] += 1

    def unlike(self, device: InventoryDevice, node: Node) -> Iterator[Unlike]:
        """How a device differs from its product's others, and from its node's labels."""
        name, allowed = device.id[2], self._scope.policy.accelerators.allowed_differences
        for what, value in _compared(device):
            counted = self._values[_alike(device), what]
            usual = max(counted, key=lambda one: (counted[one], _sortable(one)))
            plain = plain_name(what)
            if value == usual or matches(plain, allowed) or matches(what, allowed):
                continue
            if plain in _VERSIONS and matches("driver", allowed):
                continue
            if what in device.body.capacity and _close(value, usual):
                continue
            confirmed = plain in _VERSIONS and bool(version := _label(node, device)) and not _differ(version, device)
            kin = f"{counted[usual]} of {counted.total()} of its {'product' if device.product else 'pool'}"
            yield Unlike(f"{name} has {plain} {value}, and {kin} have {usual}", confirmed)
        if (said := _label(node, device)) and _differ(said, device):
            yield Unlike(f"{name} has driverVersion {device.body.attribute('driverVersion')}, and the node's label {_DRIVER} says {said}")
        labelled = node.metadata.label.get(_PRODUCT, "") if _whole(device) else ""
        if labelled and device.product and parse_product(labelled).model != _as_label(device.product):
            yield Unlike(f"{name} has productName {device.product}, and the node's label {_PRODUCT} says {labelled}")
        memory = device_memory(node)
        published = _memory(device)
        if memory.known and published and _whole(device) and not _near(published, Fraction(memory.units) * 2**20):
            has = node.metadata.label[MEMORY]
            yield Unlike(f"{name} has memory {published // 2**20}Mi, and the node's label {MEMORY} says {has} MiB")


def _alike(device: InventoryDevice) -> _Key:
    """Devices without a product are alike in their pool at most: two generations may lack its name."""
    body = device.body
    return device.id[0], body.type, device.product or device.id[1], body.attribute("profile") or body.attribute("partitionProfile")


def _compared(device: InventoryDevice) -> Iterator[tuple[str, str]]:
    for name, value in device.body.attributes.items():
        if plain_name(name) in _VERSIONS | _OF_PRODUCT and value:
            yield name, value
    if device.body.type != SHAPE_FOR_MACHINES:
        yield from ((name, value) for name, value in device.body.capacity.items() if value)


def plain_name(name: str) -> str:
    """A name of an attribute or of capacity without its domain, in small letters."""
    return name.rpartition("/")[2].lower()


def _whole(device: InventoryDevice) -> bool:
    return device.id[0] == _NVIDIA and device.body.type == "gpu" and not device.is_part


def _label(node: Node, device: InventoryDevice) -> str:
    return node.metadata.label.get(_DRIVER, "") if device.id[0] == _NVIDIA and device.body.attribute("driverVersion") else ""


def _differ(label: str, device: InventoryDevice) -> bool:
    """Whether a label names another version of the driver. Slices write ``580.95.05`` as ``580.95.5``, and ``570.169`` as ``570.169.0``."""
    return _numbers(label) != _numbers(device.body.attribute("driverVersion"))


def _as_label(product: str) -> str:
    """A product's name as GPU Feature Discovery writes it: ``NVIDIA H100 80GB HBM3`` is ``NVIDIA-H100-80GB-HBM3``."""
    return "-".join(_NOT_IN_LABELS.sub("", product).split())


def _numbers(version: str) -> list[int]:
    found = [int(text) for text in _NUMBER.findall(version)[:4]]
    while found and not found[-1]:
        found.pop()
    return found


def _sortable(value: str) -> tuple[int, Fraction, list[int], str]:
    """Of two values that are as common, the larger is the usual one: devices lose memory, and drivers get newer."""
    try:
        return 1, quantity.parse(value), [], value
    except quantity.QuantityError:
        return 0, Fraction(0), _numbers(value), value


def _memory(device: InventoryDevice) -> Fraction | None:
    try:
        return next((quantity.parse(value) for name, value in device.body.capacity.items() if plain_name(name) == "memory"), None)
    except quantity.QuantityError:
        return None


def _close(value: str, usual: str) -> bool:
    try:
        return _near(quantity.parse(value), quantity.parse(usual))
    except quantity.QuantityError:
        return False


def _near(one: Fraction, other: Fraction) -> bool:
    return abs(one - other) <= _TOLERANCE * max(abs(one), abs(other))
