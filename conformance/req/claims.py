"""REQ-04 for claims (DRA): pending claims can be satisfied."""

from collections.abc import Iterator, Sequence

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import held_by
from fixtures.model.dra.claims import MAX_REQUESTS, TOO_MANY, Request
from fixtures.model.dra.slices import CLAIMS, CLASSES, SLICES, DriverKind
from fixtures.model.placement.claimable import choosable, could_choose
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding

Wanted = Sequence[Sequence[Request]]
"""Requests of a pod, each with the ways to satisfy it."""


def check_claims_can_be_met(scope: Scope) -> Iterator[Finding]:
    """One finding per pending pod with claims of devices: the class exists, and some node has as many of its devices."""
    if not scope.snapshot.served(SLICES):
        return
    for pod in scope.snapshot.pods:
        if not pod.waits or not (pod.claims or _by_name(scope, pod)):
            continue
        demand = scope.device_demand_of(pod)
        if demand.devices or demand.unknown:
            yield _met(scope, pod, demand.unknown)


def _met(scope: Scope, pod: Pod, unknown: str) -> Finding:
    about = About(subject(pod), CLAIMS, "a DeviceClass that exists and a node with as many of its devices")
    wanted, lead = [[way] for way in _by_name(scope, pod)], "whether its claims can be met is not known"
    for entry in pod.claims:
        found = scope.claims.requests_of(entry, pod.namespace, pod.claim_statuses)
        if found is None and (gone := _gone_for_good(scope, pod)):
            message = f"its {gone}, and all DeviceClasses of the cluster are for accelerators: it will stay Pending until somebody makes it"
            return about.bad(message, cause="AskedForNothingOffered", observed=gone)
        if found is None:
            return about.undecided(f"what it claims is not known: {unknown or 'a claim or template of it does not exist'}")
        wanted += found
        if len(wanted) > MAX_REQUESTS:
            return about.undecided(f"{lead}: {TOO_MANY}")
    if why := scope.claims.unread(CLASSES):
        return about.undecided(f"{lead}: {why}", source=CLASSES)
    observed = ", ".join(_words(ways) for ways in wanted) or "no request"
    if problem := _refusal(scope, wanted):
        message = f"{problem}: it will stay Pending for ever"
        return about.bad(message, cause="AskedForNothingOffered", observed=observed, source=f"{CLASSES}, {SLICES}")
    return about.ok(observed, source=f"{CLASSES}, {SLICES}")


def _refusal(scope: Scope, wanted: Wanted) -> str:
    """Why no node can ever satisfy some requests, or empty. Pods that ask for the same are answered once."""
    signatures = tuple(tuple(way.signature for way in ways) for ways in wanted)
    return scope.cached_by(("never satisfied", signatures), lambda: _each(scope, wanted) or _together(scope, wanted))


def _each(scope: Scope, wanted: Wanted) -> str:
    """Why some request alone can never be satisfied in any of its ways, or empty."""
    for ways in wanted:
        problems = [_problem(scope, way) for way in ways]
        if problems and all(problems):
            return listed(list(dict.fromkeys(problems)), 3)
    return ""


def _most(scope: Scope, way: Request) -> int:
    """How many devices a request could get at most on one node."""
    inventory = scope.dra_inventory.values()
    return scope.cached_by(("most", way.signature), lambda: max((could_choose(scope, drivers, way) for drivers in inventory), default=0))


def _gone_for_good(scope: Scope, pod: Pod) -> str:
    """That a claim or template of a pod is missing for longer than pods wait, and can only be one of devices; else empty."""
    age = scope.snapshot.taken_at - (unix(pod.metadata.creation_timestamp) or scope.snapshot.taken_at)
    classes = scope.claims.classes.values()
    drivers = {driver for known in classes for driver in known.drivers}
    if age < scope.policy.requests.pending_minutes * 60 or scope.claims.unread(CLASSES) or not drivers:
        return ""
    if not all(known.drivers for known in classes) or any(scope.kind_of(one) is not DriverKind.ACCELERATOR for one in drivers):
        return ""
    why = scope.device_demand_of(pod).unknown.removeprefix("its ")
    return why if why.endswith("does not exist") else ""


def _together(scope: Scope, wanted: Wanted) -> str:
    """Why no node can satisfy all requests of a pod, each of which one could; empty where some may, or where nobody can tell.

    Requests with alternatives, for all devices and with admin access ask for no number of devices of their own.
    """
    plain = [ways[0] for ways in wanted if len(ways) == 1 and ways[0].count and not ways[0].admin]
    plain = [way for way in plain if _for_accelerators(scope, way)]
    if len(plain) < 2:
        return ""
    needed, largest = sum(way.count for way in plain), 0
    for drivers in scope.dra_inventory.values():
        devices = {device.id: device for way in plain for device in choosable(scope, drivers, way)}
        if any(device.body.shareable for device in devices.values()):
            return ""
        largest = max(largest, len(devices))
    if largest >= needed:
        return ""
    names = listed(in_order({way.device_class for way in plain}))
    return f"its {len(plain)} requests claim {needed} devices of {names} together, and the largest node has {largest or 'none'}"


def _for_accelerators(scope: Scope, way: Request) -> bool:
    known = scope.claims.classes.get(way.device_class)
    return known is not None and bool(known.drivers) and all(scope.kind_of(one) is DriverKind.ACCELERATOR for one in known.drivers)


def _by_name(scope: Scope, pod: Pod) -> list[Request]:
    """What a pod asks of DeviceClasses by extended resources that no node has of its own."""
    found = []
    for resource, count in sorted(held_by(pod.spec, lambda name: bool(scope.claims.class_behind(name))).items()):
        if count and resource not in scope.capacity_names:
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
    if not _for_accelerators(scope, way):
        return ""  # devices of other things are not judged
    largest, needed = _most(scope, way), way.count or 1
    if largest < needed:
        sized = f" with {listed([f'{amount} {name}' for name, amount in sorted(way.capacity.items())])} each" if way.capacity else ""
        return f"it claims {needed} of {way.device_class}{sized} and the largest node has {largest or 'none'}"
    return ""
