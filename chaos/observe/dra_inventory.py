"""Devices that DRA drivers publish, and which of them claims hold. Pure over lists of one moment."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chaos.observe.view import View, dig, items_of, number_of, text_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.model.dra.inventory import DeviceId, Slices, taint_rule
from fixtures.model.dra.kinds import SLICES, TAINT_RULES

API_VERSION = "resource.k8s.io/v1"

COMPONENT = "dra-plugin"
DRIVER = "gpu.nvidia.com"
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
    slices = [item for item in view.select(SLICES) if dig(item, "spec").get("driver") == DRIVER]
    inventory = Slices(slices, tainting_rules(view), named=lambda driver: driver == DRIVER)
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
