"""DRA-11: allocated claims name devices that exist, and no device is in two claims that do not share it. Pure.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#admin-access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.dra.claim_objects import allocated, device_of, just_changed, name_of
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import Holder, results_of
from fixtures.model.dra.drivers import DriverKind
from fixtures.model.dra.inventory import DeviceId, DriverInventory, InventoryDevice
from fixtures.model.dra.kinds import CLAIMS, SLICES
from fixtures.model.dra.slices import lack_of
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad, not_judged, undecided
from fixtures.verdict.subjects import Subject

_SOURCE = "ResourceClaims, ResourceSlices"


def check_allocations(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per node and DRA driver, and one per device that a claim holds although nobody publishes it."""
    holders = scope.claims.holders
    for node, drivers in sorted(scope.dra_inventory.items()):
        for item in drivers:
            place = Subject("Node", f"{node} {item.driver}")
            if why := scope.claims.unread(CLAIMS):
                snapshot = scope.snapshot
                message = f"who holds its devices is not known: {why}"
                if snapshot.offline and not snapshot.listing(CLAIMS).collected:
                    yield not_judged(place, message=message, source=CLAIMS)
                else:
                    yield undecided(place, message=message, source=CLAIMS, cause="NotUnderstood")
            else:
                yield _given(place, item, holders)
    yield from _gone(scope, now)


def _given(place: Subject, item: DriverInventory, holders: dict[DeviceId, list[Holder]]) -> Finding:
    held = sum(device.id in holders for device in item.devices)
    observed, expected = f"{held} of {len(item.devices)} held", "each device by one claim, or shared as its driver allows"
    problems = [text for device in item.devices if (text := _overgiven(device, holders.get(device.id, [])))]
    problems += _overlapping(item, holders)
    about = About(place, _SOURCE, expected)
    if problems:
        message = f"{listed(problems, 4)}: each pod believes that it owns the device, so they fail or starve each other"
        return about.bad(message, cause="DeviceInTwoClaims", observed=f"{observed}; {listed(problems, 4)}")
    return about.ok(observed)


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


def _gone(scope: Scope, now: float) -> Iterator[Finding]:
    """Devices that claims hold and that are in no slice of the newest generation of their pool."""
    if scope.snapshot.listing(SLICES).trouble or not scope.snapshot.served(SLICES):
        return
    newest = scope.slices.newest()
    known = {(*pool, device.name) for pool, slices in newest.items() for entry in slices for device in entry.devices}
    incomplete = {pool for pool, slices in newest.items() if lack_of(slices)}
    held: dict[DeviceId, list[Json]] = {}
    for claim in allocated(scope):
        for result in results_of(claim):
            held.setdefault(device_of(result), []).append(claim)
    for identity, claims in sorted(held.items()):
        driver, pool, _ = identity
        if identity in known or scope.kind_of(driver) is not DriverKind.ACCELERATOR:
            continue
        place, who = Subject("Device", "/".join(identity)), listed([name_of(claim) for claim in claims], 4)
        if (driver, pool) in incomplete:
            yield undecided(
                place,
                message=f"{who} holds it, and pool {pool} lacks slices that may have it (DRA-02)",
                source=SLICES,
                cause="ChangeUnderWay",
            )
        elif recent := next((text for claim in claims if (text := just_changed(claim, now))), ""):
            yield undecided(
                place, message=f"{who} holds it and its driver publishes no such device; {recent}", source=_SOURCE, cause="ChangeUnderWay"
            )
        else:
            message = f"{who} holds a device that the driver no longer publishes: its pod computes on nothing or fails at the next restart"
            yield bad(
                place,
                observed=f"held by {who}, not published",
                expected="a device of the pool's newest generation",
                source=_SOURCE,
                message=message,
                cause="AllocatedDeviceGone",
            )
