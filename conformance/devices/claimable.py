"""Devices of a node that pods can claim: through which DeviceClass, how many there are and how many are free. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.scope.scope import Scope, whole
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Node
from fixtures.model.dra.claims import Request
from fixtures.model.dra.inventory import DriverInventory, InventoryDevice
from fixtures.model.dra.kinds import BY_CLASS
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES, SliceDevice


class Claimable(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one DeviceClass on one node. ``shared``: a device may be given to several claims at a time."""

    device_class: str
    driver: str
    product: str
    capacity: int
    free: int
    shared: bool
    devices: tuple[InventoryDevice, ...]


def claimable(scope: Scope, node: Node) -> list[Claimable]:
    """Every DeviceClass of accelerators that chooses untainted devices of the node, in order of name.

    A device belongs to the first class by name of those that choose the fewest devices: the class made for it.
    """
    found = []
    for item in scope.dra_inventory.get(node.name, ()):
        free = {device.id for device in _unheld(scope, item)}
        for name, devices in _by_class(scope, item):
            usable = [device for device in devices if device.allocatable and device.body.type != SHAPE_FOR_MACHINES]  # for virtual machines
            if usable:
                found.append(
                    Claimable(
                        devices=tuple(usable),
                        device_class=name,
                        driver=item.driver,
                        product=item.product,
                        capacity=len(usable),
                        free=sum(device.id in free or device.body.shareable for device in usable),
                        shared=any(device.body.shareable for device in usable),
                    )
                )
    return sorted(found, key=lambda one: one.device_class)


def commonest_class(scope: Scope) -> str:
    """The DeviceClass that selects the most accelerators, free or not, else any that is for them; empty where there is none."""
    counts: dict[str, int] = {}
    for node in scope.accelerator_nodes:
        for item in claimable(scope, node):
            counts[item.device_class] = counts.get(item.device_class, 0) + item.capacity
    if not counts:
        counts = {name: 0 for name in scope.claims.classes if scope.claims.by_resource(f"{BY_CLASS}{name}").devices}
    return min(counts, key=lambda name: (-counts[name], name), default="")


def free_devices(scope: Scope, item: DriverInventory) -> list[InventoryDevice]:
    """Devices of a driver on a node that nobody holds, that have no hard taint, and whose pool is complete."""
    return [device for device in _unheld(scope, item) if device.allocatable]


def _unheld(scope: Scope, item: DriverInventory) -> list[InventoryDevice]:
    held = scope.claims.holders
    sets = {counter for device in item.devices if device.id in held for counter in counter_sets(device)}
    return [device for device in item.devices if device.id not in held and not sets & set(counter_sets(device))]


def could_choose(scope: Scope, drivers: Iterable[DriverInventory], request: Request) -> int:
    """How many devices of a node a request could get at most, taken and tainted ones included. The request's class must exist."""
    return len(choosable(scope, drivers, request))


def choosable(scope: Scope, drivers: Iterable[DriverInventory], request: Request) -> list[InventoryDevice]:
    """Devices of a node that a request could get, taken and tainted ones included. The request's class must exist."""
    chooses = scope.claims.chooser(request)
    return [
        device
        for item in drivers
        for device in item.devices
        if chooses(item.driver, device.body) is not False and _is_large_enough(item.driver, device.body, request.capacity)
    ]


def _is_large_enough(driver: str, device: SliceDevice, wanted: Mapping[str, str]) -> bool:
    """Whether a device has the capacity that a request asks for. Names without a domain are its driver's; odd amounts fit."""
    for name, amount in wanted.items():
        short = name.removeprefix(f"{driver}/")
        given = device.capacity.get(short, device.capacity.get(f"{driver}/{short}", device.capacity.get(name)))
        try:
            if given is None or quantity.parse(given) < quantity.parse(amount):
                return False
        except quantity.QuantityError:
            continue
    return True


def units_of(scope: Scope, node: Node, resource: str) -> int:
    """Units of a resource that a node can allocate; where it has none of its own, devices of the DeviceClass that serves the resource."""
    own = whole(node.status.allocatable.get(resource))
    name = scope.claims.class_behind(resource)
    if own or name not in scope.claims.classes:
        return own
    wanted = Request(name=resource, device_class=name, count=1, expressions=(), admin=False)
    return could_choose(scope, scope.dra_inventory.get(node.name, ()), wanted)


def _by_class(scope: Scope, item: DriverInventory) -> Iterator[tuple[str, list[InventoryDevice]]]:
    """Devices by the class that a probe asks for them; classes that cannot be evaluated count where no other chooses any."""
    owner: dict[str, list[InventoryDevice]] = {}
    for certain in (True, None):
        chosen = {
            name: {device.id for device in item.devices if known.selector.chooses(item.driver, device.body) is certain}
            for name, known in scope.claims.classes.items()
        }
        for device in item.devices:
            names = [name for name, devices in chosen.items() if device.id in devices]
            if names:
                owner.setdefault(min(names, key=lambda name: (len(chosen[name]), name)), []).append(device)
        if owner:
            break
    yield from sorted(owner.items())


def counter_sets(device: InventoryDevice) -> list[str]:
    """The sets of counters that a device draws on, each with its pool."""
    return [f"{device.id[1]}/{name}" for name in device.body.counters]
