"""Multi-pod device jobs of a cluster: who they are, how many pods they need, which pods they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.gang.members import JOB_LABELS, KUEUE_GROUP, KUEUE_QUEUE, KUEUE_TOTAL, gang_system, native_group, volcano_group
from conformance.scope import Scope
from fixtures.evidence import Inconclusive, Subject
from fixtures.models import Json, Pod

KEYS = (
    "scheduling.volcano.sh/podgroups",
    "kueue.x-k8s.io/workloads",
    "scheduling.k8s.io/podgroups",
    "batch/jobs",
    "jobset.x-k8s.io/jobsets",
    "kubeflow.org/pytorchjobs",
    "kubeflow.org/mpijobs",
)
"""What is read beside pods, where it is served."""

_ENDED = frozenset({"Complete", "Completed", "Failed", "Succeeded", "Finished"})


class GangJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of several device pods. ``needed``: pods that make it whole; ``system``: the gang scheduler it uses, or empty.

    ``pods`` are its pods, finished ones included; of a job without a group, its device pods. ``waiting``: one clause when
    the job is suspended and has no right to pods now.
    """

    subject: Subject
    needed: int
    pods: tuple[Pod, ...]
    system: str = ""
    waiting: str = ""


def gang_jobs(scope: Scope) -> list[GangJob]:
    """Multi-pod device jobs that have not ended, each once: pods counted in a group are not counted again in their owner."""
    index = _Index(scope)
    jobs: list[GangJob] = []
    seen: set[tuple[str, str]] = set()
    for job in _every(scope, index):
        own = {(pod.namespace, pod.name) for pod in job.pods}
        if job.needed < 2 or (own and own <= seen) or all(pod.finished for pod in job.pods):
            continue
        seen |= own
        jobs.append(job)
    return jobs


class _Index:
    """Pods by the marks that tie them to groups; device pods by those that tie them to owners."""

    def __init__(self, scope: Scope) -> None:
        self.volcano: dict[tuple[str, str], list[Pod]] = {}
        self.kueue: dict[tuple[str, str], list[Pod]] = {}
        self.native: dict[tuple[str, str], list[Pod]] = {}
        self.owner: dict[str, list[Pod]] = {}
        self.label: dict[tuple[str, str, str], list[Pod]] = {}
        self._with_devices: set[tuple[int, str, str]] = set()
        names = {label for _, label in JOB_LABELS}
        for pod in scope.snapshot.pods:
            if scope.is_infrastructure(pod.namespace):
                continue
            labels, asking = pod.metadata.label, scope.asking_of(pod)
            asks = asking.devices or bool(asking.unknown)
            groups = ((self.volcano, volcano_group(pod)), (self.kueue, labels.get(KUEUE_GROUP, "")), (self.native, native_group(pod)))
            for table, group in groups:
                if group:  # a launcher without a device is a member like any other: the group's minimum counts it
                    table.setdefault((pod.namespace, group), []).append(pod)
                    if asks:
                        self._with_devices.add((id(table), pod.namespace, group))
            if not asks:
                continue
            for owner in pod.metadata.owners:
                self.owner.setdefault(owner.uid, []).append(pod)
            for name in names & labels.keys():
                self.label.setdefault((name, pod.namespace, labels[name]), []).append(pod)

    def group(self, table: dict[tuple[str, str], list[Pod]], namespace: str, name: str) -> list[Pod]:
        """Members of a group of which at least one asks for a device; empty otherwise."""
        return table.get((namespace, name), []) if (id(table), namespace, name) in self._with_devices else []


def _every(scope: Scope, index: _Index) -> Iterator[GangJob]:
    yield from _volcano_groups(scope, index)
    yield from _native_groups(scope, index)
    yield from _kueue_groups(scope, index)
    for key, label in JOB_LABELS:
        for obj in _objects(scope, key):
            name, namespace = _identity(obj)
            pods = index.label.get((label, namespace, name), [])
            yield from _owned(key, obj, pods, _replicas(key, obj))
    for obj in _objects(scope, "batch/jobs"):
        if not any(owner.get("kind") in _OWNERS_JUDGED for owner in _list(_dig(obj, "metadata").get("ownerReferences"))):
            yield from _owned("batch/jobs", obj, index.owner.get(str(_dig(obj, "metadata").get("uid")), []), _job_pods(obj))


def _volcano_groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    for obj in _objects(scope, "scheduling.volcano.sh/podgroups"):
        name, namespace = _identity(obj)
        pods = index.group(index.volcano, namespace, name)
        needed = _whole(_dig(obj, "spec").get("minMember"))
        if pods and needed > 1 and _dig(obj, "status").get("phase") != "Completed":
            yield GangJob(subject=Subject("PodGroup", name, namespace), needed=needed, pods=tuple(pods), system="Volcano")


def _native_groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    for obj in _objects(scope, "scheduling.k8s.io/podgroups"):
        name, namespace = _identity(obj)
        pods = index.group(index.native, namespace, name)
        gang = _dig(obj, "spec", "schedulingPolicy", "gang")
        if pods and gang:
            needed = _whole(gang.get("minCount"))
            yield GangJob(subject=Subject("PodGroup", name, namespace), needed=needed, pods=tuple(pods), system="scheduling.k8s.io")


def _kueue_groups(scope: Scope, index: _Index) -> Iterator[GangJob]:
    """Plain pods grouped for Kueue. A Workload of a Job is judged as that Job."""
    ended = {
        _identity(obj)
        for obj in _objects(scope, "kueue.x-k8s.io/workloads")
        if any(item.get("type") == "Finished" and item.get("status") == "True" for item in _list(_dig(obj, "status").get("conditions")))
    }
    for namespace, name in sorted(index.kueue):
        pods = index.group(index.kueue, namespace, name)
        if not pods or (name, namespace) in ended:
            continue
        totals = [_whole(pod.metadata.annotation.get(KUEUE_TOTAL)) for pod in pods]
        yield GangJob(subject=Subject("pod group", name, namespace), needed=max(totals), pods=tuple(pods), system="Kueue")


def _owned(key: str, obj: Json, pods: list[Pod], needed: int) -> Iterator[GangJob]:
    name, namespace = _identity(obj)
    if not pods or any(
        item.get("type") in _ENDED and item.get("status") == "True" for item in _list(_dig(obj, "status").get("conditions"))
    ):
        return
    spec = _dig(obj, "spec")
    suspended = spec.get("suspend") is True or _dig(spec, "runPolicy").get("suspend") is True
    labels = _dig(obj, "metadata", "labels")
    systems = {system for pod in pods if (system := gang_system(pod))} | ({"Kueue"} if labels.get(KUEUE_QUEUE) else set())
    yield GangJob(
        subject=Subject(_KINDS[key], name, namespace),
        needed=needed,
        pods=tuple(pods),
        system=", ".join(sorted(systems)),
        waiting="it is suspended" if suspended else "",
    )


_OWNERS_JUDGED = frozenset({"JobSet", "MPIJob"})
"""Kinds that are jobs themselves and make batch/v1 Jobs of their parts."""

_KINDS = {
    "batch/jobs": "Job",
    "jobset.x-k8s.io/jobsets": "JobSet",
    "kubeflow.org/pytorchjobs": "PyTorchJob",
    "kubeflow.org/mpijobs": "MPIJob",
}


def _job_pods(obj: Json) -> int:
    """Pods of a batch/v1 Job that belong together: parallelism, bounded by completions. Finished ones count as placed."""
    spec = _dig(obj, "spec")
    parallelism = _whole(spec.get("parallelism", 1))
    if spec.get("completions") is None:
        return parallelism
    return min(parallelism, _whole(spec["completions"]))


def _replicas(key: str, obj: Json) -> int:
    """Device pods that a training job's replica specs ask for; a launcher without a device is none of them."""
    spec = _dig(obj, "spec")
    if key == "jobset.x-k8s.io/jobsets":
        return sum(
            _whole(group.get("replicas", 1)) * _job_pods(_dig(group, "template"))
            for group in _list(spec.get("replicatedJobs"))
            if _asks(_dig(group, "template", "spec", "template", "spec"))
        )
    field = "mpiReplicaSpecs" if key == "kubeflow.org/mpijobs" else "pytorchReplicaSpecs"
    groups = [group for group in _dig(spec, field).values() if isinstance(group, dict)]
    return sum(_whole(group.get("replicas", 1)) for group in groups if _asks(_dig(group, "template", "spec")))


def _asks(spec: Json) -> bool:
    """Whether a template asks for any extended resource or claim."""
    resources = [_dig(container, "resources", "limits") for container in _list(spec.get("containers"))]
    return bool(spec.get("resourceClaims")) or any("/" in str(name) for limits in resources for name in limits)


def _objects(scope: Scope, key: str) -> list[Json]:
    listing = scope.snapshot.listing(key)
    if listing.trouble:
        raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
    return [item for item in listing.items if isinstance(item, dict)]


def _identity(obj: Json) -> tuple[str, str]:
    meta = _dig(obj, "metadata")
    return str(meta.get("name") or ""), str(meta.get("namespace") or "")


def _dig(obj: Any, *path: str) -> Json:
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def _list(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _whole(value: Any) -> int:
    """A count of pods; what is none is 0."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
