"""GANG-07: Kueue admits whole workloads or nothing of them, by the quota that it counts (docs/facts/gangs.md#partial-admission).

The probe's pods keep a gate of the suite's own, which Kueue leaves alone: none is placed, and no device is taken.
"""

import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.gang.adapters import Gang, Kueue
from conformance.gang.adapters.kueue import is_of
from conformance.gang.plan import Plan, gang_of
from conformance.probes.running import absence_seconds
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS
from fixtures.model.jobs.marks import KUEUE_GATES
from fixtures.model.objects import name_of
from fixtures.model.queues.kueue import KueueObjects, Workload, reserved_by
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

_SUBJECT = Subject("GangScheduler", "kueue quota")
_HOLD = "gpu-conformance.io/hold"
_QUOTA = 2
_LAST_LOOK = 0.5
"""Seconds in which what was reserved is looked at once more, in a list."""
_SOURCE = "workload.status.admission, pod.spec.schedulingGates at every event"


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A group of ``size`` pods with one device each: the most units that were reserved for it, and pods let go, at any time."""

    size: int
    units: int = 0
    freed: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether all of it was admitted."""
        return self.units == self.freed == self.size

    def __str__(self) -> str:
        return f"{self.units} units reserved and {self.freed} pods let go of a group of {self.size} after {self.seconds:.1f} s"


def judge_admission(fits: Admitted, over: Admitted | None, window: float, promise: str) -> Finding:
    """``over``: a group above the quota of its queue, None where the one that ``fits`` was not admitted whole."""
    expected = f"all {fits.size} that fit the quota, and none of a group above it for {window:.1f} s; {promise}"
    about = About(_SUBJECT, _SOURCE, expected, f"{fits}; {over or 'no larger group was tried'}")
    for group in (fits, over):
        if group is not None and (0 < group.units < group.size or 0 < group.freed < group.size):
            message = f"{group}: a part of it holds quota, and devices once it is placed, and its job cannot start"
            return about.bad(message, cause="WorkloadAdmittedInPart")
    if over is None:
        return about.undecided(f"PositiveControlFailed: a group that fits was not admitted: {fits}", cause="PositiveControlFailed")
    if over.units or over.freed:
        return about.undecided(f"{over}, and its queue has a quota of {_QUOTA}: somebody has changed it", cause="ProbeDisturbed")
    return about.ok()


def judge_workloads(scope: Scope) -> Iterator[Finding]:
    """One finding per Workload of device pods that holds quota: whether all of its pod sets were admitted whole."""
    for one in scope.cached(KueueObjects).workloads:
        if not one.given_up and one.holds("QuotaReserved") and any(map(scope.names_device, one.reserved)):
            yield _judge(one)


def _judge(one: Workload) -> Finding:
    short = [part for part in one.parts if part.short]
    words = listed([f"{part.given} of {part.wanted} pods of {part.name}" for part in short])
    about = About(one.place, "workload.status.admission.podSetAssignments", "all of its pods, or as few as its owner takes", words)
    if not short:
        return about.ok(f"all of {len(one.parts)} pod sets")
    if one.elastic:
        return about.not_judged(f"{words}, and it may grow while it runs (kueue.x-k8s.io/elastic-job)")
    if all(0 < part.least <= (part.given or 0) for part in short):
        return about.not_judged(f"{words}, and its owner takes that (minCount)")
    return about.bad(f"ClusterQueue {one.cluster_queue} has admitted {words}: the others wait for ever", cause="WorkloadAdmittedInPart")


def probe_admission(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """A group that fits a queue's quota, and one above it. Raises :class:`NotApplicable` without Kueue."""
    adapter, named = Kueue(), scope.policy.gang.adapters
    if (named and adapter.name not in named) or not adapter.detect(scope).installed:
        raise NotApplicable("NoKueue", "Kueue is not installed, or the policy does not name it in gang.adapters")
    yield from judge_workloads(scope)
    resource = next((name for name in sorted(scope.capacity_names) if scope.is_device(name)), "")
    if not resource:
        message = "no node offers a device as a resource, so that the probe has nothing of which its queue could have a quota"
        yield not_judged(_SUBJECT, message=message, source="node.status.capacity")
        return
    plan, counted = Plan(nodes=(), resource=resource, unit=1, slots=_QUOTA), adapter.counted_as(scope, resource)
    _, promise = adapter.guarantee(scope, scope.accelerator_nodes)
    adapter.setup(scope, workspace, resource, _QUOTA, topology=False)
    try:
        # Kueue makes two pod sets of each
        groups = [gang_of(scope, plan, f"gang-07-{size}", size, gates=[_HOLD], unlike=True) for size in (_QUOTA, _QUOTA + 1)]
        fits = _ask(workspace, adapter, groups[0], counted, scope.policy.probes.start_seconds)
        window = absence_seconds(scope, fits.seconds)
        over = _ask(workspace, adapter, groups[1], counted, window) if fits.whole else None
        yield judge_admission(fits, over, window, promise)
    finally:
        adapter.teardown(workspace)
        workspace.clear()


def _ask(workspace: Workspace, adapter: Kueue, gang: Gang, counted: str, seconds: float) -> Admitted:
    """Submit a group and watch what is reserved for it, until all of it is admitted or the time is over; then remove it."""
    seen, began = Admitted(size=gang.size), time.monotonic()

    def look(pods: Mapping[str, Json], workloads: Iterable[Mapping[str, Json]]) -> Admitted:
        most = max(sum(reserved_by(item).get(counted, 0) for item in objects.values() if is_of(item, gang)) for objects in workloads)
        own = [decode_pod(item) for item in pods.values() if name_of(item) in gang.names]
        freed = sum(not any(gate.startswith(KUEUE_GATES) for gate in pod.gates) for pod in own)
        return msgspec.structs.replace(seen, units=max(seen.units, most), freed=max(seen.freed, freed))

    with workspace.observe() as pods, Observation(workspace.cluster, KUEUE_WORKLOADS, workspace.namespace()) as workloads:
        adapter.submit(workspace, gang)
        for objects in pods.until(time.monotonic() + seconds):
            seen = look(objects, workloads.news())
            if seen.whole:
                break
        seen = look(pods.objects, workloads.until(time.monotonic() + _LAST_LOOK))
    adapter.release(workspace, gang)
    return msgspec.structs.replace(seen, seconds=time.monotonic() - began)
