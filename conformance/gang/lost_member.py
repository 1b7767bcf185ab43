"""GANG-08: a gang that lost a member starts again or gives all back, and its end leaves no pod (docs/facts/gangs.md#lost-members).

A job of this run makes the pods. One of them is deleted, which the probe may do: it is the run's own.
"""

import time
from collections.abc import Callable, Iterator, Mapping

import msgspec

from conformance.gang.adapters import Adapter, Kueue, chosen
from conformance.gang.adapters.base import GANG_LABEL
from conformance.gang.adapters.jobs import EXPIRY, JOBS, Jobs, expiry, jobs_of
from conformance.gang.plan import Plan, gang_of
from conformance.gang.probes import gave_up, plan_of_run
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS
from fixtures.model.objects import has_started, is_live, name_of, node_of, phase_of, uid_of
from fixtures.ownership import owned
from fixtures.probes.pods import marked
from fixtures.probes.workspace import Workspace
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

_NO_POD = "NoPodMade"
_FIRST_POD = 10.0
"""Seconds in which a controller makes the first pod of a job that no queue holds."""
_SOURCE = "pod.spec.nodeName and metadata.uid at every event"


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a gang of ``size`` pods: how many were ``bound`` at the end, and ``kept`` of those before; ``left``: pods that
    outlived their job. ``seconds`` after the loss of a member."""

    size: int
    bound: int
    kept: int
    seconds: float
    left: tuple[str, ...] = ()


def judge_loss(jobs: Jobs, plan: Plan, loss: Loss, *, room: bool) -> Finding:
    """``room``: whether one more pod of its shape was bound, where the gang has some of its pods and not all."""
    observed = f"{loss.bound} of {loss.size} bound, {loss.kept} of them as before, {loss.seconds:.1f} s after one was lost"
    expected = f"all or none bound ({plan}): {jobs.policy}"
    about = About(Subject("GangScheduler", jobs.name), _SOURCE, expected, observed)
    if loss.left:
        message = f"{listed(loss.left, 3)} outlived the job that made them: they hold devices, and nobody ends them"
        return about.bad(message, cause="GangStaysBroken")
    if 0 < loss.bound < loss.size and not room:
        return about.undecided(f"PositiveControlFailed: {observed}, and no other pod finds room", cause="PositiveControlFailed")
    if 0 < loss.bound < loss.size:
        return about.bad(f"{observed}: they hold devices and wait for a member that nobody makes again", cause="GangStaysBroken")
    if jobs.all_anew and loss.kept:
        message = f"{observed}: {jobs.policy}, and members from before run on beside a new one that they do not know"
        return about.bad(message, cause="GangStaysBroken")
    return about.ok()


def probe_lost_member(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """A job of each kind that makes gangs here loses a pod. Raises :class:`NotApplicable` where there is none."""
    found = jobs_of(scope, chosen(scope))
    if not found:
        raise NotApplicable("NoGangJobs", "no gang scheduler and no controller of jobs is installed whose jobs the suite knows")
    plan = plan_of_run(scope, workspace)
    for jobs, adapter in found:
        place = Subject("GangScheduler", jobs.name)
        if plan.by_dra:
            message = "pods of a job would claim their devices, and the probe asks for them by resource: GANG-02 asks with claims"
            yield not_judged(place, message=message, source="deviceclasses")
        elif not scope.snapshot.served(jobs.key):
            yield not_judged(place, message=f"{jobs.key} is not served: nothing makes the pods of its gangs again", source="discovery")
        else:
            yield from _probe(scope, workspace, jobs, adapter, plan)


def _probe(scope: Scope, workspace: Workspace, jobs: Jobs, adapter: Adapter | None, plan: Plan) -> Iterator[Finding]:
    try:
        loss, room = _lose(scope, workspace, jobs, adapter, plan)
        yield judge_loss(jobs, plan, loss, room=room)
    except Inconclusive as error:
        place = Subject("GangScheduler", jobs.name)
        yield not_judged(place, message=error.message, source=jobs.key) if error.code == _NO_POD else gave_up(jobs.name, error)
    finally:
        workspace.clear()


def _lose(scope: Scope, workspace: Workspace, jobs: Jobs, adapter: Adapter | None, plan: Plan) -> tuple[Loss, bool]:
    """Submit a job, delete one of its pods, watch what follows, and remove the job."""
    if adapter is not None:
        adapter.setup(scope, workspace, plan.resource, plan.slots * plan.unit, plan.nodes)
    gang = gang_of(scope, plan, f"gang-08-{jobs.name}", plan.slots)
    seconds, namespace = scope.policy.probes.start_seconds, workspace.namespace()
    owner, made = _owner(workspace, seconds), list[tuple[str, Json]]()
    priority, labels = workspace.priority_class(), owned.labels(workspace.run_id)
    pod = marked(gang.pods[0], labels, priorityClassName=priority, activeDeadlineSeconds=workspace.pod_seconds)
    for key, body in jobs.make(gang, pod, priority, adapter):
        body["metadata"] = {**body["metadata"], "ownerReferences": [owner]}
        made.append((key, workspace.create(key, body, namespace)))
    with workspace.observe(labels=f"{GANG_LABEL}={gang.name}") as pods:
        if adapter is None and not any(pods.until(time.monotonic() + _FIRST_POD)):
            raise Inconclusive(_NO_POD, f"nothing made a pod of its job within {_FIRST_POD:g} s, so that none can be lost")
        before = _await(pods, seconds, lambda bound: len(bound) == gang.size, phase="Running")
        if len(before) != gang.size:
            raise Inconclusive(
                "PositiveControlFailed", f"{len(before)} of {gang.size} pods of its job were bound before any was lost; {plan}"
            )
        lost = max(before)
        answer = workspace.cluster.delete("pods", lost, namespace, uid=before[lost])
        if not answer.ok:
            raise Inconclusive(answer.reason, f"pod {lost} of this run could not be deleted: {answer.status} {answer.message}")
        old, began = set(before.values()), time.monotonic()
        kept = old - {before[lost]}

        def settled(bound: Mapping[str, str]) -> bool:
            now = set(bound.values())
            return len(bound) == gang.size and before[lost] not in now and not (jobs.all_anew and now & kept)

        after = _await(pods, seconds, settled)
        took = time.monotonic() - began
        room = not 0 < len(after) < gang.size or _fits(scope, workspace, plan, f"{gang.name}-plain", seconds)
        for key, item in reversed(made):
            answer = workspace.cluster.delete(key, name_of(item), namespace, uid=uid_of(item))
            if not answer.ok and answer.status != 404:
                raise Inconclusive(answer.reason, f"{key} of this run could not be deleted: {answer.status} {answer.message}")
        left = {"": ""}
        for objects in pods.until(time.monotonic() + seconds):
            if not (left := {name_of(pod): uid_of(pod) for pod in objects.values()}):
                break
    if isinstance(adapter, Kueue):
        _await_no_workload(workspace, seconds)
    survivors = len(set(after.values()) & kept)
    return Loss(size=gang.size, bound=len(after), kept=survivors, seconds=took, left=tuple(sorted(left))), room


def _await(pods: Observation, seconds: float, stop: Callable[[Mapping[str, str]], bool], phase: str = "") -> dict[str, str]:
    """The bound pods that live (in a phase), with their UIDs, once ``stop`` says yes to them, or after ``seconds``."""
    bound: dict[str, str] = {}
    for objects in pods.until(time.monotonic() + seconds):
        bound = {name_of(pod): uid_of(pod) for pod in objects.values() if node_of(pod) and is_live(pod) and phase in ("", phase_of(pod))}
        if stop(bound):
            break
    return bound


def _owner(workspace: Workspace, seconds: float) -> Json:
    """An owner reference by which what is created goes in time, also when the run is gone. Raises :class:`Inconclusive` without it."""
    namespace = workspace.namespace()
    created = workspace.create(JOBS, expiry(workspace.pod_seconds), namespace)
    with Observation(workspace.cluster, JOBS, namespace) as jobs:
        for objects in jobs.until(time.monotonic() + seconds):
            if has_started(objects.get(f"{namespace}/{EXPIRY}")):
                return {"apiVersion": "batch/v1", "kind": "Job", "name": EXPIRY, "uid": uid_of(created)}
    raise Inconclusive("NotStarted", f"no controller started Job {EXPIRY} of this run: nothing would end what it is to end")


def _await_no_workload(workspace: Workspace, seconds: float) -> None:
    """Kueue removes the job's Workload, and the queues of the run can go only then."""
    with Observation(workspace.cluster, KUEUE_WORKLOADS, workspace.namespace()) as workloads:
        for objects in workloads.until(time.monotonic() + seconds):
            if not objects:
                return


def _fits(scope: Scope, workspace: Workspace, plan: Plan, name: str, seconds: float) -> bool:
    """Whether one pod of the gang's shape is bound by the default scheduler."""
    started = workspace.start(gang_of(scope, plan, name, 1).pods[0])
    return bool(workspace.wait([started], lambda pods: True if pods and pods[0].node_name else None, seconds))
