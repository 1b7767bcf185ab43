"""Devices that DRA drivers publish, slice by slice, with the claims that hold them: one row of the page's table each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from fixtures.verdict.record import DeviceClaim, InventoryRow, PublishedDevice, PublishedSlice

MAX_DEVICES = 500
"""Rows of the table; a fleet publishes tens of thousands of devices."""

MAX_PODS = 5


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A device, its slice and its node; ``claims`` is one phrase each, None where claims were not read."""

    node: str
    slice: PublishedSlice
    device: PublishedDevice
    claims: list[str] | None


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that the page shows, and how many devices it leaves to report.json."""

    rows: list[DeviceRow]
    left_out: int


def devices(inventory: Iterable[InventoryRow]) -> Devices:
    """Devices of all nodes, those that hold no new claim first within a node's slice."""
    slices = [(row.node, one) for row in inventory for one in row.slices]
    total = sum(len(one.devices) + one.left_out for _, one in slices)
    rows = list(islice((row for node, one in slices for row in _rows(node, one)), MAX_DEVICES))
    return Devices(rows=rows, left_out=total - len(rows))


def _rows(node: str, published: PublishedSlice) -> Iterator[DeviceRow]:
    for device in sorted(published.devices, key=lambda device: not device.taint):
        claims = None if device.claims is None else [_phrase(claim) for claim in device.claims]
        yield DeviceRow(node=node, slice=published, device=device, claims=claims)


def _phrase(claim: DeviceClaim) -> str:
    """``team-a/train-gpu of Job/train, used by train-0``."""
    text = f"{claim.namespace}/{claim.name}"
    if claim.owner:
        text += f" of {claim.owner}"
    if claim.used_by:
        more = len(claim.used_by) - MAX_PODS
        text += f", used by {', '.join(claim.used_by[:MAX_PODS])}" + (f" and {more} more" if more > 0 else "")
    else:
        text += ", used by no pod"
    return text + (" (a share)" if claim.share else "")
