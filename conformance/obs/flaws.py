"""What is wrong with a page of device metrics, by what the cluster and the node's driver say of its devices. Pure.

Each rule stands for reports of the world: docs/facts/telemetry.md#what-goes-wrong. Which values are compared with the driver's, and how
far they may differ, is data (``compared.yaml``). Gauges of a device at work change all the time, so they are held against limits that the
driver names, and are compared on devices alone that were at rest from the first page to the last.

Facts: docs/facts/telemetry.md#a-page-and-the-driver.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from conformance.obs.page import Page, Part
from conformance.outputs.dcgm import ACTIVITY, IDLE_BELOW, UTILISATION, is_blank
from fixtures.model.devices.measured_devices import NodeFacts
from fixtures.model.platform.exporters import Kind
from fixtures.model.platform.renamed_series import renamed
from fixtures.nodeprobe.document import Device
from fixtures.text import yaml_text
from fixtures.text.sentences import in_order, listed

_BUSY_PERCENT = 50
_SMALLEST_MIB = 1000
_ABOUT = (0.5, 1.25)


class Flaw(msgspec.Struct, frozen=True):
    """One thing that is wrong, by the code of its cause; ``text`` is a clause that names the device."""

    cause: str
    text: str


def flaws(page: Page, node: NodeFacts, families: Sequence[str]) -> list[Flaw]:
    """Everything wrong with one page. ``families`` are those of ``exporters.yaml``, or names of series, that each device must have."""
    found = [
        *_identities(page, node),
        *_numbers(page, node),
        *_instances(page, node),
        *(Flaw("MetricDoubled", f"the series {each} is there twice, so Prometheus keeps one value of two") for each in page.doubled),
        *(flaw for rows in page.devices.values() for flaw in _families(page.kind, rows, node, families)),
        *(flaw for rows in page.devices.values() for flaw in _values(page.kind, rows, node)),
    ]
    return list(dict.fromkeys(found))


def _identities(page: Page, node: NodeFacts) -> Iterator[Flaw]:
    for what, pairs in (
        ("index", {(part.index, part.uuid) for part in page.parts if part.index and part.uuid}),
        ("PCI address", {(_pci(part.pci), part.uuid) for part in page.parts if part.pci and part.uuid}),
    ):
        for place, count in sorted(Counter(place for place, _ in pairs).items()):
            if count > 1:
                both = listed(sorted(uuid for other, uuid in pairs if other == place))
                yield Flaw("DevicesMixedUp", f"{both} share the {what} {place}, so one of them shows the other's values")
        for uuid, count in sorted(Counter(uuid for _, uuid in pairs).items()):
            if count > 1:
                both = listed(sorted(place for place, other in pairs if other == uuid))
                yield Flaw("DevicesMixedUp", f"{uuid} has the {what} {both}, so it shows another device's values")
    for part in page.parts:
        published = (node.devices or {}).get(part.uuid, "")
        if published and part.pci and not same_address(part.pci, published):
            yield Flaw("DevicesMixedUp", f"{part} is shown at PCI address {part.pci}, and its driver publishes it at {published}")
        if part.host != node.name and part.host in node.others:
            yield Flaw("DeviceOfOtherNode", f"{part} is labelled with the node {part.host}, and this page is of {node.name}")
        elif part.uuid in node.elsewhere:
            yield Flaw("DeviceOfOtherNode", f"{part} is on the page of {node.elsewhere[part.uuid]} too")
        elif node.devices and part.uuid and part.uuid not in node.devices and not node.devices.keys() <= page.devices.keys():
            yield Flaw("DeviceOfOtherNode", f"{part} is no device that a driver publishes for {node.name}")


def same_address(one: str, other: str) -> bool:
    """Whether two PCI addresses are one, however they are written."""
    return _pci(one) == _pci(other)


def _pci(address: str) -> str:
    """Domain, bus, device and function without leading zeros of the domain: drivers write four digits of it, DCGM eight."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def _numbers(page: Page, node: NodeFacts) -> Iterator[Flaw]:
    shown = page.devices
    if node.devices:
        for uuid in in_order(set(node.devices) - set(shown)):
            yield Flaw("DeviceNotMeasured", f"{uuid} has no series at all")
    elif node.counts and all(count > len(shown) for count, _ in node.counts):
        words = ", ".join(f"{count} by {source}" for count, source in node.counts)
        indexes = {int(part.index) for part in page.parts if part.index.isdigit()}
        gone = [f"GPU {number}" for number in range(min(count for count, _ in node.counts)) if number not in indexes]
        yield Flaw("DeviceNotMeasured", f"{listed(gone, 16) or 'a device'} has no series: {len(shown)} devices are shown of {words}")


def _instances(page: Page, node: NodeFacts) -> Iterator[Flaw]:
    for where in page.unnamed:
        yield Flaw("InstanceNotMeasured", f"rows of {where} do not say of which MIG instance they are")
    if node.instances is None or node.vgpu or not page.kind.of_instance:
        return
    shown = Counter(part.profile for part in page.parts if part.instance)
    for profile, offered in sorted(node.instances.items()):
        if shown[profile] < offered:
            others = listed(f"{count} of {other}" for other, count in sorted(shown.items()) if other not in node.instances)
            also = f", and {others} that it does not offer" if others else ""
            yield Flaw("InstanceNotMeasured", f"{shown[profile]} MIG instances {profile} are shown of {offered} that the node offers{also}")


def _families(kind: Kind, rows: Sequence[Part], node: NodeFacts, families: Sequence[str]) -> Iterator[Flaw]:
    instances = [row for row in rows if row.instance]
    for family in families:
        if family in kind.not_of_vgpu and (node.vgpu or any(row.vgpu for row in rows)):
            continue
        series = tuple(kind.families.get(family, (family,)))
        each = instances if instances and family in kind.of_instance else [rows[0]]
        for row in each:
            asked = [row] if row.instance else rows
            names = [name for name in series if not (row.instance and name == UTILISATION)]
            held = [(value, part.served(name)) for part in asked for name in names for value in part.all(name)]
            if not held:
                later = [renamed()[name].now for name in names if name in renamed()]
                text = f"{row} has no series for {family} ({' or '.join([*names, *later])})"
                yield Flaw("InstanceNotMeasured" if row.instance else "MetricMissing", text)
            elif all(is_blank(value) for value, _ in held):
                value, name = held[0]
                yield Flaw("MetricWithoutValue", f"{row} shows {value:g} for {family} ({name}), which stands for no value")


def _values(kind: Kind, rows: Sequence[Part], node: NodeFacts) -> Iterator[Flaw]:
    for row in rows:
        for name, values in row.values.items():
            known = kind.ranges.get(name)
            if known is None or row.vgpu:
                continue
            for value in values:
                if not is_blank(value) and not known.low <= value <= known.high:
                    text = f"{row} shows {value:g} for {name}, which no device has in {known.unit} ({known.low:g} to {known.high:g})"
                    yield Flaw("MetricImplausible", text)
    whole = next((row for row in rows if not row.instance), None)
    parts = [whole.value(name) for name in kind.capacity] if whole is not None else [None]
    if whole is None or whole.vgpu or None in parts or len(rows) > 1:
        return
    total = sum(part for part in parts if part is not None)
    low, high = (node.memory_mib * factor for factor in _ABOUT) if node.memory_mib else (_SMALLEST_MIB, float("inf"))
    if not low <= total <= high:
        of = f"{node.memory_mib} MiB by its label" if node.memory_mib else f"at least {_SMALLEST_MIB} MiB on any product"
        names = " + ".join(map(whole.served, kind.capacity))
        yield Flaw("MetricImplausible", f"{whole} shows {total:g} MiB of memory in all ({names}), and it has {of}")


def dead_activity(page: Page) -> Iterator[Flaw]:
    """Devices whose profiling says nothing: engine activity is 0 while their utilisation is high."""
    for part in page.parts:
        activity, percent = part.value(ACTIVITY), part.value(UTILISATION)
        if activity is not None and percent is not None and activity < IDLE_BELOW and _BUSY_PERCENT <= percent <= 100:
            text = f"{part} shows no engine activity ({part.served(ACTIVITY)} {activity:g}) at {percent:g} % {part.served(UTILISATION)}"
            yield Flaw("ActivityNotMeasured", text)


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """Which devices of a page moved between two scrapes ``seconds`` apart; ``still`` could not be told: nothing of them has to move."""

    moved: tuple[str, ...]
    still: tuple[str, ...]
    flaws: tuple[Flaw, ...]


def movement(first: Page, last: Page, seconds: float, *, restarted: bool = False) -> Movement:
    """What moved from one scrape to a later one of the same exporter.

    The energy that a device has used always grows. Without that series, power and activity of a busy device move; an idle one may stand
    still. ``restarted``: counters may begin anew.
    """
    moved, still, found = [], [], []
    for name, rows in last.devices.items():
        before = first.devices.get(name)
        if before is None:
            continue
        old, new, device = _energy(last.kind, before), _energy(last.kind, rows), str(rows[0])
        energy = rows[0].served(last.kind.energy)
        if old is not None and new is not None:
            if new < old and not restarted:
                found.append(Flaw("CounterBackwards", f"{device}: {energy} fell from {old:g} to {new:g}"))
            elif new == old:
                text = f"{device}: {energy} grows always, and stood at {new:g} for {seconds:.0f} s"
                found.append(Flaw("SamplesFrozen", text))
            else:
                moved.append(device)
        elif _values_of(before) != _values_of(rows):
            moved.append(device)
        elif any(busy(row) for row in rows):
            found.append(Flaw("SamplesFrozen", f"{device} is busy, and none of its values changed in {seconds:.0f} s"))
        else:
            still.append(device)
    return Movement(moved=tuple(moved), still=tuple(still), flaws=tuple(found))


def busy(part: Part) -> bool:
    """Whether a device or instance works, by what it shows."""
    activity, percent = part.value(ACTIVITY), part.value(UTILISATION, "gpu_gfx_activity")
    return bool((activity or 0) >= IDLE_BELOW or (percent or 0) >= 100 * IDLE_BELOW)


def _energy(kind: Kind, rows: Sequence[Part]) -> float | None:
    return max((value for row in rows for value in row.all(kind.energy) if not is_blank(value)), default=None)


def _values_of(rows: Sequence[Part]) -> dict[tuple[str, str], tuple[float, ...]]:
    return {(row.instance, name): values for row in rows for name, values in row.values.items()}


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
            values = [value for row in rows for value in row.all(self.series[0]) if not is_blank(value)]
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
    ``texts`` are those of the pages, in their order.
    """

    before: Page
    devices: tuple[Device, ...]
    after: tuple[Page, ...] = ()
    seconds: float = 0.0
    texts: tuple[str, ...] = ()


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
        yield from _against_values(device, [rows, *(page.devices.get(shown_as, ()) for page in bracket.after)], bracket.seconds)


def _against_values(device: Device, pages: Sequence[Sequence[Part]], seconds: float) -> Iterator[Flaw]:
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
            name, of = " + ".join(map(pages[0][0].served, one.series)), one.value.replace("_", " ").replace(".", " ")
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
