"""MIG devices that NVIDIA's DRA driver offers to claims, by profile. Pure.

Facts: docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.placement.free_devices import NVIDIA_DRIVER, Place, places_of

_ATTRIBUTE = f'device.attributes["{NVIDIA_DRIVER}"].profile'


def offered(scope: Scope, node: Node) -> list[Place]:
    """Places of a node; those of claimed MIG devices are split by profile, which stands in ``product``."""
    return [part for place in places_of(scope, node) for part in (_by_profile(scope, place) or [place])]


def is_claimed_slice(place: Place) -> bool:
    """Whether a place is one of claimed MIG devices of one profile."""
    return bool(place.devices) and all(_profile(device) == place.product for device in place.devices)


def profile_selector(profile: str) -> str:
    """The CEL expression that chooses MIG devices of a profile."""
    return f'{_ATTRIBUTE} == "{profile}"'


def is_made_on_demand(place: Place) -> bool:
    """Whether a claim makes the MIG device that it gets, so that profiles compete for one GPU (shared counters)."""
    return any(device.body.counters for device in place.devices)


def published_profiles(scope: Scope) -> set[str]:
    """Profiles of all MIG devices that are offered to claims."""
    return {profile for items in scope.dra_inventory.values() for item in items for device in item.devices if (profile := _profile(device))}


def _by_profile(scope: Scope, place: Place) -> list[Place]:
    if place.driver != NVIDIA_DRIVER or not place.devices or not all(map(_profile, place.devices)):
        return []
    return list(_split(scope, place.by_claim))


def _split(scope: Scope, place: Place) -> Iterator[Place]:
    for profile in sorted({_profile(device) for device in place.devices}):
        devices = tuple(device for device in place.devices if _profile(device) == profile)
        taken = sum(device.id in scope.claims.holders and not device.body.shareable for device in devices)
        free = max(min(len(devices) - taken, place.free), 0)
        yield msgspec.structs.replace(place, product=profile, devices=devices, capacity=len(devices), free=free)


def _profile(device: InventoryDevice) -> str:
    return device.body.attribute("profile") if device.body.type == "mig" else ""
