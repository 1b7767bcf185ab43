"""Claims hold devices for pods that exist and give them back (DRA-07); their devices exist and are given once (DRA-11). Pure.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#release-of-claims, docs/facts/dra.md#admin-access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.dra.claim_objects import allocated, device_of, just_changed, name_of, place_of
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import moment, newest
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import Holder, results_of
from fixtures.model.dra.inventory import DeviceId, DriverInventory, InventoryDevice
from fixtures.model.dra.slices import CLAIMS, SLICES, DriverKind, lack_of
from fixtures.model.placement.fitting import ended_at
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.findings import About, Finding, bad, not_judged, undecided
from fixtures.verdict.subjects import Subject

_GIVEN_IN = "ResourceClaims, ResourceSlices"


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
                yield _given_once(place, item, holders)
    yield from _gone_devices(scope, now)


def _given_once(place: Subject, item: DriverInventory, holders: dict[DeviceId, list[Holder]]) -> Finding:
    held = sum(device.id in holders for device in item.devices)
    observed, expected = f"{held} of {len(item.devices)} held", "each device by one claim, or shared as its driver allows"
    problems = [text for device in item.devices if (text := _overgiven(device, holders.get(device.id, [])))]
    problems += _overlapping(item, holders)
    about = About(place, _GIVEN_IN, expected)
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


def _gone_devices(scope: Scope, now: float) -> Iterator[Finding]:
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
                place, message=f"{who} holds it and its driver publishes no such device; {recent}", source=_GIVEN_IN, cause="ChangeUnderWay"
            )
        else:
            message = f"{who} holds a device that the driver no longer publishes: its pod computes on nothing or fails at the next restart"
            yield bad(
                place,
                observed=f"held by {who}, not published",
                expected="a device of the pool's newest generation",
                source=_GIVEN_IN,
                message=message,
                cause="AllocatedDeviceGone",
            )


_SOURCE = "status.reservedFor of ResourceClaims, pods"
GROUPS = "scheduling.k8s.io/podgroups"
_EXPECTED = "reserved for pods that exist, by UID, and released after"


def check_reserved(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per allocated claim of accelerators. Raises where the list of claims or pods could not be read."""
    scope.snapshot.items(CLAIMS)
    pods = {(pod.namespace, pod.name): pod for pod in scope.snapshot.pods}
    users = {key for pod in pods.values() if not pod.finished for key in _used(pod)}
    for claim in allocated(scope):
        yield _reserved(scope, claim, pods, users, now)


def _used(pod: Pod) -> Iterator[tuple[str, str]]:
    entries = [*(pod.spec.resource_claims or ()), *(pod.status.resource_claim_statuses or ())]
    entries.append(mapping(pod.status.extended_resource_claim_status))
    yield from ((pod.namespace, name) for entry in entries if (name := text_of(entry.get("resourceClaimName"))))


def _reserved(scope: Scope, claim: Json, pods: dict[tuple[str, str], Pod], users: set[tuple[str, str]], now: float) -> Finding:
    place = place_of(claim)
    consumers = mappings(mapping(claim.get("status")).get("reservedFor"))
    groups = _groups(scope, place.namespace)
    others = [kind for item in consumers if (kind := text_of(item.get("resource"))) != "pods" and (kind != "podgroups" or groups is None)]
    held = listed([f"{text_of(result.get('pool'))}/{text_of(result.get('device'))}" for result in results_of(claim)], 4)
    names = listed([text_of(item.get("name")) for item in consumers], 4)
    problems = [text for item in consumers if text_of(item.get("resource")) == "pods" and (text := _gone(item, pods, place.namespace))]
    problems += [text for item in consumers if groups is not None and (text := _group_gone(item, groups))]
    if not consumers and (place.namespace, place.name) not in users:
        problems.append("it is reserved for no pod, and no pod names it")
    if (age := _deleted_for(claim, now)) > scope.policy.requests.end_minutes * 60:
        problems.append(f"it was deleted {duration(age)} ago and still holds them")
    observed = f"holds {held}; reserved for {names or 'no pod'}"
    about = About(place, _SOURCE, _EXPECTED, observed)
    if not problems:
        if others:
            message = f"it is reserved for {names} ({listed(in_order(set(others)))}), and only pods and PodGroups that were read are judged"
            return about.undecided(message, cause="NotUnderstood")
        return about.ok()
    if (recent := just_changed(claim, now)) and not _ended_long_ago(scope, consumers, pods, place.namespace, now):
        return about.undecided(f"{listed(problems, 3)}; {recent}", cause="ChangeUnderWay")
    message = f"{listed(problems, 3)}: {held} of {_drivers(claim)} stay taken and no other claim gets them"
    return about.bad(message, cause="ClaimHeldByNothing")


def _gone(consumer: Json, pods: dict[tuple[str, str], Pod], namespace: str) -> str:
    """Why a reservation for a pod is left over, or empty."""
    name, uid = text_of(consumer.get("name")), text_of(consumer.get("uid"))
    pod = pods.get((namespace, name))
    if pod is None:
        return f"it is reserved for pod {name}, which does not exist"
    if uid and pod.metadata.uid and pod.metadata.uid != uid:
        return f"it is reserved for an earlier pod {name} (UID {uid}; the pod of that name now has {pod.metadata.uid})"
    return f"it is reserved for pod {name}, which is {pod.status.phase}" if pod.finished else ""


def _groups(scope: Scope, namespace: str) -> dict[str, str] | None:
    """UIDs of a namespace's PodGroups by name; None where they were not read (docs/facts/dra.md#release-of-claims)."""
    listing = scope.snapshot.listing(GROUPS)
    if listing.trouble or not (listing.collected and listing.served):
        return None
    found = [mapping(item.get("metadata")) for item in listing.objects]
    return {text_of(meta.get("name")): text_of(meta.get("uid")) for meta in found if text_of(meta.get("namespace")) == namespace}


def _group_gone(consumer: Json, groups: dict[str, str]) -> str:
    """Why a reservation for a PodGroup is left over, or empty."""
    name, uid = text_of(consumer.get("name")), text_of(consumer.get("uid"))
    if text_of(consumer.get("resource")) != "podgroups":
        return ""
    if name not in groups:
        return f"it is reserved for PodGroup {name}, which does not exist"
    return f"it is reserved for an earlier PodGroup {name} (UID {uid})" if uid and groups[name] not in ("", uid) else ""


def _ended_long_ago(scope: Scope, consumers: list[Json], pods: dict[tuple[str, str], Pod], namespace: str, now: float) -> bool:
    """Whether it is reserved for a pod that ended so long ago that no write of today can be its release.

    A controller may reserve a claim for a finished pod again and again: such a claim is never old.
    """
    found = [pods.get((namespace, text_of(item.get("name")))) for item in consumers]
    ended = [newest(ended_at(pod)) for pod in found if pod is not None and pod.finished]
    return any(at is not None and now - at > scope.policy.requests.end_minutes * 60 for at in ended)


def _deleted_for(claim: Json, now: float) -> float:
    at = moment(mapping(claim.get("metadata")).get("deletionTimestamp"))
    return 0.0 if at is None else now - at


def _drivers(claim: Json) -> str:
    return ", ".join(sorted({text_of(result.get("driver")) for result in results_of(claim)}))
