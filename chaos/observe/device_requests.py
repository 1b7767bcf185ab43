"""Devices that a pod asks for by resource, in containers of every kind.

A sidecar is an init container that runs as long as its pod. Its devices are held like those of any other container.

Facts: docs/facts/admission.md#extended-resources.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.observe.view import dig, items_of
from fixtures.kubernetes.models import Json
from fixtures.model.demand import pod_amounts

IsDevice = Callable[[str], bool]


def requested_devices(pod: Json, is_device: IsDevice) -> dict[str, int]:
    """Devices that the scheduler counts for a pod: ``{resource: count}``. Those of an init container stay the pod's until it ends."""
    init = [(_of(container, is_device), _is_sidecar(container)) for container in _containers(pod, "initContainers")]
    return pod_amounts.together(init, [_of(container, is_device) for container in _containers(pod, "containers")])


def running_devices(pod: Json, is_device: IsDevice) -> dict[str, int]:
    """Devices of the containers that run once a pod runs. A kubelet lists no others (docs/facts/device-plugin.md#pod-resources)."""
    sidecars = filter(_is_sidecar, _containers(pod, "initContainers"))
    return pod_amounts.together((), [_of(container, is_device) for container in (*sidecars, *_containers(pod, "containers"))])


def _containers(pod: Json, kind: str) -> list[Json]:
    return items_of(dig(pod, "spec").get(kind))


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == pod_amounts.SIDECAR


def _of(container: Json, is_device: IsDevice) -> dict[str, int]:
    """What one container asks for, amounts above zero."""
    resources = dig(container, "resources")
    asked = pod_amounts.written(dig(resources, "requests"), dig(resources, "limits"))
    return {name: count for name, value in asked.items() if is_device(name) and (count := pod_amounts.units(value)) > 0}
