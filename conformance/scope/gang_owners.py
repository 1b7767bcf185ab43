"""How many pods the owner of a multi-pod job wants together, by its kind (docs/facts/gangs.md#sizes-that-owners-say)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.untyped import mapping, mappings, text_of

LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
_LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
_JOBSET_PART = "jobset.sigs.k8s.io/replicatedjob-name"
_VOLCANO_TASK = "volcano.sh/task-spec"
_FIXED_WORLDS = frozenset({"pytorch", "mpi", "tensorflow", "hcclrank"})
"""Volcano's job plugins that tell every pod of all the others: such a job does not start with fewer."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """``needed``: pods that make the owner whole; ``devices``: how many of them ask for devices.

    ``enough``: with how many its owner says that it works, and ``enough_source`` in which field; 0: with all only. ``held``: one clause
    when pods that do not exist yet are made only after others are ready. ``all_members``: whether pods without devices count too.
    """

    needed: int
    devices: int
    enough: int = 0
    enough_source: str = ""
    held: str = ""
    all_members: bool = False


def size_of(key: str, obj: Json, pods: Sequence[Pod]) -> Size:
    """The size of a job of the given kind; ``pods`` are those it has now."""
    reader = _READERS.get(key)
    return reader(mapping(obj, "spec"), pods) if reader else Size(needed=0, devices=0)


def group_size(lws: Json, pods: Sequence[Pod]) -> Size:
    """The size of one group of a LeaderWorkerSet. Its pods carry the size that they were made with, which a roll-out may change."""
    spec = mapping(lws, "spec")
    template = mapping(spec, "leaderWorkerTemplate")
    said = max((count(pod.metadata.annotation.get(_LWS_SIZE)) for pod in pods), default=0)
    needed = said or count(template.get("size", 1))
    workers, leaders = (mapping(template, part, "spec") for part in ("workerTemplate", "leaderTemplate"))
    leading = asks(leaders or workers)
    devices = leading + (needed - 1) * asks(workers)
    held = ""
    if spec.get("startupPolicy") == "LeaderReady" and all(pod.metadata.label.get(_LWS_WORKER) == "0" for pod in pods):
        held = "its workers are made once the leader is ready (startupPolicy LeaderReady)"
    return Size(needed=needed, devices=devices, held=held, all_members=True)


def _jobset(spec: Json, pods: Sequence[Pod]) -> Size:
    there = {pod.metadata.label.get(_JOBSET_PART, "") for pod in pods}
    parts = [part for part in mappings(spec.get("replicatedJobs")) if asks(mapping(part, "template", "spec", "template", "spec"))]
    due = [part for part in parts if not part.get("dependsOn") or text_of(part.get("name")) in there]
    needed = sum(count(part.get("replicas", 1)) * job_pods(mapping(part, "template")) for part in due)
    in_order = mapping(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    missing = [name for part in due if (name := text_of(part.get("name"))) not in there]
    held = f"{missing[0]} is made once the jobs before it are ready (startupPolicy InOrder)" if in_order and missing else ""
    return Size(needed=needed, devices=needed, held=held)


def _replicas(field: str) -> Callable[[Json, Sequence[Pod]], Size]:
    """Device pods of a training job's replica specs; a launcher without a device does not count."""

    def read(spec: Json, _: Sequence[Pod]) -> Size:
        groups = {
            name: part for name, part in mapping(spec, field).items() if isinstance(part, dict) and asks(mapping(part, "template", "spec"))
        }
        numbers = {name: count(part.get("replicas", 1)) for name, part in groups.items()}
        needed, least = sum(numbers.values()), mapping(spec, "elasticPolicy").get("minReplicas")
        source = "spec.elasticPolicy.minReplicas"
        if least is None and spec.get("enableDynamicWorker") is True:
            least, source = 1, "spec.enableDynamicWorker"
        if least is None:
            return Size(needed=needed, devices=needed)
        enough = count(least) + sum(number for name, number in numbers.items() if name != "Worker")
        return Size(needed=needed, devices=needed, enough=min(enough, needed), enough_source=source)

    return read


def _ray(spec: Json, _: Sequence[Pod]) -> Size:
    groups = [group for group in mappings(spec.get("workerGroupSpecs")) if group.get("suspend") is not True]
    hosts = [max(count(group.get("numOfHosts", 1)), 1) for group in groups]
    wanted = [count(group.get("replicas", group.get("minReplicas", 0))) * many for group, many in zip(groups, hosts, strict=True)]
    least = [count(group.get("minReplicas", 0)) * many for group, many in zip(groups, hosts, strict=True)]
    asking = [asks(mapping(group, "template", "spec")) for group in groups]
    head = asks(mapping(spec, "headGroupSpec", "template", "spec"))
    size = Size(needed=1 + sum(wanted), devices=head + _of(wanted, asking), all_members=True)
    if spec.get("enableInTreeAutoscaling") is not True:
        return size
    source = "workerGroupSpecs[].minReplicas with enableInTreeAutoscaling"
    return msgspec.structs.replace(size, enough=1 + sum(map(min, wanted, least)), enough_source=source)


def _volcano(spec: Json, pods: Sequence[Pod]) -> Size:
    there = {pod.metadata.label.get(_VOLCANO_TASK, "") for pod in pods}
    tasks = [task for task in mappings(spec.get("tasks")) if not task.get("dependsOn") or text_of(task.get("name")) in there]
    numbers = [count(task.get("replicas", 1)) for task in tasks]
    needed = sum(numbers)
    size = Size(needed=needed, devices=_of(numbers, [asks(mapping(task, "template", "spec")) for task in tasks]), all_members=True)
    enough = count(spec.get("minAvailable", needed))
    if not 0 < enough < needed or _FIXED_WORLDS & mapping(spec, "plugins").keys():
        return size
    return msgspec.structs.replace(size, enough=enough, enough_source="spec.minAvailable")


def _clique(spec: Json, _: Sequence[Pod]) -> Size:
    needed = count(spec.get("replicas", 1))
    enough = count(spec.get("minAvailable", needed))
    size = Size(needed=needed, devices=needed * asks(mapping(spec, "podSpec")))
    return msgspec.structs.replace(size, enough=enough, enough_source="spec.minAvailable") if 0 < enough < needed else size


def _job(spec: Json, _: Sequence[Pod]) -> Size:
    needed = job_pods({"spec": spec})
    return Size(needed=needed, devices=needed)


def job_pods(obj: Json) -> int:
    """Pods of a batch/v1 Job that belong together: parallelism, bounded by completions. Finished ones count as placed."""
    spec = mapping(obj, "spec")
    parallelism = count(spec.get("parallelism", 1))
    if spec.get("completions") is None:
        return parallelism
    return min(parallelism, count(spec["completions"]))


def asks(spec: Json) -> bool:
    """Whether a template asks for any extended resource or claim."""
    resources = [mapping(container, "resources", "limits") for container in mappings(spec.get("containers"))]
    return bool(spec.get("resourceClaims")) or any("/" in str(name) for limits in resources for name in limits)


def count(value: Any) -> int:
    """A count of pods; 0 for anything that is not a count."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _of(numbers: Collection[int], chosen: Collection[bool]) -> int:
    return sum(number for number, counts in zip(numbers, chosen, strict=True) if counts)


_READERS: Mapping[str, Callable[[Json, Sequence[Pod]], Size]] = {
    "batch/jobs": _job,
    "batch.volcano.sh/jobs": _volcano,
    "jobset.x-k8s.io/jobsets": _jobset,
    "kubeflow.org/pytorchjobs": _replicas("pytorchReplicaSpecs"),
    "kubeflow.org/tfjobs": _replicas("tfReplicaSpecs"),
    "kubeflow.org/jaxjobs": _replicas("jaxReplicaSpecs"),
    "kubeflow.org/paddlejobs": _replicas("paddleReplicaSpecs"),
    "kubeflow.org/xgboostjobs": _replicas("xgbReplicaSpecs"),
    "kubeflow.org/mpijobs": _replicas("mpiReplicaSpecs"),
    "grove.io/podcliques": _clique,
    "ray.io/rayclusters": _ray,
}
