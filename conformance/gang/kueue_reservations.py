"""GANG-10: pods that live hold the quota of devices that a Workload of Kueue has reserved, and some node takes them.

Kueue admits by sums over nodes. A pod that wants more devices than any one node has free stays Pending, and its quota is lost to others.
Facts: docs/facts/gangs.md#quota-of-kueue, docs/facts/gangs.md#kueue-and-placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from conformance.gang.adapters.kueue import CLUSTER_QUEUES, WORKLOADS, pods_ready_timeout
from conformance.gang.kueue_checks import CHECKS
from conformance.gang.kueue_quota import device_quotas
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope, matches
from fixtures.model.demand.pod_events import quoted
from fixtures.model.jobs.marks import KUEUE_GATES, placed
from fixtures.model.nodes.changes_by_age import change_under_way
from fixtures.model.placement.affinity import Choice, too_long
from fixtures.model.placement.claim_fit import claimed_devices_of
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.placement.tolerations import Tolerated
from fixtures.model.queues.kueue_objects import assigned, conditions_of, is_true, name_of, objects_of, reserved, units
from fixtures.model.queues.kueue_pods import KueuePods
from fixtures.text.ages import duration, so_far
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad, not_judged, undecided
from fixtures.verdict.subjects import Subject

_PLACEMENT = "workload.status.conditions, requests of its pods, status.allocatable of nodes"


def judge_unplaced(rooms: FreeCapacity, place: Subject, pods: Sequence[Pod], admitted: str, lost: str) -> Finding | None:
    """The finding about an admitted workload none of whose device pods has a node; None where one has, or nodes would take all.

    ``admitted``: when it was admitted, as its condition has it; ``lost``: what it holds, as a clause.
    """
    scope, now = rooms.scope, rooms.now
    asking = [pod for pod in pods if scope.device_demand_of(pod).devices]
    if not asking or any(map(placed, asking)) or any(pod.metadata.deletion_timestamp for pod in asking):
        return None
    words = f"none of its {len(asking)} device pods has a node" if len(asking) > 1 else "its device pod has no node"
    since = newest([admitted, *(one.metadata.creation_timestamp for one in asking)])
    about = About(place, _PLACEMENT)
    if since is None:
        return about.undecided(f"{words}, and nothing says since when", cause="AdmittedNeverPlaced")
    age, limit = now - since, max(scope.policy.requests.pending_minutes * 60, pods_ready_timeout(scope) or 0)
    if age <= limit:
        return about.undecided(f"{words} {so_far(age, limit)}", cause="ChangeUnderWay")
    asked = [(pod, claimed_devices_of(scope, pod.spec, pod.namespace, pod.status.resource_claim_statuses)) for pod in asking]
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
    nodes = _allowed(scope, pod)
    if doing := next((f"{node.name}: {why}" for node in nodes if (why := change_under_way(node, scope.policy, now))), ""):
        return about.undecided(f"{words} for {duration(age)}, and {doing}", cause="ChangeUnderWay")
    why = _why_none(scope, nodes, amounts) if alone else "nodes have room for each of them, and not for all together"
    message = f"it is Admitted and {words} for {duration(age)}: {why}; {lost}"
    observed = f"Admitted, {len(asking)} pods without a node for {duration(age)}"
    return about.bad(message, cause="AdmittedNeverPlaced", observed=observed, expected="pods that a node can take")


def _allowed(scope: Scope, pod: Pod) -> list[Node]:
    choice, tolerated = Choice(pod.spec), Tolerated(pod.spec.tolerations)
    return [node for node in scope.accelerator_nodes if choice.admits(node) and tolerated.lets_onto(node)]


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


_LAG = 60.0
"""Seconds that a queue's status may lag behind its workloads."""

_PATIENT = frozenset({"kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"})
"""Controllers of admission checks that wait for machines or for other clusters."""

_SOURCE = "workload.status.conditions, workload.status.admission, its pods"


class _Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A Workload that holds quota, and how much of which devices. ``since``: when it got what it has, Unix seconds."""

    place: Subject
    item: Json
    conditions: dict[str, Json]
    devices: dict[str, int]

    def holds(self, kind: str) -> bool:
        return self.conditions.get(kind, {}).get("status") == "True"

    def text_of_time(self, kind: str) -> str:
        return str(self.conditions.get(kind, {}).get("lastTransitionTime"))

    def since(self, *kinds: str) -> float | None:
        times = [unix(self.text_of_time(kind)) for kind in kinds if kind in self.conditions]
        known = [moment for moment in times if moment is not None]
        return max(known) if known else None


def judge_reservations(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per Workload that holds quota of devices, and one per ClusterQueue that says what it gave of them."""
    workloads, queues = objects_of(scope, WORKLOADS), objects_of(scope, CLUSTER_QUEUES)
    named = {name for item in workloads for name in reserved(item)} | {name for item in queues for _, name in _given(item)}
    devices = device_quotas(scope, named)
    held = [workload for item in workloads if (workload := _holding(item, devices)) is not None]
    pods, rooms = scope.cached(KueuePods), FreeCapacity(scope, now)
    for workload in held:
        yield _judge(rooms, workload, pods)
    by_queue: dict[str, list[Json]] = {}
    for item in workloads:
        by_queue.setdefault(text_of(mapping(item, "status", "admission").get("clusterQueue")), []).append(item)
    for queue in queues:
        yield from _usage(queue, by_queue.get(name_of(queue), []), devices, now)


def _holding(item: Json, devices: frozenset[str]) -> _Workload | None:
    amounts = {name: count for name, count in sorted(reserved(item).items()) if name in devices}
    place = Subject("Workload", name_of(item), str(mapping(item, "metadata").get("namespace") or ""))
    workload = _Workload(place=place, item=item, conditions=conditions_of(item), devices=amounts)
    if workload.holds("Finished") or not (workload.holds("QuotaReserved") or workload.holds("Admitted")):
        return None
    return workload if amounts else None


def _judge(rooms: FreeCapacity, workload: _Workload, pods: KueuePods) -> Finding:
    scope, now = rooms.scope, rooms.now
    limit, place = scope.policy.gang.partial_minutes, workload.place
    names = ", ".join(kind for kind in ("QuotaReserved", "Admitted", "Evicted") if workload.holds(kind))
    expected = f"pods that live, or no quota after {limit:g} min"
    about = About(place, _SOURCE, expected)
    if workload.holds("Evicted"):
        age = _age(now, workload.since("Evicted"))
        if age is not None and age <= limit * 60:
            return about.undecided(f"{names} for {duration(age)}: its eviction is under way", cause="ChangeUnderWay")
        so_long = f" for {duration(age)}" if age is not None else ""
        message = f"it is {names}{so_long}: the conditions contradict each other, and {_lost(workload)}"
        return about.bad(message, cause="QuotaHeldByNothing", observed=names)
    if elsewhere := _elsewhere(workload.item):
        return about.not_judged(elsewhere)
    if not workload.holds("Admitted"):
        return _unadmitted(scope, workload, names, now)
    alive = pods.of(workload.item)
    if alive and (gate := _gate_of_all(alive)):
        return _gated(scope, workload, names, alive, gate, now)
    if alive and (finding := judge_unplaced(rooms, place, alive, workload.text_of_time("Admitted"), _lost(workload))):
        return finding
    if alive:
        return about.ok(f"{names}, {len(alive)} pods")
    age = _age(now, workload.since("Admitted"))
    if age is None or age <= limit * 60:
        so_long = f"for {duration(age)}" if age is not None else "and nothing says since when"
        return about.undecided(f"{names} {so_long}, and it has no pod yet", cause="ChangeUnderWay")
    if stranger := pods.unknown_owner(workload.item):
        message = f"{names} for {duration(age)}, and which pods belong to {stranger} is not known"
        return about.undecided(message, cause="NotUnderstood")
    message = f"it is {names} for {duration(age)} and has no pod: {_lost(workload)}"
    return about.bad(message, cause="QuotaHeldByNothing", observed=f"{names}, no pod")


def _gate_of_all(pods: list[Pod]) -> str:
    """A gate that holds back the first of the pods where every one has some, or empty. One of Kueue's own comes first."""
    gates = [[str(gate.get("name")) for gate in pod.spec.scheduling_gates or ()] for pod in pods]
    return min(gates[0], key=lambda name: not name.startswith(KUEUE_GATES)) if all(gates) else ""


def _gated(scope: Scope, workload: _Workload, names: str, pods: list[Pod], gate: str, now: float) -> Finding:
    """Kueue takes its gates away within moments of the admission, and those of others never: quota is held by pods that cannot run."""
    limit, place, gate = scope.policy.gang.partial_minutes * 60, workload.place, quoted(gate, 80)
    since = newest([*(pod.metadata.creation_timestamp for pod in pods), workload.text_of_time("Admitted")])
    if since is None or now - since <= limit:
        so_long = f" for {duration(now - since)}" if since is not None else ", and nothing says since when"
        return undecided(place, message=f"{names}, and its pods keep the gate {gate}{so_long}", source=_SOURCE, cause="ChangeUnderWay")
    kept = f"it is {names} and its pods keep the gate {gate} for {duration(now - since)}"
    message = f"{kept}, so no scheduler places them: {_lost(workload)}"
    observed = f"{names}, {len(pods)} pods behind {gate}"
    return bad(place, observed=observed, expected="pods without a gate", source=_SOURCE, message=message, cause="GateNeverLifted")


def _unadmitted(scope: Scope, workload: _Workload, names: str, now: float) -> Finding:
    """Quota is reserved and the workload is not admitted: a check that has not answered may hold it, and nothing else."""
    limit, place = scope.policy.gang.partial_minutes, workload.place
    checks = mappings(mapping(workload.item, "status").get("admissionChecks"))
    if waiting := [one for one in checks if one.get("state") == "Pending"]:
        return _checked(scope, workload, names, waiting, now)
    age = _age(now, workload.since("QuotaReserved"))
    if age is None or age <= limit * 60:
        return undecided(place, message=f"{names}, not admitted yet", source=_SOURCE, cause="ChangeUnderWay")
    message = f"{names} for {duration(age)}, not admitted, and no admission check holds it: {_lost(workload)}"
    return bad(place, observed=names, expected="admitted", source=_SOURCE, message=message, cause="QuotaHeldByNothing")


def _checked(scope: Scope, workload: _Workload, names: str, waiting: list[Json], now: float) -> Finding:
    """Checks have not answered. Those of Kueue's own controllers may take hours: a machine is bought, or another cluster has no room."""
    place, limit = workload.place, scope.policy.requests.pending_minutes * 60
    known = {name_of(item): text_of(mapping(item, "spec").get("controllerName")) for item in objects_of(scope, CHECKS)}
    words = f"{names}, and admission checks hold it: {listed([str(one.get('name')) for one in waiting])}"
    if scope.snapshot.lacks(CHECKS) or any(known.get(str(one.get("name"))) in _PATIENT for one in waiting):
        return not_judged(place, message=words, source=_SOURCE)
    since = newest([workload.text_of_time("QuotaReserved"), *(str(one.get("lastTransitionTime")) for one in waiting)])
    if since is None or now - since <= limit:
        so_long = f" {so_far(now - since, limit)}" if since is not None else ", and nothing says since when"
        return undecided(place, message=f"{words}{so_long}", source=_SOURCE, cause="ChangeUnderWay")
    missing = [str(one.get("name")) for one in waiting if str(one.get("name")) not in known]
    why = f"there is no AdmissionCheck {missing[0]}" if missing else "its controller has not answered"
    message = f"{words} for {duration(now - since)}: {why}; {_lost(workload)}"
    return bad(place, observed=names, expected="admitted", source=_SOURCE, message=message, cause="AdmissionCheckSilent")


def _elsewhere(workload: Json) -> str:
    """That another cluster runs the pods (MultiKueue), as a clause, or empty."""
    status = mapping(workload, "status")
    cluster = status.get("clusterName")
    return f"MultiKueue runs its pods on cluster {cluster}" if isinstance(cluster, str) and cluster else ""


def _lost(workload: _Workload) -> str:
    amounts = ", ".join(f"{count} {name}" for name, count in workload.devices.items())
    return f"{amounts} of ClusterQueue {mapping(workload.item, 'status', 'admission').get('clusterQueue')} are lost to all others"


def _given(queue: Json) -> dict[tuple[str, str], int]:
    """``{(flavor, resource): units}`` that a queue says it has given."""
    return {
        (str(flavor.get("name")), str(item.get("name"))): units(item.get("total"))
        for flavor in mappings(mapping(queue, "status").get("flavorsReservation"))
        for item in mappings(flavor.get("resources"))
    }


def _usage(queue: Json, workloads: list[Json], devices: frozenset[str], now: float) -> Iterator[Finding]:
    """A queue's reservation against the sum over its workloads."""
    name, said = name_of(queue), {key: count for key, count in _given(queue).items() if key[1] in devices}
    if not said:
        return
    held: dict[tuple[str, str], int] = {}
    times = [text_of(one.get("lastTransitionTime")) for item in workloads for one in conditions_of(item).values()]
    changed = newest(times) or 0.0
    for item in workloads:
        if is_true(item, "QuotaReserved") and not is_true(item, "Finished"):
            for key, count in assigned(item).items():
                held[key] = held.get(key, 0) + count
    place, source = Subject("ClusterQueue", name), "clusterqueue.status.flavorsReservation, workload.status.admission"
    differing = [(key, count, held.get(key, 0)) for key, count in sorted(said.items()) if count != held.get(key, 0)]
    unlike = [f"{' '.join(key)} {count}, workloads have {sum_}" for key, count, sum_ in differing]
    observed, expected = listed(unlike) or "as its workloads", "the sum of what its workloads have reserved"
    about = About(place, source, expected, observed)
    if not unlike:
        yield about.ok()
    elif now - changed < _LAG:
        yield about.undecided(f"{observed}; its workloads changed {now - changed:.0f} s ago", cause="ChangeUnderWay")
    else:
        message = f"{observed}: the queue counts quota that is free, or gives it out twice"
        yield about.bad(message, cause="QueueCountsWrong")


def _age(now: float, since: float | None) -> float | None:
    return now - since if since is not None else None
