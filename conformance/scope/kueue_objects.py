"""Objects of Kueue as its API has them, and what a Workload's admission assigns (docs/facts/gangs.md#quota-of-kueue)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.scope.scope import Scope, whole
from fixtures.kubernetes.models import Json, PodSpec
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.text import typed
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


def pod_sets(workload: Json) -> Iterator[tuple[PodSpec, int]]:
    """Spec and number of the pods of each pod set; one whose spec is none is left out."""
    for part in mappings(mapping(workload, "spec").get("podSets")):
        try:
            pods = typed.convert(mapping(part, "template", "spec"), PodSpec, strict=False)
        except msgspec.ValidationError:
            continue
        yield pods, count if isinstance(count := part.get("count"), int) else 1


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


def is_true(item: Json, *kinds: str) -> bool:
    """Whether one of these conditions of an object is True."""
    conditions = conditions_of(item)
    return any(conditions.get(kind, {}).get("status") == "True" for kind in kinds)


def is_given_up(workload: Json) -> bool:
    """Whether a workload has ended, is switched off or is being deleted: it asks for nothing any more."""
    inactive = mapping(workload, "spec").get("active") is False
    return inactive or is_true(workload, "Finished") or bool(mapping(workload, "metadata").get("deletionTimestamp"))


def said(condition: Json) -> str:
    """Reason and message of a condition, shortened; empty without either."""
    return ": ".join(text for field in ("reason", "message") if (text := str(condition.get(field) or "")[:200]))
