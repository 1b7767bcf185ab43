"""Pods that suffer and what is written about them, for tests of REQ-11 to REQ-14. Times are ages before the snapshot."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fixtures.kubernetes.models import Event, Json, Pod
from tests.builders import a_pod

NOW = 1_790_000_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def ago(seconds: float) -> str:
    """RFC 3339, so many seconds before the snapshot."""
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def created(pod: Pod, seconds: float, *, deleted: float | None = None, finalizers: list[str] | None = None) -> Pod:
    """The pod with the age of its creation and, where it is being deleted, how long ago it had to be gone."""
    pod.metadata.creation_timestamp = ago(seconds)
    if deleted is not None:
        pod.metadata.deletion_timestamp = ago(deleted)
    pod.metadata.finalizers = finalizers
    return pod


def scheduled(seconds: float) -> Json:
    """The condition of a pod that was bound so long ago."""
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(seconds)}


def a_refused_pod(
    name: str = "train-0",
    *,
    node: str = "gpu-0",
    age: float = HOUR,
    reason: str = "UnexpectedAdmissionError",
    message: str = "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed, which is unexpected",
    devices: Any = 1,
    owner: str = "Job/train",
    status: Json | None = None,
    tolerations: Sequence[str] = ("nvidia.com/gpu:NoSchedule",),
    **more: Any,
) -> Pod:
    """A device pod that its kubelet did not admit. A scheduler could have sent it there."""
    whole = {"reason": reason, "message": message, "startTime": ago(age), **(status or {})}
    return created(a_pod(name, devices=devices, node=node, phase="Failed", owner=owner, status=whole, tolerations=tolerations, **more), age)


def written(*, manager: str = "kube-controller-manager", node_name: bool = False) -> list[Json]:
    """managedFields of a refused pod. Its node is there only if whoever made it wrote that, for a binding leaves no entry."""
    spec: Json = {"f:containers": {'k:{"name":"main"}': {".": {}, "f:resources": {}}}, "f:restartPolicy": {}}
    head = {"operation": "Update", "apiVersion": "v1", "time": ago(HOUR), "fieldsType": "FieldsV1"}
    made = {"f:metadata": {"f:labels": {}}, "f:spec": {**spec, **({"f:nodeName": {}} if node_name else {})}}
    failed: Json = {"f:status": {"f:phase": {}, "f:reason": {}, "f:message": {}}}
    return [
        {**head, "manager": manager, "fieldsV1": made},
        {**head, "manager": "kubelet", "fieldsV1": failed, "subresource": "status"},
    ]


def an_event(
    reason: str,
    message: str,
    *,
    pod: str = "train-0",
    namespace: str = "team-a",
    uid: str | None = None,
    age: float = 5 * MINUTE,
    first: float | None = None,
    host: str = "gpu-0",
    reporter: str = "kubelet",
    count: int = 1,
    new_shape: bool = False,
) -> Event:
    """A warning about a pod, as the core group has it, or as events.k8s.io has it."""
    about = {"kind": "Pod", "namespace": namespace, "name": pod, "uid": f"uid-{namespace}-{pod}" if uid is None else uid}
    times = {"firstTimestamp": ago(age if first is None else first), "lastTimestamp": ago(age)}
    body: Json = {"metadata": {"name": f"{pod}.{reason.lower()}", "namespace": namespace}, "type": "Warning", "reason": reason}
    if new_shape:
        body |= {"regarding": about, "note": message, "reportingController": reporter, "deprecatedCount": count}
        body |= {"deprecatedSource": {"host": host}} | {f"deprecated{key[0].upper()}{key[1:]}": value for key, value in times.items()}
    else:
        body |= {"involvedObject": about, "message": message, "source": {"component": reporter, "host": host}, "count": count, **times}
    return msgspec.convert(body, Event)
