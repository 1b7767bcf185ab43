"""Volcano's queues: they are open (GANG-11), what they promise is there (GANG-09), and pods hold what they gave (GANG-10).

Facts: docs/facts/gangs.md#queues-that-admit-nothing, docs/facts/gangs.md#quota-of-volcano.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.gang.adapters.grouped import DEFAULT_QUEUE, VOLCANO_GROUPS, VOLCANO_QUEUES
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import volcano_group
from fixtures.model.placement.claimable import units_of
from fixtures.model.queues.kueue_objects import conditions_of, name_of, objects_of, units
from fixtures.text.ages import duration, so_far
from fixtures.verdict.findings import About, Finding, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import Subject

_WAITS = frozenset({"", "Pending", "Inqueue"})
_SHUT = frozenset({"Closed", "Closing", "Unknown"})


def judge_open(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-11: one finding per queue that has PodGroups with devices."""
    queues = {name_of(item): item for item in objects_of(scope, VOLCANO_QUEUES)}
    groups: dict[str, list[Json]] = {}
    with_devices = {
        (pod.namespace, name) for pod in scope.snapshot.pods if (name := volcano_group(pod)) and scope.device_demand_of(pod).devices
    }
    for group in objects_of(scope, VOLCANO_GROUPS):
        spec, meta = mapping(group, "spec"), mapping(group, "metadata")
        asks = any(scope.names_device(str(name)) for name in mapping(spec, "minResources"))
        if mapping(group, "status").get("phase") != "Completed" and (asks or (meta.get("namespace"), name_of(group)) in with_devices):
            groups.setdefault(str(spec.get("queue") or DEFAULT_QUEUE), []).append(group)
    for name, own in sorted(groups.items()):
        if scope.snapshot.served(VOLCANO_QUEUES):
            yield _judge_open(scope, name, queues.get(name), own, now)


def _judge_open(scope: Scope, name: str, queue: Json | None, groups: list[Json], now: float) -> Finding:
    place, source = Subject("Queue", name), "queue.status.state, podgroup.status.phase"
    state = str(mapping(queue, "status").get("state") or "") if queue is not None else ""
    waiting = [group for group in groups if str(mapping(group, "status").get("phase") or "") in _WAITS]
    trouble = f"it is {state}" if queue is not None else "there is no queue of that name"
    about = About(place, source, "Open")
    if state == "Open":
        return about.ok(f"Open, {len(groups)} PodGroups with devices")
    if queue is not None and state not in _SHUT:
        return about.undecided(
            f"Volcano's controllers have set no state that the suite knows: {state[:60] or 'none'}", cause="NotUnderstood"
        )
    if not waiting:
        return about.not_judged(f"{trouble}, and no PodGroup with devices waits in it")
    created = [moment for group in waiting if (moment := unix(str(mapping(group, "metadata").get("creationTimestamp")))) is not None]
    limit = scope.policy.requests.pending_minutes * 60
    if not created:
        return about.undecided(f"{trouble}, and nothing says how long its PodGroups wait", cause="QueueAdmitsNothing")
    age = now - min(created)
    if age <= limit:
        return about.undecided(f"{trouble}; its first PodGroup has waited {so_far(age, limit)}", cause="ChangeUnderWay")
    first = f"{mapping(waiting[0], 'metadata').get('namespace')}/{name_of(waiting[0])}"
    message = f"{trouble}: {len(waiting)} PodGroups that ask for devices wait for {duration(age)} ({first} first), and none is let in"
    return about.bad(message, cause="QueueAdmitsNothing", observed=state or "missing")


def judge_held(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-10: one finding per PodGroup with devices that Volcano has let into its queue."""
    members: dict[tuple[str, str], int] = {}
    for pod in scope.snapshot.pods:
        if name := volcano_group(pod):
            members[pod.namespace, name] = members.get((pod.namespace, name), 0) + 1
    limit, source = scope.policy.gang.partial_minutes * 60, "podgroup.status.phase, its pods"
    for group in objects_of(scope, VOLCANO_GROUPS):
        spec, status, meta = mapping(group, "spec"), mapping(group, "status"), mapping(group, "metadata")
        phase, namespace = str(status.get("phase") or ""), str(meta.get("namespace") or "")
        amounts = ", ".join(f"{count} {name}" for name, count in _devices(scope, mapping(spec, "minResources")))
        if phase not in ("Inqueue", "Running") or not amounts:
            continue
        place, pods = Subject("PodGroup", name_of(group), namespace), members.get((namespace, name_of(group)), 0)
        expected = f"pods, or gone after {duration(limit)}"
        since = newest([str(meta.get("creationTimestamp")), *(str(one.get("lastTransitionTime")) for one in conditions_of(group).values())])
        if pods:
            yield ok(place, observed=f"{phase}, {pods} pods", expected=expected, source=source)
        elif since is None or now - since <= limit:
            age = f" {so_far(now - since, limit)}" if since is not None else ", and nothing says since when"
            yield undecided(place, message=f"{phase} without a pod{age}", source=source, cause="ChangeUnderWay")
        else:
            queue = spec.get("queue") or DEFAULT_QUEUE
            message = f"it is {phase} for {duration(now - since)} and has no pod: {amounts} of queue {queue} stay taken for it"
            yield bad(place, observed=f"{phase}, no pod", expected=expected, source=source, message=message, cause="QuotaHeldByNothing")


def judge_promised(scope: Scope) -> Iterator[Finding]:
    """GANG-09: one finding per device resource that queues guarantee, and one per queue whose capability has devices."""
    total: dict[str, int] = {}
    for node in scope.accelerator_nodes:
        for resource in {*node.status.allocatable, *scope.claims.serving}:
            if scope.names_device(resource):
                total[resource] = total.get(resource, 0) + units_of(scope, node, resource)
    guaranteed: dict[str, dict[str, int]] = {}
    queues = objects_of(scope, VOLCANO_QUEUES)
    parents = {str(mapping(queue, "spec").get("parent") or "") for queue in queues}
    for queue in queues:
        name, spec = name_of(queue), mapping(queue, "spec")
        for resource, number in _devices(scope, mapping(spec, "guarantee", "resource")) if name not in parents else ():
            guaranteed.setdefault(resource, {})[name] = number
        for resource, number in _devices(scope, mapping(spec, "capability")):
            place, has = Subject("Queue", f"{name} {resource}"), total.get(resource, 0)
            observed, source = f"capability {number}", "queue.spec.capability, node.status.allocatable"
            if number <= has:
                yield ok(place, observed=observed, expected=f"at most what nodes can allocate: {has}", source=source)
            else:
                why = "Volcano places all of a gang or nothing, so no part of it waits"
                yield not_judged(place, message=f"{observed}, nodes can allocate {has}: {why}", source=source)
    for resource, amounts in sorted(guaranteed.items()):
        place, has, sum_ = Subject("Queue", f"guarantees of {resource}"), total.get(resource, 0), sum(amounts.values())
        observed, source = f"{sum_} in {len(amounts)} queues", "queue.spec.guarantee.resource, node.status.allocatable"
        expected = f"at most what nodes can allocate: {has}"
        if sum_ <= has:
            yield ok(place, observed=observed, expected=expected, source=source)
        else:
            names = ", ".join(sorted(amounts)[:5])
            message = f"{names} are guaranteed {sum_}, and nodes can allocate {has}: Volcano cannot keep that, and its scheduler may stop"
            yield bad(place, observed=observed, expected=expected, source=source, message=message, cause="GuaranteesAboveNodes")


def _devices(scope: Scope, amounts: Json) -> list[tuple[str, int]]:
    return [(str(name), number) for name, amount in amounts.items() if scope.names_device(str(name)) and (number := units(amount))]
