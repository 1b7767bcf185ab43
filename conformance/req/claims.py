"""REQ-03 and REQ-04 for claims (DRA): no held device is given twice or gone, and pending claims can be satisfied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.devices.claimable import could_choose
from conformance.dynamic_resources.claims import Holder, Request
from conformance.dynamic_resources.drivers import DriverKind
from conformance.dynamic_resources.inventory import CLASSES, SLICES, DeviceId, DriverInventory, InventoryDevice
from conformance.scope.scope import Scope, held_by, subject, whole
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Pod
from fixtures.probes.claims import CLAIMS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok, undecided

_SOURCE = "allocations of ResourceClaims, ResourceSlices"

# -- REQ-03 --------------------------------------------------------------------------------------------


def check_given_once(scope: Scope) -> Iterator[Finding]:
    """One finding per node and DRA driver, and one per device that a claim holds although nobody publishes it."""
    holders = scope.claims.holders
    for node, drivers in sorted(scope.dra_inventory.items()):
        for item in drivers:
            place = Subject("Node", f"{node} {item.driver}")
            if why := scope.claims.unread(CLAIMS):
                snapshot = scope.snapshot
                judge = not_judged if snapshot.offline and not snapshot.listing(CLAIMS).collected else undecided
                yield judge(place, message=f"who holds its devices is not known: {why}", source=CLAIMS)
            else:
                yield _given(place, item, holders)
    yield from _gone(scope, holders)


def _given(place: Subject, item: DriverInventory, holders: dict[DeviceId, list[Holder]]) -> Finding:
    held = sum(device.id in holders for device in item.devices)
    observed, expected = f"{held} of {len(item.devices)} held", "each device by one claim, or shared as its driver allows"
    problems = [text for device in item.devices if (text := _overgiven(device, holders.get(device.id, [])))]
    problems += _overlapping(item, holders)
    if problems:
        message = f"{listed(problems, 4)}: each pod believes that it owns the device, so they fail or starve each other"
        return bad(
            place,
            observed=f"{observed}; {listed(problems, 4)}",
            expected=expected,
            source=_SOURCE,
            message=message,
        )
    return ok(place, observed=observed, expected=expected, source=_SOURCE)


def _overgiven(device: InventoryDevice, holders: Sequence[Holder]) -> str:
    """What is wrong with who holds a device, or empty. A share beside shares is not, as long as its capacity suffices."""
    exclusive = [holder for holder in holders if not holder.shared and not device.body.shareable]
    if len(holders) > 1 and exclusive:
        return f"{device.id[2]} is allocated to {listed([str(holder) for holder in holders], 4)}"
    for name, amount in device.body.capacity.items():
        taken = [holder.consumed[name] for holder in holders if name in holder.consumed]
        try:
            if taken and sum(map(quantity.parse, taken)) > quantity.parse(amount):
                return f"{device.id[2]} has {amount} {name} and its claims take {' + '.join(taken)}"
        except quantity.QuantityError:
            continue
    return ""


def _overlapping(item: DriverInventory, holders: dict[DeviceId, list[Holder]]) -> list[str]:
    """Whole devices that a claim holds while another holds a part or another shape of the same."""
    shapes: dict[str, list[InventoryDevice]] = {}
    for device in item.devices:
        if device.id in holders and not device.body.shareable:
            shapes.setdefault(device.physical, []).append(device)
    found = []
    for devices in shapes.values():
        if len({device.id for device in devices}) > 1 and any(not device.is_part for device in devices):
            who = [f"{device.id[2]} to {holders[device.id][0]}" for device in devices]
            found.append(f"one device is allocated as {listed(who, 4)}")
    return found


def _gone(scope: Scope, holders: dict[DeviceId, list[Holder]]) -> Iterator[Finding]:
    """Devices that claims hold and no complete pool has any more."""
    if scope.snapshot.listing(SLICES).trouble or not scope.snapshot.served(SLICES):
        return
    known = {device.id for drivers in scope.dra_inventory.values() for item in drivers for device in item.devices}
    broken = {item.driver for drivers in scope.dra_drivers.values() for item in drivers if item.incomplete}
    for identity, claims in sorted(holders.items()):
        driver, pool, name = identity
        if identity in known or driver in broken or scope.kind_of(driver) is not DriverKind.ACCELERATOR:
            continue
        place = Subject("Device", f"{driver}/{pool}/{name}")
        who = listed([str(holder) for holder in claims], 4)
        message = f"{who} holds a device that the driver no longer publishes: its pod computes on nothing or fails at the next restart"
        yield bad(
            place,
            observed=f"held by {who}, not published",
            expected="a device of the pool's newest generation",
            source=_SOURCE,
            message=message,
        )


# -- REQ-04 --------------------------------------------------------------------------------------------


def check_claims_can_be_met(scope: Scope) -> Iterator[Finding]:
    """One finding per pending pod with claims of devices: the class exists, and some node has as many of its devices."""
    if not scope.snapshot.served(SLICES):
        return
    for pod in scope.snapshot.pods:
        if pod.finished or pod.spec.node_name or pod.metadata.deletion_timestamp or not (pod.spec.resource_claims or _by_name(scope, pod)):
            continue
        demand = scope.device_demand_of(pod)
        if demand.devices or demand.unknown:
            yield _met(scope, pod, demand.unknown)


def _met(scope: Scope, pod: Pod, unknown: str) -> Finding:
    place, expected = subject(pod), "a DeviceClass that exists and a node with as many of its devices"
    wanted = [[way] for way in _by_name(scope, pod)]
    for entry in pod.spec.resource_claims or ():
        found = scope.claims.requests_of(entry, pod.namespace, pod.status.resource_claim_statuses or ())
        if found is None:
            return undecided(
                place,
                message=f"what it claims is not known: {unknown or 'a claim or template of it does not exist'}",
                source=CLAIMS,
            )
        wanted += found
    if why := scope.claims.unread(CLASSES):
        return undecided(place, message=f"whether its claims can be met is not known: {why}", source=CLASSES)
    observed = ", ".join(_words(ways) for ways in wanted) or "no request"
    for ways in wanted:
        problems = [_problem(scope, way) for way in ways]
        if problems and all(problems):
            message = f"{listed(list(dict.fromkeys(problems)), 3)}: it will stay Pending for ever"
            return bad(place, observed=observed, expected=expected, source=f"{CLASSES}, {SLICES}", message=message)
    return ok(place, observed=observed, expected=expected, source=f"{CLASSES}, {SLICES}")


def _by_name(scope: Scope, pod: Pod) -> list[Request]:
    """What a pod asks of DeviceClasses by extended resources that no node has of its own."""
    found = []
    for resource, count in sorted(held_by(pod.spec, lambda name: bool(scope.claims.class_behind(name))).items()):
        if count and not any(whole(node.status.capacity.get(resource)) for node in scope.snapshot.nodes):
            name = scope.claims.class_behind(resource)
            found.append(Request(name=resource, device_class=name, count=count, expressions=(), admin=False))
    return found


def _words(ways: Sequence[Request]) -> str:
    return " or ".join(f"{way.device_class} {way.count or 'all'}" for way in ways)


def _problem(scope: Scope, way: Request) -> str:
    """Why no node can ever satisfy one way of a request, or empty."""
    known = scope.claims.classes.get(way.device_class)
    if known is None:
        return f"it claims a device of DeviceClass {way.device_class}, which does not exist"
    if any(scope.kind_of(driver) is not DriverKind.ACCELERATOR for driver in known.drivers) or not known.drivers:
        return ""  # devices of other things are not judged
    largest = max((could_choose(scope, drivers, way) for drivers in scope.dra_inventory.values()), default=0)
    needed = way.count or 1
    if largest < needed:
        return f"it claims {needed} of {way.device_class} and the largest node has {largest or 'none'}"
    return ""
