"""Whether what an exporter serves of a device is what the node's driver says of it, by a document read between two pages. Pure.

Which values are compared, and how far they may differ, is data (``compared.yaml``). Gauges of a device at work change all the time, so they
are held against limits that the driver names, and are compared on devices alone that were at rest from the first page to the last.
Facts: docs/facts/telemetry.md#a-page-and-the-driver.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from conformance.obs.flaws import Flaw, busy, same_address
from conformance.obs.page import Page, Part
from conformance.outputs.dcgm import ACTIVITY, UTILISATION, is_blank
from fixtures.nodeprobe.document import Device
from fixtures.text import yaml_text

_ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
_MILLIJOULES = 1000
_LIKE_MEAN = 0.3
_LIKE_MEAN_WATTS = 10
"""How far the power of a device at rest may be from its mean between the pages: a second of work in half a minute is more."""


class Compared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of ``compared.yaml``. ``value`` is a field of the document's device, such as ``ecc.uncorrected``."""

    series: tuple[str, ...]
    value: str
    how: Literal["grows", "same", "most", "at rest"]
    why: str
    times: float = 1.0
    slack: float = 0.0
    part: float = 0.0

    def known(self, device: Device) -> float | None:
        """The driver's value in the unit of the series."""
        found: object = device
        for name in self.value.split("."):
            found = getattr(found, name, None)
        return None if found is None or not isinstance(found, (int, float)) else float(found) * self.times

    def shown(self, rows: Sequence[Part]) -> float | None:
        """What a page shows of the whole device; of a counter, the most on any of its rows."""
        if self.how == "grows":
            values = [value for row in rows for value in row.values.get(self.series[0], ()) if not is_blank(value)]
            return max(values, default=None)
        if len(rows) != 1 or rows[0].instance or rows[0].vgpu:
            return None
        values = [value for name in self.series if (value := rows[0].value(name)) is not None]
        return sum(values) if len(values) == len(self.series) else None


@functools.cache
def compared() -> tuple[Compared, ...]:
    """Everything that is compared."""
    return yaml_text.packaged(Path(__file__).with_name("compared.yaml"), tuple[Compared, ...])


class Bracket(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of a document, with the page before it was read and those collected after, the last of them ``seconds`` later.

    Without ``after``, the page may be older or newer than the document: only what does not change with time is compared.
    """

    before: Page
    devices: tuple[Device, ...]
    after: tuple[Page, ...] = ()
    seconds: float = 0.0


def against_driver(bracket: Bracket) -> Iterator[Flaw]:
    """Where pages disagree with the driver. Indexes are not compared: a pod that holds some of the devices numbers these anew."""
    for device in bracket.devices:
        shown_as = device.uuid if device.uuid.startswith("GPU-") else device.serial  # AMD's exporter names devices by the serial number
        rows = bracket.before.devices.get(shown_as)
        if rows is None:
            if shown_as and not device.lost:
                yield Flaw("DeviceNotMeasured", f"{shown_as} has no series, and the driver of the node lists it")
            continue
        if device.pci_address and any(row.pci and not same_address(row.pci, device.pci_address) for row in rows):
            yield Flaw("DevicesMixedUp", f"{rows[0]} is shown at PCI address {rows[0].pci}, and the driver has it at {device.pci_address}")
        yield from _values(device, [rows, *(page.devices.get(shown_as, ()) for page in bracket.after)], bracket.seconds)


def _values(device: Device, pages: Sequence[Sequence[Part]], seconds: float) -> Iterator[Flaw]:
    """``pages`` are the rows of the device on each."""
    counted = [[one.shown(rows) or 0.0 for rows in (pages[0], pages[-1])] for one in compared() if one.how == "grows"]
    grows = len(pages) > 1 and all(first <= last for first, last in counted)  # else it was reset, and counts anew
    rests = len(pages) > 1 and at_rest(device, pages, seconds)
    for one in compared():
        known, shown = one.known(device), [value for rows in pages if (value := one.shown(rows)) is not None]
        if known is None or len(shown) < len(pages):
            continue
        slack = one.slack + one.part * abs(known)
        low, high = min(shown), max(shown)
        wrong = {
            "grows": grows and (shown[0] > known + slack or shown[-1] < known - slack),
            "same": (known > high + slack or known < low - slack) and high - low <= slack,
            "most": low > known + slack,
            "at rest": rests and low > known + slack,
        }[one.how]
        if wrong:
            seen = " and then ".join(dict.fromkeys(f"{value:g}" for value in shown))
            name, of = " + ".join(one.series), one.value.replace("_", " ").replace(".", " ")
            yield Flaw("MetricDiffersFromDriver", f"{pages[0][0]} shows {seen} for {name}, and the driver's {of} is {known:g} in that unit")


def at_rest(device: Device, pages: Sequence[Sequence[Part]], seconds: float) -> bool:
    """Whether nothing used a device from the first page to the last: pages and driver say so, and so does the energy used meanwhile."""
    measured = all(rows and all(part.value(ACTIVITY, UTILISATION) is not None and not busy(part) for part in rows) for rows in pages)
    quiet = device.utilisation == 0 and not device.processes and not device.unread.keys() & {"processes", "processes.compute"}
    if not measured or not quiet or device.power is None or seconds <= 0:
        return False
    began, ended = (rows[0].value(_ENERGY) for rows in (pages[0], pages[-1]))
    if began is None or ended is None:
        return False
    mean = (ended - began) / _MILLIJOULES / seconds
    return abs(mean - device.power) <= _LIKE_MEAN * device.power + _LIKE_MEAN_WATTS
