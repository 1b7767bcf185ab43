"""What ResourceClaims ask for and hold: each claim of a pod is followed to the driver or DeviceClass behind it. Pure.

Facts: docs/facts/dra.md#claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from conformance.dynamic_resources.device_classes import DeviceClass, device_class, drivers_of, expressions_of
from conformance.dynamic_resources.drivers import DriverKind
from conformance.dynamic_resources.inventory import CLASSES, DeviceId, Slices
from conformance.dynamic_resources.selectors import Selector, selector_of
from conformance.outputs.resource_slice import SliceDevice
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of
from fixtures.probes.claims import BY_CLASS, CLAIMS, TEMPLATES
from fixtures.snapshot.state import Snapshot


class DeviceDemand(msgspec.Struct, frozen=True):
    """Whether something asks for a device. ``unknown`` is one clause: why it may although none was found."""

    devices: bool
    unknown: str = ""


_NOTHING = DeviceDemand(False)

MAX_REQUESTS = 256
"""Requests of all claims of one pod that are weighed. A claim has 32 at most, and a pod may name as many claims as fit into it."""

TOO_MANY = f"its claims have more than {MAX_REQUESTS} requests, and no more than that are weighed"

Signature = tuple[str, int, tuple[str, ...], bool, tuple[tuple[str, str], ...]]

Chooser = Callable[[str, SliceDevice], bool | None]
"""Whether a driver's device is chosen; None when selectors are more than comparisons."""


class AdminAccess(msgspec.Struct, frozen=True):
    """Whether a claim has admin access to a device, and whether it has nothing else (docs/facts/dra.md#admin-access).

    ``unknown``: why nobody can tell, as a clause.
    """

    some: bool = False
    only: bool = False
    unknown: str = ""


class Request(msgspec.Struct, frozen=True, dict=True):
    """One way to satisfy a request of a claim. ``count`` 0 stands for all devices that match, ``capacity`` is what each must have."""

    name: str
    device_class: str
    count: int
    expressions: tuple[str, ...]
    admin: bool
    capacity: Mapping[str, str] = {}

    @cached_property
    def drivers(self) -> list[str]:
        """Drivers that its own selectors name."""
        return drivers_of(self.expressions)

    @property
    def signature(self) -> Signature:
        """What tells it from others that ask for something else. Its name does not."""
        return (self.device_class, self.count, self.expressions, self.admin, tuple(sorted(self.capacity.items())))


class Holder(msgspec.Struct, frozen=True):
    """A claim that a device is allocated to. ``shared``: it holds a share of the device, and may do so beside others."""

    namespace: str
    name: str
    shared: bool
    consumed: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _ReadSpec(msgspec.Struct, frozen=True):
    """What a claim's ``spec`` asks for: its requests, whether for devices, and the same by DeviceClass."""

    requests: list[list[Request]]
    demand: DeviceDemand
    classes: dict[str, DeviceDemand]


class Claims:
    """ResourceClaims, their templates and DeviceClasses of a snapshot."""

    def __init__(self, snapshot: Snapshot, slices: Slices) -> None:
        self._snapshot = snapshot
        self._slices = slices
        self._claims = {_key(item): item for item in self._items(CLAIMS)}
        self._templates = {_key(item): item for item in self._items(TEMPLATES)}
        self._selectors: dict[tuple[str, ...], Selector] = {}
        self._read: dict[int, tuple[Json, _ReadSpec]] = {}  # by identity of specs, kept for that
        self._made: tuple[Iterable[Json], dict[str, str]] = ((), {})
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
        names = self._names(made)
        unknown = ""
        for entry in map(mapping, entries):
            found = self._entry(entry, namespace, names)
            if found.devices:
                return found
            unknown = unknown or found.unknown
        return DeviceDemand(False, unknown)

    def spec_of(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> Json | str:
        """``spec`` of the claim that an entry of ``resourceClaims`` stands for, or why it is not known."""
        return self._spec_of(entry, namespace, self._names(made))

    def claim_behind(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> Json | None:
        """The claim that an entry of ``resourceClaims`` names or that was made for it; None while there is none."""
        name = text_of(entry.get("resourceClaimName")) or self._names(made).get(text_of(entry.get("name")), "")
        return self._claims.get((namespace, name))

    def admin_access(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> AdminAccess:
        """Admin access of one entry of ``resourceClaims``: by what it was given, and by every way in which it asks.

        A claim or template that does not exist has none: no pod starts without it. What a snapshot does not hold, the verdict names.
        """
        names = self._names(made)
        spec = self._spec_of(entry, namespace, names)
        if isinstance(spec, str):
            refused = [self.unread(key) for key in (CLAIMS, TEMPLATES) if self._snapshot.listing(key).trouble]
            return AdminAccess(unknown=spec if spec in refused else "")
        claim = self.claim_behind(entry, namespace, made)
        given = [result.get("adminAccess") is True for result in results_of(claim)] if claim is not None else []
        asked = [way.admin for ways in self.ways_of(spec) for way in ways]
        return AdminAccess(some=any(given) or any(asked), only=any(flags and all(flags) for flags in (given, asked)))

    def requests_of(self, entry: Json, namespace: str, made: Iterable[Json] = ()) -> list[list[Request]] | None:
        """Requests of one entry of ``resourceClaims``, each with its alternatives; None where claim or template is not there."""
        found = self._spec_of(entry, namespace, self._names(made))
        return None if isinstance(found, str) else self.ways_of(found)

    def ways_of(self, spec: Json) -> list[list[Request]]:
        """:func:`requests` of a claim's ``spec``, which is read once however many pods name it."""
        return self._of_spec(spec).requests

    def chooser(self, request: Request) -> Chooser:
        """Which devices a request could get by its selectors and those of its class, which must exist."""
        own, known = self._selectors.get(request.expressions), self.classes[request.device_class].selector
        if own is None:
            own = self._selectors[request.expressions] = selector_of(request.expressions)

        def chooses(driver: str, device: SliceDevice) -> bool | None:
            answers = (known.chooses(driver, device), own.chooses(driver, device))
            if False in answers:
                return False
            return None if None in answers else True

        return chooses

    def by_resource(self, resource: str) -> DeviceDemand:
        """Whether an extended resource is a claim of a device in all but name (docs/facts/dra.md#extended-resources-by-claim)."""
        if resource.startswith(BY_CLASS):
            name = resource.removeprefix(BY_CLASS)
            return self._request(Request(name=resource, device_class=name, count=1, expressions=(), admin=False))
        return self._mapped.get(resource, _NOTHING)

    def classes_of(self, entries: Iterable[Json], namespace: str, made: Iterable[Json] = ()) -> dict[str, DeviceDemand]:
        """DeviceClasses that claims of a pod name, each with whether its devices are accelerators."""
        found: dict[str, DeviceDemand] = {}
        names = self._names(made)
        for entry in map(mapping, entries):
            spec = self._spec_of(entry, namespace, names)
            found |= {} if isinstance(spec, str) else self._of_spec(spec).classes
        return found

    def _entry(self, entry: Json, namespace: str, made: Mapping[str, str]) -> DeviceDemand:
        claim = self._claims.get((namespace, text_of(entry.get("resourceClaimName")) or made.get(text_of(entry.get("name")), "")))
        if claim is not None and (results := results_of(claim)):
            return self._judge([text_of(result.get("driver")) for result in results])
        spec = self._spec_of(entry, namespace, made)
        if isinstance(spec, str):
            return DeviceDemand(False, spec)
        return self._of_spec(spec).demand

    def _of_spec(self, spec: Json) -> _ReadSpec:
        if id(spec) not in self._read:
            found = requests(spec)
            every = [(way.device_class, self._request(way)) for ways in found for way in ways]
            devices = next((demand for _, demand in every if demand.devices), None)
            demand = devices or DeviceDemand(False, next((one.unknown for _, one in every if one.unknown), ""))
            self._read[id(spec)] = spec, _ReadSpec(found, demand, {name: one for name, one in every if name})
        return self._read[id(spec)][1]

    def _names(self, made: Iterable[Json]) -> dict[str, str]:
        """Claims that were made for a pod, by the name of the entry. One pod is asked about entry by entry."""
        if self._made[0] is not made:
            items = map(mapping, made)
            self._made = made, {text_of(item.get("name")): text_of(item.get("resourceClaimName")) for item in items}
        return self._made[1]

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
        known = self.classes.get(request.device_class)
        drivers = list(known.drivers) if known is not None and known.drivers else request.drivers
        if known is None and not drivers:
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


def _key(item: Json) -> tuple[str, str]:
    meta = mapping(item.get("metadata"))
    return text_of(meta.get("namespace")), text_of(meta.get("name"))
