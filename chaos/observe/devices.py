"""Devices: those that pods ask for by resource, those that DRA drivers publish and claims hold, and the daemons of ComputeDomains. Pure.

A sidecar is an init container that runs as long as its pod. Its devices are held like those of any other container. Which DaemonSet is a
domain's is told by the domain's UID and by the driver's namespace. Names and images prove nothing.

Facts: docs/facts/admission.md#extended-resources, docs/facts/dra.md#compute-domains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from chaos.observe.view import View, dig, full_name, items_of, labels_of, namespace_of, number_of, text_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.model.demand import amounts
from fixtures.model.dra.inventory import DeviceId, Slices, taint_rule
from fixtures.model.dra.slices import SLICES, TAINT_RULES
from fixtures.model.platform.components import DAEMON_SETS

IsDevice = Callable[[str], bool]


def requested_devices(pod: Json, is_device: IsDevice) -> dict[str, int]:
    """Devices that the scheduler counts for a pod: ``{resource: count}``. Those of an init container stay the pod's until it ends."""
    init = [(_of(container, is_device), _is_sidecar(container)) for container in _containers(pod, "initContainers")]
    return amounts.together(init, [_of(container, is_device) for container in _containers(pod, "containers")])


def running_devices(pod: Json, is_device: IsDevice) -> dict[str, int]:
    """Devices of the containers that run once a pod runs. A kubelet lists no others (docs/facts/device-plugin.md#pod-resources)."""
    sidecars = filter(_is_sidecar, _containers(pod, "initContainers"))
    return amounts.together((), [_of(container, is_device) for container in (*sidecars, *_containers(pod, "containers"))])


def _containers(pod: Json, kind: str) -> list[Json]:
    return items_of(dig(pod, "spec").get(kind))


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == amounts.SIDECAR


def _of(container: Json, is_device: IsDevice) -> dict[str, int]:
    """What one container asks for, amounts above zero."""
    resources = dig(container, "resources")
    asked = amounts.written(dig(resources, "requests"), dig(resources, "limits"))
    return {name: count for name, value in asked.items() if is_device(name) and (count := amounts.units(value)) > 0}


API_VERSION = "resource.k8s.io/v1"

DRA_PLUGIN = "dra-plugin"
DRA_DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = "gpu.nvidia.com"
"""The driver of the component ``dra-plugin``, and its class of whole GPUs (docs/facts/dra.md#nvidia-driver)."""

RESOURCE = f"claim/{DEVICE_CLASS}"
"""How claimed devices are named where devices of plugins go by their resource."""


class PublishedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A published device. ``uuid`` is empty where its driver gives none."""

    driver: str
    pool: str
    name: str
    node: str
    uuid: str = ""
    tainted: bool = False

    @property
    def id(self) -> str:
        """The UUID, as containers see it, else the name."""
        return self.uuid or f"{self.driver}/{self.pool}/{self.name}"


def published_devices(view: View) -> dict[DeviceId, PublishedDevice]:
    """GPUs of the newest generation of every pool. Raises :class:`NoData` when they cannot be listed."""
    slices = [item for item in view.select(SLICES) if dig(item, "spec").get("driver") == DRA_DRIVER]
    inventory = Slices(slices, tainting_rules(view), named=lambda driver: driver == DRA_DRIVER)
    return {
        device.id: PublishedDevice(
            driver=of_node.driver,
            pool=device.id[1],
            name=device.id[2],
            node=node,
            uuid=device.body.attribute("uuid"),
            tainted=bool(device.taint),
        )
        for node, drivers in inventory.by_node().items()
        for of_node in drivers
        for device in of_node.devices
        if device.body.type == "gpu"
    }


def tainting_rules(view: View) -> list[Json]:
    """DeviceTaintRules that keep devices from new claims; none where they are not served. Raises :class:`NoData`."""
    return [rule for rule in view.select(TAINT_RULES) if taint_rule(rule)] if view.serves(TAINT_RULES) else []


def allocated_devices(claim: Json, *, admin: bool = False) -> list[tuple[str, str, str]]:
    """Driver, pool and name of the devices that a claim holds; admin access holds none (docs/facts/dra.md#admin-access).

    ``admin``: those that it uses with admin access as well.
    """
    results = items_of(dig(claim, "status", "allocation", "devices").get("results"))
    return [
        (text_of(result.get("driver")), text_of(result.get("pool")), text_of(result.get("device")))
        for result in results
        if admin or result.get("adminAccess") is not True
    ]


def requested_count(claim: Json) -> int:
    """How many devices of the driver's class a claim asks for. A claim that asks in any other way is taken by what it holds."""
    requests = items_of(dig(claim, "spec", "devices").get("requests"))
    exact = [dig(request, "exactly") for request in requests]
    plain = all(one.get("deviceClassName") == DEVICE_CLASS and one.get("allocationMode", "ExactCount") == "ExactCount" for one in exact)
    return sum(number_of(one.get("count", 1)) for one in exact) if plain else len(allocated_devices(claim))


def claims_of(pod: Json, claims: Iterable[Json]) -> list[Json]:
    """Claims that are reserved for a pod."""
    return [claim for claim in claims if any(item.get("uid") == uid_of(pod) for item in items_of(dig(claim, "status").get("reservedFor")))]


DOMAIN_DAEMON = "compute-domain-daemon"
DOMAINS = "resource.nvidia.com/computedomains"
DOMAIN_LABEL = "resource.nvidia.com/computeDomain"


def domain_of(view: View, daemon_set: Json) -> Json | None:
    """The domain whose daemons the DaemonSet runs: it and its pods carry the domain's UID. Raises :class:`NoData`."""
    uid = labels_of(daemon_set).get(DOMAIN_LABEL, "")
    if not uid or dig(daemon_set, "spec", "template", "metadata", "labels").get(DOMAIN_LABEL) != uid:
        return None
    return next((domain for domain in view.select(DOMAINS) if uid_of(domain) == uid), None)


def daemon_sets(view: View, namespace: str) -> list[tuple[Json, Json]]:
    """The driver's DaemonSets of daemons that run on some node, each with its domain, by the names of both. Raises :class:`NoData`."""
    found = []
    for item in view.select(DAEMON_SETS):
        if namespace_of(item) == namespace and dig(item, "status").get("desiredNumberScheduled"):
            domain = domain_of(view, item)
            if domain is not None:
                found.append((item, domain))
    return sorted(found, key=lambda one: (full_name(one[1]), full_name(one[0])))
