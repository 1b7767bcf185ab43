"""GANG requirements that only read: schedulers are healthy (01), no job is half placed (05), jobs use one (06), queues work (09-11)."""

from collections.abc import Iterator, Sequence

import msgspec

from conformance.common_findings import overdue
from conformance.gang.adapters import Adapter, Availability, Watched, watched
from conformance.gang.adapters import adapters as adapters_known
from conformance.gang.kueue_admission import judge_queues
from conformance.gang.kueue_quota import judge_quota
from conformance.gang.kueue_reservations import judge_reservations
from conformance.gang.volcano_queues import judge_held, judge_open, judge_promised
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS, GangJob, gang_jobs
from fixtures.model.jobs.marks import GANG_SCHEDULERS, KUEUE_GROUP, KUEUE_QUEUE, placed, placed_at
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_DEFAULT_SCHEDULER = "default-scheduler"


def check_installed(scope: Scope, *, may_probe: bool = False) -> Iterator[Finding]:
    """GANG-01: every gang scheduler that is installed works, and one is installed where multi-pod device jobs run.

    ``may_probe``: whether GANG-02 to GANG-04 of this run ask with gangs of their own.
    """
    known: list[Adapter | Watched] = [*adapters_known()]
    known += [scheduler for scheduler in watched() if scheduler.name not in {one.name for one in known}]
    named, found = scope.policy.gang.adapters, 0
    for name in sorted(set(named) - {scheduler.name for scheduler in known}):
        message = f"the policy names it and the suite has no adapter of that name; it has {', '.join(one.name for one in known)}"
        yield undecided(Subject("GangScheduler", name), message=message, source="policy gang.adapters", cause="GangSchedulerUnknown")
    idle: list[Availability] = []
    claimed: list[Availability] = []
    for scheduler in known:
        if named and scheduler.name not in named:
            continue
        available = scheduler.detect(scope)
        if available.idle and scheduler.name not in named:
            idle.append(available)
        elif available.claimed and scheduler.name not in named:
            claimed.append(available)
        elif available.installed or scheduler.name in named:
            found += available.installed
            yield _judge_installed(scheduler.name, available)
    if not found and not named:
        yield from _none_installed(scope, idle, claimed, may_probe=may_probe)


def _judge_installed(name: str, available: Availability) -> Finding:
    place, expected = Subject("GangScheduler", name), "installed and healthy"
    about = About(place, available.source, expected, available.reason)
    if available.claimed:
        return about.undecided(f"the policy names {name}, and {available.reason}", cause="GangSchedulerUnknown")
    if not available.installed:
        message = f"the policy names {name} and it is not installed, so gangs given to it never start"
        return about.bad(message, cause="GangSchedulerMissing")
    if available.healthy is None:
        message = f"it is installed, but nothing shows whether it works: {available.reason}"
        return about.undecided(message, cause="GangSchedulerUnknown")
    if available.healthy:
        return about.ok()
    message = f"{name} is installed and does not work ({available.reason}), so gangs given to it never start"
    return about.bad(message, cause="GangSchedulerDown")


def _none_installed(scope: Scope, idle: Sequence[Availability], claimed: Sequence[Availability], *, may_probe: bool) -> Iterator[Finding]:
    """No gang scheduler is known to work: bad where one is needed, unless something says that one may be there."""
    required, place = scope.policy.gang.required, Subject("GangScheduler", "any")
    found = [] if required is False else gang_jobs(scope)
    jobs = [job for job in found if job.system or not job.unsure]
    if not required and not jobs and found:
        message = f"no gang scheduler is installed, and whether {found[0].subject} needs one is not known: {found[0].unsure}"
        yield not_judged(place, message=message, source="owners of pods")
        return
    if not required and not jobs:
        raise NotApplicable("NoGangJobs", "no gang scheduler is installed, and there is no multi-pod device job that needs one")
    why = f"{len(jobs)} multi-pod device jobs ({jobs[0].subject} first)" if jobs else "the policy requires it (gang.required)"
    defined = [scheduler for scheduler in watched() if scheduler.defined(scope)]
    others = sorted({pod.scheduler_name for job in jobs for pod in job.pods} - {"", _DEFAULT_SCHEDULER})
    about = About(place, "CRDs, Deployments", "one installed and healthy", "no API, Deployment or pod of a known gang scheduler")
    if idle and may_probe:
        yield about.not_judged(f"{idle[0].reason}: GANG-02 to GANG-04 ask it with gangs of their own", source=idle[0].source)
        return
    if idle:
        message, source = f"{idle[0].reason}: a run that only reads cannot tell whether gangs work, GANG-02 can", idle[0].source
    elif claimed:
        message, source = claimed[0].reason, claimed[0].source
    elif defined:
        message = f"CRD {defined[0].definition} is there, and no scheduler of it is found in a namespace of the platform"
        source = "CRDs, Deployments, policy tenants.moreInfrastructure"
    elif others:
        message = f"jobs name scheduler {', '.join(others)}, and whether it is there and places gangs is not known"
        source = "pod.spec.schedulerName"
    else:
        message = f"no gang scheduler is installed although needed: {why}; jobs that get only some of their pods hold devices for ever"
        yield about.bad(message, cause="GangSchedulerMissing")
        return
    yield about.undecided(f"{message}; needed by {why}", source=source, cause="GangSchedulerUnknown")


def check_partial(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-05: no multi-pod device job has some but not all of its pods placed for longer than the policy's age."""
    limit = scope.policy.gang.partial_minutes * 60
    starting = scope.policy.requests.start_minutes * 60
    for job in gang_jobs(scope):
        yield _judge_partial(scope, job, now, limit, starting)


def _judge_partial(scope: Scope, job: GangJob, now: float, limit: float, starting: float) -> Finding:
    bound = [pod for pod in job.pods if placed(pod)]
    observed = f"{len(bound)} of {job.needed} pods placed"
    expected = f"all or no pods bound, or a part of them for at most {duration(limit)}"
    about = About(job.subject, "pod.spec.nodeName of its pods", expected)
    if job.waiting and not bound:
        return about.not_judged(job.waiting)
    if len(bound) >= job.needed or not bound:
        return about.ok(observed)
    if leaving := _leaving(job, bound, now, limit):
        return about.not_judged(f"{observed}, and {leaving}", source="metadata.deletionTimestamp of it and its pods")
    since = partial_since(job)
    if since is None:
        return about.undecided(f"{observed}, and nothing says since when", cause="JobPartlyPlaced")
    age = now - since
    observed += f" for {duration(age)}"
    if age <= limit:
        return about.ok(observed)
    if job.unsure:
        return about.undecided(f"{observed}; {job.unsure}", cause="JobSizeUnknown")
    if 0 < job.enough <= len(bound):
        return about.not_judged(f"{observed}, and its owner says that {job.enough} are enough ({job.enough_source})")
    if job.held and len(bound) == len(job.pods):
        held = overdue(about, since, now, starting, f"{observed}: {job.held},", cause="JobPartlyPlaced")
        if isinstance(held, Finding):
            return held
        observed += f" ({job.held})"
    holding = [pod for pod in bound if scope.device_demand_of(pod).devices]
    nodes = ", ".join(in_order({pod.node_name for pod in holding if pod.node_name})[:4])
    idle = f"its devices on {nodes or 'their nodes'} do nothing while the rest waits, and others cannot have them"
    message = f"{observed}: {idle if holding else 'those that are placed hold no device, and do nothing without the rest'}"
    return about.bad(message, cause="JobPartlyPlaced", observed=observed)


def _leaving(job: GangJob, bound: Sequence[Pod], now: float, limit: float) -> str:
    """That a job goes, as a clause, or empty. What goes is partly placed at its end; what stays although it was deleted is judged."""
    alive = [pod for pod in bound if not pod.finished]
    if alive and all(pod.metadata.deletion_timestamp for pod in alive):
        return "all that are placed are being deleted (REQ-14 judges pods that do not end)"
    return "it is being deleted" if job.deleted_at is not None and now - job.deleted_at <= limit else ""


def partial_since(job: GangJob) -> float | None:
    """Since when a job is partly placed: from the first placement, but not before a pod that still waits was created."""
    times = [moment for pod in job.pods if placed(pod) and (moment := placed_at(pod)) is not None]
    waiting = [moment for pod in job.pods if not placed(pod) and (moment := unix(pod.metadata.creation_timestamp)) is not None]
    if not times:
        return None
    return max(min(times), min(waiting)) if waiting else min(times)


class _Ignored(msgspec.Struct, frozen=True):
    """Why no gang scheduler heeds the marks of a job, as a clause. ``unclear``: whether one does is not known."""

    why: str
    unclear: bool = False


def _ignored(scope: Scope, job: GangJob) -> _Ignored | None:
    """Why no mark of a job counts; None if one does, or it has none. Facts: docs/facts/gangs.md#marks-that-nobody-reads."""
    asking = [pod for pod in job.pods if scope.device_demand_of(pod).devices] or job.pods
    names = {pod.scheduler_name or _DEFAULT_SCHEDULER for pod in asking}
    found: list[_Ignored] = []
    for system in job.system.split(", "):
        if system == "Kueue" and not scope.snapshot.listing(KUEUE_WORKLOADS).served:
            found.append(_Ignored("it names a queue of Kueue, and Kueue is not installed"))
        elif system == "Kueue" and scope.snapshot.lacks(KUEUE_WORKLOADS):
            found.append(_Ignored("it names a queue of Kueue, and the snapshot does not tell whether Kueue is installed", unclear=True))
        elif system == "coscheduling" and _DEFAULT_SCHEDULER in names:
            found.append(_Ignored("it names a group of coscheduling, and the default scheduler may have that plugin or not", unclear=True))
        elif system in GANG_SCHEDULERS.values() and _DEFAULT_SCHEDULER in names:
            found.append(_Ignored(f"it names a group of {system}, which places only pods that name its scheduler (spec.schedulerName)"))
        elif system in GANG_SCHEDULERS.values() and not names & GANG_SCHEDULERS.keys():
            heeds = f"whether {listed(in_order(names))} heeds it is not known"
            found.append(_Ignored(f"it names a group of {system}, and {heeds}", unclear=True))
        elif not system and any({KUEUE_QUEUE, KUEUE_GROUP} & pod.metadata.label.keys() for pod in job.pods):
            found.append(_Ignored("its pods have a label of Kueue's, and no Workload of Kueue is of them or their owner", unclear=True))
        else:
            return None
    return min(found, key=lambda one: not one.unclear)


def check_used(scope: Scope) -> Iterator[Finding]:
    """GANG-06: multi-pod device jobs are given to a gang scheduler."""
    if scope.policy.gang.required is False:
        raise NotApplicable("NotRequired", "the policy does not ask for a gang scheduler (gang.required: false)")
    for job in gang_jobs(scope):
        schedulers = sorted({pod.scheduler_name or _DEFAULT_SCHEDULER for pod in job.pods})
        ignored = _ignored(scope, job)
        observed = f"{job.needed} pods by {(not ignored and job.system) or ', '.join(schedulers)}"
        source = "schedulerName, group annotations and queue labels"
        unknown = [name for name in schedulers if name not in (_DEFAULT_SCHEDULER, *GANG_SCHEDULERS)]
        about = About(job.subject, source, "a gang scheduler", observed)
        if job.system and not ignored:
            yield _judge_group(job, about)
        elif job.enough and job.enough <= 1 + sum(not scope.device_demand_of(pod).devices for pod in job.pods):
            message = f"its owner says that {job.enough} of {job.needed} pods are enough ({job.enough_source}): there is no gang to place"
            yield about.not_judged(message)
        elif unknown:
            message = f"scheduler {', '.join(unknown)} places it, and the suite does not know whether it places gangs"
            yield about.undecided(message, cause="GangSchedulerUnknown")
        elif job.unsure and not ignored:
            yield about.not_judged(job.unsure)
        elif ignored and ignored.unclear:
            yield about.undecided(ignored.why, cause="GangSchedulerUnknown")
        else:
            message = f"its {job.needed} pods are placed one by one ({', '.join(schedulers)}), so it can hold devices and never start"
            message += f"; {ignored.why}" if ignored else ""
            yield about.bad(message, cause="JobWithoutGangScheduler")


def _judge_group(job: GangJob, about: About) -> Finding:
    """Whether a job's group asks for as many pods as the job needs, or as its owner says are enough."""
    least = job.enough or job.needed
    if job.unsure or not 0 < job.together < least:
        return about.ok()
    fewer = f"its group asks for {job.together} of the {least} pods that it needs"
    about = About(about.subject, "minMember or minCount of its group", f"a group of {least}", fewer)
    if job.held:
        return about.not_judged(f"{fewer}; {job.held}")
    return about.bad(f"{fewer}: {about.subject.name} may be placed in part", cause="GroupAsksForFewer")


def check_quota_exists(scope: Scope) -> Iterator[Finding]:
    """GANG-09: what queues may give is there. Raises :class:`NotApplicable` where no queue has a quota of a device resource."""
    findings = [*judge_quota(scope), *judge_promised(scope)]
    if not findings:
        raise NotApplicable("NoQueues", "no queue of Kueue or Volcano has a quota of a device resource")
    yield from findings


def check_queues_admit(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-11: queues with device work can admit it. Raises :class:`NotApplicable` where no queue has any."""
    findings = [*judge_queues(scope, now), *judge_open(scope, now)]
    if not findings:
        raise NotApplicable("NoQueuedWork", "no queue of Kueue or Volcano has work that asks for devices")
    yield from findings


def check_held(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-10: what queues have given is held by live pods. Raises :class:`NotApplicable` where nothing was given."""
    findings = [*judge_reservations(scope, now), *judge_held(scope, now)]
    if not findings:
        raise NotApplicable("NoWorkloads", "no queue of Kueue or Volcano has given devices to any workload")
    yield from findings
