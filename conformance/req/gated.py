"""REQ-12 for pods behind scheduling gates: the object of the gate's owner waits for something now, or nothing takes the gate away.

A pod with a gate is shown to no scheduler, however much is free. Only the gate's owner knows when to take it away, so its object is
what excuses the wait, and never the gate itself (docs/facts/gangs.md#scheduling-gates).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from conformance.common_findings import overdue
from conformance.req.pending_groups import Group
from conformance.req.queued_jobs import QueuedJobs, names_quota
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import quoted
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS
from fixtures.model.jobs.marks import KUEUE_GATES, volcano_group
from fixtures.model.platform.agents import is_ready
from fixtures.model.queues.kueue_objects import conditions_of, name_of
from fixtures.model.queues.kueue_pods import KueuePods
from fixtures.text.ages import duration
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding

_SOURCE = "pod.spec.schedulingGates, objects of the gate's owner"
_EXPECTED = "no scheduling gate, or one whose owner waits for something"
_VOLCANO = "scheduling.volcano.sh/"
_GROVE = "grove.io/"
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
    gated = [(pod, gates) for pod in group.pods if (gates := _gates(scope, pod))]
    if not gated:
        return None
    place, names = group.subject, listed(dict.fromkeys(name for _, gates in gated for name in gates), 3)
    unexcused = [(pod, gates) for pod, gates in gated if not any(gate.excused for gate in gates.values())]
    about = About(place, _SOURCE)
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
    count = f"{len(unexcused)} of its pods are" if len(unexcused) > 1 else "it is"
    message = f"{count} behind the scheduling gate {names} for {duration(age)}, so no scheduler places them: {why}"
    observed = f"gated by {names} for {duration(age)}"
    return about.bad(message, cause="GateNeverLifted", observed=observed, expected=_EXPECTED)


def _since(pod: Pod, gates: Mapping[str, _Gate]) -> float | None:
    """Since when a gate could have gone: gates are set when a pod is made, and no later."""
    times = [unix(pod.metadata.creation_timestamp), *(gate.since for gate in gates.values())]
    return max((at for at in times if at is not None), default=None) if times[0] is not None else None


def _gates(scope: Scope, pod: Pod) -> dict[str, _Gate]:
    names = dict.fromkeys(text_of(gate.get("name")) for gate in pod.spec.scheduling_gates or ())
    return {quoted(name, 80): _judged(scope, pod, name) for name in names}


def _judged(scope: Scope, pod: Pod, name: str) -> _Gate:
    if name.startswith(KUEUE_GATES):
        return _of_kueue(scope, pod)
    if name.startswith(_VOLCANO):
        return _of_volcano(scope, pod)
    if name.startswith(_GROVE):
        return _of_grove(scope, pod)
    return _Gate("no object that the suite knows says what it waits for")


def _of_kueue(scope: Scope, pod: Pod) -> _Gate:
    if scope.snapshot.lacks(KUEUE_WORKLOADS):
        return _Gate("the snapshot does not have the Workloads of Kueue", excused=None)
    known = scope.cached(KueuePods)
    workloads = known.workloads_of(pod)
    for workload in workloads:
        if excuse := _waits(workload):
            return _Gate(excuse, excused=True)
    for workload in workloads:
        admitted = conditions_of(workload).get("Admitted", {})
        why = f"Workload {name_of(workload)} is admitted, and Kueue did not take the gate away"
        return _Gate(why, since=unix(text_of(admitted.get("lastTransitionTime"))))
    if hidden := known.hidden_owner(pod):
        return _Gate(f"which Workload is of its {hidden} is not known", excused=None)
    return _Gate("Kueue has no Workload of it")


def _waits(workload: Json) -> str:
    """Why a Workload keeps the gates of its pods, as a clause; empty where it is admitted here."""
    name, conditions, status = name_of(workload), conditions_of(workload), mapping(workload, "status")
    if cluster := text_of(status.get("clusterName")):
        return f"MultiKueue runs Workload {name} on cluster {cluster}"
    if mapping(workload, "spec").get("active") is False:
        return f"Workload {name} is not active"
    return "" if conditions.get("Admitted", {}).get("status") == "True" else f"Workload {name} is not admitted yet"


def _of_volcano(scope: Scope, pod: Pod) -> _Gate:
    queued = scope.cached(QueuedJobs).named(pod.namespace, volcano_group(pod))
    if queued is None:
        return _Gate("Volcano has no PodGroup of it")
    held = next((text for text in queued.said if names_quota(text)), "")
    if held:
        return _Gate(f"its PodGroup {queued.name} waits for queue {queued.queue}: {quoted(held)}", excused=True)
    if queued.waits:
        return _Gate(f"its PodGroup {queued.name} waits in queue {queued.queue}, and Volcano says: {quoted(queued.said[0])}", excused=None)
    return _Gate(f"its PodGroup {queued.name} does not wait for queue {queued.queue}")


def _of_grove(scope: Scope, pod: Pod) -> _Gate:
    """Grove keeps the pods of a scaled group until those of its base are ready, and all others until their PodGang is made."""
    base = pod.metadata.label.get(_BASE_GANG, "")
    if not base:
        return _Gate("Grove did not take it away: it goes once all pods of its PodGang are made")
    waiting = [one for one in scope.cached(_members).get((pod.namespace, base), ()) if not is_ready(one)]
    if waiting:
        return _Gate(f"{len(waiting)} pods of its base PodGang {quoted(base, 80)} are not ready", excused=True)
    return _Gate(f"all pods of its base PodGang {quoted(base, 80)} are ready, and Grove did not take it away")


def _members(scope: Scope) -> dict[tuple[str, str], list[Pod]]:
    """Unfinished pods by namespace and PodGang of Grove."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in scope.snapshot.pods:
        if not pod.finished and (gang := pod.metadata.label.get(_GANG, "")):
            found.setdefault((pod.namespace, gang), []).append(pod)
    return found
