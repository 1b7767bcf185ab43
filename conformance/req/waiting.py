"""REQ-12 for pods: none waits while devices that fit it are free, or behind a scheduling gate that nothing takes away.

A pod with a gate is shown to no scheduler, however much is free. Only the gate's owner knows when to take it away, so its object is
what excuses the wait, and never the gate itself. A live cluster is asked again whether pods still wait: in a busy one, a device is free
for seconds between two pods, at any time.

Facts: docs/facts/scheduling-messages.md#what-a-scheduler-weighs, docs/facts/gangs.md#scheduling-gates.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from conformance.common_findings import overdue
from conformance.outputs.events import ReasonKind
from conformance.probes.running import unschedulable
from conformance.requirement import Asks, Form
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import held_by
from fixtures.model.demand.pod_events import PodEvents, quoted, unread_events
from fixtures.model.demand.reserved_devices import fraction_of
from fixtures.model.devices.scheduler_amounts import counted
from fixtures.model.dra.claims import Request
from fixtures.model.dra.slices import CLASSES, SLICES
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS
from fixtures.model.jobs.marks import KUEUE_GATES, volcano_group
from fixtures.model.jobs.pending_groups import Group, pending_groups
from fixtures.model.placement.affinity import Choice, too_long
from fixtures.model.placement.claimable import ClaimedDevices, changed_at, chosen, claimed_devices_of, free_on
from fixtures.model.placement.fitting import FreeCapacity, Room, constraints_not_modelled, requests_of
from fixtures.model.platform.agents import is_ready
from fixtures.model.queues.kueue import KueuePods, Workload
from fixtures.model.queues.queued_jobs import QueuedJobs, names_quota
from fixtures.snapshot.state import Snapshot
from fixtures.text import typed
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding, bad
from fixtures.verdict.subjects import NotApplicable

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
            if pod.nominated:
                rooms.reserve(pod.nominated, pod.spec)
    for group in groups:
        yield judge_gates(scope, group, now) or _judge(scope, group, now, rooms, events, still)


def _judge(scope: Scope, group: Group, now: float, rooms: FreeCapacity, events: PodEvents, still: Still | None) -> Finding:
    claimed = [claimed_devices_of(scope, pod.spec, pod.namespace, pod.claim_statuses) for pod in group.pods]
    about = About(group.subject, _SOURCE, _EXPECTED)
    if reason := _left_out(scope, group, claimed):
        return about.not_judged(reason)
    if long := next(filter(None, (too_long(pod.spec) for pod in group.pods)), ""):
        return about.undecided(long, source="required node affinity of the pending pods")
    asked = _amounts(scope, group, claimed)
    places = rooms.place_all([(pod.spec, own) for pod, own in zip(group.pods, claimed, strict=True)])
    if not places and (other := _free_by_class(scope, group, claimed)):
        return about.not_judged(other, source=f"{CLASSES}, {SLICES}")
    if not places:
        return about.ok(f"{asked}: no free devices fit it")
    words = _words_of_scheduler(group, events)
    if reason := _explained(group, claimed, words):
        return about.not_judged(reason, source="condition PodScheduled, events")
    if reason := _not_understood(group):
        return about.undecided(reason, source="condition PodScheduled")
    limit, state = scope.policy.requests.pending_minutes * 60, "devices that fit it are free, and it has waited"
    cause, unknown = "PodWaitsBesideFreeDevices", f"{asked}, which are free, and nothing says since when it waits"
    age = overdue(about, group.since, now, limit, state, cause=cause, unknown=unknown, quiet=not words)  # else it is just being placed
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
    if not words and (unread := unread_events(scope.snapshot)):
        message = f"devices that fit it are free, and what its scheduler may say of it was not read: {unread}"
        return about.undecided(message, cause="EventsUnread", source="events")
    nodes = list(dict.fromkeys(room.node.name for room in places))
    if still and (changed := still(group.pods, nodes)):
        return about.ok(f"{asked}: {changed}", source="the cluster, asked again")
    return _bad(scope, group, claimed, places, nodes, age, words)


def _bad(
    scope: Scope, group: Group, claimed: Sequence[ClaimedDevices], places: Sequence[Room], nodes: list[str], age: float, words: str
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
    who = group.pods[0].scheduler_name or "default-scheduler"
    reason = f"{who} says: {words}" if words else f"{who} has said nothing about it: does it run?"
    message = f"it has waited for {duration(age)} although {where} {what} free and it fits there: {reason}"
    observed = f"{_amounts(scope, group, claimed)}, pending for {duration(age)}; {where} {what} free"
    return bad(group.subject, observed=observed, expected=_EXPECTED, source=_SOURCE, message=message, cause="PodWaitsBesideFreeDevices")


def _left_out(scope: Scope, group: Group, claimed: Sequence[ClaimedDevices]) -> str:
    """Why a group is not judged here, or empty."""
    if group.missing:
        return f"{group.missing} more of its pods would have to exist before it can be placed"
    if amounts := sorted({name for pod in group.pods for name in requests_of(pod.spec) if counted(scope, name)}):
        return f"only its scheduler counts {listed(amounts)}, so which devices it fits is not known"
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


def _explained(group: Group, claimed: Sequence[ClaimedDevices], words: str) -> str:
    """Why a scheduler may rightly leave a group although devices are free, or empty: reasons that the arithmetic does not weigh."""
    if _QUOTA.search(words):
        return f"its quota or queue holds it back, says the scheduler: {words}"
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


def _words_of_scheduler(group: Group, events: PodEvents) -> str:
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


_OF_GATES = "pod.spec.schedulingGates, objects of the gate's owner"
_UNGATED = "no scheduling gate, or one whose owner waits for something"
_BASE_GANG = "grove.io/base-podgang"
_GANG = "grove.io/podgang"


class _Gate(msgspec.Struct, frozen=True):
    """Why one gate is there, as a clause. ``excused``: its owner waits on purpose, now; None: that is not known.

    ``since``: when the owner's object came to its present state, Unix seconds; None where it says nothing of that.
    """

    why: str
    excused: bool | None = False
    since: float | None = None


def judge_gates(scope: Scope, group: Group, now: float) -> Finding | None:
    """The finding about a group of which some pods are gated; None where none is."""
    gated = [(pod, {quoted(name, 80): _judged(scope, pod, name) for name in pod.gates}) for pod in group.pods if pod.gates]
    if not gated:
        return None
    names = listed(dict.fromkeys(name for _, gates in gated for name in gates), 3)
    unexcused = [(pod, gates) for pod, gates in gated if not any(gate.excused for gate in gates.values())]
    about = About(group.subject, _OF_GATES, _UNGATED)
    if not unexcused:
        why = next(gate.why for _, gates in gated for gate in gates.values() if gate.excused)
        return about.not_judged(f"its scheduling gate {names} is there on purpose: {why}")
    if unknown := next((gate.why for _, gates in unexcused for gate in gates.values() if gate.excused is None), ""):
        message = f"whether its scheduling gate {names} is there on purpose is not known: {unknown}"
        return about.undecided(message, cause="GateOwnerUnknown")
    times = [_since(pod, gates) for pod, gates in unexcused]
    known = [at for at in times if at is not None]
    why = next(gate.why for _, gates in unexcused for gate in gates.values())
    limit, state = scope.policy.requests.pending_minutes * 60, f"the scheduling gate {names} has held it back"
    unknown = f"the scheduling gate {names} holds it back, and nothing says since when: {why}"
    age = overdue(about, min(known, default=None), now, limit, state, cause="GateNeverLifted", unknown=unknown, quiet=True)
    if isinstance(age, Finding):
        return age
    count, them = (f"{len(unexcused)} of its pods are", "them") if len(unexcused) > 1 else ("it is", "it")
    message = f"{count} behind the scheduling gate {names} for {duration(age)}, so no scheduler places {them}: {why}"
    observed = f"gated by {names} for {duration(age)}"
    return about.bad(message, cause="GateNeverLifted", observed=observed)


def _since(pod: Pod, gates: Mapping[str, _Gate]) -> float | None:
    """Since when a gate could have gone: gates are set when a pod is made, and no later."""
    times = [unix(pod.metadata.creation_timestamp), *(gate.since for gate in gates.values())]
    return max((at for at in times if at is not None), default=None) if times[0] is not None else None


def _judged(scope: Scope, pod: Pod, name: str) -> _Gate:
    known = {KUEUE_GATES: _of_kueue, "scheduling.volcano.sh/": _of_volcano, "grove.io/": _of_grove}
    judge = next((judge for prefix, judge in known.items() if name.startswith(prefix)), None)
    return judge(scope, pod) if judge is not None else _Gate("no object that the suite knows says what it waits for")


def _of_kueue(scope: Scope, pod: Pod) -> _Gate:
    if scope.snapshot.lacks(KUEUE_WORKLOADS):
        return _Gate("the snapshot does not have the Workloads of Kueue", excused=None)
    known = scope.cached(KueuePods)
    workloads = known.workloads_of(pod)
    for workload in workloads:
        if excuse := _waits(workload):
            return _Gate(excuse, excused=True)
    for workload in workloads:
        why = f"Workload {workload.name} is admitted, and Kueue did not take the gate away"
        return _Gate(why, since=unix(workload.turned("Admitted")))
    if hidden := known.hidden_owner(pod):
        return _Gate(f"which Workload is of its {hidden} is not known", excused=None)
    return _Gate("Kueue has no Workload of it")


def _waits(workload: Workload) -> str:
    """Why a Workload keeps the gates of its pods, as a clause; empty where it is admitted here."""
    if workload.elsewhere:
        return f"MultiKueue runs Workload {workload.name} on cluster {workload.elsewhere}"
    if not workload.active:
        return f"Workload {workload.name} is not active"
    return "" if workload.holds("Admitted") else f"Workload {workload.name} is not admitted yet"


def _of_volcano(scope: Scope, pod: Pod) -> _Gate:
    queued = scope.cached(QueuedJobs).named(pod.namespace, volcano_group(pod))
    if queued is None:
        return _Gate("Volcano has no PodGroup of it")
    if held := next((text for text in queued.texts if names_quota(text)), ""):
        return _Gate(f"its PodGroup {queued.name} waits for queue {queued.queue}: {quoted(held)}", excused=True)
    if queued.waits:
        return _Gate(f"its PodGroup {queued.name} waits in queue {queued.queue}, and Volcano says: {quoted(queued.texts[0])}", excused=None)
    return _Gate(f"its PodGroup {queued.name} does not wait for queue {queued.queue}")


def _of_grove(scope: Scope, pod: Pod) -> _Gate:
    """Grove keeps the pods of a scaled group until those of its base are ready, and all others until their PodGang is made."""
    base = pod.metadata.label.get(_BASE_GANG, "")
    if not base:
        return _Gate("Grove did not take it away: it goes once all pods of its PodGang are made")
    if waiting := [one for one in scope.cached(_members).get((pod.namespace, base), ()) if not is_ready(one)]:
        return _Gate(f"{len(waiting)} pods of its base PodGang {quoted(base, 80)} are not ready", excused=True)
    return _Gate(f"all pods of its base PodGang {quoted(base, 80)} are ready, and Grove did not take it away")


def _members(scope: Scope) -> dict[tuple[str, str], list[Pod]]:
    """Unfinished pods by namespace and PodGang of Grove."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in scope.snapshot.pods:
        if not pod.finished and (gang := pod.metadata.label.get(_GANG, "")):
            found.setdefault((pod.namespace, gang), []).append(pod)
    return found


PATIENCE_SECONDS = 10.0
"""A scheduler looks at a pod that did not fit after ten seconds at the latest, once something has become free."""

MAX_ASKED = 20
"""Groups that are asked about; a cluster in which more of them wait is not merely busy."""


def recheck(asks: Asks, snapshot: Snapshot, sleep: Callable[[float], None] = time.sleep) -> Still:
    """A function that asks about pods and nodes, :data:`PATIENCE_SECONDS` after the snapshot was taken; never where there is no cluster."""
    known = {pod.metadata.uid for pod in snapshot.pods}
    asked = 0

    def still(pods: Sequence[Pod], nodes: Sequence[str]) -> str:
        nonlocal asked
        asked += 1
        if asked > MAX_ASKED:
            return ""

        def ask(cluster: Cluster) -> str:
            sleep(max(0.0, snapshot.read_at + PATIENCE_SECONDS - time.time()))
            return _changed(cluster, pods, nodes, known)

        try:
            return asks(f"whether pod {pods[0].namespace}/{pods[0].name} still waits", ask, Form(str))
        except (ApiTrouble, NotApplicable, msgspec.ValidationError):
            return ""  # what the snapshot shows stands

    return still


def _changed(cluster: Cluster, pods: Sequence[Pod], nodes: Sequence[str], known: set[str]) -> str:
    for pod in pods:
        body = cluster.find("pods", pod.name, pod.namespace)
        found = typed.convert(body, Pod, strict=False) if body is not None else None
        if found is None or found.metadata.uid != pod.metadata.uid or found.metadata.deletion_timestamp or found.node_name:
            return f"{pod.namespace}/{pod.name} was placed or deleted seconds later"
    for node in nodes:
        for item in _pods_on(cluster, node):
            if item.metadata.uid not in known and any(held_by(item.spec).values()):
                return f"{item.namespace}/{item.name} took devices of {node} seconds later"
    return ""


def _pods_on(cluster: Cluster, node: str) -> list[Pod]:
    answer = cluster.request("GET", cluster.path("pods"), query={"fieldSelector": f"spec.nodeName={node}"})
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"list pods on {node}: {answer.status} {answer.message}")
    items: list[Json] = answer.json()["items"]
    return [typed.convert(item, Pod, strict=False) for item in items]
