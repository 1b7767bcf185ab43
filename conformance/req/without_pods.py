"""REQ-12 for jobs and workloads whose pods do not exist although devices that fit are free, and for roll-outs that can never end.

A pod that was never made is in no list of pods. Only its job or workload says how many it should have, and why it has fewer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from conformance.common_findings import overdue
from fixtures.cluster.kinds import BARE_KEYS, KINDS
from fixtures.kubernetes.models import Event, Pod
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import quoted, unread_events
from fixtures.model.demand.pod_templates import templates_in, templates_of
from fixtures.model.demand.template import Template, demand_of
from fixtures.model.jobs.marks import placed
from fixtures.model.jobs.pod_makers import (
    JOB_SETS,
    KINDS_OF_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    TRAIN_JOBS,
    Job,
    Workload,
    jobs_with_pods,
    pods_by_deployment,
    template_hash,
    workload_of,
)
from fixtures.model.placement.affinity import Tolerated, admits, too_long
from fixtures.model.placement.claimable import claimed_devices_of, units_of
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.queues.queued_jobs import Queued, QueuedJobs, names_quota, refused_now
from fixtures.snapshot.custom_kinds import is_a_deployments
from fixtures.snapshot.state import Listing
from fixtures.text.globs import matches
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive

_OF_JOBS = "owners and labels of pods, events of the job and of its PodGroup"
DEPLOYMENTS = "apps/deployments"
_WORKLOADS = (DEPLOYMENTS, "apps/statefulsets", "apps/daemonsets", "apps/replicasets", "replicationcontrollers")
_OF_WORKLOADS = "spec.replicas, status and conditions of the workload, events about it"

Events = dict[tuple[str, str, str], list[Event]]
"""Events by kind, namespace and name of what they are about."""


def _listing(scope: Scope, key: str) -> Listing[Any]:
    """What was read of a kind. Raises :class:`Inconclusive` for a refused list, but of kinds that are only hints."""
    listing = scope.snapshot.listing(key)
    if listing.trouble and key not in BARE_KEYS:
        raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
    return listing


def _events(scope: Scope, keys: Sequence[str]) -> Events:
    """Events about objects of some kinds."""
    kinds, found = {KINDS[key].kind for key in keys}, Events()
    for event in scope.snapshot.listing("events").items:
        if event.about.kind in kinds and event.at_home:
            found.setdefault((event.about.kind, event.namespace, event.about.name), []).append(event)
    return found


# -- jobs ----------------------------------------------------------------------------------------------


def check_jobs_without_pods(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per unfinished device job that has no pod, or whose further pods the API server refuses.

    Raises :class:`Inconclusive` where jobs could not be listed.
    """
    known, rooms, events, queued = jobs_with_pods(scope), FreeCapacity(scope, now), _events(scope, KINDS_OF_JOBS), scope.cached(QueuedJobs)
    known_or_cluster = known.union(*(Job(RAY_CLUSTERS, obj).names for obj in scope.snapshot.listing(RAY_CLUSTERS).objects))
    job_sets = set[tuple[str, str]]().union(*(Job(JOB_SETS, obj).names for obj in scope.snapshot.listing(JOB_SETS).objects))
    for key in KINDS_OF_JOBS:
        for obj in _listing(scope, key).objects:
            job = Job(key, obj)
            own = events.get((KINDS[key].kind, job.namespace, job.name), [])
            has_pods = bool(job.names & known) or job.over or job.deleted
            if not has_pods and ((key == RAY_JOBS and job.has_cluster(known_or_cluster)) or (key == TRAIN_JOBS and job.names & job_sets)):
                continue  # what it has made is judged itself
            lacks = has_pods and not (job.complete or job.ended or job.deleted)
            refused = refused_now((event for event in own if not names_quota(event.text)), now) if lacks else []  # newest first
            if has_pods and not refused:
                continue  # of most jobs of a busy cluster no template need be read
            wanting = [one for one in templates_in(key, obj) if not one.trouble and demand_of(scope, one).devices]
            if wanting and has_pods:
                yield from _further_pods(scope, wanting[0], refused, now)
            elif wanting:
                yield _without_pods(scope, job, wanting[0], own, queued.of(obj), now, rooms)


def _further_pods(scope: Scope, template: Template, refused: list[Event], now: float) -> Iterator[Finding]:
    first = min((at for event in refused if (at := unix(event.first)) is not None), default=None)
    if first is None:
        return
    about, limit = About(template.subject, _OF_JOBS, "all its pods"), scope.policy.requests.pending_minutes * 60
    state, words = "further pods of it are refused", quoted(refused[0].text)
    age = overdue(about, first, now, limit, state, cause="PodsRefused", rest=f": {words}")
    if isinstance(age, Finding):
        yield age
    else:
        lasted = f"refused for {duration(age)}"
        yield about.bad(f"further pods of it are {lasted}: {words}", cause="PodsRefused", observed=f"pods {lasted}")


def _without_pods(
    scope: Scope, job: Job, template: Template, events: list[Event], queued: Queued | None, now: float, rooms: FreeCapacity
) -> Finding:
    about = About(template.subject, _OF_JOBS, "pods, or no devices free that fit")
    if job.suspended:
        return about.not_judged(f"it is suspended{f' and waits in queue {job.queue}' if job.queue else ''}", source="spec.suspend")
    warnings = [event for event in events if event.type != "Normal"]
    newest_one = max(warnings or events, key=lambda event: unix(event.last) or 0.0, default=None)
    words = quoted(newest_one.text if newest_one is not None else job.message)
    texts = (words, *(queued.texts if queued is not None and queued.waits else ()))
    if held := next((text for text in texts if names_quota(text)), ""):
        return about.not_judged(f"its quota or queue holds it back: {quoted(held)}")
    claimed = claimed_devices_of(scope, template.spec, template.namespace, template.claims)
    if claimed.not_modelled:
        return about.not_judged(f"which claims of its pods can be met only a scheduler can weigh: {claimed.not_modelled}")
    if long := too_long(template.spec):
        return about.undecided(f"of its pod template, {long}", source=f"{template.path}.affinity")
    asked = ", ".join(f"{count} {name}" for name, count in sorted({**scope.devices_of(template.spec), **claimed.amounts}.items()))
    room, refused = rooms.place(template.spec, claimed), bool(refused_now(events, now))
    if room is None and not refused:
        return about.ok(f"its pods ask for {asked}: no free devices fit one")
    since, limit = job.due_since(queued.held_at if queued is not None else None), scope.policy.requests.pending_minutes * 60
    state = "it has no pod yet, and devices that fit are free: it has waited"
    unknown = "it has no pod, and nothing says since when it could have one"
    age = overdue(about, since, now, limit, state, cause="PodsNeverMade", unknown=unknown, quiet=not warnings)
    if isinstance(age, Finding):
        return age
    if queued is not None and queued.waits:
        clause = f"its PodGroup {queued.name} waits in queue {queued.queue}, and Volcano says: {quoted(queued.texts[0])}"
        return about.undecided(f"{clause}: only Volcano can weigh what that queue may still use", cause="OnlySchedulerCanWeigh")
    if unread := unread_events(scope.snapshot):
        clause = f"it has had no pod for {duration(age)} although devices that fit are free"
        return about.undecided(f"{clause}, and what may say why was not read: {unread}", cause="EventsUnread")
    why = f"its events and status say: {words}" if words else "nothing says why: does its controller run?"
    if queued is not None:
        why = f"its PodGroup {queued.name} in queue {queued.queue} has {f'the phase {queued.phase}' if queued.phase else 'no phase'}; {why}"
    beside = f" although {room.node.name} has devices free that fit ({asked})" if room is not None else ""
    message, cause = f"it has had no pod for {duration(age)}{beside}: {why}", "PodsRefused" if refused else "PodsNeverMade"
    return about.bad(message, cause=cause, observed=f"no pod for {duration(age)}")


# -- workloads -----------------------------------------------------------------------------------------


def check_workloads(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per workload of built-in kinds that wants device pods. Raises :class:`Inconclusive` for a refused list."""
    rooms, events = FreeCapacity(scope, now), _events(scope, _WORKLOADS)
    for key in _WORKLOADS:
        for workload in _wanting(scope, key):
            subject = workload.template.subject
            refusals = refused_now(events.get((KINDS[key].kind, workload.template.namespace, subject.name), []), now)
            finding = _lacking(scope, workload, refusals, now, rooms, deployment=key == DEPLOYMENTS)
            if finding is None and key == DEPLOYMENTS:
                finding = _stuck_roll_out(scope, workload, now)
            yield finding or About(workload.template.place, _OF_WORKLOADS, "as many pods as it wants").ok(
                f"{workload.made} of {workload.wants} pods made"
            )


def _wanting(scope: Scope, key: str) -> Iterator[Workload]:
    """Workloads of a kind that have a template of device pods."""
    for obj in _listing(scope, key).items:
        if isinstance(obj, dict) and (is_a_deployments(key, obj) or mapping(obj, "metadata").get("deletionTimestamp")):
            continue
        for template in templates_of(key, obj):
            if not template.trouble and demand_of(scope, template).devices:
                yield workload_of(obj, template)
                break


def _lacking(
    scope: Scope, workload: Workload, events: Sequence[Event], now: float, rooms: FreeCapacity, *, deployment: bool
) -> Finding | None:
    """The finding about a workload that lacks pods; None where it has all. ``events``: refusals of its pods that go on."""
    template, refused = workload.template, bool(workload.failing or events)
    lacks = workload.made < workload.wants or (refused and workload.updated < workload.wants and deployment)
    if not lacks or workload.paused:
        return None
    words = text_of(workload.failing.get("message")) or (events[0].text if events else "")
    count = f"{workload.made} of {workload.wants} pods" if workload.made < workload.wants else f"{workload.updated} pods of its new version"
    about, has = About(template.place, _OF_WORKLOADS, "as many pods as it wants"), f"it has {count}"
    if names_quota(words):
        return about.not_judged(f"{has}, and its quota holds it back: {quoted(words)}")
    if workload.made and not refused:  # a StatefulSet makes its next pod once the one before is ready, and scaling takes a moment
        return about.not_judged(f"{has}, and nothing says that others are refused")
    since, limit = workload.lacks_since(events), scope.policy.requests.pending_minutes * 60
    state, rest = (f"{has}, and the API server refuses them:", f"; {quoted(words)}") if refused else (f"{has}:", "")
    unknown = f"{has}, and nothing says since when"
    age = overdue(about, since, now, limit, state, cause="PodsNeverMade", rest=rest, unknown=unknown, quiet=not refused)
    if isinstance(age, Finding):
        return age
    if not refused and (unread := unread_events(scope.snapshot)):
        message = f"{has} for {duration(age)}, and what may say why was not read: {unread}"
        return about.undecided(message, cause="EventsUnread")
    claimed = claimed_devices_of(scope, template.spec, template.namespace, template.claims)
    if not refused and (claimed.not_modelled or rooms.place(template.spec, claimed) is None):
        return about.ok(f"{count}: no free devices fit one more")
    why = f"the API server refuses them: {quoted(words)}" if refused else "nothing says why: does its controller run?"
    cause = "PodsRefused" if refused else "PodsNeverMade"
    return about.bad(f"{has} for {duration(age)}: {why}", cause=cause, observed=f"{count} for {duration(age)}")


def _stuck_roll_out(scope: Scope, workload: Workload, now: float) -> Finding | None:
    """A Deployment past its deadline whose new pods wait for devices that its own old pods hold; None where it is no such one."""
    if not workload.past_deadline or workload.paused:
        return None
    own = scope.cached(pods_by_deployment).get((workload.template.namespace, workload.template.subject.name), [])
    waiting = [pod for pod in own if not placed(pod) and scope.device_demand_of(pod).devices]
    new = {template_hash(pod) for pod in waiting}
    old = [pod for pod in own if placed(pod) and template_hash(pod) not in new and not pod.metadata.deletion_timestamp]
    holding = [pod for pod in old if scope.held_demand_of(pod).devices]
    if not waiting or not any(_could_follow(scope, waiting[0], pod) for pod in holding):
        return None  # it waits like any other pod, or its pods have their nodes (REQ-13, REQ-14)
    about, amounts = About(workload.template.place, _OF_WORKLOADS, "a roll-out that ends"), scope.devices_of(waiting[0].spec)
    if scaled := [resource for resource in amounts if matches(resource, scope.policy.requests.autoscaled)]:
        message = f"its roll-out waits for {listed(scaled)}, which would come with new nodes (policy requests.autoscaled)"
        return about.not_judged(message, source="policy requests.autoscaled")
    since, limit = newest([workload.past_deadline.get("lastTransitionTime")]), scope.policy.requests.pending_minutes * 60
    what = ", ".join(f"{count} {resource}" for resource, count in sorted(amounts.items())) or "claimed devices"
    words = f"its roll-out is past its deadline: {waiting[0].name} waits for {what}, and {len(holding)} pods of the old version hold theirs"
    age = overdue(about, since, now, limit, f"{words}:", cause="RollOutWaitsForItself", unknown=f"{words}; nothing says since when")
    if isinstance(age, Finding):
        return age
    message = f"{words} ({workload.bounds or 'its strategy has no bounds'}) for {duration(age)}: neither gives way"
    return about.bad(message, cause="RollOutWaitsForItself", observed=f"ProgressDeadlineExceeded for {duration(age)}")


def _could_follow(scope: Scope, pod: Pod, old: Pod) -> bool:
    """Whether a pod could be where an old one is: its template admits the node, which has as many devices as it asks for."""
    node = scope.snapshot.node_by_name.get(old.node_name)
    if node is None or not Tolerated(pod.tolerations).lets_onto(node):
        return False
    enough = all(units_of(scope, node, name) >= count for name, count in scope.devices_of(pod.spec).items())
    return enough and (bool(too_long(pod.spec)) or admits(pod.spec, node))
