"""The allocation ledger: which pod was given which devices, and the rules that it must never break. Pure.

``requested`` is what the pod's containers ask for, ``ids`` what the kubelet's PodResources (or the claim's allocation) says it was
given, ``seen`` the UUIDs that the container itself lists. Only pods that hold devices are in it: running ones, and those whose
containers are being started or stopped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

REPLICA = "::"
"""In ids of the device plugin's shared devices (time-slicing, MPS): ``GPU-…::3`` is the fourth replica of one GPU.

Facts: docs/facts/device-plugin.md#sharing.
"""

BEFORE, DURING, AFTER = "before", "during", "after"


class PodDevices(msgspec.Struct, frozen=True, kw_only=True):
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

    ``pods`` is by UID; ``inventory`` holds the ids that each node offers by resource, given out or not; ``counted`` how many, on nodes
    whose ids nobody tells; ``shared`` names resources whose very ids several pods may hold, by declaration (a ResourceClaim that pods
    share).
    """

    pods: dict[str, PodDevices] = {}
    inventory: dict[str, dict[str, list[str]]] = {}
    counted: dict[str, dict[str, int]] = {}
    shared: list[str] = []


class AllocationSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``allocations.jsonl``: what ``readings`` samples in a row said from ``t`` (the sampler's seconds) on.

    ``phase``: before, during, after. ``allocations`` is None where nobody told, and ``trouble`` says why.
    """

    t: float
    phase: str
    allocations: Allocations | None = None
    trouble: str = ""
    readings: int = 1


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """One broken invariant at its first sight."""

    t: float
    message: str


class InvariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one invariant came to. ``subjects``: how many there were to judge, ``of`` what they are."""

    invariant: str
    subjects: int
    of: str
    breaches: list[Breach] = []


def check_invariants(snapshots: Sequence[AllocationSnapshot]) -> list[InvariantResult]:
    """Every invariant over the snapshots of one experiment that have data, each breach once.

    ``exclusive``: no device is held by two pods. ``complete``: as many ids as asked for. ``seen``: inside are the UUIDs that were given.
    ``kept``: a pod that stayed holds the ids of before. ``lost``: what was offered before is offered after. What compares with before
    or after is judged where there is one: elsewhere it has no subjects.
    """
    with_data = [(snapshot.t, snapshot.phase, snapshot.allocations) for snapshot in snapshots if snapshot.allocations is not None]
    known = [(t, now) for t, _, now in with_data]
    pods = {uid: holding for _, now in known for uid, holding in now.pods.items()}
    together = {uid for _, now in known for uid in _together(now)}
    looked = {uid for _, now in known for uid, holding in now.pods.items() if holding.seen is not None}
    before = next((now for _, phase, now in reversed(with_data) if phase == BEFORE), None)
    after = next(((t, now) for t, phase, now in reversed(with_data) if phase == AFTER), None)
    stayed = len(before.pods.keys() & after[1].pods.keys()) if before and after else 0
    offered, how = _offered(before) if before and after else (0, "")
    moved = _once((t, _moved(before, now)) for t, now in known) if before else []
    lost = _once([(after[0], _lost(before, after[1]))]) if before and after else []
    rows = (
        ("exclusive", len(together), "pods that held devices of one node at the same time", _once((t, _twice(now)) for t, now in known)),
        ("complete", len(pods), "pods", _once((t, _incomplete(now)) for t, now in known)),
        ("seen", len(looked), "pods looked into", _once((t, _inside(now)) for t, now in known)),
        ("kept", stayed, "pods that stayed until after", moved),
        ("lost", offered, f"devices offered before{how}", lost),
    )
    return [InvariantResult(invariant=name, subjects=count, of=of, breaches=breaches) for name, count, of, breaches in rows]


def _once(found: Iterable[tuple[float, Iterator[str]]]) -> list[Breach]:
    first: dict[str, Breach] = {}
    for t, messages in found:
        for message in messages:
            first.setdefault(message, Breach(t=t, message=message))
    return list(first.values())


def _together(now: Allocations) -> list[str]:
    """Pods that hold devices of a node on which another one does too: a pod that is alone there shares nothing whatever is wrong."""
    holding = {uid: pod.node for uid, pod in now.pods.items() if any(pod.ids.values())}
    pods = Counter(holding.values())
    return [uid for uid, node in holding.items() if pods[node] > 1]


def _twice(now: Allocations) -> Iterator[str]:
    """Devices of two pods: by the ids that they were given, and by what is seen inside."""
    holders: dict[tuple[str, str], PodDevices] = {}
    for holding in now.pods.values():
        for resource, ids in holding.ids.items():
            for id_ in () if resource in now.shared else ids:
                first = holders.setdefault((holding.node, id_), holding)
                if first is not holding:
                    yield f"{id_} on {holding.node} is held by {first.pod} and {holding.pod}"
    seen_by: dict[str, PodDevices] = {}
    for holding in now.pods.values():
        if any(resource in now.shared or any(REPLICA in id_ for id_ in ids) for resource, ids in holding.ids.items()):
            continue
        for uuid in holding.seen or ():
            first = seen_by.setdefault(uuid, holding)
            if first is not holding:
                yield f"{uuid} is seen inside {first.pod} and {holding.pod}"


def _incomplete(now: Allocations) -> Iterator[str]:
    for holding in now.pods.values():
        for resource in sorted(holding.requested.keys() | holding.ids.keys()):
            asked, given = holding.requested.get(resource, 0), len(set(holding.ids.get(resource, ())))
            if asked != given:
                yield f"{holding.pod} asks for {asked} of {resource} and holds {given}"


def _inside(now: Allocations) -> Iterator[str]:
    """Containers that see other devices than their own."""
    for holding in now.pods.values():
        if holding.seen is None:
            continue
        given = {id_.partition(REPLICA)[0] for ids in holding.ids.values() for id_ in ids}
        if set(holding.seen) != given:
            yield (
                f"{holding.pod} was given {', '.join(sorted(given)) or 'nothing'} and sees {', '.join(sorted(holding.seen)) or 'nothing'}"
            )


def _moved(before: Allocations, now: Allocations) -> Iterator[str]:
    for uid, holding in now.pods.items():
        if uid in before.pods and _sets(before.pods[uid]) != _sets(holding):
            yield f"{holding.pod} stayed and holds {_words(holding)} instead of {_words(before.pods[uid])}"


def _offered(before: Allocations) -> tuple[int, str]:
    """How many devices were offered, and how that is known where it is not by their ids."""
    by_id = sum(len(ids) for resources in before.inventory.values() for ids in resources.values())
    by_count = sum(count for resources in before.counted.values() for count in resources.values())
    return by_id + by_count, f" ({by_count} of them counted: nobody tells their ids)" if by_count else ""


def _lost(before: Allocations, after: Allocations) -> Iterator[str]:
    for node, resources in before.inventory.items():
        for resource, ids in resources.items():
            if node in after.counted:
                yield from _fewer(node, resource, len(ids), after.counted[node].get(resource, 0))
            elif missing := sorted(set(ids) - set(after.inventory.get(node, {}).get(resource, ()))):
                yield f"{node} no longer offers {', '.join(missing)} as {resource}"
    for node, counts in before.counted.items():
        now = after.counted.get(node) or {resource: len(ids) for resource, ids in after.inventory.get(node, {}).items()}
        for resource, count in counts.items():
            yield from _fewer(node, resource, count, now.get(resource, 0))


def _fewer(node: str, resource: str, before: int, after: int) -> Iterator[str]:
    if after < before:
        yield f"{node} offers {after} of {resource} and offered {before} before; which are lost nobody tells"


def _sets(holding: PodDevices) -> dict[str, frozenset[str]]:
    return {resource: frozenset(ids) for resource, ids in holding.ids.items() if ids}


def _words(holding: PodDevices) -> str:
    return ", ".join(sorted(id_ for ids in holding.ids.values() for id_ in ids)) or "nothing"
