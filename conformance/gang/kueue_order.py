"""GANG-11 for strict queues of Kueue: the head keeps none from idle devices that it does not wait for, or can never be given.

Facts: docs/facts/gangs.md#order-in-a-queue-of-kueue.
"""

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction

import msgspec

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Json, PodSpec
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.placement.affinity import Choice, Tolerated
from fixtures.model.placement.claimable import units_of
from fixtures.model.placement.fitting import requests_of
from fixtures.model.queues.kueue import ClusterQueue, Group, KueueObjects, Place, Workload
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_SOURCE = "clusterqueue.spec.queueingStrategy, spec.resourceGroups, workload.spec.podSets, status.admission, resourceflavor.spec.nodeLabels"
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"

_NO_FLAVOR = "(none that it may be given)"


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that waits, and what its pod sets ask for together: a spec of their pods, and amounts by resource."""

    workload: Workload
    parts: tuple[tuple[PodSpec, dict[str, Fraction]], ...]

    @property
    def name(self) -> str:
        return f"{self.workload.namespace}/{self.workload.name}"

    @property
    def since(self) -> float | None:
        return self.workload.since


def judge_order(scope: Scope, queue: ClusterQueue, local: Collection[tuple[str, str]], now: float) -> Finding | None:
    """The finding about a strict queue whose head blocks others for no use; None where it blocks none.

    ``local`` are the LocalQueues, by namespace and name, that pass their work to the queue.
    """
    if not queue.strict:
        return None
    by_queue = scope.cached(KueueObjects).by_local_queue
    every = [item for key in sorted(local) for item in by_queue.get(key, ())]
    waiting = _in_order(every)
    if len(waiting) < 2:
        return None
    rest = _Rest(scope, queue, every)
    head, behind = waiting[0], waiting[1:]
    _, short = rest.given(head)
    if not short:
        return None  # it is about to be admitted, or something else holds it
    never = not queue.above and bool(_Rest(scope, queue, ()).given(head)[1])  # one without a Cohort borrows nothing
    blocked = [(one, taken) for one in behind if (taken := rest.unused(one)) and (never or not taken.keys() & short)]
    if not blocked:
        return None
    about = About(Subject("ClusterQueue", queue.name), _SOURCE, "no workload behind a head that waits for other devices")
    first, taken = blocked[0]
    devices = [(place, float(amount)) for place, amount in sorted(taken.items()) if scope.names_device(place[1])]
    wants = listed([f"{amount:g} {resource} of flavor {flavor}" for (flavor, resource), amount in devices], 2)
    asks = "asks for more than the queue has of" if never else "waits for"
    lacks = f"{asks} {listed(in_order(f'{resource} of flavor {flavor}' for flavor, resource in short), 2)}"
    words = f"its order is StrictFIFO, and its head {head.name} {lacks}, while {first.name} waits for {wants}, which are free"
    known = [max(one.since, head.since) for one, _ in blocked if one.since is not None and head.since is not None]
    limit = scope.policy.requests.pending_minutes * 60
    age = overdue(about, min(known, default=None), now, limit, f"{words}:", cause="HeadBlocksOtherFlavor")
    if isinstance(age, Finding):
        return age
    so_long = f"for {duration(age)}"
    why = f"; of the head, Kueue says: {reason}" if (reason := head.workload.words("QuotaReserved")) else ""
    message = f"{words} {so_long}: {len(blocked)} workloads are kept from idle devices{why}"
    observed = f"{len(blocked)} workloads behind {head.name} {so_long}"
    return about.bad(message, cause="HeadBlocksOtherFlavor", observed=observed)


def _in_order(workloads: Sequence[Workload]) -> list[_Waiting]:
    """Those that wait to be admitted, as a strict queue takes them: by priority, then by age."""
    found = []
    for one in workloads:
        if one.given_up or one.holds("QuotaReserved", "Admitted"):
            continue
        sets = ((pods, count, requests_of(pods)) for pods, count in one.pod_sets)
        if parts := tuple((pods, {name: amount * count for name, amount in asked.items()}) for pods, count, asked in sets):
            found.append(_Waiting(workload=one, parts=parts))
    return sorted(found, key=lambda one: (-one.workload.priority, one.since or 0.0))


class _Rest:
    """What a queue has left of its own quota, by flavor and resource, and which flavors a workload may be given."""

    def __init__(self, scope: Scope, queue: ClusterQueue, workloads: Sequence[Workload]) -> None:
        self._scope = scope
        self._groups = queue.groups
        self._nodes = {name: flavor.as_node for name, flavor in scope.cached(KueueObjects).flavors.items()}
        self._free: dict[Place, int] = {}
        self._left = {quota.place: quota.exact for quota in queue.quotas}
        for one in workloads:
            if one.holds("QuotaReserved") and not one.holds("Finished"):
                for place, amount in one.assigned.items():
                    if place in self._left:
                        self._left[place] -= amount

    def given(self, waiting: _Waiting) -> tuple[dict[Place, Fraction], frozenset[Place]]:
        """What a workload would be given now, and of what too little is left for it, among all that it may be given."""
        taken: dict[Place, Fraction] = {}
        short: set[Place] = set()
        for flavors, wanted in self._choices(waiting):
            lacks = {
                flavor: {
                    (flavor, name)
                    for name, amount in wanted.items()
                    if self._left.get((flavor, name), 0) - taken.get((flavor, name), 0) < amount
                }
                for flavor in flavors or (_NO_FLAVOR,)
            }
            if (chosen := next((flavor for flavor in flavors if not lacks[flavor]), None)) is None:
                short.update(*lacks.values())
                continue
            for name, amount in wanted.items():
                taken[chosen, name] = taken.get((chosen, name), Fraction(0)) + amount
        return taken, frozenset(short)

    def unused(self, waiting: _Waiting) -> dict[Place, Fraction]:
        """What a workload would be given now, if it is devices that are free on nodes of their flavors; else empty."""
        taken, short = self.given(waiting)
        devices = {place: amount for place, amount in taken.items() if self._scope.names_device(place[1])}
        counted = {place: amount for place, amount in devices.items() if self._scope.is_device(place[1])}
        return taken if devices and not short and all(self._idle(place) >= amount for place, amount in counted.items()) else {}

    def _idle(self, place: Place) -> int:
        """Free devices of a resource on the usable nodes of a flavor."""
        if place not in self._free:
            flavor, resource = place
            labels = found.metadata.label.items() if (found := self._nodes.get(flavor)) else ()
            nodes = [node for node in self._scope.usable_nodes if not labels or labels <= node.metadata.label.items()]
            held = self._scope.held
            free = (units_of(self._scope, node, resource) - held.get(node.name, {}).get(resource, 0) for node in nodes)
            self._free[place] = sum(max(units, 0) for units in free)
        return self._free[place]

    def _choices(self, waiting: _Waiting) -> Iterator[tuple[list[str], dict[str, Fraction]]]:
        """For each pod set and group of resources: the flavors that it may be given, and what it asks for."""
        for pods, amounts in waiting.parts:
            rest = dict(amounts)
            for group in self._groups:
                if wanted := {name: rest.pop(name) for name in group.covered & rest.keys()}:
                    yield self._eligible(group, pods), wanted
            if any(self._scope.names_device(name) for name in rest):
                yield [], rest  # no group covers a device that it asks for

    def _eligible(self, group: Group, pods: PodSpec) -> list[str]:
        nodes = {name: node for name in group.flavors if (node := self._nodes.get(name)) is not None}
        choice = Choice(_restricted(pods, {key for node in nodes.values() for key in node.metadata.label}))
        tolerated = Tolerated(pods.tolerations)
        return [name for name, node in nodes.items() if choice.admits(node) and tolerated.lets_onto(node)]


def _restricted(pods: PodSpec, keys: set[str]) -> PodSpec:
    """The pods' wishes about the labels of flavors alone: Kueue looks at no others."""
    selector = {key: value for key, value in (pods.node_selector or {}).items() if key in keys}
    every = mappings(mapping(pods.affinity, "nodeAffinity", _AFFINITY).get("nodeSelectorTerms"))
    kept = [[item for item in mappings(term.get("matchExpressions")) if item.get("key") in keys] for term in every]
    terms: list[Json] = [{"matchExpressions": expressions} for expressions in kept] if all(kept) else []  # one that allows all allows all
    affinity = {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": terms}}} if terms else None
    return msgspec.structs.replace(pods, node_selector=selector, affinity=affinity)
