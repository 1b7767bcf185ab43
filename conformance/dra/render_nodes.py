"""Which GPUs a container was given, by its render nodes and their PCI addresses: for drivers without nvidia-smi.

Facts: docs/facts/dra.md#other-drivers.
"""

from __future__ import annotations

import re

import msgspec

from conformance.probes.computing import END_MARKER
from fixtures.model.dra.slices import SliceDevice

RENDER_SCRIPT = f'echo "## dri"; ls -1 /dev/dri 2>&1; echo "## drm"; ls -l /sys/class/drm 2>&1; echo "{END_MARKER}"; sleep 3600'
"""Prints the render nodes in /dev and to which PCI device each of the machine belongs; keeps the devices until the pod is deleted."""

_NODE = re.compile(r"renderD\d{1,4}\Z")
_LINK = re.compile(r"(?P<node>renderD\d{1,4}) -> \S*/(?P<parent>[^/\s]+)/drm/(?P=node)\s*\Z")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ATTRIBUTES = ("pciBusID", "pciAddress", "pciAddr")


class RenderNodes(msgspec.Struct, frozen=True):
    """Render nodes that a container has, with the PCI address of each."""

    by_name: dict[str, str]

    @property
    def addresses(self) -> set[str]:
        """Their PCI addresses."""
        return set(self.by_name.values())

    @property
    def text(self) -> str:
        """One line of evidence."""
        return ", ".join(f"{name} ({address})" for name, address in sorted(self.by_name.items())) or "no render node"


def pci_address(device: SliceDevice) -> str:
    """The PCI address that a slice has of a device, or empty."""
    found = next((text for name in _ATTRIBUTES if (text := device.attribute(name).lower())), "")
    return found if _ADDRESS.match(found) else ""


def render_nodes(text: str) -> RenderNodes | str:
    """Read the output of :data:`RENDER_SCRIPT`; a clause says why it tells nothing."""
    head, marked, rest = text.replace("\r", "").partition("## drm\n")
    if not marked or not head.startswith("## dri\n") or END_MARKER not in rest.splitlines():
        return "the probe's output is incomplete"
    links = {found["node"]: found["parent"].lower() for line in rest.splitlines() if (found := _LINK.search(line))}
    if not links:
        return "its container cannot see which render node belongs to which device (/sys/class/drm)"
    names = [line.strip() for line in head.splitlines() if _NODE.match(line.strip())]
    if strange := [name for name in names if not _ADDRESS.match(links.get(name, ""))]:
        return f"{strange[0]} of its container is no PCI device of its own (a partition)"
    return RenderNodes({name: links[name] for name in names})
