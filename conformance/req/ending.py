"""REQ-14: pods that hold devices end: what is deleted goes away, and nothing crashes for ever.

Facts: docs/facts/pod-lifecycle.md#deletion, docs/facts/pod-lifecycle.md#restarts.

REQ-18 and 19: device jobs and services end and begin as others expect, and who asked for a pod is still there.
"""

from collections.abc import Iterable, Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import holding_pods
from fixtures.model.demand.failing_pods import LONGEST_TURN, RESTARTS, Loop, crash_loop
from fixtures.model.demand.pod_events import PodEvents, quoted
from fixtures.model.demand.pod_templates import of_tenants
from fixtures.model.demand.reserved_devices import reserves, sharers
from fixtures.model.demand.template import demand_of
from fixtures.model.dra.inventory import DeviceId
from fixtures.model.jobs.pod_makers import KINDS_OF_JOBS, Job, maker_of
from fixtures.model.platform.monitoring import Service, services
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding, Outcome, ok, undecided
from fixtures.verdict.subjects import Inconclusive, Subject

_SOURCE = "pod.metadata.deletionTimestamp, container statuses, events about the pod"
_NO_LOOP = "no crash loop while it holds devices"
_ENDS = "gone when its grace period is over"


def check_ending(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per bound pod that holds devices: if it is being deleted it goes, and it does not crash again and again.

    One more for each that has ended, was deleted and cannot go.
    """
    events = scope.pod_events
    for pod in holding_pods(scope):
        if not pod.node_name:
            continue
        held = scope.held_demand_of(pod)
        if pod.metadata.deletion_timestamp:
            finding = _deleted(scope, pod, now, events)
        elif loop := crash_loop(pod, events, now):
            finding = _looping(scope, pod, loop, now)
        else:
            observed = "holds devices and runs" if held.devices else "runs"
            finding = ok(subject(pod), observed=observed, expected="no crash loop, no deletion that hangs", source=_SOURCE)
        if not held.devices and finding.outcome not in (Outcome.OK, Outcome.NOT_JUDGED):
            message = f"whether it holds a device is not known: {held.unknown}"
            finding = undecided(subject(pod), message=message, source="pod spec and claims")
        yield finding
    for pod in scope.snapshot.pods:
        if pod.finished and pod.metadata.deletion_timestamp and (by := pod.metadata.finalizers) and scope.device_demand_of(pod).devices:
            yield _kept(scope, pod, by, now)


def _kept(scope: Scope, pod: Pod, by: list[str], now: float) -> Finding:
    """A pod that has ended and given its devices back, and cannot go: nothing of its name is made meanwhile."""
    about, due = About(subject(pod), _SOURCE, _ENDS), unix(pod.metadata.deletion_timestamp)
    state = f"it has ended, and finalizers {listed(by, 3)} keep it"
    over = overdue(about, due, now, scope.policy.requests.end_minutes * 60, f"{state}:", cause="PodHangsInDeletion", quiet=True)
    if isinstance(over, Finding):
        return over
    message = f"{state} {duration(over)} after it should have been gone: who waits for its end or its name waits for ever"
    return about.advised(message, cause="PodHangsInDeletion", observed=f"Terminating {duration(over)} beyond its grace period")


def _deleted(scope: Scope, pod: Pod, now: float, events: PodEvents) -> Finding:
    about, due = About(subject(pod), _SOURCE, _ENDS), unix(pod.metadata.deletion_timestamp)
    if due is not None and due >= now:
        return about.ok(f"being deleted, {duration(due - now)} of its grace period left")
    why, limit, state = _why_it_stays(scope, pod, events), scope.policy.requests.end_minutes * 60, "it should have been gone"
    unknown = "it is being deleted, and nothing says since when"
    over = overdue(about, due, now, limit, state, cause="PodHangsInDeletion", rest=f": {why}", unknown=unknown)
    if isinstance(over, Finding):
        return over
    holds, cost = devices_held(scope, pod), _lost(device_count(scope, pod), over)
    message = f"it should have been gone {duration(over)} ago and still holds {holds} on {pod.node_name} ({cost}): {why}"
    return about.bad(message, cause="PodHangsInDeletion", observed=f"Terminating {duration(over)} beyond its grace period")


def _why_it_stays(scope: Scope, pod: Pod, events: PodEvents) -> str:
    reasons = []
    if pod.metadata.finalizers:
        reasons.append(f"finalizers {listed(pod.metadata.finalizers, 3)} keep it")
    node = scope.snapshot.node_by_name.get(pod.node_name)
    if node is None:
        reasons.append("its node is gone")
    elif not node.ready:
        reasons.append("its node is NotReady, so its kubelet cannot end it")
    if newest := events.of_bound(pod)[:1]:
        reasons.append(f"{newest[0].reason}: {newest[0].text}")
    return quoted("; ".join(reasons)) or "its kubelet has not ended it: a process may hang in a call to the device"


def _looping(scope: Scope, pod: Pod, loop: Loop, now: float) -> Finding:
    limit = scope.policy.requests.end_minutes * 60
    name = f"its container {loop.container} has restarted {loop.restarts} times{f' ({quoted(loop.reason, 100)})' if loop.reason else ''}"
    about = About(subject(pod), _SOURCE, _NO_LOOP)
    unknown = f"{name}, and nothing says since when it crashes"
    if loop.since is None and not loop.at_most:
        return about.not_judged(unknown)
    age = overdue(about, loop.since, now, limit, name, cause="CrashLoopHoldsDevices", unknown=unknown, quiet=True)
    if isinstance(age, Finding):
        return age
    holds, cost = devices_held(scope, pod), _lost(device_count(scope, pod), age)
    message = f"{name} within {duration(age)} and holds {holds} on {pod.node_name} all the while ({cost})"
    observed = f"{loop.restarts} restarts within {duration(age)}"
    return about.advised(message, cause="CrashLoopHoldsDevices", observed=observed)


def devices_held(scope: Scope, pod: Pod) -> str:
    """``"8 nvidia.com/gpu"``, or how many devices its claims hold."""
    amounts = [f"{count} {name}" for name, count in sorted(scope.devices_of(pod.spec).items()) if count]
    return ", ".join(amounts) or f"{device_count(scope, pod) or 'some'} claimed devices"


def device_count(scope: Scope, pod: Pod) -> int:
    """How many devices a pod holds, by resource or by claim."""
    by_resource = sum(scope.devices_of(pod.spec).values())
    if by_resource or not pod.claims:
        return by_resource
    made = {text_of(item.get("resourceClaimName")) for item in pod.claim_statuses}
    names = made | {text_of(item.get("resourceClaimName")) for item in pod.claims}
    held = scope.cached(_held_by_claims)
    return len(set[DeviceId]().union(*(held.get((pod.namespace, name), ()) for name in names if name)))


def _held_by_claims(scope: Scope) -> dict[tuple[str, str], set[DeviceId]]:
    """Devices by namespace and name of the claims that hold them."""
    found: dict[tuple[str, str], set[DeviceId]] = {}
    for device, holders in scope.claims.holders.items():
        for one in holders:
            found.setdefault((one.namespace, one.name), set()).add(device)
    return found


def _lost(devices: int, seconds: float) -> str:
    """``"576 device-hours lost"``; one device where it is not known how many."""
    hours = (devices or 1) * seconds / 3600
    return f"{hours:.0f} device-hours lost" if hours >= 10 else f"{hours:.1f} device-hours lost"


_JOBS = {
    "batch/jobs": ("Job", ("batch.kubernetes.io/job-name", "job-name")),
    "jobset.x-k8s.io/jobsets": ("JobSet", ("jobset.sigs.k8s.io/jobset-name",)),
    "batch.volcano.sh/jobs": ("VolcanoJob", ("volcano.sh/job-name",)),
}
"""Kinds of jobs that count how often they have replaced all their pods, and the labels of pods that name the job."""


def check_restarted_jobs(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per job that has restarted and holds devices. Raises :class:`Inconclusive` where jobs could not be listed."""
    for key, (kind, labels) in _JOBS.items():
        listing = scope.snapshot.listing(key)
        if listing.trouble:
            raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
        restarted = [job for obj in listing.objects if (job := Job(key, obj)).restarts[1]]
        holding = _holding(scope, labels) if restarted else {}
        for job in restarted:
            if pods := holding.get((job.namespace, job.name)):
                yield _restarting(scope, job, kind, pods, now)


def _holding(scope: Scope, labels: Iterable[str]) -> dict[tuple[str, str], list[Pod]]:
    """Bound device pods by the job that their labels name."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in holding_pods(scope):
        name = next((name for label in labels if (name := pod.metadata.label.get(label, ""))), "")
        if name and pod.node_name:
            found.setdefault((pod.namespace, name), []).append(pod)
    return found


def _restarting(scope: Scope, job: Job, kind: str, pods: list[Pod], now: float) -> Finding:
    (field, restarts), begun = job.restarts, job.begun
    youngest = newest(pod.metadata.creation_timestamp for pod in pods)
    observed = f"{restarts} restarts" + (f" within {duration(now - begun)}" if begun is not None else "")
    limit = scope.policy.requests.end_minutes * 60
    about = About(Subject(kind, job.name, job.namespace), f"status.{field}", _NO_LOOP, observed)
    if begun is None or now - begun < limit or restarts < RESTARTS or (now - begun) / restarts > LONGEST_TURN:
        return about.ok()
    if youngest is not None and now - youngest > LONGEST_TURN:
        return about.ok(f"{observed}, its pods have run for {duration(now - youngest)} now")
    devices = sum(device_count(scope, pod) for pod in pods)
    lost = _lost(devices, now - begun)
    message = (
        f"it has started all its pods anew {restarts} times within {duration(now - begun)} and holds {devices} devices each time ({lost})"
    )
    return about.advised(message, cause="CrashLoopHoldsDevices")


_NOTEBOOK = "notebook-name"
"""The label of Kubeflow's notebooks: one person uses each, who sees when it is there."""

# -- REQ-18 --------------------------------------------------------------------------------------------


def check_services_and_jobs(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant's Service with live device pods behind it, and per device job of a tenant."""
    for service in services(scope):
        if service.serves and not scope.is_infrastructure(service.namespace):
            behind = [pod for pod in scope.device_pods if pod.namespace == service.namespace and service.selects(pod.metadata.label)]
            if pods := [pod for pod in behind if _NOTEBOOK not in pod.metadata.label]:
                yield _serves(scope, service, pods)
    asking = {(one.key, one.subject) for one in of_tenants(scope) if one.key in KINDS_OF_JOBS and demand_of(scope, one).devices}
    for key in KINDS_OF_JOBS:
        for job in (Job(key, obj) for obj in scope.snapshot.listing(key).objects):
            place = next((of for kind, of in asking if (kind, of.namespace, of.name) == (key, job.namespace, job.name)), None)
            if place is not None and not job.ended:
                yield _ends(scope, place, job)


def _serves(scope: Scope, service: Service, pods: list[Pod]) -> Finding:
    least = scope.policy.requests.serving_grace_seconds
    about = About(
        Subject("Service", service.name, service.namespace), "readinessProbe and terminationGracePeriodSeconds of its device pods"
    )
    about = About(about.subject, about.source, f"a readiness probe, and {least} s of grace or more")
    unready = [pod.name for pod in pods if not pod.has_readiness_probe]
    hasty = [f"{pod.name} ({pod.grace_seconds} s)" for pod in pods if pod.grace_seconds < least]
    if unready:
        message = f"no container of {listed(unready, 3)} has a readiness probe: requests go to pods that are still loading their model"
        return about.bad(message, cause="ReadinessProbeMissing", observed=f"{len(unready)} of {len(pods)} pods without a readiness probe")
    if hasty:
        message = f"its pods are killed before long requests are answered: {listed(hasty, 3)}"
        return about.bad(message, cause="GraceTooShort", observed=listed(hasty, 3))
    return about.ok(f"{len(pods)} device pods with both")


def _ends(scope: Scope, place: Subject, job: Job) -> Finding:
    wanted = scope.policy.requests.job_deadlines
    about = About(place, "activeDeadlineSeconds, backoffLimit", "a limit of retries" + (" and a deadline" if wanted else ""))
    if wanted and job.deadline is None:
        message = "it has no activeDeadlineSeconds: a job that hangs holds its devices until somebody looks"
        return about.bad(message, cause="JobWithoutDeadline", observed="no deadline")
    if job.retries_for_ever:
        message = f"its backoffLimit is {job.retries}: a job that fails at its start holds devices again and again"
        return about.bad(message, cause="JobRetriesForEver", observed=f"backoffLimit {job.retries}")
    retries = "retries as its kind has them" if job.retries is None else f"backoffLimit {job.retries}"
    return about.ok(retries + (f", {duration(job.deadline)}" if job.deadline is not None else ""))


# -- REQ-19 --------------------------------------------------------------------------------------------


def check_makers(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per bound pod that holds devices: what made it is there, and a reservation of a scheduler has somebody who shares it."""
    for pod in scope.device_pods:
        if pod.node_name and not pod.metadata.deletion_timestamp:
            yield _asked_for(scope, pod, now)


def _asked_for(scope: Scope, pod: Pod, now: float) -> Finding:
    about = About(subject(pod), "metadata.ownerReferences, labels that name a job", "the object that made it, or nobody")
    limit, since = scope.policy.requests.end_minutes * 60, unix(pod.metadata.creation_timestamp)
    maker = maker_of(scope, pod)
    if reserves(scope, pod) and not sharers(scope, pod):
        state, cause = "it reserves a device and no pod on its node shares it", "ReservationUnused"
    elif maker.gone:
        state, cause = f"{maker.words} is not there any more", "MakerGone"
    elif maker.job is not None and maker.job.ended and maker.job.ended_at is not None:
        state, cause, since = f"{maker.words} has ended", "MakerGone", max(since or 0.0, maker.job.ended_at)
    else:
        return about.ok(maker.words) if maker.known else about.not_judged(maker.words)
    age = overdue(about, since, now, limit, f"{state}; the pod is", cause=cause, quiet=True)
    if isinstance(age, Finding):
        return age
    message = f"{state}, and the pod holds its devices on {pod.node_name}: nobody waits for what it does"
    return about.bad(message, cause=cause, observed=state)
