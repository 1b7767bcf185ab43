"""REQ-12 for jobs that have no pod yet: their pods were not made, although devices that fit are free."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Event, Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import quoted, unread_events
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.demand.template import Template
from fixtures.model.jobs.marks import KUEUE_QUEUE, OWNER_LABELS
from fixtures.model.placement.affinity import too_long
from fixtures.model.placement.claim_fit import claimed_devices_of
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.queues.queued_jobs import Queued, QueuedJobs, names_quota, refused_now
from fixtures.text.ages import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive

_JOBS, _RAY_JOBS, _RAY_CLUSTERS = "batch/jobs", "ray.io/rayjobs", "ray.io/rayclusters"
_TRAIN_JOBS, _JOB_SETS = "trainer.kubeflow.org/trainjobs", "jobset.x-k8s.io/jobsets"

KINDS_OF_JOBS = (_JOBS, *(key for key, _ in OWNER_LABELS), _TRAIN_JOBS, _RAY_JOBS)
"""Kinds whose objects make pods at once unless they are suspended: those that own gangs, and those that make one of these."""

_JOB_LABELS = frozenset({"batch.kubernetes.io/job-name", "job-name", *(label for _, label in OWNER_LABELS)})
"""Labels of pods that name their job (docs/facts/gangs.md#kinds-that-own-gangs)."""

_OWN_CONTROLLERS = frozenset(
    {
        "kubernetes.io/job-controller",
        "jobset.sigs.k8s.io/jobset-controller",
        "trainer.kubeflow.org/trainjob-controller",
        "kubeflow.org/training-operator",
        "kubeflow.org/mpi-operator",
        "ray.io/kuberay-operator",
    }
)
"""What ``managedBy`` says of a job that the controller of its kind makes here (docs/facts/gangs.md#jobs-that-are-run-elsewhere)."""

_RAY_JOB_BEGINS = frozenset({"", "Initializing", "Suspended"})
_ENDED = frozenset({"Complete", "Completed", "Failed", "Succeeded", "Finished", "FailureTarget", "SuccessCriteriaMet"})
_PHASES_ENDED = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
_PHASES_AT_WORK = frozenset({"Aborting", "Restarting", "Completing", "Terminating"})
_SOURCE = "owners and labels of pods, events of the job and of its PodGroup"
_EXPECTED = "pods, or no devices free that fit"


def check_jobs_without_pods(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per unfinished device job that has no pod, or whose further pods the API server refuses.

    Raises :class:`Inconclusive` where jobs could not be listed.
    """
    known = _with_pods(scope)
    rooms = FreeCapacity(scope, now)
    events = _events(scope)
    queued = scope.cached(QueuedJobs)
    known_or_cluster = known | {_identity(obj) for obj in scope.snapshot.listing(_RAY_CLUSTERS).objects}
    job_sets = {_identity(obj) for obj in scope.snapshot.listing(_JOB_SETS).objects}
    for key in KINDS_OF_JOBS:
        listing = scope.snapshot.listing(key)
        if listing.trouble:
            raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
        for obj in listing.objects:
            meta = mapping(obj, "metadata")
            identity = _identity(obj)
            if (identity[0], text_of(meta.get("uid"))) in known or identity in known or _over(obj) or meta.get("deletionTimestamp"):
                if refused := _refused_now(key, obj, events.get((KINDS[key].kind, *identity), []), now):
                    yield from _further_pods(scope, key, obj, refused, now)
                continue
            if key == _RAY_JOBS and _has_cluster(obj, known_or_cluster):
                continue
            if key == _TRAIN_JOBS and identity in job_sets:  # it has made its JobSet, which is judged itself
                continue
            wanting = [template for template in templates_in(key, obj) if not template.trouble and _wants_devices(scope, template)]
            if wanting:
                yield _judge(scope, obj, wanting[0], events.get((KINDS[key].kind, *identity), []), queued.of(obj), now, rooms)


def _refused_now(key: str, obj: Json, events: list[Event], now: float) -> list[Event]:
    """Refusals of further pods of a job that lacks some and has not ended, newest first, where they are no matter of a quota."""
    active, parallel = mapping(obj, "status").get("active"), mapping(obj, "spec").get("parallelism", 1)
    complete = key == _JOBS and isinstance(active, int) and isinstance(parallel, int) and active >= parallel
    if complete or _has_ended(obj) or mapping(obj, "metadata").get("deletionTimestamp"):
        return []
    return refused_now((event for event in events if not names_quota(event.text)), now)


def _further_pods(scope: Scope, key: str, obj: Json, refused: list[Event], now: float) -> Iterator[Finding]:
    first = min((at for event in refused if (at := unix(event.first)) is not None), default=None)
    wanting = [template for template in templates_in(key, obj) if not template.trouble and _wants_devices(scope, template)]
    if not wanting or first is None:
        return
    about, limit = About(wanting[0].subject, _SOURCE, "all its pods"), scope.policy.requests.pending_minutes * 60
    state, words = "further pods of it are refused", quoted(refused[0].text)
    age = overdue(about, first, now, limit, state, cause="PodsRefused", rest=f": {words}")
    if isinstance(age, Finding):
        yield age
    else:
        lasted = f"refused for {duration(age)}"
        yield about.bad(f"further pods of it are {lasted}: {words}", cause="PodsRefused", observed=f"pods {lasted}")


def _events(scope: Scope) -> dict[tuple[str, str, str], list[Event]]:
    """Events about jobs, by kind, namespace and name of the job."""
    kinds = {KINDS[key].kind for key in KINDS_OF_JOBS}
    found: dict[tuple[str, str, str], list[Event]] = {}
    for event in scope.snapshot.listing("events").items:
        about = event.about
        if about.kind in kinds and event.at_home:
            found.setdefault((about.kind, event.namespace, about.name), []).append(event)
    return found


def _with_pods(scope: Scope) -> set[tuple[str, str]]:
    """UIDs of owners and names of jobs, each with the namespace, that some pod names. A JobSet's Jobs name it for pods that are gone."""
    found: set[tuple[str, str]] = set()
    for pod in scope.snapshot.pods:
        found.update((pod.namespace, owner.uid) for owner in pod.metadata.owners if owner.uid)
        found.update((pod.namespace, name) for label in _JOB_LABELS if (name := pod.metadata.label.get(label, "")))
    return found


def _identity(obj: Json) -> tuple[str, str]:
    meta = mapping(obj, "metadata")
    return text_of(meta.get("namespace")), text_of(meta.get("name"))


def _has_cluster(job: Json, known: set[tuple[str, str]]) -> bool:
    """Whether a RayJob has got its RayCluster, which is judged itself, or is past that. One with a schedule waits for its time."""
    status = mapping(job, "status")
    begins = text_of(status.get("jobDeploymentStatus")) in _RAY_JOB_BEGINS and not mapping(job, "spec").get("schedule")
    return not begins or (_identity(job)[0], text_of(status.get("rayClusterName"))) in known


def _over(obj: Json) -> bool:
    """Whether a job has ended, has had pods, or is being changed: then it is no job that waits for its first pod."""
    status = mapping(obj, "status")
    if _has_ended(obj):
        return True
    phase = text_of(mapping(status, "state").get("phase"))
    parts = [status, *map(mapping, mapping(status, "replicaStatuses").values())]  # Kubeflow counts by role
    counted = any(part.get(field) for part in parts for field in ("active", "succeeded", "failed", "terminating", "running", "restarts"))
    spec = mapping(obj, "spec")
    none = 0 in (spec.get(field) for field in ("parallelism", "replicas"))
    manager = text_of(spec.get("managedBy") or mapping(spec, "runPolicy").get("managedBy"))
    elsewhere = bool(manager) and manager not in _OWN_CONTROLLERS
    return counted or none or elsewhere or phase in _PHASES_AT_WORK


def _has_ended(obj: Json) -> bool:
    status = mapping(obj, "status")
    ended = any(text_of(item.get("type")) in _ENDED and item.get("status") == "True" for item in mappings(status.get("conditions")))
    return ended or text_of(mapping(status, "state").get("phase")) in _PHASES_ENDED


def _wants_devices(scope: Scope, template: Template) -> bool:
    return scope.device_demand(template.spec, template.namespace, template.claims).devices


def _judge(
    scope: Scope, obj: Json, template: Template, events: list[Event], queued: Queued | None, now: float, rooms: FreeCapacity
) -> Finding:
    place = template.subject
    spec = mapping(obj, "spec")
    about = About(place, _SOURCE, _EXPECTED)
    if spec.get("suspend") is True or mapping(spec, "runPolicy").get("suspend") is True:
        queue = mapping(obj, "metadata", "labels").get(KUEUE_QUEUE)
        return about.not_judged(f"it is suspended{f' and waits in queue {queue}' if queue else ''}", source="spec.suspend")
    said = _said(obj, events)
    words = (said, *(queued.said if queued is not None and queued.waits else ()))
    if held := next((text for text in words if names_quota(text)), ""):
        return about.not_judged(f"its quota or queue holds it back: {quoted(held)}")
    claimed = claimed_devices_of(scope, template.spec, template.namespace, template.claims)
    if claimed.not_modelled:
        return about.not_judged(f"which claims of its pods can be met only a scheduler can weigh: {claimed.not_modelled}")
    if long := too_long(template.spec):
        return about.undecided(f"of its pod template, {long}", cause="NotUnderstood", source=f"{template.path}.affinity")
    asked = ", ".join(f"{count} {name}" for name, count in sorted({**scope.devices_of(template.spec), **claimed.amounts}.items()))
    room, refused = rooms.place(template.spec, claimed), bool(refused_now(events, now))
    if room is None and not refused:
        return about.ok(f"its pods ask for {asked}: no free devices fit one")
    since, limit = _due_since(obj, queued), scope.policy.requests.pending_minutes * 60
    state = "it has no pod yet, and devices that fit are free: it has waited"
    unknown = "it has no pod, and nothing says since when it could have one"
    age = overdue(about, since, now, limit, state, cause="PodsNeverMade", unknown=unknown, quiet=not _warnings(events))
    if isinstance(age, Finding):
        return age
    if queued is not None and queued.waits:
        clause = f"its PodGroup {queued.name} waits in queue {queued.queue}, and Volcano says: {quoted(queued.said[0])}"
        return about.undecided(f"{clause}: only Volcano can weigh what that queue may still use", cause="OnlySchedulerCanWeigh")
    if unread := unread_events(scope.snapshot):
        clause = f"it has had no pod for {duration(age)} although devices that fit are free"
        return about.undecided(f"{clause}, and what may say why was not read: {unread}", cause="EventsUnread")
    why = f"its events and status say: {said}" if said else "nothing says why: does its controller run?"
    if queued is not None:
        why = f"its PodGroup {queued.name} in queue {queued.queue} has {f'the phase {queued.phase}' if queued.phase else 'no phase'}; {why}"
    beside = f" although {room.node.name} has devices free that fit ({asked})" if room is not None else ""
    message = f"it has had no pod for {duration(age)}{beside}: {why}"
    cause = "PodsRefused" if refused else "PodsNeverMade"
    return about.bad(message, cause=cause, observed=f"no pod for {duration(age)}")


def _due_since(obj: Json, queued: Queued | None) -> float | None:
    """Since when its controller could make its pods: it was created, is no longer suspended, and its queue lets it in.

    None where that is not known. Facts: docs/facts/gangs.md#jobs-that-are-resumed.
    """
    changes = [item for item in mappings(mapping(obj, "status").get("conditions")) if text_of(item.get("type")).endswith("Suspended")]
    if any(item.get("status") == "True" for item in changes):
        return None  # its controller has not seen yet that it is resumed
    times = [unix(text_of(item.get("lastTransitionTime"))) for item in changes]
    created = unix(text_of(mapping(obj, "metadata").get("creationTimestamp")))
    if created is None or None in times:
        return None
    held_at = queued.held_at if queued is not None else None
    return max(at for at in (created, held_at, *times) if at is not None)


def _warnings(events: list[Event]) -> list[Event]:
    return [event for event in events if event.type != "Normal"]


def _said(obj: Json, events: list[Event]) -> str:
    """The newest warning about a job, else its newest event, else the message of its newest condition that has one."""
    if told := _warnings(events) or events:
        return quoted(max(told, key=lambda event: unix(event.last) or 0.0).text)
    open_ones = [item for item in mappings(mapping(obj, "status").get("conditions")) if text_of(item.get("message"))]
    return quoted(text_of(open_ones[-1].get("message"))) if open_ones else ""
