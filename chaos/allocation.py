"""The allocation ledger: which pod was given which devices, and what must never be true of it. Pure.

``requested`` is what the pod's containers ask for, ``ids`` what the kubelet's PodResources (or the claim's allocation) says it was
given, ``seen`` the UUIDs that the container itself lists. Only pods that hold devices are in it: running ones, and those whose
containers are being started or stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

REPLICA = "::"
"""In ids of the device plugin's shared devices (time-slicing, MPS): ``GPU-…::3`` is the fourth replica of one GPU."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's devices. ``requested`` and ``ids`` are by resource name (or ``claim/DEVICECLASS``); ``seen`` is None unless looked."""

    namespace: str
    name: str
    node: str
    requested: dict[str, int] = {}
    ids: dict[str, list[str]] = {}
    seen: list[str] | None = None

    @property
    def pod(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Allocations(msgspec.Struct, frozen=True, kw_only=True):
    """Every holding at one moment: the value of the signal ``allocations``.

    ``pods`` is by UID; ``inventory`` holds the ids that each node offers by resource, healthy or not (empty where nothing tells);
    ``shared`` names resources whose very ids several pods may hold, by declaration (a ResourceClaim that pods share).
    """

    pods: dict[str, Holding] = {}
    inventory: dict[str, dict[str, list[str]]] = {}
    shared: list[str] = []


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``allocations.jsonl``: the allocations from ``t`` (the sampler's seconds) on. ``phase``: before, during, after."""

    t: float
    phase: str
    allocations: Allocations


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """One broken invariant. ``invariant``: exclusive, complete, kept, lost, seen."""

    invariant: str
    t: float
    message: str


def breaches(snapshots: Sequence[Snapshot]) -> list[Breach]:
    """What is broken over the snapshots of one experiment, each thing once, at its first sight.

    ``exclusive``: a device held by two pods. ``complete``: fewer or more ids than asked for. ``seen``: other UUIDs inside than were
    given. ``kept``: a pod that stayed holds other ids than before. ``lost``: an id that was offered before is not after.
    """
    found: dict[tuple[str, str], Breach] = {}
    for snapshot in snapshots:
        for invariant, message in _broken(snapshot.allocations, snapshots[0].allocations):
            found.setdefault((invariant, message), Breach(invariant=invariant, t=snapshot.t, message=message))
    if len(snapshots) > 1:
        for message in _lost(snapshots[0].allocations, snapshots[-1].allocations):
            found.setdefault(("lost", message), Breach(invariant="lost", t=snapshots[-1].t, message=message))
    return list(found.values())


def _broken(now: Allocations, before: Allocations) -> Iterator[tuple[str, str]]:
    holders: dict[tuple[str, str], Holding] = {}
    for holding in now.pods.values():
        for resource, ids in holding.ids.items():
            if resource in now.shared:
                continue
            for id_ in ids:
                first = holders.setdefault((holding.node, id_), holding)
                if first is not holding:
                    yield "exclusive", f"{id_} on {holding.node} is held by {first.pod} and {holding.pod}"
    yield from _inside(now)
    for uid, holding in now.pods.items():
        for resource in sorted(holding.requested.keys() | holding.ids.keys()):
            asked, given = holding.requested.get(resource, 0), len(set(holding.ids.get(resource, ())))
            if asked != given:
                yield "complete", f"{holding.pod} asks for {asked} of {resource} and holds {given}"
        if uid in before.pods and _sets(before.pods[uid]) != _sets(holding):
            yield "kept", f"{holding.pod} stayed and holds {_words(holding)} instead of {_words(before.pods[uid])}"


def _inside(now: Allocations) -> Iterator[tuple[str, str]]:
    """What containers see: their own devices and no other, and no exclusive one in two pods."""
    seen_by: dict[str, Holding] = {}
    for holding in now.pods.values():
        if holding.seen is None:
            continue
        given = {id_.partition(REPLICA)[0] for ids in holding.ids.values() for id_ in ids}
        if set(holding.seen) != given:
            yield (
                "seen",
                f"{holding.pod} was given {', '.join(sorted(given)) or 'nothing'} and sees {', '.join(sorted(holding.seen)) or 'nothing'}",
            )
        if any(resource in now.shared or any(REPLICA in id_ for id_ in ids) for resource, ids in holding.ids.items()):
            continue
        for uuid in holding.seen:
            first = seen_by.setdefault(uuid, holding)
            if first is not holding:
                yield "exclusive", f"{uuid} is seen inside {first.pod} and {holding.pod}"


def _lost(before: Allocations, after: Allocations) -> Iterator[str]:
    for node, resources in before.inventory.items():
        for resource, ids in resources.items():
            missing = sorted(set(ids) - set(after.inventory.get(node, {}).get(resource, ())))
            if missing:
                yield f"{node} no longer offers {', '.join(missing)} as {resource}"


def _sets(holding: Holding) -> dict[str, frozenset[str]]:
    return {resource: frozenset(ids) for resource, ids in holding.ids.items() if ids}


def _words(holding: Holding) -> str:
    return ", ".join(sorted(id_ for ids in holding.ids.values() for id_ in ids)) or "nothing"
