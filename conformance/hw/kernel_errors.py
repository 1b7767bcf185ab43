"""HW-01: what the kernel log of a node says of its devices: Xids by NVIDIA's catalogue, fatal errors of NVSwitches, amdgpu's own words.

Facts: docs/facts/device-health.md#xid-actions, docs/facts/device-health.md#kernel-log.
"""

import datetime
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from conformance.outputs.xid import XidEvent, event_of, slot_of
from conformance.probes.node_documents import NodeDocument
from fixtures.model.cluster import subject
from fixtures.model.devices.xid_catalogue import lookup
from fixtures.nodeprobe.document import Host
from fixtures.tables.rows import XidClass
from fixtures.text import yaml_text
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

_FILE = Path(__file__).with_name("amd_lines.yaml")
_SOURCE = "kernel log (/dev/kmsg) of the node"
_EXPECTED = "no error that asks for a repair"
_TIME = re.compile(r"\[ {0,8}(\d{1,10}\.\d{1,6})\]")
_AMD = re.compile(r"amdgpu ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (.{0,300})")
_CAUSES = {
    "DeviceNeedsReplacement": re.compile(r"CONTACT_SUPPORT|CHECK_MECHANICALS"),
    "NodeNeedsReboot": re.compile(r"RESTART_|reboot", re.I),
    "DeviceNeedsReset": re.compile(r"reset|WORKFLOW_", re.I),
    "RecoveryAsked": re.compile(""),
}
"""Causes by the action of NVIDIA's catalogue or of the driver itself, the gravest first."""


class AmdLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of ``amd_lines.yaml``, whose head says what the fields mean."""

    pattern: str
    cause: str
    settles: bool = False
    date: datetime.date
    source: str


class Logged(msgspec.Struct, frozen=True):
    """What one line says of the device at a slot: its name for people and the cause; empty where it asks for nothing.

    ``settles``: nothing of before is left to do. ``ago`` is in seconds; None where the log does not say.
    """

    slot: str
    name: str
    cause: str = ""
    unknown: bool = False
    settles: bool = False
    switch: bool = False
    ago: float | None = None

    @property
    def words(self) -> str:
        """One clause for people."""
        return self.name if self.ago is None else f"{self.name}, {self.ago / 3600:.1f} h ago"


@functools.cache  # a file of the package
def amd_lines() -> tuple[AmdLine, ...]:
    """Every row, in order."""
    return yaml_text.packaged(_FILE, tuple[AmdLine, ...])


def kernel_errors(hours: float) -> Callable[[NodeDocument], Iterator[Finding]]:
    """What judges a document: for every device no fatal error in the last ``hours``, or none since its driver said that it recovered."""

    def judge(one: NodeDocument) -> Iterator[Finding]:
        host = one.document.host
        if host.kernel_log is None:
            message = "its kernel log may not be read: the probe's pod has no privileges (policy probes.wholeNodes)"
            yield not_judged(subject(one.node), message=message, source=_SOURCE)
            return
        by_slot = _unsettled(host, hours)
        for place, device in one.devices():
            yield _judged(place, by_slot.pop(slot_of(device.pci_address), ()))
        for slot, lines in by_slot.items():  # devices that the driver does not list any more, switches, lines of another form
            if any(line.cause or line.unknown for line in lines):
                yield _judged(Subject("Node", f"{one.node.name} {'NVSwitch' if lines[0].switch else 'device at'} {slot}"), lines)

    return judge


def _unsettled(host: Host, hours: float) -> dict[str, list[Logged]]:
    """Lines by slot, in order: those of the last ``hours`` and not before the driver said that nothing is left to do."""
    found: dict[str, list[Logged]] = {}
    for text in host.kernel_log or ():
        time, line = _TIME.match(text), _logged(text)
        ago = max(host.uptime - float(time[1]), 0.0) if time and host.uptime is not None else None
        if line is None or (ago is not None and ago > hours * 3600):
            continue
        if line.settles:
            found.pop(line.slot, None)
        else:
            found.setdefault(line.slot, []).append(msgspec.structs.replace(line, ago=ago))
    return found


def _logged(text: str) -> Logged | None:
    if event := event_of(text):
        return _of_nvidia(event)
    match = _AMD.search(text)
    row = next((row for row in amd_lines() if match and re.search(row.pattern, match[2])), None)
    if match is None or row is None:
        return None
    return Logged(slot_of(match[1]), f"amdgpu: {match[2].removeprefix('amdgpu: ')[:120]}", row.cause, settles=row.settles)


def _of_nvidia(event: XidEvent) -> Logged:
    note = "" if event.sxid else lookup(event.code).note
    name = f"{'SXid' if event.sxid else 'Xid'} {event.code or '?'} ({note or event.text[:120]})"
    fatal = event.klass is XidClass.FATAL
    return Logged(
        slot_of(event.pci),
        name,
        next(cause for cause, asks in _CAUSES.items() if asks.search(event.action)) if fatal else "",
        unknown=event.klass is XidClass.UNKNOWN,
        settles=event.settles,
        switch=event.sxid,
    )


def _judged(place: Subject, lines: Sequence[Logged]) -> Finding:
    about = About(place, _SOURCE, _EXPECTED)
    if fatal := [line for line in lines if line.cause]:
        words = listed(dict.fromkeys(line.words for line in fatal), 3)
        cause = min((line.cause for line in fatal), key=list(_CAUSES).index)
        return about.bad(f"its kernel log has {words}", cause=cause, observed=words)
    if unknown := next((line for line in lines if line.unknown), None):
        return about.undecided(f"what {unknown.words} asks for is not known")
    harmless = listed(dict.fromkeys(line.name for line in lines), 3)
    return about.ok(f"no repair asked for: {harmless}" if harmless else "no error")
