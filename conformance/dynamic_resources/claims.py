"""What ResourceClaims ask for and hold: each claim of a pod is followed to the driver or DeviceClass behind it. Pure.

Facts: docs/facts/dra.md#claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from conformance.dynamic_resources.device_classes import DeviceClass, device_class, drivers_of, expressions_of
from conformance.dynamic_resources.drivers import DriverKind
from conformance.dynamic_resources.inventory import CLASSES, DeviceId, Slices
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of
from fixtures.probes.claims import BY_CLASS, CLAIMS, TEMPLATES
from fixtures.snapshot.state import Snapshot


class DeviceDemand(msgspec.Struct, frozen=True):
    """Whether something asks for a device. ``unknown`` is one clause: why it may although none was found."""

    devices: bool
    unknown: str = ""


_NOTHING = DeviceDemand(False)


class Request(msgspec.Struct, frozen=True):
    """One way to satisfy a request of a claim. ``count`` 0 stands for all devices that match, ``capacity`` is what each must have."""

    name: str
    device_class: str
    count: int
    expressions: tuple[str, ...]
    admin: bool
    capacity: Mapping[str, str] = {}


class Holder(msgspec.Struct, frozen=True):
    """A claim that a device is allocated to. ``shared``: it holds a share of the device, and may do so beside others."""

    namespace: str
    name: str
    shared: bool
    consumed: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Claims:
    """ResourceClaims, their templates and DeviceClasses of a snapshot."""

    def __init__(self, snapshot: Snapshot, slices: Slices) -> None:
        self._snapshot = snapshot
        self._slices = slices
        self._claims = {_key(item): item for item in self._items(CLAIMS)}
        self._templates = {_key(item): item for item in self._items(TEMPLATES)}
        self.classes: dict[str, DeviceClass] = {found.name: found for item in self._items(CLASSES) if (found := device_class(item)).name}

    def _items(self, key: str) -> Iterator[Json]:
        return iter(self._snapshot.listing(key).objects)

    def unread(self, key: str) -> str:
        """Why what is not in a list may exist all the same, or empty: the list was refused, not saved or not asked for."""
        listing = self._snapshot.listing(key)
        if listing.trouble:
            return f"{key} could not be listed: {listing.message or listing.trouble}"
        return "" if listing.collected else f"{key} were not read"

    def claim(self, namespace: str, name: str) -> Json | None:
        """A ResourceClaim; None where there is none of that name."""
        return self._claims.get((namespace, name))

    @cached_property
    def serving(self) -> dict[str, str]:
        """The DeviceClass that serves an extended resource, by the resource's name: of two the newer, of equally old ones the first."""
        by_name = sorted(self.classes.values(), key=lambda known: known.name, reverse=True)
        return {
            known.extended_resource: known.name for known in sorted(by_name, key=lambda known: known.created) if known.extended_resource
        }

    def class_behind(self, resource: str) -> str:
        """The DeviceClass of an extended resource, by either of its names; empty for a resource that no class serves.

        Facts: docs/facts/dra.md#extended-resources-by-claim.
        """
        if resource.startswith(BY_CLASS):
            return resource.removeprefix(BY_CLASS)
        return self.serving.get(resource, "")

    @cached_property
    def _mapped(self) -> dict[str, DeviceDemand]:
        found: dict[str, DeviceDemand] = {}
        for known in self.classes.values():
            demand = self._judge(known.drivers)
            if known.extended_resource and not found.get(known.extended_resource, _NOTHING).devices:
                found[known.extended_resource] = demand
        return found

    # -- what pods ask for -----------------------------------------------------------------------------

    def demand(self, entries: Iterable[Json], namespace: str, made: Iterable[Json] = ()) -> DeviceDemand:
        """Whether claims of a pod are for accelerators: ``entries`` are its ``resourceClaims``, ``made`` its ``resourceClaimStatuses``."""
        names = _names(made)
        unknown = ""
        for entry in map(mapping, entries):
            found = self._entry(entry, namespace, names)
            if found.devices:
                return found
            unknown = unknown or found.unknown
        return DeviceDemand(False, unknown)

    def spec_of(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> Json | str:
        """``spec`` of the claim that an entry of ``resourceClaims`` stands for, or why it is not known."""
        return self._spec_of(entry, namespace, _names(made))

    def claim_behind(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> Json | None:
        """The claim that an entry of ``resourceClaims`` names or that was made for it; None while there is none."""
        name = text_of(entry.get("resourceClaimName")) or _names(made).get(text_of(entry.get("name")), "")
        return self._claims.get((namespace, name))

    def requests_of(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> list[list[Request]] | None:
        """Requests of one entry of ``resourceClaims``, each with its alternatives; None where claim or template is not there."""
        found = self._spec_of(entry, namespace, _names(made))
        return None if isinstance(found, str) else requests(found)

    def by_resource(self, resource: str) -> DeviceDemand:
        """Whether an extended resource is a claim of a device in all but name (docs/facts/dra.md#extended-resources-by-claim)."""
        if resource.startswith(BY_CLASS):
            name = resource.removeprefix(BY_CLASS)
            return self._request(Request(name=resource, device_class=name, count=1, expressions=(), admin=False))
        return self._mapped.get(resource, _NOTHING)

    def classes_of(self, entries: Iterable[Json], namespace: str, made: Iterable[Json] = ()) -> dict[str, DeviceDemand]:
        """DeviceClasses that claims of a pod name, each with whether its devices are accelerators."""
        found: dict[str, DeviceDemand] = {}
        for entry in map(mapping, entries):
            for ways in self.requests_of(entry, namespace, made) or ():
                found |= {way.device_class: self._request(way) for way in ways if way.device_class}
        return found

    def _entry(self, entry: Json, namespace: str, made: Mapping[str, str]) -> DeviceDemand:
        claim = self._claims.get((namespace, text_of(entry.get("resourceClaimName")) or made.get(text_of(entry.get("name")), "")))
        if claim is not None and (results := results_of(claim)):
            return self._judge([text_of(result.get("driver")) for result in results])
        spec = self._spec_of(entry, namespace, made)
        if isinstance(spec, str):
            return DeviceDemand(False, spec)
        unknown = ""
        for request in (way for ways in requests(spec) for way in ways):
            found = self._request(request)
            if found.devices:
                return found
            unknown = unknown or found.unknown
        return DeviceDemand(False, unknown)

    def _spec_of(self, entry: Json, namespace: str, made: Mapping[str, str]) -> Json | str:
        """``spec`` of the claim that an entry stands for, or why it is not known."""
        name = text_of(entry.get("resourceClaimName")) or made.get(text_of(entry.get("name")), "")
        if name and (claim := self._claims.get((namespace, name))) is not None:
            return mapping(claim.get("spec"))
        template = text_of(entry.get("resourceClaimTemplateName"))
        if template:
            if (found := self._templates.get((namespace, template))) is not None:
                return mapping(mapping(found.get("spec")).get("spec"))
            return self.unread(TEMPLATES) or f"its ResourceClaimTemplate {template} does not exist"
        if name:
            return self.unread(CLAIMS) or f"its ResourceClaim {name} does not exist"
        return "one of its claims names neither ResourceClaim nor ResourceClaimTemplate"

    def _request(self, request: Request) -> DeviceDemand:
        drivers = drivers_of(request.expressions)
        known = self.classes.get(request.device_class)
        if known is not None:
            drivers = list(known.drivers) or drivers
        elif not drivers:
            return DeviceDemand(False, self.unread(CLASSES) or f"its DeviceClass {request.device_class} does not exist")
        if not drivers:
            return DeviceDemand(False, f"its DeviceClass {request.device_class} names no driver")
        return self._judge(drivers)

    def _judge(self, drivers: Sequence[str]) -> DeviceDemand:
        kinds = {driver: self._slices.kind_of(driver) for driver in drivers}
        if DriverKind.ACCELERATOR in kinds.values():
            return DeviceDemand(True)
        unknown = next((driver for driver, kind in kinds.items() if kind is DriverKind.UNKNOWN), "")
        return DeviceDemand(False, f"nothing shows whether the driver {unknown} of its claim serves accelerators" if unknown else "")

    # -- what claims hold ------------------------------------------------------------------------------

    @cached_property
    def holders(self) -> dict[DeviceId, list[Holder]]:
        """Claims by the device that they were allocated. Admin access holds nothing (docs/facts/dra.md#admin-access)."""
        table: dict[DeviceId, list[Holder]] = {}
        for (namespace, name), claim in sorted(self._claims.items()):
            for result in results_of(claim):
                if result.get("adminAccess") is not True:
                    consumed = {str(key): text_of(value) for key, value in mapping(result.get("consumedCapacity")).items()}
                    holder = Holder(namespace, name, bool(result.get("shareID") or consumed), consumed)
                    identity = (text_of(result.get("driver")), text_of(result.get("pool")), text_of(result.get("device")))
                    table.setdefault(identity, []).append(holder)
        return table


def results_of(claim: Json) -> list[Json]:
    """The devices of a claim's allocation; empty while it has none."""
    allocation = mapping(mapping(claim.get("status")).get("allocation"))
    return [mapping(item) for item in sequence(mapping(allocation.get("devices")).get("results"))]


def requests(spec: Json) -> list[list[Request]]:
    """Requests of a claim's ``spec``, each with the ways to satisfy it, best first (v1 and v1beta2; v1beta1 has no ``exactly``)."""
    return [
        [_request(text_of(mapping(item).get("name")), way) for way in _ways(mapping(item))]
        for item in sequence(mapping(spec.get("devices")).get("requests"))
    ]


def _ways(request: Json) -> list[Json]:
    if alternatives := sequence(request.get("firstAvailable")):
        return [mapping(item) for item in alternatives]
    return [mapping(request["exactly"])] if "exactly" in request else [request]


def _request(name: str, body: Json) -> Request:
    count = body.get("count")
    every = body.get("allocationMode") == "All"
    return Request(
        name=name,
        device_class=text_of(body.get("deviceClassName")),
        count=0 if every else count if isinstance(count, int) and not isinstance(count, bool) else 1,
        expressions=tuple(expressions_of(body.get("selectors"))),
        admin=body.get("adminAccess") is True,
        capacity={str(name): text_of(amount) for name, amount in mapping(body.get("capacity"), "requests").items()},
    )


def _names(made: Iterable[Json]) -> dict[str, str]:
    return {text_of(item.get("name")): text_of(item.get("resourceClaimName")) for item in map(mapping, made)}


def _key(item: Json) -> tuple[str, str]:
    meta = mapping(item.get("metadata"))
    return text_of(meta.get("namespace")), text_of(meta.get("name"))
