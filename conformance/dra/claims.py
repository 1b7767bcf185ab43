"""Claims hold devices for pods that exist and give them back (DRA-07); their devices exist and are given once (DRA-11). Pure.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#release-of-claims, docs/facts/dra.md#admin-access.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fixtures.grouping import grouped
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import newest
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import Holder
from fixtures.model.dra.held_claims import Consumer, HeldClaim, claims_of, native_groups, of_accelerators
from fixtures.model.dra.inventory import DeviceId, DriverInventory, InventoryDevice
from fixtures.model.dra.slices import CLAIMS, SLICES, DriverKind, Slice, lack_of
from fixtures.model.placement.fitting import ended_at
from fixtures.text.sentences import ask_again, duration, in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import Subject

_GIVEN_IN = "ResourceClaims, ResourceSlices"


def check_allocations(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per node and DRA driver, and one per device that a claim holds although no slice has it."""
    holders, pools = scope.claims.holders, scope.slices.newest()
    for node, drivers in sorted(scope.dra_inventory.items()):
        for item in drivers:
            place = Subject("Node", f"{node} {item.driver}")
            if why := scope.claims.unread(CLAIMS):
                unsaved = scope.snapshot.offline and not scope.snapshot.listing(CLAIMS).collected
                yield (not_judged if unsaved else undecided)(place, message=f"who holds its devices is not known: {why}", source=CLAIMS)
            else:
                yield _given_once(
                    place,
                    item,
                    holders,
                    [text for pool in dict.fromkeys(device.id[:2] for device in item.devices) for text in _overdrawn(pools[pool], holders)],
                )
    yield from _gone_devices(scope, now)


def _given_once(place: Subject, item: DriverInventory, holders: dict[DeviceId, list[Holder]], overdrawn: Iterable[str]) -> Finding:
    held = sum(device.id in holders for device in item.devices)
    observed, expected = f"{held} of {len(item.devices)} held", "each device by one claim, or shared as its driver allows"
    problems = [text for device in item.devices if (text := _overgiven(device, holders.get(device.id, [])))]
    problems += _overlapping(item, holders) or overdrawn
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
        parts, has = [part for one in taken if (part := quantity.known(one)) is not None], quantity.known(amount)
        if has is not None and len(parts) == len(taken) and sum(parts) > has:
            return f"{device.id[2]} has {amount} {name} and its claims take {' + '.join(taken)}"
    return ""


def _overlapping(item: DriverInventory, holders: dict[DeviceId, list[Holder]]) -> list[str]:
    """Whole devices that a claim holds while another holds a part or another shape of the same."""
    shapes = grouped((device.physical, device) for device in item.devices if device.id in holders and not device.body.shareable)
    found = []
    for devices in shapes.values():
        if len({device.id for device in devices}) > 1 and any(not device.is_part for device in devices):
            who = [f"{device.id[2]} to {holders[device.id][0]}" for device in devices]
            found.append(f"one device is allocated as {listed(who, 4)}")
    return found


def _overdrawn(slices: Sequence[Slice], holders: Mapping[DeviceId, list[Holder]]) -> Iterator[str]:
    """Counters of a pool of which the devices that claims hold draw more than there is. A shared device draws once."""
    held = [device for entry in slices for device in entry.devices if (entry.driver, entry.pool, device.name) in holders]
    for name, amounts in (found for entry in slices for found in entry.sets):
        for counter, amount in amounts.items():
            drawn = {device.name: found for device in held if (found := device.draws.get(name, {}).get(counter))}
            parts, has = [part for one in drawn.values() if (part := quantity.known(one)) is not None], quantity.known(amount)
            if has is not None and len(parts) == len(drawn) and sum(parts) > has:
                who = listed([f"{device} ({found})" for device, found in drawn.items()], 4)
                yield f"{name} has {amount} {counter}, and allocated are {who}"
                break  # one counter tells that the device is cut twice


def _gone_devices(scope: Scope, now: float) -> Iterator[Finding]:
    """Devices that claims hold and that are in no slice of the newest generation of their pool."""
    if scope.snapshot.listing(SLICES).trouble or not scope.snapshot.served(SLICES):
        return
    newest = scope.slices.newest()
    known = {(*pool, device.name) for pool, slices in newest.items() for entry in slices for device in entry.devices}
    incomplete = {pool for pool, slices in newest.items() if lack_of(slices)}
    held = grouped((device.id, claim) for claim in of_accelerators(scope) for device in claim.given)
    for identity, claims in sorted(held.items()):
        driver, pool, _ = identity
        if identity in known or scope.kind_of(driver) is not DriverKind.ACCELERATOR:
            continue
        who = listed([claim.name for claim in claims], 4)
        place = Subject("Device", "/".join(identity), node=_node_of(newest.get((driver, pool), ())))
        expected, observed = "a device of the pool's newest generation", f"held by {who}, not published"
        about = About(place, _GIVEN_IN, expected, observed)
        if (driver, pool) in incomplete:
            message = f"{who} holds it, and pool {pool} lacks slices that may have it (DRA-02)"
            yield about.undecided(message, cause="ChangeUnderWay", source=SLICES)
        elif recent := next((text for claim in claims if (text := just_changed(claim, now))), ""):
            yield about.undecided(f"{who} holds it and its driver publishes no such device; {recent}", cause="ChangeUnderWay")
        else:
            message = f"{who} holds a device that the driver no longer publishes: its pod computes on nothing or fails at the next restart"
            yield about.bad(message, cause="AllocatedDeviceGone")


def _node_of(slices: Sequence[Slice]) -> str:
    """The node of a pool; empty where its slices are of several nodes or of none."""
    nodes = {entry.node for entry in slices}
    return nodes.pop() if len(nodes) == 1 else ""


IN_MOTION_SECONDS = 300.0
"""How young a change of a claim may be for pods, claims and slices to have been read before it and after it."""

_SOURCE = "status.reservedFor of ResourceClaims, pods"
_EXPECTED = "reserved for pods that exist, by UID, and released after"


def check_reserved(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per allocated claim of accelerators. Raises where the list of claims or pods could not be read."""
    scope.snapshot.items(CLAIMS)
    pods = {(pod.namespace, pod.name): pod for pod in scope.snapshot.pods}
    users = {(pod.namespace, name) for pod in pods.values() if not pod.finished for name in claims_of(pod)}
    groups = native_groups(scope)
    for claim in of_accelerators(scope):
        yield _reserved(scope, claim, pods, users, groups, now)


def _reserved(
    scope: Scope,
    claim: HeldClaim,
    pods: Mapping[tuple[str, str], Pod],
    users: Collection[tuple[str, str]],
    groups: Mapping[tuple[str, str], str] | None,
    now: float,
) -> Finding:
    place, space = claim.place, claim.place.namespace
    read = {"pods"} if groups is None else {"pods", "podgroups"}
    others = {one.resource for one in claim.consumers} - read
    held = listed([f"{pool}/{device}" for _, pool, device in (given.id for given in claim.given)], 4)
    names = listed([one.name for one in claim.consumers], 4)
    problems = [text for one in claim.consumers if one.resource == "pods" and (text := _gone(one, pods.get((space, one.name))))]
    problems += [text for one in claim.consumers if groups is not None and (text := _group_gone(one, groups.get((space, one.name))))]
    if not claim.consumers and (space, place.name) not in users:
        problems.append("it is reserved for no pod, and no pod names it")
    limit = scope.policy.requests.end_minutes * 60
    if claim.deleted_at is not None and now - claim.deleted_at > limit:
        problems.append(f"it was deleted {duration(now - claim.deleted_at)} ago and still holds them")
    about = About(place, _SOURCE, _EXPECTED, f"holds {held}; reserved for {names or 'no pod'}")
    if not problems and others:
        message = f"it is reserved for {names} ({listed(in_order(others))}), and only pods and PodGroups that were read are judged"
        return about.undecided(message)
    if not problems:
        return about.ok()
    consumers = [pod for one in claim.consumers if (pod := pods.get((space, one.name))) is not None]
    if (recent := just_changed(claim, now)) and not _ended_long_ago(consumers, now - limit):
        return about.undecided(f"{listed(problems, 3)}; {recent}", cause="ChangeUnderWay")
    message = f"{listed(problems, 3)}: {held} of {', '.join(claim.drivers)} stay taken and no other claim gets them"
    return about.bad(message, cause="ClaimHeldByNothing")


def _gone(consumer: Consumer, pod: Pod | None) -> str:
    """Why a reservation for a pod is left over, or empty. ``pod`` is the one of its name."""
    name, uid = consumer.name, consumer.uid
    if pod is None:
        return f"it is reserved for pod {name}, which does not exist"
    if uid and pod.metadata.uid and pod.metadata.uid != uid:
        return f"it is reserved for an earlier pod {name} (UID {uid}; the pod of that name now has {pod.metadata.uid})"
    return f"it is reserved for pod {name}, which is {pod.phase}" if pod.finished else ""


def _group_gone(consumer: Consumer, uid: str | None) -> str:
    """Why a reservation for a PodGroup is left over, or empty. ``uid`` is that of the group of its name."""
    if consumer.resource != "podgroups":
        return ""
    if uid is None:
        return f"it is reserved for PodGroup {consumer.name}, which does not exist"
    earlier = consumer.uid and uid not in ("", consumer.uid)
    return f"it is reserved for an earlier PodGroup {consumer.name} (UID {consumer.uid})" if earlier else ""


def _ended_long_ago(pods: Iterable[Pod], before: float) -> bool:
    """Whether it is reserved for a pod that ended so long ago that no write of today can be its release.

    A controller may reserve a claim for a finished pod again and again: such a claim is never old.
    """
    ended = [newest(ended_at(pod)) for pod in pods if pod.finished]
    return any(at is not None and at < before for at in ended)


def just_changed(claim: HeldClaim, now: float) -> str:
    """That a claim was changed a moment ago, as a clause with the time to ask again; else empty."""
    if claim.changed is None or now - claim.changed >= IN_MOTION_SECONDS:
        return ""
    age = now - claim.changed
    return f"the claim was changed {duration(age)} ago: {ask_again(age, IN_MOTION_SECONDS)}"
