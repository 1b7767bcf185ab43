"""Fractions of a device that a pod of the platform reserves: who shares it asks for nothing.

A label ties the pods that share to the pod that reserves. Anybody may write a label, so only a pod in a namespace of the platform
reserves, on the same node, and only for the device that it says it was given.

Facts: docs/facts/scheduler-amounts.md#fractions-with-a-reservation-pod.
"""

from __future__ import annotations

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Pod

GROUP = "runai-gpu-group"
"""Label of the group of pods on one device; with ``/GROUP`` behind it where a pod is of several."""

GIVEN = "run.ai/reserve_for_gpu_index"
"""Annotation in which a reservation pod writes the device that it was given."""


def shares(scope: Scope, pod: Pod) -> str:
    """The reservation that a pod shares, as a clause; empty for a pod that shares none."""
    found = _reservations(scope, pod)
    return f"shares the device that {found[0].namespace}/{found[0].name} reserves" if found else ""


def granted(scope: Scope, pod: Pod) -> frozenset[str]:
    """The devices that reservations of a pod were given."""
    return frozenset(given for one in _reservations(scope, pod) if (given := one.metadata.annotation.get(GIVEN, "").strip()))


def _reservations(scope: Scope, pod: Pod) -> list[Pod]:
    groups = _groups(pod)
    if not groups or not pod.spec.node_name:
        return []
    return [
        other
        for other in scope.snapshot.pods_by_node.get(pod.spec.node_name, ())
        if groups & _groups(other) and scope.is_infrastructure(other.namespace) and any(scope.devices_of(other.spec).values())
    ]


def _groups(pod: Pod) -> set[str]:
    return {value for key, value in pod.metadata.label.items() if value and (key == GROUP or key.startswith(f"{GROUP}/"))}
