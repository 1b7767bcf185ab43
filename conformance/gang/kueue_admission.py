"""GANG-11 for Kueue: queues with device work can admit it, and none goes round (docs/facts/gangs.md#queues-that-admit-nothing).

GANG-11 for strict queues of Kueue: the head keeps none from idle devices that it does not wait for, or can never be given.

Facts: docs/facts/gangs.md#order-in-a-queue-of-kueue.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

from conformance.common_findings import overdue
from fixtures.grouping import grouped
from fixtures.kubernetes.models import Json, PodSpec
from fixtures.kubernetes.times import newest, unix
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.placement.affinity import Choice, Tolerated
from fixtures.model.placement.claimable import units_of
from fixtures.model.placement.fitting import requests_of
from fixtures.model.queues.kueue import (
    CHECKS,
    CLUSTER_QUEUES,
    FLAVORS,
    LOCAL_QUEUES,
    ClusterQueue,
    Group,
    KueueObjects,
    LocalQueue,
    Place,
    Workload,
)
from fixtures.model.queues.kueue_quotas import pods_ready_timeout
from fixtures.text.sentences import duration, in_order, listed
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
    return judge_order(scope, queue, served, now) or _judge_left(scope, queue, served, now) or about.ok()


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


_KUEUE_ORDER_SOURCE = (
    "clusterqueue.spec.queueingStrategy, spec.resourceGroups, workload.spec.podSets, status.admission, resourceflavor.spec.nodeLabels"
)
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"

_NO_FLAVOR = "(none that it may be given)"


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that waits, and what its pod sets ask for together: a spec of their pods, and amounts by resource."""

    workload: Workload
    parts: tuple[tuple[PodSpec, dict[str, Fraction]], ...]

    @property
    def name(self) -> str:
        return f"{self.workload.namespace}/{self.workload.name}"

    @property
    def since(self) -> float | None:
        return self.workload.since


def judge_order(scope: Scope, queue: ClusterQueue, local: Collection[tuple[str, str]], now: float) -> Finding | None:
    """The finding about a strict queue whose head blocks others for no use; None where it blocks none.

    ``local`` are the LocalQueues, by namespace and name, that pass their work to the queue.
    """
    if not queue.strict:
        return None
    by_queue = scope.cached(KueueObjects).by_local_queue
    every = [item for key in sorted(local) for item in by_queue.get(key, ())]
    waiting = _in_order(every)
    if len(waiting) < 2:
        return None
    rest = _Rest(scope, queue, every)
    head, behind = waiting[0], waiting[1:]
    _, short = rest.given(head)
    if not short:
        return None  # it is about to be admitted, or something else holds it
    never = not queue.above and bool(_Rest(scope, queue, ()).given(head)[1])  # one without a Cohort borrows nothing
    blocked = [(one, taken) for one in behind if (taken := rest.unused(one)) and (never or not taken.keys() & short)]
    if not blocked:
        return None
    about = About(Subject("ClusterQueue", queue.name), _KUEUE_ORDER_SOURCE, "no workload behind a head that waits for other devices")
    first, taken = blocked[0]
    devices = [(place, float(amount)) for place, amount in sorted(taken.items()) if scope.names_device(place[1])]
    wants = listed([f"{amount:g} {resource} of flavor {flavor}" for (flavor, resource), amount in devices], 2)
    asks = "asks for more than the queue has of" if never else "waits for"
    lacks = f"{asks} {listed(in_order(f'{resource} of flavor {flavor}' for flavor, resource in short), 2)}"
    words = f"its order is StrictFIFO, and its head {head.name} {lacks}, while {first.name} waits for {wants}, which are free"
    known = [max(one.since, head.since) for one, _ in blocked if one.since is not None and head.since is not None]
    limit = scope.policy.requests.pending_minutes * 60
    age = overdue(about, min(known, default=None), now, limit, f"{words}:", cause="HeadBlocksOtherFlavor")
    if isinstance(age, Finding):
        return age
    so_long = f"for {duration(age)}"
    why = f"; of the head, Kueue says: {reason}" if (reason := head.workload.words("QuotaReserved")) else ""
    message = f"{words} {so_long}: {len(blocked)} workloads are kept from idle devices{why}"
    observed = f"{len(blocked)} workloads behind {head.name} {so_long}"
    return about.bad(message, cause="HeadBlocksOtherFlavor", observed=observed)


def _judge_left(scope: Scope, queue: ClusterQueue, local: Collection[tuple[str, str]], now: float) -> Finding | None:
    """The finding about a workload that its queue has room for and does not admit; None without one.

    A queue in a Cohort may have lent what it has left, a Topology weighs more than sums, and waitForPodsReady lets one in after the other.
    """
    kueue = scope.cached(KueueObjects)
    if queue.above or pods_ready_timeout(scope) is not None:
        return None
    every = [item for key in sorted(local) for item in kueue.by_local_queue.get(key, ())]
    covered, rest = frozenset[str]().union(*(group.covered for group in queue.groups)), _Rest(scope, queue, every)
    waiting = _in_order(every)
    for one in waiting[:1] if queue.strict else waiting:
        taken, workload = rest.unused(one), one.workload
        plain = not any(kueue.flavors[flavor].topology for flavor, _ in taken) and covered.issuperset(*(asked for _, asked in one.parts))
        if not taken or not plain or workload.state("Requeued") == "False":
            continue
        about = About(workload.place, _KUEUE_ORDER_SOURCE, "admitted, or no quota or devices free that fit it")
        devices = [
            f"{float(amount):g} {name} of flavor {flavor}" for (flavor, name), amount in sorted(taken.items()) if scope.names_device(name)
        ]
        words = f"it waits in ClusterQueue {queue.name}, whose own quota and whose nodes have {listed(devices, 2)} free for it"
        since = newest([workload.created, *map(workload.turned, ("QuotaReserved", "Evicted", "Requeued"))])
        limit = scope.policy.requests.pending_minutes * 60
        age = overdue(about, since, now, limit, f"{words}:", cause="FitsAndIsNotAdmitted", quiet=True)
        if isinstance(age, Finding):
            continue
        why = f"; Kueue says: {reason}" if (reason := workload.words("QuotaReserved")) else ""
        return about.bad(f"{words}, for {duration(age)}{why}", cause="FitsAndIsNotAdmitted")
    return None


def _in_order(workloads: Sequence[Workload]) -> list[_Waiting]:
    """Those that wait to be admitted, as a strict queue takes them: by priority, then by age."""
    found = []
    for one in workloads:
        if one.given_up or one.holds("QuotaReserved", "Admitted"):
            continue
        sets = ((pods, count, requests_of(pods)) for pods, count in one.pod_sets)
        if parts := tuple((pods, {name: amount * count for name, amount in asked.items()}) for pods, count, asked in sets):
            found.append(_Waiting(workload=one, parts=parts))
    return sorted(found, key=lambda one: (-one.workload.priority, one.since or 0.0))


class _Rest:
    """What a queue has left of its own quota, by flavor and resource, and which flavors a workload may be given."""

    def __init__(self, scope: Scope, queue: ClusterQueue, workloads: Sequence[Workload]) -> None:
        self._scope = scope
        self._groups = queue.groups
        self._nodes = {name: flavor.as_node for name, flavor in scope.cached(KueueObjects).flavors.items()}
        self._free: dict[Place, int] = {}
        self._left = {quota.place: quota.exact for quota in queue.quotas}
        for one in workloads:
            if one.holds("QuotaReserved") and not one.holds("Finished"):
                for place, amount in one.assigned.items():
                    if place in self._left:
                        self._left[place] -= amount

    def given(self, waiting: _Waiting) -> tuple[dict[Place, Fraction], frozenset[Place]]:
        """What a workload would be given now, and of what too little is left for it, among all that it may be given."""
        taken: dict[Place, Fraction] = {}
        short: set[Place] = set()
        for flavors, wanted in self._choices(waiting):
            lacks = {
                flavor: {
                    (flavor, name)
                    for name, amount in wanted.items()
                    if self._left.get((flavor, name), 0) - taken.get((flavor, name), 0) < amount
                }
                for flavor in flavors or (_NO_FLAVOR,)
            }
            if (chosen := next((flavor for flavor in flavors if not lacks[flavor]), None)) is None:
                short.update(*lacks.values())
                continue
            for name, amount in wanted.items():
                taken[chosen, name] = taken.get((chosen, name), Fraction(0)) + amount
        return taken, frozenset(short)

    def unused(self, waiting: _Waiting) -> dict[Place, Fraction]:
        """What a workload would be given now, if it is devices that are free on nodes of their flavors; else empty."""
        taken, short = self.given(waiting)
        devices = {place: amount for place, amount in taken.items() if self._scope.names_device(place[1])}
        counted = {place: amount for place, amount in devices.items() if self._scope.is_device(place[1])}
        return taken if devices and not short and all(self._idle(place) >= amount for place, amount in counted.items()) else {}

    def _idle(self, place: Place) -> int:
        """Free devices of a resource on the usable nodes of a flavor."""
        if place not in self._free:
            flavor, resource = place
            labels = found.metadata.label.items() if (found := self._nodes.get(flavor)) else ()
            nodes = [node for node in self._scope.usable_nodes if not labels or labels <= node.metadata.label.items()]
            held = self._scope.held
            free = (units_of(self._scope, node, resource) - held.get(node.name, {}).get(resource, 0) for node in nodes)
            self._free[place] = sum(max(units, 0) for units in free)
        return self._free[place]

    def _choices(self, waiting: _Waiting) -> Iterator[tuple[list[str], dict[str, Fraction]]]:
        """For each pod set and group of resources: the flavors that it may be given, and what it asks for."""
        for pods, amounts in waiting.parts:
            rest = dict(amounts)
            for group in self._groups:
                if wanted := {name: rest.pop(name) for name in group.covered & rest.keys()}:
                    yield self._eligible(group, pods), wanted
            if any(self._scope.names_device(name) for name in rest):
                yield [], rest  # no group covers a device that it asks for

    def _eligible(self, group: Group, pods: PodSpec) -> list[str]:
        nodes = {name: node for name in group.flavors if (node := self._nodes.get(name)) is not None}
        choice = Choice(_restricted(pods, {key for node in nodes.values() for key in node.metadata.label}))
        tolerated = Tolerated(pods.tolerations)
        return [name for name, node in nodes.items() if choice.admits(node) and tolerated.lets_onto(node)]


def _restricted(pods: PodSpec, keys: set[str]) -> PodSpec:
    """The pods' wishes about the labels of flavors alone: Kueue looks at no others."""
    selector = {key: value for key, value in (pods.node_selector or {}).items() if key in keys}
    every = mappings(mapping(pods.affinity, "nodeAffinity", _AFFINITY).get("nodeSelectorTerms"))
    kept = [[item for item in mappings(term.get("matchExpressions")) if item.get("key") in keys] for term in every]
    terms: list[Json] = [{"matchExpressions": expressions} for expressions in kept] if all(kept) else []  # one that allows all allows all
    affinity = {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": terms}}} if terms else None
    return msgspec.structs.replace(pods, node_selector=selector, affinity=affinity)
