"""What the Cohorts of Kueue add to the quota of the queues in them (docs/facts/gangs.md#quota-of-kueue)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.queues.kueue_objects import name_of, objects_of, units

COHORTS = "kueue.x-k8s.io/cohorts"

Place = tuple[str, str]
"""A flavor and a resource."""


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue or a Cohort has of one resource in one flavor. ``borrowing``: the most it may borrow; None: any amount."""

    flavor: str
    resource: str
    nominal: int
    borrowing: int | None


def quotas_of(item: Json) -> Iterator[Quota]:
    """The entries of ``spec.resourceGroups``, which ClusterQueues and Cohorts have alike."""
    for group in mappings(mapping(item, "spec").get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            for one in mappings(flavor.get("resources")):
                limit = one.get("borrowingLimit")
                yield Quota(
                    flavor=str(flavor.get("name")),
                    resource=str(one.get("name")),
                    nominal=units(one.get("nominalQuota")),
                    borrowing=None if limit is None else units(limit),
                )


def added_by_cohorts(scope: Scope, queues: Sequence[Json]) -> Iterator[tuple[str, Place, int]]:
    """Name of a Cohort, flavor and resource, and what the queues of its tree may use of it beside their own quota.

    Cohorts are read only where a queue names one. Raises :class:`Inconclusive` for a refused list.
    """
    if not any(_cohort_of(queue) for queue in queues):
        return
    cohorts = {name_of(item): item for item in objects_of(scope, COHORTS)}
    borrowers: dict[tuple[str, Place], list[int | None]] = {}
    for queue in queues:
        if root := _root(_cohort_of(queue), cohorts):
            for quota in quotas_of(queue):
                borrowers.setdefault((root, (quota.flavor, quota.resource)), []).append(quota.borrowing)
    left = {key: None if None in limits else sum(limit or 0 for limit in limits) for key, limits in borrowers.items()}
    for name, cohort in sorted(cohorts.items()):
        root = _root(name, cohorts)
        for quota in quotas_of(cohort):
            key = (root, (quota.flavor, quota.resource))
            if key not in left:
                continue  # no queue of the tree may take it
            limit = left[key]
            amount = quota.nominal if limit is None else min(quota.nominal, limit)
            left[key] = None if limit is None else limit - amount
            if amount:
                yield name, key[1], amount


def lent_by(scope: Scope, queues: Sequence[Json], others: Sequence[Json]) -> dict[Place, set[str]]:
    """Names of other queues whose quota these may borrow, by flavor and resource. Raises :class:`Inconclusive` for a refused list."""
    if not any(_cohort_of(other) for other in others):
        return {}
    cohorts = {name_of(item): item for item in objects_of(scope, COHORTS)}
    borrowed = {
        (_root(_cohort_of(queue), cohorts), quota.flavor, quota.resource)
        for queue in queues
        for quota in quotas_of(queue)
        if quota.borrowing != 0
    }
    found: dict[Place, set[str]] = {}
    for other in others:
        if root := _root(_cohort_of(other), cohorts):
            for quota in quotas_of(other):
                if quota.nominal and (root, quota.flavor, quota.resource) in borrowed:
                    found.setdefault((quota.flavor, quota.resource), set()).add(name_of(other))
    return found


def _cohort_of(queue: Json) -> str:
    """The Cohort that a queue is in: ``cohortName``, which was ``cohort`` before v1beta2."""
    spec = mapping(queue, "spec")
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _root(name: str, cohorts: Mapping[str, Json]) -> str:
    """The Cohort at the top of a tree; empty for no Cohort, and for a circle, of which Kueue admits nothing.

    A Cohort needs no object: one that is only named is the top itself.
    """
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        spec = mapping(cohorts.get(name, {}), "spec")
        above = str(spec.get("parentName") or spec.get("parent") or "")
        if not above:
            return name
        name = above
    return ""
