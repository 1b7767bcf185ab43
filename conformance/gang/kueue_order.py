"""GANG-11 for strict queues of Kueue: the head keeps none waiting that wants other devices, which are idle.

Facts: docs/facts/gangs.md#order-in-a-queue-of-kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

from conformance.devices.claimable import units_of
from conformance.devices.fitting import requests_of
from conformance.gang.adapters.kueue import FLAVORS, WORKLOADS
from conformance.scope.kueue_objects import assigned, conditions_of, name_of, objects_of, said
from conformance.scope.node_affinity import Choice
from conformance.scope.scope import Scope
from conformance.scope.tolerations import Tolerated
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json, Node, PodSpec
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.text import typed
from fixtures.text.ages import duration, so_far
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import Finding, Subject, bad, undecided

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


def judge_order(scope: Scope, queue: Json, local: frozenset[tuple[str, str]], now: float) -> Finding | None:
    """The finding about a strict queue whose head blocks others for no use; None where it blocks none.

    ``local`` are the LocalQueues, by namespace and name, that pass their work to the queue.
    """
    if mapping(queue, "spec").get("queueingStrategy") != STRICT:
        return None
    every = [item for item in objects_of(scope, WORKLOADS) if _queue_of(item) in local]
    waiting = _in_order(every)
    if len(waiting) < 2:
        return None
    rest = _Rest(scope, queue, every)
    head, behind = waiting[0], waiting[1:]
    short = rest.short(head)
    if not short:
        return None  # it is about to be admitted, or something else holds it
    blocked = [(one, taken) for one in behind if (taken := rest.taken(one)) and not taken.keys() & short and rest.idle(taken)]
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


def _queue_of(item: Json) -> tuple[str, str]:
    return str(mapping(item, "metadata").get("namespace") or ""), str(mapping(item, "spec").get("queueName") or "")


def _in_order(workloads: Sequence[Json]) -> list[_Waiting]:
    """Those that wait to be admitted, as a strict queue takes them: by priority, then by age."""
    found: list[tuple[int, float, _Waiting]] = []
    for item in workloads:
        conditions, spec, meta = conditions_of(item), mapping(item, "spec"), mapping(item, "metadata")
        held = any(conditions.get(kind, {}).get("status") == "True" for kind in ("QuotaReserved", "Admitted", "Finished"))
        if held or spec.get("active") is False or meta.get("deletionTimestamp"):
            continue
        since, priority = unix(str(meta.get("creationTimestamp"))), spec.get("priority")
        parts = tuple(_parts(spec))
        if parts:
            one = _Waiting(name=f"{meta.get('namespace')}/{name_of(item)}", item=item, since=since, parts=parts)
            found.append((-priority if isinstance(priority, int) else 0, since or 0.0, one))
    return [one for *_, one in sorted(found, key=lambda entry: entry[:2])]


def _parts(spec: Json) -> Iterator[tuple[PodSpec, dict[str, Fraction]]]:
    for part in mappings(spec.get("podSets")):
        count = part.get("count")
        try:
            pods = typed.convert(mapping(part, "template", "spec"), PodSpec, strict=False)
        except msgspec.ValidationError:
            continue
        number = count if isinstance(count, int) else 1
        yield pods, {name: amount * number for name, amount in requests_of(pods).items()}


class _Rest:
    """What a queue has left of its own quota, by flavor and resource, and which flavors a workload may be given."""

    def __init__(self, scope: Scope, queue: Json, workloads: Sequence[Json]) -> None:
        self._scope = scope
        self._flavors = {name_of(item): item for item in objects_of(scope, FLAVORS)}
        self._groups = mappings(mapping(queue, "spec").get("resourceGroups"))
        self._left: dict[_Place, Fraction] = {}
        for group in self._groups:
            for flavor in mappings(group.get("flavors")):
                for one in mappings(flavor.get("resources")):
                    self._left[text_of(flavor.get("name")), text_of(one.get("name"))] = _parsed(one.get("nominalQuota"))
        for item in workloads:
            conditions = conditions_of(item)
            if conditions.get("QuotaReserved", {}).get("status") == "True" and conditions.get("Finished", {}).get("status") != "True":
                for place, amount in assigned(item).items():
                    if place in self._left:
                        self._left[place] -= amount

    def short(self, waiting: _Waiting) -> frozenset[_Place]:
        """Flavors and resources of which too little is left for a workload, among all that it may be given; empty where one has all."""
        found: set[_Place] = set()
        for group, flavors, wanted in self._choices(waiting):
            if group and any(self._enough(flavor, wanted) for flavor in flavors):
                continue
            choices = flavors or [_NO_FLAVOR]
            found |= {(flavor, name) for flavor in choices for name, amount in wanted.items() if self._of(flavor, name) < amount}
        return frozenset(found)

    def taken(self, waiting: _Waiting) -> dict[_Place, Fraction]:
        """What a workload would be given now, devices among it; empty where some of it is not left."""
        found: dict[_Place, Fraction] = {}
        for group, flavors, wanted in self._choices(waiting):
            chosen = next((flavor for flavor in flavors if self._enough(flavor, wanted)), "") if group else ""
            if not chosen:
                return {}
            for name, amount in wanted.items():
                found[chosen, name] = found.get((chosen, name), Fraction(0)) + amount
        enough = all(self._of(*place) >= amount for place, amount in found.items())
        return found if enough and _devices(self._scope, found) else {}

    def idle(self, taken: Mapping[_Place, Fraction]) -> bool:
        """Whether the nodes of the flavors have as many devices free."""
        for (flavor, resource), amount in taken.items():
            if self._scope.is_device(resource) and self._free(flavor, resource) < amount:
                return False
        return True

    def _free(self, flavor: str, resource: str) -> int:
        labels = {str(key): str(value) for key, value in mapping(self._flavors.get(flavor, {}), "spec", "nodeLabels").items()}
        nodes = [node for node in self._scope.usable_nodes if labels.items() <= node.metadata.label.items()]
        held = self._scope.held
        return sum(max(units_of(self._scope, node, resource) - held.get(node.name, {}).get(resource, 0), 0) for node in nodes)

    def _enough(self, flavor: str, wanted: Mapping[str, Fraction]) -> bool:
        return all(self._of(flavor, name) >= amount for name, amount in wanted.items())

    def _of(self, flavor: str, resource: str) -> Fraction:
        return self._left.get((flavor, resource), Fraction(0))

    def _choices(self, waiting: _Waiting) -> Iterator[tuple[bool, list[str], dict[str, Fraction]]]:
        """For each pod set and group of resources: whether there is such a group, the flavors that it may be given, what it asks for."""
        for pods, amounts in waiting.parts:
            rest = dict(amounts)
            for group in self._groups:
                covered = {text_of(name) for name in sequence(group.get("coveredResources"))}
                wanted = {name: rest.pop(name) for name in covered & rest.keys()}
                if wanted:
                    yield True, self._eligible(group, pods), wanted
            if any(self._scope.names_device(name) for name in rest):
                yield False, [], rest  # no group covers a device that it asks for

    def _eligible(self, group: Json, pods: PodSpec) -> list[str]:
        names = [text_of(flavor.get("name")) for flavor in mappings(group.get("flavors"))]
        specs = {name: mapping(self._flavors.get(name, {}), "spec") for name in names}
        keys = {str(key) for spec in specs.values() for key in mapping(spec, "nodeLabels")}
        choice = Choice(_restricted(pods, keys))
        return [name for name in names if self._lets(specs[name], choice, pods)]

    def _lets(self, spec: Json, choice: Choice, pods: PodSpec) -> bool:
        body: Json = {"metadata": {"labels": mapping(spec, "nodeLabels")}, "spec": {"taints": mappings(spec.get("nodeTaints"))}}
        try:
            node = typed.convert(body, Node, strict=False)
        except msgspec.ValidationError:
            return False
        return choice.admits(node) and Tolerated(pods.tolerations).lets_onto(node)


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
