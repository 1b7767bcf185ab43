"""HW-03: the driver's library is of the driver's version, and every device answers. Pure.

Facts: docs/facts/device-health.md#nvml, docs/facts/device-health.md#devices-that-a-runtime-cannot-give.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.probes.node_documents import SOURCE, NodeDocument, Unread, device_subject
from conformance.scope.scope import subject
from fixtures.nodeprobe.document import Device, Driver
from fixtures.text.sentences import cut
from fixtures.verdict.findings import Finding, bad, ok, undecided

_MISMATCH = ("different versions", "version mismatch")
_NOT_LOADED = ("driver is not loaded", "driver not loaded", "driver/library not loaded")
_ANY_DEVICE = ("handle", "uuid", "pciAddress", "memoryTotal")
"""What every device answers, of whatever product."""

_LACKS = ("not supported", "function not found", "insufficient permissions")
"""Words of calls that the driver, or the pod, does not have: the device may be well."""

_CAUSES = {"DriverLibraryMismatch": _MISMATCH, "DriverNotLoaded": _NOT_LOADED}
_REFUSALS = {**_CAUSES, "DeviceDoesNotAnswer": ("gpu is lost",)}
_EXPECTED = "a library of the driver's version, and devices that answer"


def check_answers(one: NodeDocument) -> Iterator[Finding]:
    """A finding for each fault of a node's driver and devices, or one that says that all is well."""
    for driver in one.drivers:
        found = _of_driver(one, driver) or [finding for device in driver.devices if (finding := _of_device(one, driver.vendor, device))]
        yield from found
        if not found:
            observed = f"{len(driver.devices)} devices answer; driver {driver.version}, library {driver.library}"
            yield ok(subject(one.node), observed=observed, expected=_EXPECTED, source=SOURCE)


def check_refused(gone: Unread) -> Finding | None:
    """What plugin or runtime said when they could not give a pod its devices, where that is a fault of driver or device."""
    for cause, words in _REFUSALS.items():
        if any(word in gone.trouble.lower() for word in words):
            message = "a pod with devices cannot start on the node: its driver, or one of its devices, does not answer"
            node, said = subject(gone.places[0].node), cut(gone.trouble, 300)
            return bad(node, cause=cause, observed=said, expected=_EXPECTED, source="pod status", message=message)
    return None


def _of_driver(one: NodeDocument, driver: Driver) -> list[Finding]:
    """What keeps the driver from enumerating devices, or makes its answers those of another version."""
    node = subject(one.node)
    if driver.problem:
        cause = next((code for code, words in _CAUSES.items() if any(word in driver.problem.lower() for word in words)), "")
        if cause:
            message = f"no new process on the node reaches a device: {driver.problem}"
            return [bad(node, cause=cause, observed=driver.problem, expected=_EXPECTED, source=SOURCE, message=message)]
        message = f"the driver enumerates nothing in {one.pod}: {driver.problem}"
        return [undecided(node, message=message, source=SOURCE)]
    if driver.vendor == "nvidia" and driver.version and driver.library and not driver.library.endswith(driver.version):
        observed = f"driver {driver.version}, library {driver.library}"
        message = "the library is of another version than the driver that is loaded: calls that one of them lacks fail"
        return [bad(node, cause="DriverLibraryMismatch", observed=observed, expected=_EXPECTED, source=SOURCE, message=message)]
    if not driver.devices:
        return [undecided(node, message=f"the driver enumerates no device in {one.pod}", source=SOURCE)]
    return []


def _of_device(one: NodeDocument, vendor: str, device: Device) -> Finding | None:
    place = device_subject(one.node, device)
    refused = {name: words for name in _ANY_DEVICE if (words := device.unread.get(name)) and words.lower() not in _LACKS}
    if device.lost or refused:
        words = next(iter(refused.values()), "the device is lost")
        message = f"the driver lists the device and gets no answer from it ({words}): the next job on it fails"
        return bad(place, cause="DeviceDoesNotAnswer", observed=words, expected=_EXPECTED, source=SOURCE, message=message)
    if not device.uuid and vendor == "nvidia":
        return undecided(place, message=f"it has no UUID: {device.unread.get('uuid', 'no reason is given')}", source=SOURCE)
    return None
