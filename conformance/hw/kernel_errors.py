"""HW-01: what the kernel log of a node says of its devices: Xids by NVIDIA's catalogue, and fatal errors of NVSwitches.

Facts: docs/facts/device-health.md#xid-actions, docs/facts/device-health.md#kernel-log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from conformance.hw.judging import short_address
from conformance.outputs.xid import XidEvent, event_of
from conformance.probes.node_documents import NodeDocument
from conformance.scope.scope import subject
from fixtures.model.devices.xid_catalogue import XidClass, lookup
from fixtures.nodeprobe.document import Host
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok, undecided

_SOURCE = "kernel log (/dev/kmsg) of the node"
_EXPECTED = "no Xid that asks for a repair"
_TIME = re.compile(r"\[ {0,8}(\d{1,10}\.\d{1,6})\]")
_CAUSES = {
    "DeviceNeedsReplacement": re.compile(r"CONTACT_SUPPORT|CHECK_MECHANICALS"),
    "NodeNeedsReboot": re.compile(r"RESTART_|reboot", re.I),
    "DeviceNeedsReset": re.compile(r"reset|WORKFLOW_", re.I),
    "RecoveryAsked": re.compile(""),
}
"""Causes by the action of the catalogue or of the driver itself, the gravest first."""


class Logged(msgspec.Struct, frozen=True):
    """An event and how many seconds before the probe it was written; None where the log does not say."""

    event: XidEvent
    ago: float | None

    @property
    def words(self) -> str:
        """One clause for people."""
        event = self.event
        note = "" if event.sxid else lookup(event.code).note
        when = "" if self.ago is None else f", {self.ago / 3600:.1f} h ago"
        return f"{'SXid' if event.sxid else 'Xid'} {event.code or '?'} ({note or event.text[:120]}{when})"


def kernel_errors(hours: float) -> Callable[[NodeDocument], Iterator[Finding]]:
    """What judges a document: for every device no fatal Xid in the last ``hours``, or none since the driver said that it has recovered."""

    def judge(one: NodeDocument) -> Iterator[Finding]:
        host = one.document.host
        if host.kernel_log is None:
            message = "its kernel log may not be read: the probe's pod has no privileges (policy probes.wholeNodes)"
            yield not_judged(subject(one.node), message=message, source=_SOURCE)
            return
        by_slot = _unsettled(host, hours)
        for place, device in one.devices():
            yield _judged(place, by_slot.pop(_slot(device.pci_address), ()))
        for slot, events in by_slot.items():  # devices that the driver does not list any more, switches, lines of another form
            if {logged.event.klass for logged in events} & {XidClass.FATAL, XidClass.UNKNOWN}:
                yield _judged(Subject("Node", f"{one.node.name} {'NVSwitch' if events[0].event.sxid else 'device at'} {slot}"), events)

    return judge


def _unsettled(host: Host, hours: float) -> dict[str, list[Logged]]:
    """Events by slot, in order: those of the last ``hours`` and not before the driver said that nothing is left to do (Xid 154)."""
    found: dict[str, list[Logged]] = {}
    for line in host.kernel_log or ():
        event, time = event_of(line), _TIME.match(line)
        if event is None:
            continue
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


def _judged(place: Subject, events: Sequence[Logged]) -> Finding:
    if fatal := [logged for logged in events if logged.event.klass is XidClass.FATAL]:
        words = listed(dict.fromkeys(logged.words for logged in fatal), 3)
        cause = next(cause for cause, asks in _CAUSES.items() if any(asks.search(logged.event.action) for logged in fatal))
        return bad(place, cause=cause, observed=words, expected=_EXPECTED, source=_SOURCE, message=f"its kernel log has {words}")
    if unknown := next((logged for logged in events if logged.event.klass is XidClass.UNKNOWN), None):
        return undecided(place, message=f"what {unknown.words} asks for is not known", source=_SOURCE)
    codes = listed(sorted({logged.event.code for logged in events}))
    return ok(place, observed=f"Xids that ask for no repair: {codes}" if codes else "no Xid", expected=_EXPECTED, source=_SOURCE)
