"""Memory of a node's devices, in which schedulers that share a device add up the parts that pods ask for.

Facts: docs/facts/scheduler-amounts.md#how-parts-are-added-up.
"""

from __future__ import annotations

import re

import msgspec

from fixtures.kubernetes.models import Node

LABEL = "nvidia.com/gpu.memory"
"""GPU Feature Discovery's: MiB of one device. Old releases wrote bytes."""

_MIB = 1 << 20
_ROUNDED_TO = 100
_FRACTION = re.compile(r"\+?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_AMOUNT = re.compile(r"[0-9]{1,15}", re.ASCII)


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """``units`` of one device: MiB where ``known``, else hundredths of it."""

    units: int
    known: bool


def device_memory(node: Node | None) -> DeviceMemory:
    """The memory of each of a node's devices."""
    text = node.metadata.label.get(LABEL, "") if node is not None else ""
    amount = int(text) if _AMOUNT.fullmatch(text) else 0
    if amount >= _MIB:  # no device has so many MiB
        amount //= _MIB
    amount -= amount % _ROUNDED_TO
    return DeviceMemory(units=amount or _ROUNDED_TO, known=bool(amount))


def memory_of_part(memory: DeviceMemory, fraction: str, amount: str) -> int | str:
    """The units that a part takes of one device, or a clause: why nobody can tell.

    ``fraction`` and ``amount`` (MiB) are as the pod writes them, empty where it does not. A scheduler rounds down, but takes no part
    for nothing.
    """
    if fraction and amount:
        return f"it asks for fraction {fraction[:50]} and for memory {amount[:50]} at once"
    if amount:
        if not _AMOUNT.fullmatch(amount) or not int(amount):
            return f"memory {amount[:50]!r} is no whole number of MiB"
        return int(amount) if memory.known else f"it asks for {amount} MiB, and no label {LABEL} of its node says how many a device has"
    value = float(fraction) if _FRACTION.fullmatch(fraction) else 0.0
    if not 0 < value <= 1:
        return f"fraction {fraction[:50]!r} is no part of one device"
    return max(int(value * memory.units), 1)
