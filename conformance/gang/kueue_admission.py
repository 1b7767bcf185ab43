"""GANG-11 for Kueue: queues with device work can admit it, and none goes round (docs/facts/gangs.md#queues-that-admit-nothing)."""

from collections.abc import Collection, Iterator, Mapping

from conformance.common_findings import overdue
from conformance.gang.kueue_order import judge_order
from fixtures.grouping import grouped
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.queues.kueue import CHECKS, CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, ClusterQueue, KueueObjects, LocalQueue, Workload
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_ROUNDS = 3
"""Evictions after which a workload goes round: once or twice may be a slow image or a lost node."""
_OWN_FAULT = frozenset({"PodsReadyTimeout", "AdmissionCheck"})
"""Reasons of evictions that leave everything as it was; a preempted workload made room for another."""

_SOURCE = "clusterqueue.spec.stopPolicy, status.conditions[Active] of the queue and of what it names"


def judge_queues(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per queue with device work, per workload that goes round, and per worker cluster that is lost."""
    kueue = scope.cached(KueueObjects)
    alive = [one for one in kueue.workloads if not one.given_up]
    work = [one for one in alive if any(scope.devices_of(spec) or spec.resource_claims for spec, _ in one.pod_sets)]
    here, queues = kueue.local_queues, kueue.queues
    by_local = grouped(((one.namespace, one.queue), one) for one in work)
    by_queue: dict[str, list[Workload]] = {}
    served = grouped((item.cluster_queue, key) for key, item in here.items())
    for (namespace, name), own in sorted(by_local.items()):
        local = here.get((namespace, name))
        trouble = _local_trouble(scope, namespace, name, local, queues)
        if trouble:
            yield _stopped(scope, Subject("LocalQueue", name, namespace), trouble, local, own, now)
        elif local is not None:
            by_queue.setdefault(local.cluster_queue, []).extend(own)
    for name, own in sorted(by_queue.items()):
        if name in queues:
            yield _cluster_queue(scope, queues[name], own, served[name], now)
    yield from _lost_workers(scope, [name for name in by_queue if name in queues], work, now)
    for one in work:
        yield from _round(one)


def _local_trouble(scope: Scope, namespace: str, name: str, local: LocalQueue | None, queues: Mapping[str, ClusterQueue]) -> str:
    """Why a LocalQueue passes nothing on, as a clause; empty when only its ClusterQueue decides."""
    if not scope.snapshot.served(LOCAL_QUEUES):
        return ""
    if local is None:
        return f"workloads name LocalQueue {name or '(none)'}, and there is none of that name in {namespace}"
    if local.stopped:
        return f"spec.stopPolicy is {local.stopped}"
    if scope.snapshot.served(CLUSTER_QUEUES) and local.cluster_queue not in queues:
        return f"it names ClusterQueue {local.cluster_queue}, and there is none of that name"
    return ""


def _cluster_queue(scope: Scope, queue: ClusterQueue, work: list[Workload], served: Collection[tuple[str, str]], now: float) -> Finding:
    about = About(Subject("ClusterQueue", queue.name), _SOURCE, "Active", f"Active, {len(work)} workloads with devices")
    if trouble := _trouble(scope, queue):
        return _stopped(scope, about.subject, trouble, queue, work, now)
    if not queue.holds("Active"):
        return about.undecided("its status does not say whether it is Active")
    return judge_order(scope, queue, served, now) or about.ok()


def _trouble(scope: Scope, queue: ClusterQueue) -> str:
    """Why a ClusterQueue admits nothing, the cause before its effect, as a clause; or empty."""
    if queue.stopped:
        return f"spec.stopPolicy is {queue.stopped}"
    kueue = scope.cached(KueueObjects)
    flavors = {flavor for group in queue.groups for flavor in group.flavors}
    if scope.snapshot.served(FLAVORS) and (missing := sorted(flavors - kueue.flavors.keys())):
        return f"it names ResourceFlavor {missing[0]}, and there is none of that name"
    for name in queue.checks:
        if name in kueue.checks:
            check, _ = kueue.checks[name]
            if check.state("Active") == "False":
                return f"AdmissionCheck {name} is not Active: {check.words('Active')}"
        elif scope.snapshot.served(CHECKS) and not queue.holds("Active"):
            return f"it names AdmissionCheck {name}, and there is none of that name"
    return f"it is not Active: {queue.words('Active')}" if queue.state("Active") == "False" else ""


def _stopped(
    scope: Scope, place: Subject, trouble: str, queue: ClusterQueue | LocalQueue | None, work: list[Workload], now: float
) -> Finding:
    """A queue that admits nothing: bad once work has waited in it for longer than the policy's age."""
    drains = queue is not None and queue.stopped == "HoldAndDrain"
    waiting = [one for one in work if drains or not one.holds("Admitted")]
    about = About(place, _SOURCE, "Active, or no device work in it", trouble)
    if not waiting:
        return about.not_judged(f"{trouble}, and no device work waits in it")
    limit = scope.policy.requests.pending_minutes * 60
    stopped = unix(queue.turned("Active")) if queue is not None and queue.state("Active") == "False" else None
    created = [one.since for one in waiting if one.since is not None]
    since, unknown = max(min(created), stopped or 0.0) if created else None, f"{trouble}, and nothing says how long its work waits"
    age = overdue(about, since, now, limit, f"{trouble},", cause="QueueAdmitsNothing", unknown=unknown)
    if isinstance(age, Finding):
        return age
    first = f"{waiting[0].namespace}/{waiting[0].name}"
    message = f"{trouble}: {len(waiting)} workloads that ask for devices wait for {duration(age)} ({first} first), and none can be admitted"
    return about.bad(message, cause="QueueAdmitsNothing")


def _lost_workers(scope: Scope, queues: list[str], work: list[Workload], now: float) -> Iterator[Finding]:
    """Worker clusters of MultiKueue that the manager does not reach, where work of devices may go or is."""
    kueue = scope.cached(KueueObjects)
    asked = not kueue.sent_away().keys().isdisjoint(queues)
    running = {one.elsewhere for one in work}
    limit, source = scope.policy.requests.pending_minutes * 60, "multikueuecluster.status.conditions[Active]"
    for cluster in kueue.workers:
        if not asked and cluster.name not in running:
            continue
        about, why = About(Subject("MultiKueueCluster", cluster.name), source, "Active"), cluster.words("Active")
        if cluster.holds("Active"):
            yield about.ok("Active")
            continue
        since = unix(cluster.turned("Active")) if cluster.state("Active") == "False" else None
        unknown = "nothing says whether, or since when, the manager reaches it"
        age = overdue(about, since, now, limit, f"not Active: {why},", cause="WorkerClusterLost", unknown=unknown)
        if isinstance(age, Finding):
            yield age
        else:
            message = f"not Active for {duration(age)}: {why}: it gets no work, and what runs there is not known"
            yield about.bad(message, cause="WorkerClusterLost", observed=why)


def _round(work: Workload) -> Iterator[Finding]:
    """A workload that is admitted and evicted again and again for the same reason."""
    own = [(reason, count) for reason, count in work.evictions if reason in _OWN_FAULT]
    rounds = max(sum(count for _, count in own), work.requeued)
    if rounds < _ROUNDS:
        return
    about = About(work.place, "workload.status.requeueState, status.schedulingStats.evictions", observed=f"evicted {rounds} times")
    if work.holds("Admitted") and work.holds("PodsReady"):
        yield about.ok(f"{about.observed}, and its pods are ready now", expected="no round without an end")
        return
    last = work.words("Evicted") or ", ".join(sorted({reason for reason, _ in own})) or "no reason is given"
    message = f"it was admitted and evicted {rounds} times ({last}): each round holds devices that no pod uses for long"
    yield about.bad(message, cause="WorkloadGoesRound", expected="admitted for good, or not at all")
