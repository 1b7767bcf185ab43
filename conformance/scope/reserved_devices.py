"""Fractions of a device that a pod of the platform reserves: who shares it asks for nothing.

A label ties the pods that share to the pod that reserves. Anybody may write a label, so only a pod in a namespace of the platform
reserves, on the same node, and only for the device that it says it was given. Only a pod that asks a scheduler for a part shares it,
and who has copied the label of others takes what the scheduler never gave: then more is asked for than is there. A part that cannot
be added up may be the one too many, so nobody who shares the device is known to have been given his.

A copied label that leaves room on the device is told by what no tenant can write: a condition in the status of the pods that the
scheduler's binder bound. Where any pod has it, a pod without it was bound by somebody else.

Facts: docs/facts/scheduler-amounts.md#fractions-with-a-reservation-pod.
"""

from __future__ import annotations

import msgspec

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Pod, Resources
from fixtures.model.demand.pod_amounts import Amount
from fixtures.model.devices.memory import device_memory, memory_of_part

GROUP = "runai-gpu-group"
"""Label of the group of pods on one device; with ``/GROUP`` behind it where a pod is of several."""

GIVEN = "run.ai/reserve_for_gpu_index"
"""Annotation in which a reservation pod writes the device that it was given."""


DEVICE = "nvidia.com/gpu"
"""What a reservation pod asks for: whole ones, of which the pods that share it get parts."""

BOUND = "PodBound"
"""Condition that the binder writes into the status of each pod that it bound."""

_SCHEDULERS = ("kai-scheduler", "runai-scheduler")
_FRACTION = ("gpu-fraction", "gpu-memory")
_DEVICES = "gpu-fraction-num-devices"


def fraction_of(pod: Pod) -> str:
    """The part of a device that a pod asks its scheduler for, as it is written; empty for a pod that asks for none."""
    return _part_of(pod) if pod.spec.scheduler_name in _SCHEDULERS else ""


def _part_of(pod: Pod) -> str:
    """The part that a pod says it wants of any scheduler but the default one, which gives none."""
    annotations = pod.metadata.annotation if pod.spec.scheduler_name not in ("", "default-scheduler") else {}
    return next((f"{key} {annotations[key]}" for key in _FRACTION if annotations.get(key)), "")


def as_reserved(pod: Pod) -> Pod:
    """A pod that asks for a part, asking for what its reservation pod would: as many whole devices as it wants parts of."""
    if not fraction_of(pod) or not pod.spec.containers:
        return pod
    asked: dict[str, Amount] = {DEVICE: str(_devices_of(pod))}
    first, *others = pod.spec.containers
    first = msgspec.structs.replace(first, resources=Resources(requests=asked, limits=asked))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=[first, *others]))


def _devices_of(pod: Pod) -> int:
    """Of how many devices a pod wants a part."""
    count = pod.metadata.annotation.get(_DEVICES, "")
    return int(count) if count.isdecimal() and len(count) < 4 else 1


def shares(scope: Scope, pod: Pod) -> str:
    """The reservation that a pod shares, as a clause; empty for a pod that shares none."""
    found = _reservations(scope, pod)
    return f"shares the device that {found[0].namespace}/{found[0].name} reserves" if found else ""


def doubt(scope: Scope, pod: Pod) -> str:
    """Why it is not known whether a scheduler gave a pod its part of a reservation, as a clause; empty for a pod that shares none."""
    found = _reservations(scope, pod)
    if not found:
        return ""
    if not fraction_of(pod):
        return f"whether scheduler {pod.spec.scheduler_name} gives parts of devices is not known"
    if (labels := len(_groups(pod))) > _devices_of(pod):
        return f"it has labels of {labels} devices and asks for a part of {_devices_of(pod)} ({_DEVICES})"
    if scope.cached(_binder_tells) and not _by_binder(pod):
        return f"other pods of its scheduler have condition {BOUND}, and it has not, so whoever bound it was not the scheduler's binder"
    return next((words for one in found if (words := scope.cached_for(one, _overfull))), "")


def unreserved(scope: Scope, pod: Pod) -> str:
    """Why a pod that asks its scheduler for a part has no reservation that is known, as a clause; empty where nothing speaks for it."""
    if not fraction_of(pod) or _reservations(scope, pod):
        return ""
    if not pod.spec.node_name:
        return "its scheduler has not placed it yet"
    return "the binder of its scheduler bound it, and no reservation in a namespace of the platform is known" if _by_binder(pod) else ""


def _by_binder(pod: Pod) -> bool:
    condition = pod.condition(BOUND)
    return condition is not None and condition.status == "True"


def _binder_tells(scope: Scope) -> bool:
    """Whether the binder of this cluster writes its condition, as pods show. A snapshot may lack it, or an old binder not write it."""
    return any(_by_binder(pod) for pods in scope.snapshot.pods_by_node.values() for pod in pods if pod.spec.scheduler_name in _SCHEDULERS)


def _overfull(scope: Scope, reservation: Pod) -> str:
    """That the parts asked of a reservation are more than it holds, or that nobody can add them up: a pod may have copied the label."""
    nodes = scope.snapshot.listing("nodes")
    known = not nodes.trouble and nodes.collected  # PSA-05 judges pods whose nodes nobody could read
    node = scope.snapshot.node_by_name.get(reservation.spec.node_name) if known else None
    memory, groups, asked = device_memory(node), set(_groups(reservation)), 0
    name, tells = f"{reservation.namespace}/{reservation.name}", scope.cached(_binder_tells)
    for pod in scope.snapshot.pods_by_node.get(reservation.spec.node_name, ()):
        if groups.isdisjoint(_groups(pod)) or not _part_of(pod) or (tells and not _by_binder(pod)):
            continue
        fraction, of_memory = (pod.metadata.annotation.get(key, "") for key in _FRACTION)
        part = memory_of_part(memory, fraction, of_memory)
        if isinstance(part, str):
            return f"how much pod {pod.namespace}/{pod.name} asks of the one device that {name} reserves is not known: {part}"
        asked += part
    if asked <= memory.units:
        return ""
    return f"pods ask for {asked / memory.units:.7g} of the one device that {name} reserves, so one was not given its part"


def granted(scope: Scope, pod: Pod) -> frozenset[str]:
    """The devices that reservations of a pod were given."""
    return frozenset(given for one in _reservations(scope, pod) if (given := one.metadata.annotation.get(GIVEN, "").strip()))


def _reservations(scope: Scope, pod: Pod) -> list[Pod]:
    node = pod.spec.node_name
    if not node or not _part_of(pod):
        return []
    known = scope.cached(_reserving)
    found = {(other.namespace, other.name): other for group in _groups(pod) for other in known.get((node, group), ())}
    return list(found.values())


def _reserving(scope: Scope) -> dict[tuple[str, str], list[Pod]]:
    """Pods that reserve, by node and group."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pods in scope.snapshot.pods_by_node.values():
        for pod in pods:
            groups = _groups(pod)
            if groups and scope.is_infrastructure(pod.namespace) and any(scope.devices_of(pod.spec).values()):
                for group in groups:
                    found.setdefault((pod.spec.node_name, group), []).append(pod)
    return found


def _groups(pod: Pod) -> list[str]:
    return [value for key, value in pod.metadata.label.items() if value and (key == GROUP or key.startswith(f"{GROUP}/"))]
