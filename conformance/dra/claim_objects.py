"""Claims as objects: which devices they were given, when they were last changed, and by which pods they are used. Pure.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#release-of-claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, sequence, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import results_of
from fixtures.model.dra.inventory import DeviceId
from fixtures.model.dra.slices import CLAIMS, DriverKind, SliceDevice
from fixtures.text.sentences import ask_again, duration
from fixtures.verdict.subjects import Subject

IN_MOTION_SECONDS = 300.0
"""How young a change of a claim may be for pods, claims and slices to have been read before it and after it."""


def allocated(scope: Scope) -> Iterator[Json]:
    """Claims that were given a device of an accelerator, or of a driver of which nobody knows what it serves, in order of name."""
    for claim in sorted(scope.snapshot.listing(CLAIMS).objects, key=name_of):
        if any(scope.kind_of(text_of(result.get("driver"))) is not DriverKind.OTHER for result in results_of(claim)):
            yield claim


def published(scope: Scope) -> dict[DeviceId, SliceDevice]:
    """Devices of accelerator nodes, as the newest generation of their pools has them."""
    return {device.id: device.body for items in scope.dra_inventory.values() for item in items for device in item.devices}


def name_of(claim: Json) -> str:
    """``namespace/name``."""
    meta = mapping(claim.get("metadata"))
    return f"{text_of(meta.get('namespace'))}/{text_of(meta.get('name'))}"


def place_of(claim: Json) -> Subject:
    """The claim as a subject."""
    meta = mapping(claim.get("metadata"))
    return Subject("ResourceClaim", text_of(meta.get("name")), text_of(meta.get("namespace")))


def device_of(result: Json) -> DeviceId:
    """Which device a result of an allocation is."""
    return text_of(result.get("driver")), text_of(result.get("pool")), text_of(result.get("device"))


def allocated_at(claim: Json) -> tuple[float | None, bool]:
    """When a claim was allocated (Unix seconds), and whether that is exact; else a moment before it: its creation."""
    exact = moment(mapping(claim.get("status"), "allocation").get("allocationTimestamp"))
    return (exact, True) if exact is not None else (moment(mapping(claim.get("metadata")).get("creationTimestamp")), False)


def just_changed(claim: Json, now: float) -> str:
    """That a claim was changed a moment ago, as a clause with the time to ask again; else empty."""
    meta, status = mapping(claim.get("metadata")), mapping(claim.get("status"))
    texts = [meta.get("creationTimestamp"), meta.get("deletionTimestamp"), mapping(status.get("allocation")).get("allocationTimestamp")]
    texts += [entry.get("time") for entry in map(mapping, sequence(meta.get("managedFields")))]
    newest = max((at for text in texts if (at := moment(text)) is not None), default=None)
    if newest is None or now - newest >= IN_MOTION_SECONDS:
        return ""
    return f"the claim was changed {duration(now - newest)} ago: {ask_again(now - newest, IN_MOTION_SECONDS)}"
