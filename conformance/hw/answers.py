"""HW-03: what a document says of its node's driver and devices, and what a pod's state does where there is none. Pure.

Facts: docs/facts/device-health.md#devices-that-a-runtime-cannot-give.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.health.answers import CAUSES, of_device, of_driver
from conformance.health.judging import Seen
from conformance.hw.judging import finding
from conformance.probes.node_documents import NodeDocument, Unread, device_subject
from fixtures.model.cluster import subject
from fixtures.text.sentences import cut
from fixtures.verdict.findings import Finding, bad

_REFUSALS = {**CAUSES, "DeviceDoesNotAnswer": ("gpu is lost",)}
_EXPECTED = "a library of the driver's version, and devices that answer"


def check_answers(one: NodeDocument) -> Iterator[Finding]:
    """A finding for each fault of a node's driver and devices, or one that says that all is well."""
    for driver in one.drivers:
        answer = of_driver(driver)
        devices = [] if answer.faults or answer.unknown else driver.devices
        asked = [(device, of_device(Seen(one.document.host, driver, device))) for device in devices]
        found = [(device_subject(one.node, device), told) for device, told in asked if told.faults or told.unknown]
        yield from (finding(place, told, _EXPECTED, one.pod) for place, told in found or [(subject(one.node), answer)])


def check_refused(gone: Unread) -> Finding | None:
    """What plugin or runtime said when they could not give a pod its devices, where that is a fault of driver or device."""
    for cause, words in _REFUSALS.items():
        if any(word in gone.trouble.lower() for word in words):
            message = "a pod with devices cannot start on the node: its driver, or one of its devices, does not answer"
            node, said = subject(gone.places[0].node), cut(gone.trouble, 300)
            return bad(node, cause=cause, observed=said, expected=_EXPECTED, source="pod status", message=message)
    return None
