"""The Xid table and the reader of kernel logs.

Facts: docs/facts/device-health.md#xid-actions, docs/facts/device-health.md#kernel-log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})(?:[, ][^)]{0,64})?\):? {0,4}(\d{1,5})(?:,| |\Z)(.{0,1024})")
_OFF_THE_BUS = re.compile(r"NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]{4,20})\b.{0,200}fallen off the bus")
_SXID = re.compile(r"nvidia-nvswitch\d{1,4}: SXid \(PCI:([0-9a-fA-F:.]{4,20})\): (\d{1,6}), (Fatal|Non-fatal)(.{0,1024})")
_KERNEL = re.compile(
    r"\bNVRM: |\bnvidia-(?:nvswitch\d{0,4}|uvm|modeset|drm|peermem): |\bkernel: |\A(?:<\d{1,3}>)?\[ {0,12}\d{1,12}\.\d{1,9}\] "
)
_RECOVERY = re.compile(r"to 0x([0-9a-fA-F]{1,4}) \(([^)]{0,64})\)")
_NON_FATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)


class XidClass(StrEnum):
    """Who is to blame, for the purpose of a suite."""

    FATAL = "fatal"  # the device or node needs a repair step
    APPLICATION = "application"  # the process's own fault or loss; the device stays healthy
    INFO = "info"
    UNKNOWN = "unknown"  # not in the catalogue


class XidEntry(msgspec.Struct, frozen=True):
    """One code of the catalogue: the immediate action in NVIDIA's words (``""`` where none is listed) and the class."""

    code: int
    action: str
    klass: XidClass
    note: str = ""


class XidEvent(msgspec.Struct, frozen=True):
    """One kernel line. ``pci`` as printed (``0000:9b:00``), ``sxid`` for NVSwitch errors, ``klass`` after reading the line's own text."""

    code: int
    pci: str
    text: str
    action: str
    klass: XidClass
    sxid: bool = False


_ROWS: tuple[tuple[str, XidClass, str], ...] = (
    ("IGNORE", XidClass.INFO, "37 38 43 44 63 66 67 92 93 106 107 121 137 141 152 153 157 160 161"),
    (
        "RESTART_APP",
        XidClass.APPLICATION,
        "8 11 13 25 31 32 39 40 41 60 68-72 75-77 80 82-86 88 89 94 96-105 126-135 139",
    ),
    ("RESET_GPU", XidClass.FATAL, "46 62 64 95 109 110 119 120 136 140 143 155 156 158"),
    ("RESTART_BM", XidClass.FATAL, "79"),
    ("RESTART_VM", XidClass.FATAL, "151"),
    ("CONTACT_SUPPORT", XidClass.FATAL, "142"),
    ("CHECK_MECHANICALS", XidClass.FATAL, "54"),
    ("UPDATE_SWFW", XidClass.APPLICATION, "78"),
    ("CHECK_UVM", XidClass.APPLICATION, "159"),
    ("WORKFLOW_XID_45", XidClass.APPLICATION, "45"),
    ("WORKFLOW_XID_48", XidClass.FATAL, "48"),
    ("WORKFLOW_NVLINK_ERR", XidClass.FATAL, "74"),
    # the sub-code in the kernel line decides; a bare number (a metric) is taken for the worse
    ("WORKFLOW_NVLINK5_ERR", XidClass.FATAL, "144-150"),
    ("XID_154", XidClass.FATAL, "154"),
    ("", XidClass.FATAL, "166 167 169 171 172"),
    ("", XidClass.INFO, "162-165 168 170"),
)
_NOTES: Mapping[int, str] = {
    43: "the application was stopped",
    45: "preemptive cleanup after an earlier error",
    48: "double-bit ECC error",
    54: "auxiliary power or cabling",
    63: "row remap recorded; reset at the next maintenance",
    64: "row remap failed",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch timeout",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "corrected C2C error",
    140: "unrecovered ECC error",
    151: "key rotation error",
    154: "the driver's own recovery action changed",
    166: "PCIe fatal timeout",
    167: "PCIe fatal timeout",
    168: "reduced memory capacity",
    169: "SEC2 halted",
}


def _codes(text: str) -> list[int]:
    codes: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        codes.extend(range(int(first), int(last or first) + 1))
    return codes


CATALOGUE: Mapping[int, XidEntry] = {
    code: XidEntry(code, action, klass, _NOTES.get(code, "")) for action, klass, text in _ROWS for code in _codes(text)
}

# Not taken for a device fault by the device plugin's own health watch (docs/facts/device-plugin.md#health).
PLUGIN_IGNORES: frozenset[int] = frozenset({13, 31, 43, 45, 68, 109})


def lookup(code: int) -> XidEntry:
    """The catalogue's entry; class ``unknown`` for a code that it does not hold."""
    return CATALOGUE.get(code) or XidEntry(code, "", XidClass.UNKNOWN)


def _event(code: int, pci: str, text: str) -> XidEvent:
    entry = lookup(code)
    klass = entry.klass
    action = entry.action
    if 144 <= code <= 150 and _NON_FATAL.search(text):
        klass = XidClass.INFO
    if code == 154 and (recovery := _RECOVERY.search(text)):
        klass = XidClass.INFO if int(recovery[1], 16) == 0 else XidClass.FATAL
        action = f"{entry.action}: {recovery[2]}"
    return XidEvent(code, pci, text.strip(), action, klass)


def parse_kernel_log(text: str) -> list[XidEvent]:
    """Xid and SXid events in order of appearance; ``[]`` for a kernel log without any.

    Raises:
        Unreadable: empty, binary or oversized text, or no line that a kernel with an NVIDIA driver prints.
    """
    events: list[XidEvent] = []
    kernel = False
    for line in log_lines(text):
        if match := _XID.search(line):
            events.append(_event(int(match[2]), match[1], match[3]))
        elif match := _SXID.search(line):
            klass = XidClass.FATAL if match[3] == "Fatal" else XidClass.INFO
            events.append(XidEvent(int(match[2]), match[1], match[4].lstrip(", ").strip(), "", klass, sxid=True))
        elif match := _OFF_THE_BUS.search(line):
            events.append(_event(79, match[1], line[match.start() :]))
        elif "NVRM: Xid" in line or ": SXid" in line:
            events.append(XidEvent(0, "?", line.strip()[:300], "", XidClass.UNKNOWN))  # a fault in words that nobody here knows
        kernel = kernel or bool(_KERNEL.search(line))
    if not events and not kernel:
        raise Unreadable("no kernel log line found")
    return events
