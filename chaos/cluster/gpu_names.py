"""How detectors name a GPU, and whether they speak about another GPU than the experiment's."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_UUID = re.compile(r"(?i)\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_PCI = re.compile(r"(?i)\b(?:[0-9a-f]{8}|[0-9a-f]{4}):[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
_INDEX = re.compile(r"(?i)\bGPU[: ] ?([0-9]{1,3})\b")


def pci_forms(address: str) -> list[str]:
    """Ways in which detectors write a PCI address: DCGM's 8-digit domain, the kernel's 4-digit one, with and without the function."""
    if not address:
        return []
    domain, _, rest = address.partition(":")
    short = f"{domain[-4:]}:{rest}"
    return [address, short, short.rpartition(".")[0] or short]


def kernel_address(address: str) -> str:
    """A PCI address as the driver writes it in a line about an Xid: domain, bus and device in small hexadecimal digits, no function.

    Empty for what is no address. Facts: docs/facts/device-health.md#kernel-log.
    """
    if not _PCI.fullmatch(address):
        return ""
    domain, bus, device = address.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device.partition('.')[0]}"


def names_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the GPU that a target's facts are about; none where they name none."""
    if not facts.get("uuid"):
        return ()
    return (str(facts["uuid"]), *pci_forms(str(facts.get("pci") or "")), f"gpu {facts.get('index')}")


def names_this(message: str, names: Collection[str]) -> bool:
    """Whether a message has one of ``names`` as a word of its own, in any form: GPU 10 is not GPU 1."""
    said = message.lower()
    if any(re.search(rf"(?<![0-9a-z]){re.escape(name.lower())}(?![0-9a-z])", said) for name in names):
        return True
    if {f"gpu {index}" for index in _INDEX.findall(message)} & {name.lower() for name in names}:
        return True
    return bool({_place(found) for found in _PCI.findall(message)} & {_place(name) for name in names if _PCI.fullmatch(name)})


def names_another(message: str, names: Collection[str]) -> bool:
    """Whether a message names a GPU that is none of ``names``. An index counts in a message that has nothing better.

    One that names no GPU, and whatever is said where ``names`` is empty, is about no other.
    """
    if not names:
        return False
    uuids = {found.lower() for found in _UUID.findall(message)}
    places = {_place(found) for found in _PCI.findall(message)}
    if not uuids and not places:
        return bool({f"gpu {index}" for index in _INDEX.findall(message)} - {name.lower() for name in names})
    own = {_place(name) for name in names if _PCI.fullmatch(name)}
    return bool(uuids - {name.lower() for name in names}) or bool(own and places - own)


def _place(address: str) -> str:
    """A PCI address in its shortest form."""
    return pci_forms(address.lower().partition(".")[0])[-1]
