"""What a scrape says is wrong with a device, worst first (docs/facts/telemetry.md#faults-in-metrics). Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from conformance.health.judging import RETIRED_PAGES_LIMIT
from conformance.outputs.dcgm import Device
from conformance.outputs.inspection import Judged
from fixtures.model.devices.xid_catalogue import XidClass, lookup

_PASS, _WARNING, _FAILURE = 0, 10, 20
_FABRIC_DONE = (0, 3)  # not supported, success
_FABRIC_BAD = (1, 2, 4)  # not started, in progress, failure
_VOLATILE = "DCGM_FI_DEV_ECC_DBE_VOL_"
_EVER = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
_DEVICE = "DCGM_FI_DEV_"


class Fault(msgspec.Struct, frozen=True):
    """One fault, or one doubt, of a device. ``code`` is the inspection's reason code if nothing is worse."""

    code: str
    verdict: Judged
    message: str


def faults(device: Device) -> list[Fault]:
    """Faults first, then doubts; each in the order in which an operator would act on them."""
    found = [*_xids(device), *_health(device), *_memory(device), *_fabric(device), *_switches(device)]
    return sorted(found, key=lambda fault: fault.verdict is not Judged.BAD)


def _xids(device: Device) -> Iterator[Fault]:
    for code in device.xids:
        entry = lookup(code)
        if entry.klass is XidClass.FATAL:
            yield Fault("XID_FATAL", Judged.BAD, f"fatal Xid {code}: {entry.action or 'no action listed'} {entry.note}".rstrip())
        elif entry.klass is XidClass.UNKNOWN:
            yield Fault("XID_UNKNOWN", Judged.UNDECIDABLE, f"Xid {code} is not in the catalogue")


def _health(device: Device) -> Iterator[Fault]:
    for watch in device.health:
        what = f"DCGM's health check of {watch.part or 'the device'}: {watch.code or 'no code'} ({watch.result})"
        if watch.result >= _FAILURE:
            yield Fault("HEALTH_FAILED", Judged.BAD, what)
        elif watch.result != _PASS:
            known = "a warning" if watch.result == _WARNING else "a result that is not known"
            yield Fault("HEALTH_WARNING", Judged.UNDECIDABLE, f"{what}, {known}")


def _memory(device: Device) -> Iterator[Fault]:
    count = device.metrics.get
    if count("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0) > 0:
        yield Fault("ROW_REMAP_FAILED", Judged.BAD, "row remapping failed: replace the GPU")
    pages = count(f"{_DEVICE}RETIRED_SBE", 0) + count(f"{_DEVICE}RETIRED_DBE", 0)
    if pages >= RETIRED_PAGES_LIMIT:
        yield Fault("PAGES_RETIRED", Judged.BAD, f"{pages:g} retired pages: replace the GPU")
    volatile = max((value for name, value in device.metrics.items() if name.startswith(_VOLATILE)), default=None)
    if volatile:
        yield Fault("ECC_ERRORS", Judged.BAD, f"{volatile:g} uncorrectable ECC errors since the driver was loaded: reset the GPU")
    for name, what in (("ROW_REMAP_PENDING", "row remapping"), ("RETIRED_PENDING", "page retirement")):
        if count(f"{_DEVICE}{name}", 0) > 0:
            yield Fault("RESET_PENDING", Judged.BAD, f"{what} pending: reset the GPU")
    if (ever := count(_EVER, 0)) > 0 and volatile is None:
        message = f"{ever:g} uncorrectable ECC errors in the device's life; how many since the driver was loaded is not exported"
        yield Fault("ECC_HISTORY", Judged.UNDECIDABLE, message)


def _fabric(device: Device) -> Iterator[Fault]:
    status = device.metrics.get(f"{_DEVICE}FABRIC_MANAGER_STATUS")
    if status is not None and status not in _FABRIC_DONE:
        verdict = Judged.BAD if status in _FABRIC_BAD else Judged.UNDECIDABLE
        yield Fault("FABRIC_NOT_READY", verdict, f"the NVLink fabric's status is {status:g}, expected 3 (success)")


def _switches(device: Device) -> Iterator[Fault]:
    if sxid := device.metrics.get(f"{_DEVICE}NVSWITCH_FATAL_ERRORS", 0):
        yield Fault("SXID_FATAL", Judged.BAD, f"fatal SXid {sxid:g} of an NVSwitch")
