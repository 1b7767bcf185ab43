"""The read requirements of GANG: is a gang scheduler there and well (01), is no job half placed (05), do jobs use it (06)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.gang.adapters import Adapter, chosen
from conformance.gang.adapters import adapters as adapters_known
from conformance.gang.jobs import GangJob, gang_jobs
from conformance.gang.members import placed, placed_at, unix
from conformance.scope import Scope
from fixtures.evidence import Finding, NotApplicable, Subject, bad, not_judged, ok, undecided


def check_installed(scope: Scope, adapters: Sequence[Adapter] | None = None) -> Iterator[Finding]:
    """GANG-01: every gang scheduler that is installed works, and one is installed where multi-pod device jobs run."""
    required = scope.policy.gang.required
    named = scope.policy.gang.adapters
    found = 0
    for name in sorted(set(named) - {adapter.name for adapter in adapters_known()}):
        message = f"the policy names it and the suite has no adapter of that name; it has {', '.join(a.name for a in adapters_known())}"
        yield undecided(Subject("GangScheduler", name), message, "policy gang.adapters")
    for adapter in chosen(scope) if adapters is None else adapters:
        available = adapter.detect(scope)
        subject = Subject("GangScheduler", adapter.name)
        if not available.installed:
            if adapter.name in named:
                message = f"the policy names {adapter.name} and it is not installed, so gangs given to it never start"
                yield bad(subject, available.reason, "installed and healthy", available.source, message)
            continue
        found += 1
        if available.healthy is None:
            yield undecided(subject, f"it is installed, but nothing shows whether it works: {available.reason}", available.source)
        elif available.healthy:
            yield ok(subject, available.reason, "installed and healthy", available.source)
        else:
            message = f"{adapter.name} is installed and does not work ({available.reason}), so gangs given to it never start"
            yield bad(subject, available.reason, "installed and healthy", available.source, message)
    if found:
        return
    jobs = [] if required is False else gang_jobs(scope)
    if not required and not jobs:
        raise NotApplicable("NoGangJobs", "no gang scheduler is installed, and there is no multi-pod device job that needs one")
    if not named:
        why = f"{len(jobs)} multi-pod device jobs ({jobs[0].subject} first)" if jobs else "the policy requires it (gang.required)"
        message = f"no gang scheduler is installed although needed: {why}; jobs that get part of their pods block devices for ever"
        yield bad(Subject("GangScheduler", "any"), "no CRD of a known gang scheduler", "one installed and healthy", "CRDs", message)


def check_partial(scope: Scope, now: float) -> Iterator[Finding]:
    """GANG-05: no multi-pod device job has some but not all of its pods placed for longer than the policy's age."""
    limit = scope.policy.gang.partial_minutes * 60
    for job in gang_jobs(scope):
        yield _judge_partial(job, now, limit)


def _judge_partial(job: GangJob, now: float, limit: float) -> Finding:
    source = "pod.spec.nodeName of its pods"
    bound = [pod for pod in job.pods if placed(pod)]
    observed = f"{len(bound)} of {job.needed} pods placed"
    expected = f"all or none placed, or not longer than {limit / 60:g} min in between"
    if job.waiting and not bound:
        return not_judged(job.subject, job.waiting, source)
    if len(bound) >= job.needed or not bound:
        return ok(job.subject, observed, expected, source)
    since = partial_since(job)
    if since is None:
        return undecided(job.subject, f"{observed}, and no time says since when", source)
    age = now - since
    observed += f" for {max(age, 0) / 60:.0f} min"
    if age <= limit:
        return ok(job.subject, observed, expected, source)
    nodes = ", ".join(sorted({pod.spec.node_name for pod in bound if pod.spec.node_name})[:4])
    message = f"{observed}: its devices on {nodes or 'their nodes'} do nothing while the rest waits, and others cannot have them"
    return bad(job.subject, observed, expected, source, message)


def partial_since(job: GangJob) -> float | None:
    """Since when a job is partly placed: from the first placement, but not before a pod that still waits was created."""
    times = [moment for pod in job.pods if placed(pod) and (moment := placed_at(pod)) is not None]
    waiting = [moment for pod in job.pods if not placed(pod) and (moment := unix(pod.metadata.creation_timestamp)) is not None]
    if not times:
        return None
    return max(min(times), min(waiting)) if waiting else min(times)


def check_used(scope: Scope) -> Iterator[Finding]:
    """GANG-06: multi-pod device jobs are given to a gang scheduler."""
    if scope.policy.gang.required is False:
        raise NotApplicable("NotRequired", "the policy does not ask for a gang scheduler (gang.required: false)")
    for job in gang_jobs(scope):
        schedulers = sorted({pod.spec.scheduler_name or "default-scheduler" for pod in job.pods})
        observed = f"{job.needed} pods by {job.system or ', '.join(schedulers)}"
        source = "schedulerName, group annotations and queue labels"
        if job.system:
            yield ok(job.subject, observed, "a gang scheduler", source)
        else:
            message = (
                f"its {job.needed} device pods are placed one by one ({', '.join(schedulers)}), so it can hold devices and never start"
            )
            yield bad(job.subject, observed, "a gang scheduler", source, message)
