"""Devices that a DRA driver lets several claims have at a time: how many have room on one, and how many more. Pure.

Facts: docs/facts/dra.md#shared-devices-and-partitions, docs/facts/dra.md#nvidia-driver-shared-devices.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.quantity import parse
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import results_of
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.placement.free_devices import Place


class ClaimedShares(msgspec.Struct, frozen=True):
    """How many claims fit on one device (``factor``), and how many more on all of a place (``free``). ``unknown``: why nobody can tell."""

    factor: int = 0
    free: int = 0
    unknown: str = ""


def claimed_shares(scope: Scope, place: Place) -> ClaimedShares:
    """What claims that name no amounts can get of a place whose devices are shared."""
    try:
        factors = {_room(device, {}) for device in place.devices if device.body.shareable}
        left = [_room(device, _consumed(scope, device)) for device in place.devices if device.body.shareable]
    except ValueError as error:
        return ClaimedShares(unknown=f"an amount in its ResourceSlice or in a claim is none: {error}")
    if not factors or len(left) < len(place.devices):
        return ClaimedShares(unknown="not all of its devices may be given to several claims")
    if None in factors:
        return ClaimedShares(unknown="any number of claims may have a device: the driver limits none")
    if len(factors) > 1:
        return ClaimedShares(unknown="its devices have room for different numbers of claims")
    return ClaimedShares(max(number for number in factors if number is not None), sum(number or 0 for number in left))


def held_share(scope: Scope, pod: Pod) -> str:
    """A device of which a claim of the pod holds a share, or empty."""
    extended = text_of(mapping(pod.status.extended_resource_claim_status).get("resourceClaimName"))
    made = pod.status.resource_claim_statuses or ()
    claims = [scope.claims.claim_behind(entry, pod.namespace, made) for entry in map(mapping, pod.spec.resource_claims or ())]
    for claim in (*claims, scope.claims.claim(pod.namespace, extended)):
        for result in results_of(claim or {}):
            if result.get("shareID") or result.get("consumedCapacity"):
                return "/".join(text_of(result.get(key)) for key in ("driver", "pool", "device"))
    return ""


def _room(device: InventoryDevice, consumed: dict[str, Fraction]) -> int | None:
    """How many claims find room beside what is consumed; None without any limit."""
    defaults = {name: parse(text) for name, text in device.body.defaults.items()}
    rooms = [
        max((parse(device.body.capacity.get(name, "0")) - consumed.get(name, Fraction())) // each, 0)
        for name, each in defaults.items()
        if each > 0
    ]
    return int(min(rooms)) if rooms else None


def _consumed(scope: Scope, device: InventoryDevice) -> dict[str, Fraction]:
    sums: dict[str, Fraction] = {}
    for holder in scope.claims.holders.get(device.id, ()):
        for name, amount in holder.consumed.items():
            sums[name] = sums.get(name, Fraction()) + parse(amount)
    return sums
