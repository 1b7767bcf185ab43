"""REQ-12: no device pod waits while devices that fit it are free.

Facts: docs/facts/scheduling-messages.md#what-a-scheduler-weighs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from conformance.common_findings import overdue
from conformance.outputs.events import ReasonKind
from conformance.probes.running import unschedulable
from conformance.req.gated import judge_gates
from conformance.req.pending_groups import Group, pending_groups
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import PodEvents, quoted, unread_events
from fixtures.model.demand.reserved_devices import fraction_of
from fixtures.model.dra.claims import Request
from fixtures.model.dra.kinds import CLASSES, SLICES
from fixtures.model.placement.affinity import Choice, too_long
from fixtures.model.placement.claim_fit import ClaimedDevices, changed_at, chosen, claimed_devices_of, free_on
from fixtures.model.placement.fitting import FreeCapacity, Room, constraints_not_modelled
from fixtures.text.ages import duration
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad

Still = Callable[[Sequence[Pod], Sequence[str]], str]
"""Asks the cluster again about pods and nodes: a clause that says what has changed, or empty when nothing has."""

_SOURCE = "requests of bound and pending pods, status.allocatable, taints and labels of nodes"
_EXPECTED = "placed, or no devices free that fit"
_NOT_WEIGHED = frozenset({ReasonKind.POD_AFFINITY, ReasonKind.TOPOLOGY_SPREAD, ReasonKind.VOLUME, ReasonKind.DRA})
_QUOTA = re.compile(r"\bquota|queue resource|over.{0,12}limit|not ?admitted", re.IGNORECASE)


def check_waiting(scope: Scope, now: float, still: Still | None = None) -> Iterator[Finding]:
    """One finding per pending device pod, or per group of pods that must be placed together: no free devices fit, or it is young."""
    rooms, events = FreeCapacity(scope, now), scope.pod_events
    groups = pending_groups(scope)
    for group in groups:
        for pod in group.pods:
            if pod.status.nominated_node_name:
                rooms.reserve(pod.status.nominated_node_name, pod.spec)
    for group in groups:
        yield judge_gates(scope, group, now) or _judge(scope, group, now, rooms, events, still)


def _judge(scope: Scope, group: Group, now: float, rooms: FreeCapacity, events: PodEvents, still: Still | None) -> Finding:
    claimed = [claimed_devices_of(scope, pod.spec, pod.namespace, pod.status.resource_claim_statuses) for pod in group.pods]
    about = About(group.subject, _SOURCE, _EXPECTED)
    if reason := _left_out(scope, group, claimed):
        return about.not_judged(reason)
    if long := next(filter(None, (too_long(pod.spec) for pod in group.pods)), ""):
        return about.undecided(long, cause="NotUnderstood", source="required node affinity of the pending pods")
    asked = _amounts(scope, group, claimed)
    places = rooms.place_all([(pod.spec, own) for pod, own in zip(group.pods, claimed, strict=True)])
    if not places and (other := _free_by_class(scope, group, claimed)):
        return about.not_judged(other, source=f"{CLASSES}, {SLICES}")
    if not places:
        return about.ok(f"{asked}: no free devices fit it")
    said = _said(group, events)
    if reason := _explained(group, claimed, said):
        return about.not_judged(reason, source="condition PodScheduled, events")
    if reason := _not_understood(group):
        return about.undecided(reason, cause="NotUnderstood", source="condition PodScheduled")
    limit, state = scope.policy.requests.pending_minutes * 60, "devices that fit it are free, and it has waited"
    cause, unknown = "PodWaitsBesideFreeDevices", f"{asked}, which are free, and nothing says since when it waits"
    age = overdue(about, group.since, now, limit, state, cause=cause, unknown=unknown, quiet=not said)  # else it is just being placed
    if isinstance(age, Finding):
        return age
    since = [room.free_since for room in places]
    since += [changed_at(scope, room.node, own.requests) for room, own in zip(places, claimed, strict=True) if own.requests]
    free_since = max((at for at in since if at is not None), default=None)
    room = About(group.subject, "ends of pods, conditions of nodes")
    if free_since is not None:
        free_for = overdue(room, free_since, now, limit, f"{places[0].node.name} has had room for it", cause=cause)
        if isinstance(free_for, Finding):
            return free_for
    if not said and (unread := unread_events(scope.snapshot)):
        message = f"devices that fit it are free, and what its scheduler may say of it was not read: {unread}"
        return about.undecided(message, cause="EventsUnread", source="events")
    nodes = list(dict.fromkeys(room.node.name for room in places))
    if still and (changed := still(group.pods, nodes)):
        return about.ok(f"{asked}: {changed}", source="the cluster, asked again")
    return _bad(scope, group, claimed, places, nodes, age, said)


def _bad(
    scope: Scope, group: Group, claimed: Sequence[ClaimedDevices], places: Sequence[Room], nodes: list[str], age: float, said: str
) -> Finding:
    own = _own_amounts(scope, group.pods[0], claimed[0])
    by_dra = claimed[0].amounts
    devices = sorted({*own, *by_dra})
    # the rooms have the pods in them already, so that what is free is what is left and what these pods take
    free = {
        name: places[0].left(name) + sum(_own_amounts(scope, pod, one).get(name, 0) for pod, one in zip(group.pods, claimed, strict=True))
        for name in own
    }
    free |= {name: len(places[0].devices) + sum(one.amounts.get(name, 0) for one in claimed) for name in by_dra}
    what = ", ".join(f"{count} {name}" for name, count in free.items()) if len(nodes) == 1 else listed(devices)
    where = f"{listed(nodes, 3)} {'has' if len(nodes) == 1 else 'have'}"
    who = group.pods[0].spec.scheduler_name or "default-scheduler"
    reason = f"{who} says: {said}" if said else f"{who} has said nothing about it: does it run?"
    message = f"it has waited for {duration(age)} although {where} {what} free, and fits: {reason}"
    observed = f"{_amounts(scope, group, claimed)}, pending for {duration(age)}; {where} {what} free"
    return bad(group.subject, observed=observed, expected=_EXPECTED, source=_SOURCE, message=message, cause="PodWaitsBesideFreeDevices")


def _left_out(scope: Scope, group: Group, claimed: Sequence[ClaimedDevices]) -> str:
    """Why a group is not judged here, or empty."""
    if group.missing:
        return f"{group.missing} more of its pods would have to exist before it can be placed"
    return next(
        (f"which of its claims can be met only its scheduler can weigh: {own.not_modelled}" for own in claimed if own.not_modelled), ""
    )


def _own_amounts(scope: Scope, pod: Pod, claimed: ClaimedDevices) -> dict[str, int]:
    """Devices that a pod asks for of what nodes have themselves."""
    return {name: count for name, count in scope.devices_of(pod.spec).items() if name not in claimed.resources}


def _free_by_class(scope: Scope, group: Group, claimed: Sequence[ClaimedDevices]) -> str:
    """That a DeviceClass serves what a group asks for of nodes' own devices, and has as many free where a pod may run; or empty."""
    for pod, own in zip(group.pods, claimed, strict=True):
        amounts = {name: count for name, count in _own_amounts(scope, pod, own).items() if scope.claims.class_behind(name)}
        choice = Choice(pod.spec)
        nodes = [node for node in scope.snapshot.nodes if amounts and node.name in scope.dra_inventory and choice.admits(node)]
        for name, count in amounts.items():
            device_class = scope.claims.class_behind(name)
            request = Request(name=name, device_class=device_class, count=count, expressions=(), admin=False)
            if device_class in scope.claims.classes and any(chosen(scope, scope.cached_for(node, free_on), [request]) for node in nodes):
                return f"DeviceClass {device_class} serves {name} as well as a device plugin: which of both it can have is not weighed"
    return ""


def _explained(group: Group, claimed: Sequence[ClaimedDevices], said: str) -> str:
    """Why a scheduler may rightly leave a group although devices are free, or empty: reasons that the arithmetic does not weigh."""
    if _QUOTA.search(said):
        return f"its quota or queue holds it back, says the scheduler: {said}"
    for pod, asked in zip(group.pods, claimed, strict=True):
        message = unschedulable(pod)
        not_weighed = _NOT_WEIGHED - {ReasonKind.DRA} if asked.requests else _NOT_WEIGHED
        if message and (other := [reason.text for reason in message.reasons if reason.kind in not_weighed]):
            return f"its scheduler names another reason than devices: {quoted(listed(other, 3))}"
        if message is None and (others := constraints_not_modelled(pod.spec)):
            return f"it has {listed(others)}, which only its scheduler can weigh"
    return ""


def _not_understood(group: Group) -> str:
    for pod in group.pods:
        message = unschedulable(pod)
        if message and (other := [reason.text for reason in message.about(ReasonKind.OTHER)]):
            return f"devices that fit it are free, and its scheduler names a reason that is not understood: {quoted(listed(other, 3))}"
    return ""


def _said(group: Group, events: PodEvents) -> str:
    """What the scheduler says: the newest event that is no repetition of the condition, and the condition."""
    for pod in group.pods:
        condition = pod.condition("PodScheduled")
        texts = [event.text for event in events.of(pod)[:1]]
        if condition is not None and condition.status == "False" and condition.message:
            texts.append(condition.message)
        if texts:
            return quoted("; ".join(dict.fromkeys(texts)))
    return ""


def _amounts(scope: Scope, group: Group, claimed: Sequence[ClaimedDevices]) -> str:
    total: dict[str, int] = {}
    for pod, own in zip(group.pods, claimed, strict=True):
        for name, count in {**_own_amounts(scope, pod, own), **own.amounts}.items():
            total[name] = total.get(name, 0) + count
    amounts = ", ".join(f"{count} {name}" for name, count in sorted(total.items()))
    if fraction := fraction_of(group.pods[0]):
        amounts += f" in parts ({fraction})"
    return f"{len(group.pods)} pods ask for {amounts}" if len(group.pods) > 1 else f"it asks for {amounts}"
