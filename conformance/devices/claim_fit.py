"""Whether free devices of a node meet what a pod asks for by claims, and by extended resources that DeviceClasses serve. Pure.

Only plain requests are weighed: a count of a class, with selectors that are comparisons. The scheduler weighs the rest.
Facts: docs/facts/dra.md#claims, docs/facts/dra.md#extended-resources-by-claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from conformance.devices.claimable import free_devices
from conformance.scope.scope import Scope, held_by
from fixtures.kubernetes.models import Json, Node, PodSpec
from fixtures.kubernetes.times import newest
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.dra.claims import MAX_REQUESTS, TOO_MANY, Request, results_of
from fixtures.model.dra.drivers import DriverKind
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.dra.kinds import SLICES

_PLAIN = {"deviceClassName", "selectors", "allocationMode", "count", "name"}

FreeDevice = tuple[str, InventoryDevice]
"""A driver, and a device of it that a new claim could get."""


class ClaimedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod asks for by DRA. ``resources`` are the extended resources among it.

    ``not_modelled`` is what of it only a scheduler can weigh, in words; empty where nothing is.
    """

    requests: tuple[Request, ...] = ()
    resources: frozenset[str] = frozenset()
    not_modelled: str = ""

    @property
    def amounts(self) -> dict[str, int]:
        """Devices by DeviceClass, or by the extended resource that was asked for."""
        found: dict[str, int] = {}
        for request in self.requests:
            name = request.name if request.name in self.resources else f"devices of {request.device_class}"
            found[name] = found.get(name, 0) + request.count
        return found


def claimed_devices_of(scope: Scope, spec: PodSpec, namespace: str, made: Iterable[Json] | None = None) -> ClaimedDevices:
    """What a pod asks for by DRA. ``made`` are the ``resourceClaimStatuses`` of a live one."""
    found: list[Request] = []
    for entry in spec.resource_claims or ():
        asked = scope.claims.spec_of(entry, namespace, made or ())
        if isinstance(asked, str):
            return ClaimedDevices(not_modelled=asked)
        if reason := _constraints_not_modelled(asked, scope.claims.claim_behind(entry, namespace, made or ())):
            return ClaimedDevices(not_modelled=reason)
        found += [ways[0] for ways in scope.claims.ways_of(asked)]
        if len(found) > MAX_REQUESTS:
            return ClaimedDevices(not_modelled=TOO_MANY)
    amounts = {name: count for name, count in held_by(spec, lambda name: bool(scope.claims.class_behind(name))).items() if count}
    by_class = amounts.keys() - scope.allocatable_names
    for name in sorted(by_class):
        found.append(Request(name=name, device_class=scope.claims.class_behind(name), count=amounts[name], expressions=(), admin=False))
    if unknown := sorted({request.device_class for request in found} - scope.claims.classes.keys()):
        return ClaimedDevices(not_modelled=f"its DeviceClass {unknown[0]} does not exist")
    if any(
        scope.kind_of(driver) is not DriverKind.ACCELERATOR for one in found for driver in scope.claims.classes[one.device_class].drivers
    ):
        return ClaimedDevices(not_modelled="it claims devices that are no accelerators as well")
    return ClaimedDevices(requests=tuple(found), resources=frozenset(by_class))


def _constraints_not_modelled(spec: Json, claim: Json | None) -> str:
    """What of a claim only a scheduler can weigh, or empty."""
    if claim is not None and results_of(claim):
        return "a claim of it is allocated already, and ties it to that device's node"
    if mapping(spec.get("devices")).get("constraints"):
        return "its claim has constraints between devices"
    for request in mappings(mapping(spec.get("devices")).get("requests")):
        body = mapping(request.get("exactly")) if "exactly" in request else request
        if set(body) - _PLAIN or body.get("allocationMode", "ExactCount") != "ExactCount":
            return "its claim is more than a count of a DeviceClass"
    return ""


def chosen(scope: Scope, free: Sequence[FreeDevice], wanted: Iterable[Request]) -> list[FreeDevice] | None:
    """Devices for all requests; None where some request finds too few that are certain to match."""
    left, found = list(free), []
    for request in wanted:
        chooses = scope.claims.chooser(request)
        fits = [item for item in left if chooses(item[0], item[1].body) is True][: request.count]
        if len(fits) < request.count:
            return None
        found += fits
        taken = {device.id for _, device in fits}
        left = [item for item in left if item[1].id not in taken]
    return found


def changed_at(scope: Scope, node: Node, wanted: Iterable[Request]) -> float | None:
    """When slices of a node or the DeviceClasses were last written: devices may be free only since then. None if nothing says it."""
    times = [scope.claims.classes[request.device_class].created for request in wanted]
    for item in scope.snapshot.listing(SLICES).objects:
        if mapping(item.get("spec")).get("nodeName") == node.name:
            meta = mapping(item.get("metadata"))
            times += [text_of(meta.get("creationTimestamp")), *(text_of(one.get("time")) for one in mappings(meta.get("managedFields")))]
    return newest([text for text in times if text])


def free_on(scope: Scope, node: Node) -> list[FreeDevice]:
    """Devices of a node that a new claim could get now."""
    return [(item.driver, device) for item in scope.dra_inventory.get(node.name, ()) for device in free_devices(scope, item)]
