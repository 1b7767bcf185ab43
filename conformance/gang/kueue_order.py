"""GANG-11 for strict queues of Kueue: the head keeps none waiting that wants other devices, which are idle.

Facts: docs/facts/gangs.md#order-in-a-queue-of-kueue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

from conformance.gang.adapters.kueue import FLAVORS, WORKLOADS
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json, Node, PodSpec
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.model.cluster import Scope
from fixtures.model.placement.affinity import Choice
from fixtures.model.placement.claimable import units_of
from fixtures.model.placement.fitting import requests_of
from fixtures.model.placement.tolerations import Tolerated
from fixtures.model.queues.kueue_objects import assigned, conditions_of, is_given_up, is_true, name_of, objects_of, pod_sets, said
from fixtures.text import typed
from fixtures.text.ages import duration, so_far
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import Finding, bad, undecided
from fixtures.verdict.subjects import Subject

STRICT = "StrictFIFO"
_SOURCE = "clusterqueue.spec.queueingStrategy, spec.resourceGroups, workload.spec.podSets, status.admission, resourceflavor.spec.nodeLabels"
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"

_NO_FLAVOR = "(none that it may be given)"

_Place = tuple[str, str]
"""A flavor and a resource."""


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that waits, and what its pod sets ask for together: a spec of their pods, and amounts by resource."""

    name: str
    item: Json
    since: float | None
    parts: tuple[tuple[PodSpec, dict[str, Fraction]], ...]


def judge_order(scope: Scope, queue: Json, local: Collection[tuple[str, str]], now: float) -> Finding | None:
    """The finding about a strict queue whose head blocks others for no use; None where it blocks none.

    ``local`` are the LocalQueues, by namespace and name, that pass their work to the queue.
    """
    if mapping(queue, "spec").get("queueingStrategy") != STRICT:
        return None
    by_queue = scope.cached(_by_local_queue)
    every = [item for key in sorted(local) for item in by_queue.get(key, ())]
    waiting = _in_order(every)
    if len(waiting) < 2:
        return None
    rest = _Rest(scope, queue, every)
    head, behind = waiting[0], waiting[1:]
    _, short = rest.given(head)
    if not short:
        return None  # it is about to be admitted, or something else holds it
    blocked = [(one, taken) for one in behind if (taken := rest.unused(one)) and not taken.keys() & short]
    if not blocked:
        return None
    place = Subject("ClusterQueue", name_of(queue))
    first, taken = blocked[0]
    wants = listed([f"{amount:g} {resource} of flavor {flavor}" for (flavor, resource), amount in _devices(scope, taken)], 2)
    words = (
        f"its order is {STRICT}, and its head {head.name} waits for {_short(short)}, while {first.name} waits for {wants}, which are free"
    )
    known = [max(one.since, head.since) for one, _ in blocked if one.since is not None and head.since is not None]
    if not known:
        return undecided(place, message=f"{words}, and nothing says since when", source=_SOURCE, cause="HeadBlocksOtherFlavor")
    age, limit = now - min(known), scope.policy.requests.pending_minutes * 60
    if age <= limit:
        return undecided(place, message=f"{words}: {so_far(age, limit)}", source=_SOURCE, cause="ChangeUnderWay")
    why = said(conditions_of(head.item).get("QuotaReserved", {}))
    message = (
        f"{words} for {duration(age)}: {len(blocked)} workloads are kept from idle devices{f'; of the head, Kueue says: {why}' * bool(why)}"
    )
    observed = f"{len(blocked)} workloads behind {head.name} for {duration(age)}"
    expected = "no workload behind a head that waits for other devices"
    return bad(place, observed=observed, expected=expected, source=_SOURCE, message=message, cause="HeadBlocksOtherFlavor")


def _devices(scope: Scope, taken: Mapping[_Place, Fraction]) -> list[tuple[_Place, float]]:
    return [(place, float(amount)) for place, amount in sorted(taken.items()) if scope.names_device(place[1])]


def _short(short: frozenset[_Place]) -> str:
    return listed(in_order(f"{resource} of flavor {flavor}" for flavor, resource in short), 2)


def _by_local_queue(scope: Scope) -> dict[tuple[str, str], list[Json]]:
    """Workloads by namespace and name of their LocalQueue."""
    found: dict[tuple[str, str], list[Json]] = {}
    for item in objects_of(scope, WORKLOADS):
        key = str(mapping(item, "metadata").get("namespace") or ""), str(mapping(item, "spec").get("queueName") or "")
        found.setdefault(key, []).append(item)
    return found


def _in_order(workloads: Sequence[Json]) -> list[_Waiting]:
    """Those that wait to be admitted, as a strict queue takes them: by priority, then by age."""
    found: list[tuple[int, float, _Waiting]] = []
    for item in workloads:
        if is_given_up(item) or is_true(item, "QuotaReserved", "Admitted"):
            continue
        meta, priority = mapping(item, "metadata"), mapping(item, "spec").get("priority")
        since = unix(str(meta.get("creationTimestamp")))
        sets = ((pods, count, requests_of(pods)) for pods, count in pod_sets(item))
        parts = tuple((pods, {name: amount * count for name, amount in asked.items()}) for pods, count, asked in sets)
        if parts:
            one = _Waiting(name=f"{meta.get('namespace')}/{name_of(item)}", item=item, since=since, parts=parts)
            found.append((-priority if isinstance(priority, int) else 0, since or 0.0, one))
    return [one for *_, one in sorted(found, key=lambda entry: entry[:2])]


class _Rest:
    """What a queue has left of its own quota, by flavor and resource, and which flavors a workload may be given."""

    def __init__(self, scope: Scope, queue: Json, workloads: Sequence[Json]) -> None:
        self._scope = scope
        self._groups = mappings(mapping(queue, "spec").get("resourceGroups"))
        self._nodes = scope.cached(_flavors)
        self._free: dict[_Place, int] = {}
        self._left: dict[_Place, Fraction] = {}
        for group in self._groups:
            for flavor in mappings(group.get("flavors")):
                for one in mappings(flavor.get("resources")):
                    self._left[text_of(flavor.get("name")), text_of(one.get("name"))] = _parsed(one.get("nominalQuota"))
        for item in workloads:
            if is_true(item, "QuotaReserved") and not is_true(item, "Finished"):
                for place, amount in assigned(item).items():
                    if place in self._left:
                        self._left[place] -= amount

    def given(self, waiting: _Waiting) -> tuple[dict[_Place, Fraction], frozenset[_Place]]:
        """What a workload would be given now, and of what too little is left for it, among all that it may be given."""
        taken: dict[_Place, Fraction] = {}
        short: set[_Place] = set()
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

    def unused(self, waiting: _Waiting) -> dict[_Place, Fraction]:
        """What a workload would be given now, if it is devices that are free on nodes of their flavors; else empty."""
        taken, short = self.given(waiting)
        devices = {place: amount for place, amount in taken.items() if self._scope.names_device(place[1])}
        counted = {place: amount for place, amount in devices.items() if self._scope.is_device(place[1])}
        return taken if devices and not short and all(self._idle(place) >= amount for place, amount in counted.items()) else {}

    def _idle(self, place: _Place) -> int:
        """Free devices of a resource on the usable nodes of a flavor."""
        if place not in self._free:
            flavor, resource = place
            labels = found.metadata.label.items() if (found := self._nodes.get(flavor)) else ()
            nodes = [node for node in self._scope.usable_nodes if not labels or labels <= node.metadata.label.items()]
            held = self._scope.held
            self._free[place] = sum(
                max(units_of(self._scope, node, resource) - held.get(node.name, {}).get(resource, 0), 0) for node in nodes
            )
        return self._free[place]

    def _choices(self, waiting: _Waiting) -> Iterator[tuple[list[str], dict[str, Fraction]]]:
        """For each pod set and group of resources: the flavors that it may be given, and what it asks for."""
        for pods, amounts in waiting.parts:
            rest = dict(amounts)
            for group in self._groups:
                covered = {text_of(name) for name in sequence(group.get("coveredResources"))}
                if wanted := {name: rest.pop(name) for name in covered & rest.keys()}:
                    yield self._eligible(group, pods), wanted
            if any(self._scope.names_device(name) for name in rest):
                yield [], rest  # no group covers a device that it asks for

    def _eligible(self, group: Json, pods: PodSpec) -> list[str]:
        names = [text_of(flavor.get("name")) for flavor in mappings(group.get("flavors"))]
        nodes = {name: node for name in names if (node := self._nodes.get(name)) is not None}
        choice = Choice(_restricted(pods, {key for node in nodes.values() for key in node.metadata.label}))
        tolerated = Tolerated(pods.tolerations)
        return [name for name, node in nodes.items() if choice.admits(node) and tolerated.lets_onto(node)]


def _flavors(scope: Scope) -> dict[str, Node | None]:
    return {name_of(item): _as_node(item) for item in objects_of(scope, FLAVORS)}


def _as_node(flavor: Json) -> Node | None:
    """A node with the labels and taints of a flavor; None where they are none."""
    spec = mapping(flavor, "spec")
    body: Json = {"metadata": {"labels": mapping(spec, "nodeLabels")}, "spec": {"taints": mappings(spec.get("nodeTaints"))}}
    try:
        return typed.convert(body, Node, strict=False)
    except msgspec.ValidationError:
        return None


def _restricted(pods: PodSpec, keys: set[str]) -> PodSpec:
    """The pods' wishes about the labels of flavors alone: Kueue looks at no others."""
    selector = {key: value for key, value in (pods.node_selector or {}).items() if key in keys}
    terms: list[Json] = []
    for term in mappings(mapping(pods.affinity, "nodeAffinity", _AFFINITY).get("nodeSelectorTerms")):
        expressions = [item for item in mappings(term.get("matchExpressions")) if item.get("key") in keys]
        if not expressions:
            terms = []
            break
        terms.append({"matchExpressions": expressions})
    affinity = {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": terms}}} if terms else None
    return msgspec.structs.replace(pods, node_selector=selector, affinity=affinity)


def _parsed(value: object) -> Fraction:
    try:
        return quantity.parse(value) if isinstance(value, str | int | float) else Fraction(0)
    except quantity.QuantityError:
        return Fraction(0)
