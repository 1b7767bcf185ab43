"""GANG-11 for Kueue: queues with device work can admit it, and none goes round (docs/facts/gangs.md#queues-that-admit-nothing)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from conformance.gang.adapters.kueue import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, WORKLOADS
from conformance.gang.kueue_checks import CHECKS, checks_of, sent_away
from conformance.gang.kueue_order import judge_order
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.queues.kueue_objects import conditions_of, is_given_up, is_true, name_of, objects_of, pod_sets, said
from fixtures.text.ages import duration, so_far
from fixtures.verdict.findings import About, Finding, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import Subject

WORKERS = "kueue.x-k8s.io/multikueueclusters"
_STOPS = ("Hold", "HoldAndDrain")
_ROUNDS = 3
"""Evictions after which a workload goes round: once or twice may be a slow image or a lost node."""
_OWN_FAULT = frozenset({"PodsReadyTimeout", "AdmissionCheck"})
"""Reasons of evictions that leave everything as it was; a preempted workload made room for another."""

_SOURCE = "clusterqueue.spec.stopPolicy, status.conditions[Active] of the queue and of what it names"


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that asks for devices and has not ended. ``since``: its creation, Unix seconds; ``admitted``: it holds quota."""

    place: Subject
    item: Json
    queue: str
    since: float | None
    admitted: bool


def judge_queues(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per queue with device work, per workload that goes round, and per worker cluster that is lost."""
    work = [found for item in objects_of(scope, WORKLOADS) if (found := _device_work(scope, item)) is not None]
    here = {(text_of(mapping(item, "metadata").get("namespace")), name_of(item)): item for item in objects_of(scope, LOCAL_QUEUES)}
    queues = {name_of(item): item for item in objects_of(scope, CLUSTER_QUEUES)}
    by_local: dict[tuple[str, str], list[_Work]] = {}
    for one in work:
        by_local.setdefault((one.place.namespace, one.queue), []).append(one)
    by_queue: dict[str, list[_Work]] = {}
    served: dict[str, set[tuple[str, str]]] = {}
    for key, item in here.items():
        served.setdefault(str(mapping(item, "spec").get("clusterQueue")), set()).add(key)
    for (namespace, name), own in sorted(by_local.items()):
        local = here.get((namespace, name))
        trouble = _local_trouble(scope, namespace, name, local, queues)
        if trouble:
            yield from _stopped(scope, Subject("LocalQueue", name, namespace), trouble, local or {}, own, now)
        elif local is not None:
            by_queue.setdefault(str(mapping(local, "spec").get("clusterQueue")), []).extend(own)
    for name, own in sorted(by_queue.items()):
        if name in queues:
            yield from _cluster_queue(scope, queues[name], own, served[name], now)
    yield from _lost_workers(scope, [queues[name] for name in by_queue if name in queues], work, now)
    for one in work:
        yield from _round(one)


def _device_work(scope: Scope, item: Json) -> _Work | None:
    if is_given_up(item) or not any(scope.devices_of(spec) or spec.resource_claims for spec, _ in pod_sets(item)):
        return None
    meta = mapping(item, "metadata")
    return _Work(
        place=Subject("Workload", name_of(item), str(meta.get("namespace") or "")),
        item=item,
        queue=str(mapping(item, "spec").get("queueName") or ""),
        since=unix(str(meta.get("creationTimestamp"))),
        admitted=is_true(item, "Admitted"),
    )


def _local_trouble(scope: Scope, namespace: str, name: str, local: Json | None, queues: dict[str, Json]) -> str:
    """Why a LocalQueue passes nothing on, as a clause; empty when only its ClusterQueue decides."""
    if not scope.snapshot.served(LOCAL_QUEUES):
        return ""
    if local is None:
        return f"workloads name LocalQueue {name or '(none)'}, and there is none of that name in {namespace}"
    spec = mapping(local, "spec")
    if (policy := spec.get("stopPolicy")) in _STOPS:
        return f"spec.stopPolicy is {policy}"
    if scope.snapshot.served(CLUSTER_QUEUES) and (queue := str(spec.get("clusterQueue"))) not in queues:
        return f"it names ClusterQueue {queue}, and there is none of that name"
    return ""


def _cluster_queue(scope: Scope, queue: Json, work: list[_Work], served: Collection[tuple[str, str]], now: float) -> Iterator[Finding]:
    place, active = Subject("ClusterQueue", name_of(queue)), conditions_of(queue).get("Active", {})
    if trouble := _trouble(scope, queue):
        yield from _stopped(scope, place, trouble, queue, work, now)
    elif active.get("status") == "True" and (blocking := judge_order(scope, queue, served, now)):
        yield blocking
    elif active.get("status") == "True":
        yield ok(place, observed=f"Active, {len(work)} workloads with devices", expected="Active", source=_SOURCE)
    else:
        yield undecided(place, message="its status does not say whether it is Active", source=_SOURCE, cause="NotUnderstood")


def _trouble(scope: Scope, queue: Json) -> str:
    """Why a ClusterQueue admits nothing, the cause before its effect, as a clause; or empty."""
    spec, active = mapping(queue, "spec"), conditions_of(queue).get("Active", {})
    if (policy := spec.get("stopPolicy")) in _STOPS:
        return f"spec.stopPolicy is {policy}"
    flavors = {str(flavor.get("name")) for group in mappings(spec.get("resourceGroups")) for flavor in mappings(group.get("flavors"))}
    known = {name_of(item) for item in objects_of(scope, FLAVORS)}
    if scope.snapshot.served(FLAVORS) and (missing := sorted(flavors - known)):
        return f"it names ResourceFlavor {missing[0]}, and there is none of that name"
    checks = {name_of(item): item for item in objects_of(scope, CHECKS)}
    for name in checks_of(queue):
        if name not in checks:
            if scope.snapshot.served(CHECKS) and active.get("status") != "True":
                return f"it names AdmissionCheck {name}, and there is none of that name"
            continue
        state = conditions_of(checks[name]).get("Active", {})
        if state.get("status") == "False":
            return f"AdmissionCheck {name} is not Active: {said(state)}"
    return f"it is not Active: {said(active)}" if active.get("status") == "False" else ""


def _stopped(scope: Scope, place: Subject, trouble: str, queue: Json, work: list[_Work], now: float) -> Iterator[Finding]:
    """A queue that admits nothing: bad once work has waited in it for longer than the policy's age."""
    drains = mapping(queue, "spec").get("stopPolicy") == "HoldAndDrain"
    waiting = [one for one in work if drains or not one.admitted]
    if not waiting:
        yield not_judged(place, message=f"{trouble}, and no device work waits in it", source=_SOURCE)
        return
    limit = scope.policy.requests.pending_minutes * 60
    active = conditions_of(queue).get("Active", {})
    stopped = unix(str(active.get("lastTransitionTime"))) if active.get("status") == "False" else None
    created = [one.since for one in waiting if one.since is not None]
    if not created:
        yield undecided(place, message=f"{trouble}, and nothing says how long its work waits", source=_SOURCE, cause="QueueAdmitsNothing")
        return
    age = now - max(min(created), stopped or 0.0)
    if age <= limit:
        yield undecided(place, message=f"{trouble}, {so_far(age, limit)}", source=_SOURCE, cause="ChangeUnderWay")
        return
    first = f"{waiting[0].place.namespace}/{waiting[0].place.name}"
    message = f"{trouble}: {len(waiting)} workloads that ask for devices wait for {duration(age)} ({first} first), and none can be admitted"
    yield bad(
        place, observed=trouble, expected="Active, or no device work in it", source=_SOURCE, message=message, cause="QueueAdmitsNothing"
    )


def _lost_workers(scope: Scope, queues: list[Json], work: list[_Work], now: float) -> Iterator[Finding]:
    """Worker clusters of MultiKueue that the manager does not reach, where work of devices may go or is."""
    asked = bool(sent_away(scope, queues))
    running = {str(mapping(one.item, "status").get("clusterName")) for one in work}
    limit, source = scope.policy.requests.pending_minutes * 60, "multikueuecluster.status.conditions[Active]"
    for cluster in objects_of(scope, WORKERS):
        name, active = name_of(cluster), conditions_of(cluster).get("Active", {})
        if not asked and name not in running:
            continue
        place, since = Subject("MultiKueueCluster", name), unix(str(active.get("lastTransitionTime")))
        about = About(place, source, "Active")
        if active.get("status") == "True":
            yield about.ok("Active")
        elif active.get("status") != "False" or since is None:
            yield about.undecided("nothing says whether, or since when, the manager reaches it", cause="WorkerClusterLost")
        elif now - since <= limit:
            yield about.undecided(f"not Active: {said(active)}, {so_far(now - since, limit)}", cause="ChangeUnderWay")
        else:
            message = f"not Active for {duration(now - since)}: {said(active)}: it gets no work, and what runs there is not known"
            yield about.bad(message, cause="WorkerClusterLost", observed=said(active))


def _round(work: _Work) -> Iterator[Finding]:
    """A workload that is admitted and evicted again and again for the same reason."""
    status = mapping(work.item, "status")
    evictions = [item for item in mappings(mapping(status, "schedulingStats").get("evictions")) if item.get("reason") in _OWN_FAULT]
    counts = [number for item in evictions if isinstance(number := item.get("count"), int)]
    again = mapping(status, "requeueState").get("count")
    rounds = max(sum(counts), again if isinstance(again, int) else 0)
    if rounds < _ROUNDS:
        return
    source = "workload.status.requeueState, status.schedulingStats.evictions"
    observed = f"evicted {rounds} times"
    if work.admitted and is_true(work.item, "PodsReady"):
        yield ok(work.place, observed=f"{observed}, and its pods are ready now", expected="no round without an end", source=source)
        return
    reasons = sorted({str(item.get("reason")) for item in evictions})
    last = said(conditions_of(work.item).get("Evicted", {})) or ", ".join(reasons) or "no reason is given"
    message = f"it was admitted and evicted {rounds} times ({last}): each round holds devices that no pod uses for long"
    yield bad(
        work.place,
        observed=observed,
        expected="admitted for good, or not at all",
        source=source,
        message=message,
        cause="WorkloadGoesRound",
    )
