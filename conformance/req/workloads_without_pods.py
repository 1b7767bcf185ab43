"""REQ-12 for workloads whose pods do not exist, and for roll-outs that can never end.

A pod that was never made is in no list of pods. Only its workload says how many it should have, and why it has fewer.

Facts: docs/facts/pod-lifecycle.md#pods-that-are-never-made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.common_findings import overdue
from conformance.req.ending import count_of
from fixtures.cluster.kinds import BARE_KEYS, KINDS
from fixtures.kubernetes.models import DaemonSet, Event, Json, Pod
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope, matches
from fixtures.model.demand.pod_events import quoted, unread_events
from fixtures.model.demand.pod_templates import templates_of
from fixtures.model.demand.template import Template
from fixtures.model.jobs.marks import placed
from fixtures.model.placement.affinity import admits, too_long
from fixtures.model.placement.claim_fit import claimed_devices_of
from fixtures.model.placement.claimable import units_of
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.placement.tolerations import Tolerated
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.model.queues.queued_jobs import names_quota, refused_now
from fixtures.snapshot.bare_templates import is_a_deployments
from fixtures.snapshot.state import Object
from fixtures.text.ages import duration
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged, ok
from fixtures.verdict.subjects import Inconclusive

DEPLOYMENTS = "apps/deployments"
_KEYS = (DEPLOYMENTS, "apps/statefulsets", "apps/daemonsets", "apps/replicasets", "replicationcontrollers")
_SOURCE = "spec.replicas, status and conditions of the workload, events about it"
_EXPECTED = "as many pods as it wants"
_HASH = "pod-template-hash"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload says of its pods: how many it ``wants``, has ``made`` and has of its newest template (``updated``)."""

    obj: Object
    template: Template
    wants: int
    made: int
    updated: int
    key: str
    created: str
    untouched: bool
    """Whether it was never changed since it was made, or its controller never looked at it."""


def check_workloads(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per workload of built-in kinds that wants device pods. Raises :class:`Inconclusive` for a refused list."""
    rooms, refusals = FreeCapacity(scope, now), _refusals(scope, now)
    for key in _KEYS:
        for workload in _workloads(scope, key):
            events = refusals.get((KINDS[key].kind, workload.template.namespace, workload.template.subject.name), [])
            finding = _judge(scope, workload, events, now, rooms)
            stuck = _stuck_roll_out(scope, workload, now) if key == DEPLOYMENTS and finding is None else None
            observed = f"{workload.made} of {workload.wants} pods made"
            yield finding or stuck or ok(workload.template.place, observed=observed, expected=_EXPECTED, source=_SOURCE)


def _refusals(scope: Scope, now: float) -> dict[tuple[str, str, str], list[Event]]:
    """Refusals of pods that go on, by kind, namespace and name of the workload, newest first."""
    found: dict[tuple[str, str, str], list[Event]] = {}
    for event in scope.snapshot.listing("events").items:
        if event.about.kind != "Pod" and event.at_home:
            found.setdefault((event.about.kind, event.namespace, event.about.name), []).append(event)
    return {key: refused_now(events, now) for key, events in found.items()}


def _workloads(scope: Scope, key: str) -> Iterator[Workload]:
    listing = scope.snapshot.listing(key)
    if listing.trouble and key not in BARE_KEYS:  # those are hints
        raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
    for obj in listing.items:
        if isinstance(obj, dict) and (is_a_deployments(key, obj) or mapping(obj, "metadata").get("deletionTimestamp")):
            continue
        for template in templates_of(key, obj):
            if not template.trouble and scope.device_demand(template.spec, template.namespace, template.claims).devices:
                yield _of_daemonset(obj, template) if isinstance(obj, DaemonSet) else _of_replicas(key, obj, template)
                break


def _of_daemonset(obj: DaemonSet, template: Template) -> Workload:
    status = obj.status
    return Workload(
        obj=obj,
        key="apps/daemonsets",
        template=template,
        wants=status.desired_number_scheduled,
        made=status.current_number_scheduled,
        updated=status.updated_number_scheduled,
        created=obj.metadata.creation_timestamp or "",
        untouched=obj.metadata.generation <= 1 or not status.observed_generation,
    )


def _of_replicas(key: str, obj: Object, template: Template) -> Workload:
    body = obj if isinstance(obj, dict) else {}
    meta, spec, status = mapping(body, "metadata"), mapping(body, "spec"), mapping(body, "status")
    return Workload(
        obj=obj,
        key=key,
        template=template,
        wants=count_of(spec.get("replicas", 1)),
        made=count_of(status.get("replicas")),
        updated=count_of(status.get("updatedReplicas")),
        created=text_of(meta.get("creationTimestamp")),
        untouched=count_of(meta.get("generation")) <= 1 or not count_of(status.get("observedGeneration")),
    )


def _judge(scope: Scope, workload: Workload, events: Sequence[Event], now: float, rooms: FreeCapacity) -> Finding | None:
    """The finding about a workload that lacks pods; None where it has all."""
    place, conditions = workload.template.place, conditions_of(workload.obj) if isinstance(workload.obj, dict) else {}
    failing = conditions.get("ReplicaFailure", {})
    refused = failing.get("status") == "True" or bool(events)
    lacks = workload.made < workload.wants or (refused and workload.updated < workload.wants and workload.key == DEPLOYMENTS)
    if not lacks or _paused(workload.obj):
        return None
    words = text_of(failing.get("message")) or (events[0].text if events else "")
    count = f"{workload.made} of {workload.wants} pods" if workload.made < workload.wants else f"{workload.updated} pods of its new version"
    about = About(place, _SOURCE, _EXPECTED)
    if names_quota(words):
        return about.not_judged(f"it has {count}, and its quota holds it back: {quoted(words)}")
    if workload.made and not refused:  # a StatefulSet makes its next pod once the one before is ready, and scaling takes a moment
        return about.not_judged(f"it has {count}, and nothing says that others are refused")
    since, limit, has = _since(workload, conditions, events), scope.policy.requests.pending_minutes * 60, f"it has {count}"
    state, rest = (f"{has}, and the API server refuses them:", f"; {quoted(words)}") if refused else (f"{has}:", "")
    unknown = f"{has}, and nothing says since when"
    age = overdue(about, since, now, limit, state, cause="PodsNeverMade", rest=rest, unknown=unknown, quiet=not refused)
    if isinstance(age, Finding):
        return age
    if not refused and (unread := unread_events(scope.snapshot)):
        message = f"it has {count} for {duration(age)}, and what may say why was not read: {unread}"
        return about.undecided(message, cause="EventsUnread")
    claimed = claimed_devices_of(scope, workload.template.spec, workload.template.namespace, workload.template.claims)
    if not refused and (claimed.not_modelled or rooms.place(workload.template.spec, claimed) is None):
        return about.ok(f"{count}: no free devices fit one more")
    why = f"the API server refuses them: {quoted(words)}" if refused else "nothing says why: does its controller run?"
    message = f"it has {count} for {duration(age)}: {why}"
    cause = "PodsRefused" if refused else "PodsNeverMade"
    return about.bad(message, cause=cause, observed=f"{count} for {duration(age)}")


def _paused(obj: Object) -> bool:
    return isinstance(obj, dict) and mapping(obj, "spec").get("paused") is True


def _since(workload: Workload, conditions: Mapping[str, Json], events: Sequence[Event]) -> float | None:
    """Since when it lacks pods, Unix seconds: since they were refused first, else since it has none, as far as its conditions say that.

    Without any such word: since it was made, if it was never changed or its controller never looked at it.
    """
    failing, available = conditions.get("ReplicaFailure", {}), conditions.get("Available", {})
    refused = text_of(failing.get("lastTransitionTime")) if failing.get("status") == "True" else ""
    known = [at for text in (refused, *(event.first for event in events)) if (at := unix(text)) is not None]
    if known:
        return min(known)
    if available.get("status") == "False":
        return unix(text_of(available.get("lastTransitionTime")))
    return unix(workload.created) if workload.untouched else None


# -- roll-outs -----------------------------------------------------------------------------------------


def _stuck_roll_out(scope: Scope, workload: Workload, now: float) -> Finding | None:
    """A Deployment past its deadline whose new pods wait for devices that its own old pods hold; None where it is no such one."""
    body = workload.obj if isinstance(workload.obj, dict) else {}
    progressing = conditions_of(body).get("Progressing", {})
    if progressing.get("status") != "False" or progressing.get("reason") != "ProgressDeadlineExceeded" or _paused(body):
        return None
    own = scope.cached(_by_deployment).get((workload.template.namespace, workload.template.subject.name), [])
    waiting = [pod for pod in own if not placed(pod) and scope.device_demand_of(pod).devices]
    new = {pod.metadata.label[_HASH] for pod in waiting}
    old = [pod for pod in own if placed(pod) and pod.metadata.label[_HASH] not in new and not pod.metadata.deletion_timestamp]
    holding = [pod for pod in old if scope.held_demand_of(pod).devices]
    if not waiting or not any(_could_follow(scope, waiting[0], pod) for pod in holding):
        return None  # it waits like any other pod, or its pods have their nodes (REQ-13, REQ-14)
    place, amounts = workload.template.place, scope.devices_of(waiting[0].spec)
    if scaled := [resource for resource in amounts if matches(resource, scope.policy.requests.autoscaled)]:
        message = f"its roll-out waits for {listed(scaled)}, which would come with new nodes (policy requests.autoscaled)"
        return not_judged(place, message=message, source="policy requests.autoscaled")
    since = newest([text_of(progressing.get("lastTransitionTime"))])
    what = ", ".join(f"{count} {resource}" for resource, count in sorted(amounts.items())) or "claimed devices"
    words = f"its roll-out is past its deadline: {waiting[0].name} waits for {what}, and {len(holding)} pods of the old version hold theirs"
    about, limit = About(place, _SOURCE, "a roll-out that ends"), scope.policy.requests.pending_minutes * 60
    age = overdue(about, since, now, limit, f"{words}:", cause="RollOutWaitsForItself", unknown=f"{words}; nothing says since when")
    if isinstance(age, Finding):
        return age
    update = mapping(body, "spec", "strategy", "rollingUpdate")
    bounds = ", ".join(f"{field} {update[field]}" for field in ("maxSurge", "maxUnavailable") if field in update)
    message = f"{words} ({bounds or 'its strategy has no bounds'}) for {duration(age)}: neither gives way"
    observed = f"ProgressDeadlineExceeded for {duration(age)}"
    return about.bad(message, cause="RollOutWaitsForItself", observed=observed)


def _could_follow(scope: Scope, pod: Pod, old: Pod) -> bool:
    """Whether a pod could be where an old one is: its template admits the node, which has as many devices as it asks for."""
    node = scope.snapshot.node_by_name.get(old.spec.node_name)
    if node is None or not Tolerated(pod.spec.tolerations).lets_onto(node):
        return False
    enough = all(units_of(scope, node, name) >= count for name, count in scope.devices_of(pod.spec).items())
    return enough and (bool(too_long(pod.spec)) or admits(pod.spec, node))


def _by_deployment(scope: Scope) -> dict[tuple[str, str], list[Pod]]:
    """Unfinished pods by namespace and Deployment: a ReplicaSet has its name and the hash of the template."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in scope.snapshot.pods:
        owner, value = pod.controller, pod.metadata.label.get(_HASH, "")
        if value and not pod.finished and owner is not None and owner.kind == "ReplicaSet" and owner.name.endswith(f"-{value}"):
            found.setdefault((pod.namespace, owner.name.removesuffix(f"-{value}")), []).append(pod)
    return found
