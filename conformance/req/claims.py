"""REQ-04 for claims (DRA): pending claims can be satisfied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.devices.claimable import could_choose
from conformance.dynamic_resources.claims import Request
from conformance.dynamic_resources.drivers import DriverKind
from conformance.dynamic_resources.inventory import CLASSES, SLICES
from conformance.scope.scope import Scope, held_by, subject, whole
from fixtures.kubernetes.models import Pod
from fixtures.probes.claims import CLAIMS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, bad, ok, undecided


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
