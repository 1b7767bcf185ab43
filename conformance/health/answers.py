"""HW-03: the driver's library is of the driver's version, and every device answers. Pure.

Facts: docs/facts/device-health.md#nvml.
"""

from __future__ import annotations

import re

from conformance.health.judging import LACKS, Answer, Fault, Seen
from fixtures.nodeprobe.document import Driver
from fixtures.nodeprobe.smi_device import NOT_PRINTED, is_error

CAUSES = {
    "DriverLibraryMismatch": ("different versions", "version mismatch"),
    "DriverNotLoaded": ("driver is not loaded", "driver not loaded", "driver/library not loaded"),
}
_ANY_DEVICE = ("handle", "uuid", "pciAddress", "memoryTotal")
"""What every device answers, of whatever product."""

_LACKS = re.compile(f"{LACKS.pattern}|permission", re.I)
_MEASURED = ("power", "temperature")
"""What some products lack. An error there, in the words of nvidia-smi, means that the device does not answer."""


def of_driver(driver: Driver) -> Answer:
    """What keeps the driver from enumerating devices, or makes its answers those of another version."""
    if driver.problem:
        cause = next((code for code, words in CAUSES.items() if any(word in driver.problem.lower() for word in words)), "")
        if cause:
            return Answer(faults=[Fault(cause, f"no new process on the node reaches a device: {driver.problem}")])
        return Answer(unknown=f"the driver enumerates nothing: {driver.problem}")
    versions = f"driver {driver.version}, library {driver.library}"
    if driver.vendor == "nvidia" and driver.version and driver.library and not driver.library.endswith(driver.version):
        words = "the library is of another version than the driver that is loaded: calls that one of them lacks fail"
        return Answer(faults=[Fault("DriverLibraryMismatch", words)])
    if not driver.devices:
        return Answer(unknown="the driver enumerates no device")
    return Answer(f"{len(driver.devices)} devices answer; {versions}")


def of_device(seen: Seen) -> Answer:
    """Whether the device answers. Calls that the driver, or the pod, does not have are no fault of it."""
    unread = seen.device.unread
    refused = [
        words for name in _ANY_DEVICE if (words := unread.get(name)) and not LACKS.search(words) and "permission" not in words.lower()
    ]
    refused += [words for name in _MEASURED if is_error(words := unread.get(name, ""))]
    if seen.device.lost or refused:
        said = next(iter(refused), "the device is lost")
        words = f"the driver lists the device and gets no answer from it ({said}): the next job on it fails"
        return Answer(faults=[Fault("DeviceDoesNotAnswer", words)])
    if not seen.device.uuid and seen.driver.vendor == "nvidia" and unread.get("uuid") != NOT_PRINTED:
        return Answer(unknown=f"it has no UUID: {unread.get('uuid', 'no reason is given')}")
    return Answer("it answers")
