"""GANG-10: pods that live hold the quota of devices that a Workload of Kueue has reserved, and some node takes them.

Kueue admits by sums over nodes. A pod that wants more devices than any one node has free stays Pending, and its quota is lost to others.
Facts: docs/facts/gangs.md#quota-of-kueue, docs/facts/gangs.md#kueue-and-placement.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from conformance.common_findings import overdue
from fixtures.grouping import grouped
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.times import newest
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import quoted
from fixtures.model.jobs.marks import KUEUE_GATES, placed
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.placement.affinity import Choice, Tolerated, too_long
from fixtures.model.placement.claimable import claimed_devices_of_pod
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.queues.kueue import CHECKS, MULTIKUEUE, CheckState, ClusterQueue, KueueObjects, KueuePods, Place, Workload
from fixtures.model.queues.kueue_quotas import device_quotas, pods_ready_timeout
from fixtures.text.globs import matches
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, Outcome
from fixtures.verdict.subjects import Subject

_PLACEMENT = "workload.status.conditions, requests of its pods, status.allocatable of nodes"


_LAG = 60.0
"""Seconds that a queue's status may lag behind its workloads."""

_PATIENT = frozenset({MULTIKUEUE, "kueue.x-k8s.io/provisioning-request"})
"""Controllers of admission checks that wait for machines or for other clusters."""

_SOURCE = "workload.status.conditions, workload.status.admission, its pods"


def judge_reservations(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per Workload that holds quota of devices, and one per ClusterQueue that says what it gave of them."""
    kueue = scope.cached(KueueObjects)
    workloads, queues = kueue.workloads, kueue.queues
    named = {name for one in workloads for name in one.reserved} | {name for queue in queues.values() for _, name in queue.given}
    devices = device_quotas(scope, named)
    pods, rooms = scope.cached(KueuePods), FreeCapacity(scope, now)
    by_queue = grouped((one.cluster_queue, one) for one in workloads)
    for one in workloads:
        amounts = {name: count for name, count in sorted(one.reserved.items()) if name in devices}
        if amounts and one.holds("QuotaReserved", "Admitted") and not one.holds("Finished"):
            yield _judge(_Held(rooms=rooms, workload=one, devices=amounts), pods)
    for name, queue in queues.items():
        yield from _usage(queue, by_queue.get(name, []), devices, now)


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """A Workload that holds quota, and how much of which devices."""

    rooms: FreeCapacity
    workload: Workload
    devices: dict[str, int]

    @property
    def names(self) -> str:
        """The conditions that are True, in words."""
        return ", ".join(kind for kind in ("QuotaReserved", "Admitted", "Evicted") if self.workload.holds(kind))

    @property
    def lost(self) -> str:
        """What no other workload can have, as a clause."""
        amounts = ", ".join(f"{count} {name}" for name, count in self.devices.items())
        return f"{amounts} of ClusterQueue {self.workload.cluster_queue} are lost to all others"

    def lasting(
        self, about: About, times: Iterable[str | None], state: str, why: str, cause: str = "QuotaHeldByNothing", most: float | None = None
    ) -> Finding:
        """The finding about a state that began at the newest of some times. ``why`` follows how long it has lasted.

        It may last ``most`` minutes; None stands for what Kueue itself ends within moments (policy ``gang.partialMinutes``).
        """
        limit = (self.rooms.scope.policy.gang.partial_minutes if most is None else most) * 60
        age = overdue(about, newest(times), self.rooms.now, limit, state, cause=CHANGE_UNDER_WAY)
        return age if isinstance(age, Finding) else about.bad(f"it is {state} for {duration(age)}{why}; {self.lost}", cause=cause)


def _judge(held: _Held, pods: KueuePods) -> Finding:
    workload, names = held.workload, held.names
    about = About(workload.place, _SOURCE, f"pods that live, or no quota after {held.rooms.scope.policy.gang.partial_minutes:g} min", names)
    if workload.holds("Evicted"):
        return held.lasting(about, [workload.turned("Evicted")], names, ", and the conditions contradict each other")
    if workload.elsewhere:
        return about.not_judged(f"MultiKueue runs its pods on cluster {workload.elsewhere}")
    if not workload.holds("Admitted"):
        about = About(workload.place, _SOURCE, "admitted", names)
        if waiting := [one for one in workload.checks if one.state == "Pending"]:
            return _checked(held, about, waiting)
        state, why = f"{names}, not admitted", ", and no admission check holds it"
        return held.lasting(about, [workload.turned("QuotaReserved")], state, why)
    admitted, alive = workload.turned("Admitted"), pods.of(workload)
    if alive and all(pod.gates for pod in alive):  # Kueue takes its own gates away, and those of others never
        gate = quoted(min(alive[0].gates, key=lambda name: not name.startswith(KUEUE_GATES)), 80)
        times, state = [*(pod.metadata.creation_timestamp for pod in alive), admitted], f"{names} and its pods keep the gate {gate}"
        about = About(workload.place, _SOURCE, "pods without a gate", f"{names}, {len(alive)} pods behind {gate}")
        return held.lasting(about, times, state, ", so no scheduler places them", cause="GateNeverLifted")
    if alive:
        return _unplaced(held, alive) or about.ok(f"{names}, {len(alive)} pods")
    about = msgspec.structs.replace(about, observed=f"{names}, no pod")
    found = held.lasting(about, [admitted], f"{names} without a pod", "")
    if found.outcome is Outcome.BAD and (stranger := pods.unknown_owner(workload)):
        return about.undecided(f"{names}, and which pods belong to {stranger} is not known")
    return found


def _checked(held: _Held, about: About, waiting: list[CheckState]) -> Finding:
    """Checks have not answered. Those of Kueue's own controllers may take hours: a machine is bought, or another cluster has no room."""
    scope = held.rooms.scope
    known = {name: controller for name, (_, controller) in scope.cached(KueueObjects).checks.items()}
    words = f"{held.names}, and admission checks hold it: {listed([one.name for one in waiting])}"
    if scope.snapshot.lacks(CHECKS) or any(known.get(one.name) in _PATIENT for one in waiting):
        return about.not_judged(words)
    missing = [one.name for one in waiting if one.name not in known]
    why = f": there is no AdmissionCheck {missing[0]}" if missing else ": its controller has not answered"
    times, minutes = [held.workload.turned("QuotaReserved"), *(one.changed for one in waiting)], scope.policy.requests.pending_minutes
    return held.lasting(about, times, words, why, cause="AdmissionCheckSilent", most=minutes)


def _unplaced(held: _Held, pods: Sequence[Pod]) -> Finding | None:
    """The finding about an admitted workload none of whose device pods has a node; None where one has, or nodes would take all."""
    rooms, scope, now = held.rooms, held.rooms.scope, held.rooms.now
    asking = [pod for pod in pods if scope.device_demand_of(pod).devices]
    if not asking or any(map(placed, asking)) or any(pod.metadata.deletion_timestamp for pod in asking):
        return None
    words = f"none of its {len(asking)} device pods has a node" if len(asking) > 1 else "its device pod has no node"
    since = newest([held.workload.turned("Admitted"), *(one.metadata.creation_timestamp for one in asking)])
    about = About(held.workload.place, _PLACEMENT)
    limit = max(scope.policy.requests.pending_minutes * 60, pods_ready_timeout(scope) or 0)
    age = overdue(about, since, now, limit, words, cause="AdmittedNeverPlaced")
    if isinstance(age, Finding):
        return age
    asked = [(pod, claimed_devices_of_pod(scope, pod)) for pod in asking]
    if unclear := next(filter(None, (claimed.not_modelled or too_long(pod.spec) for pod, claimed in asked)), ""):
        return about.undecided(f"{words} for {duration(age)}: {unclear}", cause="OnlySchedulerCanWeigh")
    alone = next(((pod, claimed) for pod, claimed in asked if not rooms.fit([(pod.spec, claimed)])), None)
    if alone is None and rooms.fit([(pod.spec, claimed) for pod, claimed in asked]):
        return None  # REQ-12 says that it waits beside free devices
    pod, claimed = alone or asked[0]
    amounts = {**scope.devices_of(pod.spec), **claimed.amounts}
    if scaled := [name for name in sorted(amounts) if matches(name, scope.policy.requests.autoscaled)]:
        message = f"{words}; {listed(scaled)} would come with new nodes (policy requests.autoscaled)"
        return about.not_judged(message, source="policy requests.autoscaled")
    choice, tolerated = Choice(pod.spec), Tolerated(pod.tolerations)
    nodes = [node for node in scope.accelerator_nodes if choice.admits(node) and tolerated.lets_onto(node)]
    if doing := next((f"{node.name}: {why}" for node in nodes if (why := change_under_way(node, scope.policy, now))), ""):
        return about.undecided(f"{words} for {duration(age)}, and {doing}", cause="ChangeUnderWay")
    why = _why_none(scope, nodes, amounts) if alone else "nodes have room for each of them, and not for all together"
    message = f"it is Admitted and {words} for {duration(age)}: {why}; {held.lost}"
    observed = f"Admitted, {len(asking)} pods without a node for {duration(age)}"
    return about.bad(message, cause="AdmittedNeverPlaced", observed=observed, expected="pods that a node can take")


def _why_none(scope: Scope, nodes: Sequence[Node], asked: dict[str, int]) -> str:
    """Why no node takes a pod, in figures: the most that one node has free, and what all have together."""
    name, count = max(asked.items(), key=lambda item: item[1], default=("", 0))
    if not nodes:
        return "its selector, affinity and tolerations let it onto no accelerator node"
    usable = [node for node in nodes if scope.why_not_judged(node) == ""]
    free = [max(scope.free(node, name), 0) for node in usable]
    if not name or name not in scope.capacity_names:
        return f"none of {len(nodes)} nodes has free what it asks for"
    return f"it asks for {count} {name}, no node has more than {max(free, default=0)} free, and all together have {sum(free)}"


def _usage(queue: ClusterQueue, workloads: list[Workload], devices: frozenset[str], now: float) -> Iterator[Finding]:
    """A queue's reservation against the sum over its workloads."""
    given = {key: count for key, count in queue.given.items() if key[1] in devices}
    if not given:
        return
    held: dict[Place, int] = {}
    changed = newest(one.turned(kind) for one in workloads for kind in one.conditions) or 0.0
    for one in workloads:
        if one.holds("QuotaReserved") and not one.holds("Finished"):
            for key, count in one.assigned.items():
                held[key] = held.get(key, 0) + count
    source = "clusterqueue.status.flavorsReservation, workload.status.admission"
    differing = [(key, count, held.get(key, 0)) for key, count in sorted(given.items()) if count != held.get(key, 0)]
    unlike = [f"{' '.join(key)} {count}, workloads have {sum_}" for key, count, sum_ in differing]
    observed, expected = listed(unlike) or "as its workloads", "the sum of what its workloads have reserved"
    about = About(Subject("ClusterQueue", queue.name), source, expected, observed)
    if not unlike:
        yield about.ok()
    elif now - changed < _LAG:
        yield about.undecided(f"{observed}; its workloads changed {now - changed:.0f} s ago", cause="ChangeUnderWay")
    else:
        going = [f"{one.namespace}/{one.name}" for one in workloads if one.going and one.holds("Finished")]
        rest = f"; {listed(going, 3)} ended and cannot go" if going else ""
        yield about.bad(f"{observed}: the queue counts quota that is free, or gives it out twice{rest}", cause="QueueCountsWrong")
