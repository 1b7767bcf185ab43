"""Volcano's queues: they are open (GANG-11), what they promise is there (GANG-09), and pods hold what they gave (GANG-10).

Facts: docs/facts/gangs.md#queues-that-admit-nothing, docs/facts/gangs.md#quota-of-volcano.
"""

from collections import Counter
from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.grouping import grouped
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import volcano_group
from fixtures.model.placement.claimable import units_of
from fixtures.model.queues.volcano import VOLCANO_QUEUES, PodGroup, VolcanoQueue, pod_groups, volcano_queues
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_WAITS = frozenset({"", "Pending", "Inqueue"})
_SHUT = frozenset({"Closed", "Closing", "Unknown"})


def judge_open(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-11: one finding per queue that has PodGroups with devices."""
    queues = {queue.name: queue for queue in volcano_queues(scope)}
    with_devices = {
        (pod.namespace, name) for pod in scope.snapshot.pods if (name := volcano_group(pod)) and scope.device_demand_of(pod).devices
    }
    alive = (group for group in pod_groups(scope) if group.phase != "Completed")
    asking = (one for one in alive if any(map(scope.names_device, one.least)) or (one.namespace, one.name) in with_devices)
    for name, own in sorted(grouped((group.queue, group) for group in asking).items()):
        if scope.snapshot.served(VOLCANO_QUEUES):
            yield _judge_open(scope, name, queues.get(name), own, now)


def _judge_open(scope: Scope, name: str, queue: VolcanoQueue | None, groups: list[PodGroup], now: float) -> Finding:
    state = queue.phase if queue is not None else ""
    waiting = [group for group in groups if group.phase in _WAITS]
    trouble = f"it is {state}" if queue is not None else "there is no queue of that name"
    about = About(Subject("Queue", name), "queue.status.state, podgroup.status.phase", "Open")
    if state == "Open" and queue is not None and (finding := _above(scope, about, queue, waiting, now)):
        return finding
    if state == "Open":
        return about.ok(f"Open, {len(groups)} PodGroups with devices")
    if queue is not None and state not in _SHUT:
        return about.undecided(f"Volcano's controllers have set no state that the suite knows: {state[:60] or 'none'}")
    if not waiting:
        return about.not_judged(f"{trouble}, and no PodGroup with devices waits in it")
    created = [group.since for group in waiting if group.since is not None]
    limit = scope.policy.requests.pending_minutes * 60
    young, unknown = f"{trouble}; its first PodGroup has waited", f"{trouble}, and nothing says how long its PodGroups wait"
    age = overdue(about, min(created, default=None), now, limit, young, cause="QueueAdmitsNothing", unknown=unknown)
    if isinstance(age, Finding):
        return age
    first = f"{waiting[0].namespace}/{waiting[0].name}"
    message = f"{trouble}: {len(waiting)} PodGroups that ask for devices wait for {duration(age)} ({first} first), and none is let in"
    return about.bad(message, cause="QueueAdmitsNothing", observed=state or "missing")


def _above(scope: Scope, about: About, queue: VolcanoQueue, waiting: list[PodGroup], now: float) -> Finding | None:
    """The finding about an open queue with a PodGroup that asks for more devices than it may ever have; None without one."""
    for group in waiting:
        most = queue.capability
        for name, count in _devices(scope, group.least):
            if count > most.get(name, count):
                words = f"PodGroup {group.namespace}/{group.name} asks for {count} {name}, and the queue may have {most[name]} (capability)"
                limit = scope.policy.requests.pending_minutes * 60
                age = overdue(about, group.since, now, limit, f"{words}:", cause="GroupAboveItsQueue")
                if isinstance(age, Finding):
                    return age
                message = f"{words}: it has waited for {duration(age)} and can never be placed"
                return about.bad(message, cause="GroupAboveItsQueue", observed=f"capability {most[name]} {name}")
    return None


def judge_held(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-10: one finding per PodGroup with devices that Volcano has let into its queue."""
    members = Counter((pod.namespace, name) for pod in scope.snapshot.pods if (name := volcano_group(pod)))
    limit = scope.policy.gang.partial_minutes * 60
    for group in pod_groups(scope):
        amounts = ", ".join(f"{count} {name}" for name, count in _devices(scope, group.least))
        if group.phase not in ("Inqueue", "Running") or not amounts:
            continue
        place, pods = Subject("PodGroup", group.name, group.namespace), members[group.namespace, group.name]
        about = About(place, "podgroup.status.phase, its pods", f"pods, or gone after {duration(limit)}")
        age = overdue(about, group.changed, now, limit, f"{group.phase} without a pod", cause="ChangeUnderWay")
        if pods:
            yield about.ok(f"{group.phase}, {pods} pods")
        elif isinstance(age, Finding):
            yield age
        else:
            message = f"it is {group.phase} for {duration(age)} and has no pod: {amounts} of queue {group.queue} stay taken for it"
            yield about.bad(message, cause="QuotaHeldByNothing", observed=f"{group.phase}, no pod")


def judge_promised(scope: Scope) -> Iterator[Finding]:
    """GANG-09: one finding per device resource that queues guarantee, and one per queue whose capability has devices."""
    total: dict[str, int] = {}
    for node in scope.accelerator_nodes:
        for resource in {*node.allocatable, *scope.claims.serving}:
            if scope.names_device(resource):
                total[resource] = total.get(resource, 0) + units_of(scope, node, resource)
    guaranteed: dict[str, dict[str, int]] = {}
    queues = volcano_queues(scope)
    parents = {queue.parent for queue in queues}
    for queue in queues:
        for resource, number in _devices(scope, queue.guarantee) if queue.name not in parents else ():
            guaranteed.setdefault(resource, {})[queue.name] = number
        for resource, number in _devices(scope, queue.capability):
            has, observed = total.get(resource, 0), f"capability {number}"
            about = About(Subject("Queue", f"{queue.name} {resource}"), "queue.spec.capability, node.status.allocatable", observed=observed)
            if number <= has:
                yield about.ok(expected=f"at most what nodes can allocate: {has}")
            else:
                why = "Volcano places all of a gang or nothing, so no part of it waits"
                yield about.not_judged(f"{observed}, nodes can allocate {has}: {why}")
    for resource, amounts in sorted(guaranteed.items()):
        has, sum_ = total.get(resource, 0), sum(amounts.values())
        expected, observed = f"at most what nodes can allocate: {has}", f"{sum_} in {len(amounts)} queues"
        source = "queue.spec.guarantee.resource, node.status.allocatable"
        about = About(Subject("Queue", f"guarantees of {resource}"), source, expected, observed)
        if sum_ <= has:
            yield about.ok()
        else:
            names = ", ".join(sorted(amounts)[:5])
            message = f"{names} are guaranteed {sum_}, and nodes can allocate {has}: Volcano cannot keep that, and its scheduler may stop"
            yield about.bad(message, cause="GuaranteesAboveNodes")


def _devices(scope: Scope, amounts: dict[str, int]) -> list[tuple[str, int]]:
    return [(name, number) for name, number in amounts.items() if scope.names_device(name) and number]
