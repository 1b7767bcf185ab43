"""Objects of Kueue as its API has them, and what a Workload's admission assigns (docs/facts/gangs.md#quota-of-kueue)."""

from __future__ import annotations

from typing import Any

from conformance.scope.scope import Scope, whole
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.verdict.findings import Inconclusive


def reserved(workload: Json) -> dict[str, int]:
    """Units of each resource that a workload has reserved."""
    found: dict[str, int] = {}
    for (_, resource), count in assigned(workload).items():
        found[resource] = found.get(resource, 0) + count
    return found


def assigned(workload: Json) -> dict[tuple[str, str], int]:
    """``{(flavor, resource): units}`` of a workload's admission."""
    found: dict[tuple[str, str], int] = {}
    for part in mappings(mapping(workload, "status", "admission").get("podSetAssignments")):
        flavors = mapping(part, "flavors")
        for resource, amount in mapping(part, "resourceUsage").items():
            key = (str(flavors.get(resource)), str(resource))
            found[key] = found.get(key, 0) + units(amount)
    return found


def objects_of(scope: Scope, key: str) -> list[Json]:
    """Objects of a kind; none where it is not served. Raises :class:`Inconclusive` for a refused list."""
    listing = scope.snapshot.listing(key)
    if listing.trouble:
        raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
    return listing.objects


def name_of(item: Json) -> str:
    """``metadata.name``, or empty."""
    return str(mapping(item, "metadata").get("name") or "")


def units(value: Any) -> int:
    """A quantity of devices as a whole number; 0 for anything else."""
    return whole(value) if isinstance(value, str | int) else 0


def conditions_of(item: Json) -> dict[str, Json]:
    """The conditions of an object by type."""
    return {str(one.get("type")): one for one in mappings(mapping(item, "status").get("conditions"))}


def said(condition: Json) -> str:
    """Reason and message of a condition, shortened; empty without either."""
    return ": ".join(text for field in ("reason", "message") if (text := str(condition.get(field) or "")[:200]))
