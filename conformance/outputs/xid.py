"""The reader of kernel logs.

Facts: docs/facts/device-health.md#kernel-log.
"""

import re
from collections.abc import Sequence

import msgspec

from conformance.outputs.captured_text import Unreadable, log_lines
from fixtures.model.devices.xid_catalogue import lookup
from fixtures.tables.rows import XidClass

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})(?:[, ][^)]{0,64})?\):? {0,4}(\d{1,5})(?:,| |\Z)(.{0,1024})")
_OFF_THE_BUS = re.compile(r"NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]{4,20})\b.{0,200}fallen off the bus")
_SXID = re.compile(r"nvidia-nvswitch\d{1,4}: SXid \(PCI:([0-9a-fA-F:.]{4,20})\): (\d{1,6}), (Fatal|Non-fatal)(.{0,1024})")
_KERNEL = re.compile(
    r"\bNVRM: |\bnvidia-(?:nvswitch\d{0,4}|uvm|modeset|drm|peermem): |\bkernel: |\A(?:<\d{1,3}>)?\[ {0,12}\d{1,12}\.\d{1,9}\] "
)
_RECOVERY = re.compile(r"to 0x([0-9a-fA-F]{1,4}) \(([^)]{0,64})\)")
_RECOVERY_ACTION = 154
"""The driver says with it what is to be done with the device now."""
_NON_FATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)


class XidEvent(msgspec.Struct, frozen=True):
    """One kernel line. ``pci`` as printed (``0000:9b:00``), ``sxid`` for NVSwitch errors, ``klass`` after reading the line's own text."""

    code: int
    pci: str
    text: str
    action: str
    klass: XidClass
    sxid: bool = False

    @property
    def settles(self) -> bool:
        """Whether the driver says by it that nothing is left to do for the device, whatever was before."""
        return self.code == _RECOVERY_ACTION and self.klass is XidClass.INFO and not self.sxid


def settled(events: Sequence[XidEvent]) -> list[bool]:
    """For each event whether a later one of its device settles it."""
    slots: set[str] = set()
    found = []
    for event in reversed(events):
        found.append(slot_of(event.pci) in slots)
        slots |= {slot_of(event.pci)} if event.settles else set()
    return found[::-1]


def slot_of(address: str) -> str:
    """An address without its function: errors name a device by its slot, and partitions differ in the function."""
    domain, colon, rest = address.lower().partition(":")
    return (f"{domain[-4:]}:{rest}" if colon else address).partition(".")[0]


def _event(code: int, pci: str, text: str) -> XidEvent:
    entry = lookup(code)
    klass = entry.klass
    action = entry.action
    if 144 <= code <= 150 and _NON_FATAL.search(text):
        klass = XidClass.INFO
    if code == _RECOVERY_ACTION and (recovery := _RECOVERY.search(text)):
        klass = XidClass.INFO if int(recovery[1], 16) == 0 else XidClass.FATAL
        action = f"{entry.action}: {recovery[2]}"
    return XidEvent(code, pci, text.strip(), action, klass)


def event_of(line: str) -> XidEvent | None:
    """The Xid or SXid of a kernel line, or None. A line that is plainly one, in words that nobody here knows, has the class unknown."""
    if match := _XID.search(line):
        return _event(int(match[2]), match[1], match[3])
    if match := _SXID.search(line):
        klass = XidClass.FATAL if match[3] == "Fatal" else XidClass.INFO
        return XidEvent(int(match[2]), match[1], match[4].lstrip(", ").strip(), "", klass, sxid=True)
    if match := _OFF_THE_BUS.search(line):
        return _event(79, match[1], line[match.start() :])
    if "NVRM: Xid" in line or ": SXid" in line:
        return XidEvent(0, "?", line.strip()[:300], "", XidClass.UNKNOWN)
    return None


def parse_kernel_log(text: str) -> list[XidEvent]:
    """Xid and SXid events in order of appearance; ``[]`` for a kernel log without any.

    Raises:
        Unreadable: empty, binary or oversized text, or no line that a kernel with an NVIDIA driver prints.
    """
    events: list[XidEvent] = []
    kernel = False
    for line in log_lines(text):
        if event := event_of(line):
            events.append(event)
        kernel = kernel or bool(_KERNEL.search(line))
    if not events and not kernel:
        raise Unreadable("no kernel log line found")
    return events
