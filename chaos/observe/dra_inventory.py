"""Devices that DRA drivers publish, and which of them claims hold. Pure over lists of one moment."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chaos.observe.view import View, dig, items_of, number_of, text_of, uid_of
from conformance.outputs.resource_slice import slices_of
from fixtures.kubernetes.models import Json

CLAIMS = "resource.k8s.io/resourceclaims"
SLICES = "resource.k8s.io/resourceslices"
TAINT_RULES = "resource.k8s.io/devicetaintrules"
API_VERSION = "resource.k8s.io/v1"

COMPONENT = "dra-plugin"
DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = "gpu.nvidia.com"
"""The driver of the component ``dra-plugin``, and its class of whole GPUs (docs/facts/dra.md#nvidia-driver)."""

RESOURCE = f"claim/{DEVICE_CLASS}"
"""How claimed devices are named where devices of plugins go by their resource."""


class PublishedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A published device. ``uuid`` is empty where the driver tells none."""

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


def published_devices(view: View) -> dict[tuple[str, str, str], PublishedDevice]:
    """GPUs of the newest generation of every pool, by driver, pool and name. Raises :class:`NoData` when they cannot be listed."""
    slices = [item for item in slices_of({"kind": "ResourceSlice", **item} for item in view.select(SLICES)) if item.driver == DRIVER]
    newest: dict[str, int] = {}
    for item in slices:
        newest[item.pool] = max(newest.get(item.pool, item.generation), item.generation)
    rules = tainting_rules(view)
    return {
        (item.driver, item.pool, device.name): PublishedDevice(
            driver=item.driver,
            pool=item.pool,
            name=device.name,
            node=item.node,
            uuid=device.attribute("uuid"),
            tainted=bool(device.taints) or any(covers(rule, (item.driver, item.pool, device.name)) for rule in rules),
        )
        for item in slices
        for device in item.devices
        if item.generation == newest[item.pool] and device.type == "gpu"
    }


def tainting_rules(view: View) -> list[Json]:
    """DeviceTaintRules that keep devices from new claims; none where they are not served. Raises :class:`NoData`."""
    if not view.serves(TAINT_RULES):
        return []
    return [rule for rule in view.select(TAINT_RULES) if dig(rule, "spec", "taint").get("effect") in ("NoSchedule", "NoExecute")]


def covers(rule: Json, device: tuple[str, str, str]) -> bool:
    """Whether a rule selects a device (docs/facts/dra.md#device-taint-rules): what its selector leaves out matches any."""
    if not isinstance(dig(rule, "spec").get("deviceSelector"), dict):
        return False
    chosen = dig(rule, "spec", "deviceSelector")
    return all(chosen.get(key) in (None, own) for key, own in zip(("driver", "pool", "device"), device, strict=True))


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
