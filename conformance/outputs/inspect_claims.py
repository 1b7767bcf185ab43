"""``resourceclaim``: what ResourceClaims captured as text hold, and for whom. Pods are not in the text: whether they live is not judged.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#release-of-claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.outputs.claim_tables import ClaimRow, claim_rows
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged
from conformance.outputs.unreadable import Unreadable
from conformance.outputs.yaml_text import load_objects, none_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.text.sentences import listed

_KIND = "resourceclaim"


def inspect_resource_claims(text: str) -> Inspection:
    """Devices that several claims hold alone are bad; what waits, or is left over, is undecidable. Raises ``Unreadable``."""
    try:
        objects = load_objects(text)
    except Unreadable:
        if rows := claim_rows(text):
            return _table(rows)
        raise
    claims = [item for item in objects if item.get("kind") == "ResourceClaim"]
    if not claims:
        raise Unreadable(none_of("ResourceClaim", objects))
    states = [InspectionFinding(_name(claim), Judged.UNDECIDABLE, words) for claim in claims if (words := _unsettled(claim))]
    twice = [
        InspectionFinding(device, Judged.BAD, f"it is given to {listed(names)}, which do not share it") for device, names in _twice(claims)
    ]
    devices = sum(len(_results(claim)) for claim in claims)
    facts: dict[str, object] = {"claims": len(claims), "allocated": sum(bool(_results(claim)) for claim in claims), "devices": devices}
    if twice:
        return Inspection(_KIND, Judged.BAD, "GIVEN_TWICE", f"{twice[0].subject}: {twice[0].message}", facts, [*twice, *states])
    if broken := [InspectionFinding(_name(claim), Judged.BAD, words) for claim in claims for words in _not_ready(claim)]:
        return Inspection(_KIND, Judged.BAD, "DEVICE_NOT_READY", f"{broken[0].subject}: {broken[0].message}", facts, [*broken, *states])
    if states:
        return Inspection(_KIND, Judged.UNDECIDABLE, "UNSETTLED", f"{states[0].subject}: {states[0].message}", facts, states)
    return Inspection(
        _KIND, Judged.GOOD, "ALLOCATED", f"{len(claims)} claims hold {devices} devices, each reserved for somebody", facts, []
    )


def _name(claim: Json) -> str:
    meta = mapping(claim.get("metadata"))
    return "/".join(part for part in (text_of(meta.get("namespace")), text_of(meta.get("name"))) if part) or "a claim"


def _results(claim: Json) -> list[Json]:
    return mappings(mapping(claim.get("status"), "allocation", "devices").get("results"))


def _unsettled(claim: Json) -> str:
    deleted = text_of(mapping(claim.get("metadata")).get("deletionTimestamp"))
    if not _results(claim):
        return "it has no device yet"
    if deleted:
        return f"it was deleted at {deleted[:40]} and still holds devices"
    return "" if mapping(claim.get("status")).get("reservedFor") else "it holds devices and is reserved for no pod"


def _not_ready(claim: Json) -> Iterator[str]:
    """What drivers say of devices of the claim that are not ready."""
    for device in mappings(mapping(claim.get("status")).get("devices")):
        for condition in mappings(device.get("conditions")):
            if text_of(condition.get("type")) == "Ready" and text_of(condition.get("status")) == "False":
                name = "/".join(text_of(device.get(key)) for key in ("driver", "pool", "device"))
                why = " ".join(text for key in ("reason", "message") if (text := text_of(condition.get(key))[:200]))
                yield f"its driver calls the device {name} not ready: {why or 'no reason given'}"


def _table(rows: list[ClaimRow]) -> Inspection:
    """A table of claims tells their states, and no device."""
    found = [
        InspectionFinding(f"{row.namespace}/{row.name}".strip("/"), Judged.UNDECIDABLE, words)
        for row in rows
        if (words := _words(row.state))
    ]
    count = sum("allocated" in row.state for row in rows)
    facts: dict[str, object] = {"claims": len(rows), "allocated": count}
    message = "a table of claims names no device: kubectl get resourceclaims -A -o yaml does"
    first = f"{found[0].subject}: {found[0].message}; " if found else ""
    return Inspection(_KIND, Judged.UNDECIDABLE, "UNSETTLED" if found else "TABLE", f"{first}{message}", facts, found)


def _words(state: tuple[str, ...]) -> str:
    if "deleted" in state:
        return "it was deleted and still holds devices" if "allocated" in state else "it was deleted and is still there"
    if "allocated" not in state:
        return "it has no device yet"
    return "" if "reserved" in state else "it holds devices and is reserved for no pod"


def _twice(claims: list[Json]) -> Iterator[tuple[str, list[str]]]:
    holders: dict[str, list[str]] = {}
    for claim in claims:
        for result in _results(claim):
            if result.get("adminAccess") is not True and not result.get("shareID") and not result.get("consumedCapacity"):
                device = "/".join(text_of(result.get(key)) for key in ("driver", "pool", "device"))
                holders.setdefault(device, []).append(_name(claim))
    yield from ((device, names) for device, names in sorted(holders.items()) if len(names) > 1)
