"""Multi-pod device jobs of a cluster: how many pods each needs, and which pods it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from conformance.scope.gang_job import GangJob
from conformance.scope.gang_unsized import Told, unsized
from conformance.scope.kueue_objects import objects_of
from conformance.scope.scope import Scope
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.jobs.marks import (
    COSCHEDULING_GROUP,
    GANG_SCHEDULERS,
    JOB_LABELS,
    KAI_GROUP,
    KUEUE_GATES,
    KUEUE_GROUP,
    KUEUE_QUEUE,
    KUEUE_TOTAL,
    LWS,
    LWS_NAME,
    OWNER_LABELS,
    gang_system,
    native_group,
    volcano_group,
    works_alone,
)
from fixtures.model.jobs.owners import LWS_GROUP, Size, count, group_size, size_of
from fixtures.verdict.findings import Subject

_ENDED = frozenset({"Complete", "Completed", "Failed", "Succeeded", "Finished", "Terminated", "Aborted"})
KUEUE_WORKLOADS = "kueue.x-k8s.io/workloads"
_WRITTEN_FOR_OTHERS = ("trainer.kubeflow.org/trainjobs", "ray.io/rayjobs", "ray.io/rayservices")
"""Kinds whose pods are those of a JobSet or RayCluster that they make: they say only which queue it waits in."""


def gang_jobs(scope: Scope) -> list[GangJob]:
    """Multi-pod device jobs that have not ended, each once: pods counted in a group are not counted again in their owner.

    The owner's size counts where a group's minimum is below it.
    """
    return scope.cached(_gang_jobs)


def _gang_jobs(scope: Scope) -> list[GangJob]:
    index = _Index(scope)
    told = _told(scope, index)
    owned = [job for job in _owned(scope, index) if job.needed > 1]
    by_pod = {name: job for job in owned for name in job.names}
    groups = [_whole(group, by_pod, told) for group in _groups(scope, index)]
    jobs: list[GangJob] = []
    seen: set[tuple[str, str]] = set()
    for job in (*groups, *owned, *unsized(index.asking(scope.snapshot.pods), told)):
        if job.needed < 2 or (job.names and job.names <= seen) or all(pod.finished for pod in job.pods):
            continue
        seen |= job.names
        jobs.append(job)
    return jobs


def _whole(group: GangJob, by_pod: dict[tuple[str, str], GangJob], told: Told) -> GangJob:
    """The owner of a group's pods where it needs more of them than the group says, else the group."""
    owners = [by_pod[name] for name in sorted(group.names & by_pod.keys())]
    owner = max(owners, key=lambda job: job.needed, default=None)
    if owner is not None and owner.needed > group.needed:
        return msgspec.structs.replace(owner, system=owner.system or group.system, together=max(group.needed, 1))
    if owner is None and group.needed < 2 and (kind := _unknown_owner(group.pods, told)):
        unsure = f"its group asks for {group.needed} pod, and how many {kind} needs cannot be told"
        return msgspec.structs.replace(group, needed=len(group.pods), together=1, unsure=unsure)
    return group


def _unknown_owner(pods: Iterable[Pod], told: Told) -> str:
    """An owner whose kind says nothing about how many of its pods belong together, or empty."""
    kinds = {
        owner.kind
        for pod in pods
        for owner in pod.metadata.owners
        if not works_alone(owner) and (owner.kind, pod.namespace, owner.name) not in told.owners
    }
    return min(kinds, default="")


def _told(scope: Scope, index: _Index) -> Told:
    keys = (*(key for key, _ in OWNER_LABELS), "batch/jobs")
    owners = {(KINDS[key].kind, namespace, name) for key in keys for name, namespace in map(_identity, objects_of(scope, key))}
    groups = {(namespace, name) for key in (*_GROUPS, KUEUE_WORKLOADS) for name, namespace in map(_identity, objects_of(scope, key))}
    counted = {group for group, pods in index.kueue.items() if any(count(pod.metadata.annotation.get(KUEUE_TOTAL)) for pod in pods)}
    return Told(owners=frozenset(owners), groups=frozenset(groups | counted))


class _Index:
    """Pods by the marks that tie them to groups, and by those that tie them to owners."""

    def __init__(self, scope: Scope) -> None:
        self.volcano: dict[tuple[str, str], list[Pod]] = {}
        self.kueue: dict[tuple[str, str], list[Pod]] = {}
        self.native: dict[tuple[str, str], list[Pod]] = {}
        self.coscheduling: dict[tuple[str, str], list[Pod]] = {}
        self.kai: dict[tuple[str, str], list[Pod]] = {}
        self.owner: dict[tuple[str, str], list[Pod]] = {}  # by namespace and UID of the controller: a Job counts no other pod
        self._label: dict[tuple[str, str, str], list[Pod]] = {}
        self._asking: set[tuple[str, str]] = set()
        self.queued: set[str] = set()  # UIDs of owners that wait in a queue of Kueue
        names = {label for _, label in JOB_LABELS} | {LWS_NAME}
        for pod in scope.snapshot.pods:
            if scope.is_infrastructure(pod.namespace):
                continue
            labels, demand = pod.metadata.label, scope.device_demand_of(pod)
            if demand.devices or demand.unknown:
                self._asking.add((pod.namespace, pod.name))
                if pod.controller is not None:
                    self.owner.setdefault((pod.namespace, pod.controller.uid), []).append(pod)
            groups = (
                (self.volcano, volcano_group(pod)),
                (self.kueue, labels.get(KUEUE_GROUP, "")),
                (self.native, native_group(pod)),
                (self.coscheduling, labels.get(COSCHEDULING_GROUP, "")),
                (self.kai, pod.metadata.annotation.get(KAI_GROUP, "")),
            )
            for table, group in groups:
                if group:  # a launcher without a device is a member like any other: the group's minimum counts it
                    table.setdefault((pod.namespace, group), []).append(pod)
            for name in names & labels.keys():
                self._label.setdefault((name, pod.namespace, labels[name]), []).append(pod)
        for key in _WRITTEN_FOR_OTHERS:
            for obj in objects_of(scope, key):
                meta = mapping(obj, "metadata")
                self.queued |= {str(meta.get("uid") or "")} if mapping(meta, "labels").get(KUEUE_QUEUE) else set()
        for workload in objects_of(scope, KUEUE_WORKLOADS):
            self.queued |= {str(owner.get("uid") or "") for owner in mappings(mapping(workload, "metadata").get("ownerReferences"))}
        self.queued -= {""}
        self.workloads_read = scope.snapshot.served(KUEUE_WORKLOADS)

    def in_queue(self, pods: Iterable[Pod]) -> bool:
        """Whether Kueue manages one of the pods: a Workload is of it or of its owner, or Kueue's gate holds it until there is one.

        A label alone says nothing: Kueue may leave out plain pods, or their namespace (docs/facts/gangs.md#marks-that-nobody-reads).
        """
        if not self.workloads_read:
            return True
        return any(
            self.queued & {pod.metadata.uid, *(owner.uid for owner in pod.metadata.owners)}
            or any(str(gate.get("name")).startswith(KUEUE_GATES) for gate in pod.spec.scheduling_gates or ())
            for pod in pods
        )

    def group(self, table: dict[tuple[str, str], list[Pod]], namespace: str, name: str) -> list[Pod]:
        """Members of a group of which at least one asks for a device; empty otherwise."""
        return self._of_devices(table.get((namespace, name), []))

    def labelled(self, label: str, obj: Json) -> list[Pod]:
        """Pods whose label names an object, else those it controls, if at least one asks for a device; empty otherwise."""
        name, namespace = _identity(obj)
        return self._of_devices(self._label.get((label, namespace, name), [])) or self.controlled(obj)

    def controlled(self, obj: Json) -> list[Pod]:
        """Pods that ask for devices and that an object controls."""
        return self.owner.get((_identity(obj)[1], str(mapping(obj, "metadata").get("uid"))), [])

    def asking(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those pods that ask for devices."""
        return [pod for pod in pods if (pod.namespace, pod.name) in self._asking]

    def _of_devices(self, pods: list[Pod]) -> list[Pod]:
        return pods if self.asking(pods) else []


# -- groups --------------------------------------------------------------------------------------------


_GROUPS = {
    "scheduling.volcano.sh/podgroups": "Volcano",
    "scheduling.x-k8s.io/podgroups": "coscheduling",
    "scheduling.run.ai/podgroups": "KAI",
    "scheduling.k8s.io/podgroups": "scheduling.k8s.io",
    "scheduling.k8s.io/workloads": "scheduling.k8s.io",
}
"""Kinds that group pods, and whose scheduler reads them."""


def _groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    for key, table in (
        ("scheduling.volcano.sh/podgroups", index.volcano),
        ("scheduling.x-k8s.io/podgroups", index.coscheduling),
        ("scheduling.run.ai/podgroups", index.kai),
    ):
        yield from _pod_groups(scope, index, key, table)
    yield from _native_groups(scope, index)
    yield from _kueue_groups(scope, index)


def _pod_groups(scope: Scope, index: _Index, key: str, table: dict[tuple[str, str], list[Pod]]) -> Iterator[GangJob]:
    """PodGroups with ``minMember``; KAI's may say it of its parts alone (docs/facts/gangs.md#kai-and-coscheduling)."""
    for obj in objects_of(scope, key):
        name, namespace = _identity(obj)
        pods = index.group(table, namespace, name)
        if pods and mapping(obj, "status").get("phase") not in _ENDED:
            spec, system = mapping(obj, "spec"), _GROUPS[key]
            parts = sum(count(part.get("minMember")) for part in mappings(spec.get("subGroups")))
            yield GangJob(
                subject=Subject("PodGroup", name, namespace),
                needed=count(spec.get("minMember")) or parts,
                pods=tuple(pods),
                system=GANG_SCHEDULERS.get(pods[0].spec.scheduler_name, system) if system == "KAI" else system,
                deleted_at=_deleted_at(obj),
            )


def _native_groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    """PodGroups, and Workloads of 1.35, which hold their groups themselves (docs/facts/gangs.md#native-gangs)."""
    groups = [(obj, "PodGroup", [mapping(obj, "spec", "schedulingPolicy")]) for obj in objects_of(scope, "scheduling.k8s.io/podgroups")]
    for obj in objects_of(scope, "scheduling.k8s.io/workloads"):
        held = mapping(obj, "spec").get("podGroups")
        inner = [mapping(one, "policy") for one in held if isinstance(one, dict)] if isinstance(held, list) else []
        groups.append((obj, "Workload", inner))
    for obj, kind, policies in groups:
        name, namespace = _identity(obj)
        pods = index.group(index.native, namespace, name)
        gangs = [gang for policy in policies if (gang := mapping(policy, "gang"))]
        if pods and gangs:
            yield GangJob(
                subject=Subject(kind, name, namespace),
                needed=sum(count(gang.get("minCount")) for gang in gangs),
                pods=tuple(pods),
                system="scheduling.k8s.io",
                deleted_at=_deleted_at(obj),
            )


def _kueue_groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    """Plain pods grouped for Kueue. A Workload of a Job is judged as that Job."""
    ended = {_identity(obj) for obj in objects_of(scope, KUEUE_WORKLOADS) if _has(obj, frozenset({"Finished"}))}
    for namespace, name in sorted(index.kueue):
        pods = index.group(index.kueue, namespace, name)
        if not pods or (name, namespace) in ended:
            continue
        totals = [count(pod.metadata.annotation.get(KUEUE_TOTAL)) for pod in pods]
        system = "Kueue" if index.in_queue(pods) else ""
        yield GangJob(subject=Subject("pod group", name, namespace), needed=max(totals), pods=tuple(pods), system=system)


# -- owners --------------------------------------------------------------------------------------------


def _owned(scope: Scope, index: _Index) -> Iterator[GangJob]:
    for key, label in JOB_LABELS:
        for obj in objects_of(scope, key):
            pods = index.labelled(label, obj)
            yield from _job(index, key, obj, pods, size_of(key, obj, pods))
    for obj in objects_of(scope, LWS):
        groups: dict[str, list[Pod]] = {}
        for pod in index.labelled(LWS_NAME, obj):
            groups.setdefault(pod.metadata.label.get(LWS_GROUP, ""), []).append(pod)
        for number, pods in sorted(groups.items()):
            yield from _job(index, LWS, obj, pods, group_size(obj, pods), part=f" group {number}")
    for obj in objects_of(scope, "batch/jobs"):
        if not any(owner.get("kind") in _OWNERS_JUDGED for owner in mappings(mapping(obj, "metadata").get("ownerReferences"))):
            pods = index.controlled(obj)
            yield from _job(index, "batch/jobs", obj, pods, size_of("batch/jobs", obj, pods))


def _job(index: _Index, key: str, obj: Json, pods: list[Pod], size: Size, *, part: str = "") -> Iterator[GangJob]:
    name, namespace = _identity(obj)
    if key in _SERVERS:  # what they lose they make anew: a pod that has ended is no member any more
        pods = [pod for pod in pods if not pod.finished and not pod.metadata.deletion_timestamp]
    pods = pods if size.all_members else index.asking(pods)
    if not pods or size.devices < 2 or _has(obj, _ENDED):
        return
    spec = mapping(obj, "spec")
    suspended = spec.get("suspend") is True or mapping(spec, "runPolicy").get("suspend") is True
    yield GangJob(
        subject=Subject(KINDS[key].kind, f"{name}{part}", namespace),
        needed=size.needed,
        pods=tuple(pods),
        system=", ".join(sorted(_systems(index, obj, pods))),
        enough=size.enough,
        enough_source=size.enough_source,
        waiting="it is suspended" if suspended else "",
        held=size.held,
        deleted_at=_deleted_at(obj),
    )


def _systems(index: _Index, obj: Json, pods: Iterable[Pod]) -> set[str]:
    """Gang schedulers that the pods, their owner, or what made it are given to."""
    meta = mapping(obj, "metadata")
    makers = {str(item.get("uid") or "") for item in mappings(meta.get("ownerReferences"))}
    queued = bool(mapping(meta, "labels").get(KUEUE_QUEUE) or makers & index.queued)
    marked = {gang_system(pod) for pod in pods} - ({""} if index.in_queue(pods) else {"", "Kueue"})
    return marked | ({"Kueue"} if queued else set())


_OWNERS_JUDGED = frozenset({"JobSet", "MPIJob"})
"""Kinds that are jobs themselves and make batch/v1 Jobs of their parts."""

_SERVERS = frozenset({LWS, "ray.io/rayclusters"})
"""Kinds that replace a pod that has ended."""


def _has(obj: Json, kinds: frozenset[str]) -> bool:
    """Whether an object's status says one of these: by a condition, or by the phase of a Volcano job."""
    status = mapping(obj, "status")
    phase = mapping(status, "state").get("phase")
    said = {str(item.get("type")) for item in mappings(status.get("conditions")) if item.get("status") == "True"}
    return bool((said | {str(phase)}) & kinds)


def _deleted_at(obj: Json) -> float | None:
    return unix(text_of(mapping(obj, "metadata").get("deletionTimestamp")))


def _identity(obj: Json) -> tuple[str, str]:
    meta = mapping(obj, "metadata")
    return str(meta.get("name") or ""), str(meta.get("namespace") or "")
