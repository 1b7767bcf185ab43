"""HW-01: what the kernel log of a node says of its devices: Xids by NVIDIA's catalogue, and fatal errors of NVSwitches.

Facts: docs/facts/device-health.md#xid-actions, docs/facts/device-health.md#kernel-log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from conformance.hw.judging import Documents, devices_of, short_address
from conformance.outputs.xid import XidEvent, event_of
from fixtures.model.devices.xid_catalogue import XidClass, lookup
from fixtures.nodeprobe.document import Host
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok, undecided

_SOURCE = "kernel log (/dev/kmsg)"
_EXPECTED = "no Xid that asks for a repair"
_TIME = re.compile(r"\[ {0,8}(\d{1,10}\.\d{1,6})\]")
_REBOOT = re.compile(r"RESTART_|reboot", re.I)
_RESET = re.compile(r"RESET|WORKFLOW_XID_48|WORKFLOW_NVLINK|Reset", re.I)
_REPLACE = ("CONTACT_SUPPORT", "CHECK_MECHANICALS")


class Logged(msgspec.Struct, frozen=True):
    """An event and how many seconds before the probe it was written; None where the log does not say."""

    event: XidEvent
    ago: float | None

    @property
    def words(self) -> str:
        """One clause for people."""
        event, note = self.event, "" if self.event.sxid else lookup(self.event.code).note
        when = "" if self.ago is None else f", {self.ago / 3600:.1f} h ago"
        return f"{'SXid' if event.sxid else 'Xid'} {event.code or '?'} ({note or event.text[:120]}{when})"


def check_kernel_errors(documents: Documents, hours: float) -> Iterator[Finding]:
    """One finding for every device: no fatal Xid in the last ``hours``, or none since the driver said that it has recovered."""
    for node, document in documents.items():
        seen = [one for one in devices_of(node, document) if one.driver.vendor == "nvidia"]
        if not any(driver.vendor == "nvidia" and not driver.problem for driver in document.drivers):
            yield not_judged(Subject("Node", node), message="Xids are NVIDIA's, and no driver of NVIDIA answers here", source=_SOURCE)
            continue
        if document.host.kernel_log is None:
            message = "its kernel log may not be read: the pod that asked has no privileges"
            yield not_judged(Subject("Node", node), message=message, source=_SOURCE)
            continue
        by_place = _unsettled(document.host, hours)
        for one in seen:
            yield _judged(one.subject, f"{one.label} ({one.device.name})", by_place.pop(_slot(one.device.pci_address), []))
        for place, events in by_place.items():
            kind = "NVSwitch" if events[0].event.sxid else "PCI"
            if any(one.event.klass in (XidClass.FATAL, XidClass.UNKNOWN) for one in events):
                yield _judged(Subject("Node", f"{node} {kind} {place}"), f"{kind} {place}", events)


def _unsettled(host: Host, hours: float) -> dict[str, list[Logged]]:
    """Events by slot, in order: those of the last ``hours`` and not before the driver said that nothing is left to do (Xid 154)."""
    found: dict[str, list[Logged]] = {}
    for line in host.kernel_log or ():
        event = event_of(line)
        if event is None:
            continue
        time = _TIME.match(line)
        ago = max(host.uptime - float(time[1]), 0.0) if time and host.uptime is not None else None
        if ago is not None and ago > hours * 3600:
            continue
        if event.code == 154 and event.klass is XidClass.INFO:
            found.pop(_slot(event.pci), None)
        else:
            found.setdefault(_slot(event.pci), []).append(Logged(event, ago))
    return found


def _slot(address: str) -> str:
    """An address without its function: a Xid names a device by its slot."""
    return short_address(address).partition(".")[0] or address


def _judged(place: Subject, name: str, events: list[Logged]) -> Finding:
    fatal = [one for one in events if one.event.klass is XidClass.FATAL]
    if fatal:
        words = listed(dict.fromkeys(one.words for one in fatal), 3)
        cause = next((cause for cause in _CAUSES if any(_cause(one.event) == cause for one in fatal)), _CAUSES[-1])
        return bad(place, cause=cause, observed=words, expected=_EXPECTED, source=_SOURCE, message=f"{name}: {words}")
    if unknown := [one for one in events if one.event.klass is XidClass.UNKNOWN]:
        return undecided(place, message=f"{name}: what {unknown[0].words} asks for is not known", source=_SOURCE)
    codes = listed(sorted({one.event.code for one in events}))
    return ok(place, observed=f"Xids of applications only: {codes}" if codes else "no Xid", expected=_EXPECTED, source=_SOURCE)


_CAUSES = ("DeviceNeedsReplacement", "NodeNeedsReboot", "DeviceNeedsReset", "RecoveryAsked")
"""What fatal Xids ask for, the gravest first."""


def _cause(event: XidEvent) -> str:
    if event.action in _REPLACE:
        return "DeviceNeedsReplacement"
    return "NodeNeedsReboot" if _REBOOT.search(event.action) else "DeviceNeedsReset" if _RESET.search(event.action) else "RecoveryAsked"
