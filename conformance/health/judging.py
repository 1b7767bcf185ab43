"""What a driver and its machine say of the health of a device. Pure: a device in, an answer with causes out.

A device that lacks a measure by design (the driver says so) is not judged; one whose measure could not be read is undecided.
Facts: docs/facts/device-health.md#what-is-no-fault-of-a-device, docs/facts/device-health.md#fabric.

Facts: docs/facts/device-health.md#nvml.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from fixtures.nodeprobe.document import Device, Driver, Host, Pcie, PciFunction, Way
from fixtures.nodeprobe.smi_device import NOT_PRINTED, is_error
from fixtures.tables.rows import PRODUCT_LINKS, ProductLinks


@functools.lru_cache(maxsize=256)  # a fleet has few products
def links_of(product: str) -> ProductLinks | None:
    """The row of a device's name; None for a product that no row has."""
    return next((row for row in PRODUCT_LINKS.rows if fnmatchcase(product, row.product)), None)


RETIRED_PAGES_LIMIT = 60  # single plus double bit; from there on the GPU is replaced (docs/facts/device-health.md#memory-errors)
LACKS = re.compile(r"not supported|function not found|deprecated|not printed|not available|^\[?n/a\]?(?: of the slot)?$", re.I)
_BY_FIELD = (Way.NVML, Way.NVIDIA_SMI)
"""Ways that say of each field why it is not there. What others do not read is no measure of theirs."""

_UNDER_LOAD = 0.5
"""A device that draws this part of its power limit computes; below it, its link to the host may be slow to save power."""

_NEAR_LIMIT = 10
"""Degrees below the temperature of slowdown from which on a device may just have been too hot."""

_SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""Generation of PCIe by the speed of a lane in GT/s, as sysfs writes it (PCI Express Base Specification)."""


class Seen(msgspec.Struct, frozen=True):
    """One device, the driver that enumerates it and the machine that both are of."""

    host: Host
    driver: Driver
    device: Device

    @property
    def peers(self) -> list[Device]:
        """All devices of its product that the driver enumerates, itself among them."""
        return [device for device in self.driver.devices if device.name == self.device.name]


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong, in words that follow the device's name. ``grave``: it breaks the requirement, not only a recommendation."""

    cause: str
    words: str
    grave: bool = True


class Answer(msgspec.Struct, frozen=True):
    """What a judge says of one device: what it measured and what is wrong with it, gravest first.

    ``unknown`` is a measure that should be there and is not, ``absent`` why there is nothing to judge.
    """

    observed: str = ""
    faults: Sequence[Fault] = ()
    unknown: str = ""
    absent: str = ""


def unread(seen: Seen, what: str, *fields: str) -> Answer:
    """The answer where nothing is known of a measure: absent if the driver says that the device lacks it, unknown else."""
    reasons = [
        reason for field, reason in seen.device.unread.items() if field in fields or field.startswith(tuple(f"{f}." for f in fields))
    ]
    if not reasons and seen.driver.way not in _BY_FIELD:
        return Answer(absent=f"{seen.driver.way} has no {what}")
    if reasons and all(LACKS.search(reason) for reason in reasons):
        return Answer(absent=f"the driver gives no {what} for it ({reasons[0]})")
    return Answer(unknown=f"{what} could not be read ({'; '.join(reasons) or 'the driver does not say why'})")


def memory(seen: Seen) -> Answer:
    """HW-02: no uncorrectable error since the driver was loaded, no row or page that waits for a reset or could not be replaced."""
    ecc, rows, pages = seen.device.ecc, seen.device.remapping, seen.device.retired_pages
    retired = (pages.single_bit or 0) + (pages.double_bit or 0) if pages else 0
    found = {
        "remapping of a row failed": ("DeviceNeedsReplacement", rows and rows.failed),
        f"{retired} pages are retired: from {RETIRED_PAGES_LIMIT} on it is to be replaced": (
            "DeviceNeedsReplacement",
            retired >= RETIRED_PAGES_LIMIT,
        ),
        "its static memory had more errors than it may have": ("DeviceNeedsReplacement", ecc and ecc.threshold_exceeded),
        "the remapping of a row waits for a reset": ("DeviceNeedsReset", rows and rows.pending),
        "the retirement of a page waits for a reset": ("DeviceNeedsReset", pages and pages.pending),
        f"{ecc.uncorrected if ecc else 0} uncorrectable memory errors since the driver was loaded": (
            "DeviceNeedsReset",
            ecc and ecc.uncorrected,
        ),
    }
    if faults := [Fault(cause, words) for words, (cause, so) in found.items() if so]:
        return Answer(faults=faults)
    missing = []
    if (rows is None or None in (rows.pending, rows.failed)) and (pages is None or pages.pending is None):
        missing.append(unread(seen, "state of remapped rows and retired pages", "remapping", "retiredPages"))
    if ecc and ecc.enabled is False:
        missing.append(Answer(absent="ECC is off, so memory errors are not counted"))
    elif ecc is None or ecc.uncorrected is None:
        missing.append(unread(seen, "count of memory errors", "ecc"))
    if unknown := next((answer for answer in missing if answer.unknown), missing[0] if len(missing) == len(("rows", "errors")) else None):
        return unknown
    return Answer(f"{rows.uncorrected if rows else 0} rows remapped, {retired} pages retired, no uncorrectable error")


def host_link(seen: Seen) -> Answer:
    """HW-04: the link to the host is as wide as device and slot allow, and as fast while the device computes."""
    link = _link(seen)
    if link.width is None or link.max_width is None:
        return unread(seen, "width of the link to the host", "pcie")
    faults: list[Fault] = []
    slot = _lanes_of_slot(seen)
    most = min(link.max_width, slot or link.max_width)
    peers = [_link(msgspec.structs.replace(seen, device=peer)) for peer in seen.peers]
    if link.width < most:
        function = _function(seen)  # a virtual machine shows no bridge above it, so the slot may have fewer lanes than the device
        grave = function is None or bool(function.path) or any((one.width or 0) > link.width for one in peers)
        faults.append(Fault("HostLinkBelowMaximum", f"its link to the host has {link.width} of {most} lanes", grave))
    row, widest = links_of(seen.device.name), max((one.max_width or 0 for one in peers), default=0)
    if link.max_width < widest:
        faults.append(Fault("HostLinkBelowMaximum", f"its slot gives {link.max_width} lanes, those of its peers in the node {widest}"))
    elif row and link.max_width < row.width and slot != link.max_width:
        words = f"device and slot allow {link.max_width} lanes of the {row.width} that the product has"
        faults.append(Fault("HostLinkBelowMaximum", words, grave=False))
    busy = _computes(seen.device)
    if busy and link.generation and link.max_generation and link.generation < link.max_generation:
        words = f"its link to the host runs at generation {link.generation} of {link.max_generation} while it computes"
        faults.append(Fault("HostLinkBelowMaximum", words))
    load = "under load" if busy else "idle, so its speed is not judged"
    product = f"; the product has x{row.width}, generation {row.generation}" if row else ""
    product += f"; its slot has x{slot}" if slot and slot < (row.width if row else link.max_width) else ""
    return Answer(f"x{link.width} of x{most}, generation {link.generation} of {link.max_generation} {load}{product}", faults)


def _link(seen: Seen) -> Pcie:
    """The link by the driver; where it does not say, by sysfs."""
    own = seen.device.pcie or Pcie()
    if own.width is not None and own.max_width is not None:
        return own
    function = _function(seen)
    now, most = _of_sysfs(function.link if function else ""), _of_sysfs(function.max_link if function else "")
    return Pcie(generation=now[0], width=now[1], max_generation=most[0], max_width=most[1])


def _function(seen: Seen) -> PciFunction | None:
    """The device on the PCI bus."""
    at = short_address(seen.device.pci_address)
    return next((one for one in seen.host.pci if at and short_address(one.address) == at), None)


def _lanes_of_slot(seen: Seen) -> int | None:
    """Lanes of the port above the device, which no device in that slot can pass; None where no bridge is seen, as in a virtual machine."""
    function = _function(seen)
    above = function.path[-1] if function and function.path else ""
    return next((_of_sysfs(bridge.max_link)[1] for bridge in seen.host.bridges if bridge.address == above), None)


def _of_sysfs(text: str) -> tuple[int | None, int | None]:
    """Generation and width of ``32.0 GT/s PCIe x16``; 0 lanes stand for a link that is down."""
    match = re.match(r"([\d.]{3,4}) GT/s.{0,8}x(\d{1,2})\Z", text)
    return (_SPEEDS.get(match[1]), int(match[2]) or None) if match else (None, None)


def short_address(address: str) -> str:
    """A PCI address as the kernel writes it: ``0000:1b:00.0`` for NVML's ``00000000:1B:00.0``."""
    domain, colon, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if colon else ""


def _computes(device: Device) -> bool:
    return bool(device.power and device.power_limit and device.power >= _UNDER_LOAD * device.power_limit)


_BRAKES = {"hardware slowdown", "hardware thermal slowdown", "hardware power brake"}


def slowdown(seen: Seen) -> Answer:
    """HW-05: the hardware slows the device down neither for heat nor for power. Its own power limit is no fault."""
    clocks = seen.device.clocks
    if clocks is None or "clocks.slowdowns" in seen.device.unread:
        return unread(seen, "reasons of low clocks", "clocks.slowdowns", "clocks")
    power = "hardware power brake" in clocks.slowdowns or _is_cool(seen.device)
    faults = [
        Fault("PowerBrake" if power else "TooHot", f"{name} is active ({_state(seen.device)})")
        for name in sorted(clocks.slowdowns, key=lambda name: name != "hardware power brake")
        if name in _BRAKES
    ]
    if not faults and "software thermal slowdown" in clocks.slowdowns:
        faults.append(Fault("TooHot", f"the driver slows it down for heat ({_state(seen.device)})", grave=False))
    return Answer("; ".join(clocks.slowdowns) or "no slowdown", faults)


def _is_cool(device: Device) -> bool:
    """Whether heat cannot be why the hardware slows the device down: the other reasons of ``hardware slowdown`` are power."""
    hot = device.clocks is not None and any("thermal" in name for name in device.clocks.slowdowns)
    limit = device.temperature_slowdown
    return not hot and device.temperature is not None and limit is not None and device.temperature < limit - _NEAR_LIMIT


def _state(device: Device) -> str:
    parts = (
        ("°C", device.temperature),
        ("W", None if device.power is None else round(device.power)),
        ("MHz", device.clocks.sm if device.clocks else None),
    )
    return ", ".join(f"{value} {unit}" for unit, value in parts if value is not None) or "no measures"


_OF_THE_DOMAIN = "recover imex domain"


def recovery(seen: Seen) -> Answer:
    """HW-08: the driver itself advises to do nothing with the device."""
    action = seen.device.recovery_action
    if action is None:
        return unread(seen, "advice on recovery", "recoveryAction")
    if action == "none":
        return Answer("none")
    cause = "NodeNeedsReboot" if "reboot" in action else "DeviceNeedsReset" if "reset" in action else "RecoveryAsked"
    grave = action != _OF_THE_DOMAIN  # the IMEX daemons of several nodes have to find each other again, and the device itself is well
    return Answer(faults=[Fault(cause, f"the driver asks for recovery: {action}", grave)])


_NO_FABRIC = ("", "not supported")
_WELL = (*_NO_FABRIC, "no", "none", "healthy")
_FABRIC_HEALTH = frozenset(
    {"bandwidth degraded", "route recovery", "route unhealthy", "access timeout recovery", "incorrect configuration"}
    | {"fabric manager disconnected"}
)


def fabric(seen: Seen) -> Answer:
    """HW-06: every NVLink is up, and the device has joined the fabric that its product or its peers have."""
    device, row = seen.device, links_of(seen.device.name)
    listed = len(device.links)
    down = [str(link.number) for link in device.links if not link.active]
    up = listed - len(down)
    faults = [*_links_down(seen, row, up, down), *_out_of_fabric(seen, row)]
    if faults:
        return Answer(faults=faults)
    in_fabric = f"fabric {device.fabric.state}" if device.fabric and device.fabric.state not in _NO_FABRIC else ""
    health = device.fabric.health if device.fabric else {}
    if doubt := next((f"{name} is {word}" for name, word in health.items() if name not in _FABRIC_HEALTH and word not in _WELL), ""):
        return Answer(unknown=f"fabric: {doubt}, which is not known")
    if in_fabric and device.fabric and not device.fabric.status:
        return unread(seen, "status of its fabric", "fabric.status")
    hidden = device.unread.get("links", "")
    if hidden and not LACKS.search(hidden):
        return Answer(unknown=f"its links are not all known: {hidden}")
    if not listed and not in_fabric:
        hidden = hidden if row and row.nvlinks and row.joined == "board" else ""
        return Answer(unknown=f"its links are not known: {hidden}") if hidden else Answer(absent="it shows no link to other devices")
    if (row is None and down) or (row and 0 < listed < row.nvlinks):
        return Answer(
            unknown=f"{up} of {listed} links are up, and {'how many the product has' if row is None else 'the others'} could not be read"
        )
    if not up and not in_fabric:
        return Answer(absent="none of its links is connected: it works by itself")
    return Answer("; ".join(part for part in (f"{up} links up" if listed else "", in_fabric) if part))


def _links_down(seen: Seen, row: ProductLinks | None, up: int, down: Sequence[str]) -> Iterator[Fault]:
    """NVLinks that should be up. A device that is alone in its machine, or gave its links up for MIG (Ampere), has none to expect."""
    device = seen.device
    cut_up = device.mig is not None and device.mig.enabled
    if row is None or not row.nvlinks or (not up and (cut_up or _machine(seen) < 2)):
        return
    if row.joined == "bridge":
        if up % row.step:
            yield Fault("NvlinkDown", f"{up} links are up, and a bridge has {row.step}: {', '.join(down)} are down")
    elif up < (expected := _links_to_expect(seen, row)) and down:
        yield Fault("NvlinkDown", f"{up} of {expected} links are up: {', '.join(down)} are down")
    elif not device.links and any(peer.links for peer in seen.peers):
        yield Fault("NvlinkDown", f"the driver lists none of its {row.nvlinks} links, and those of its peers")


def _links_to_expect(seen: Seen, row: ProductLinks) -> int:
    """How many links are up: all in a machine of the size that they are wired for, in a smaller one as many as on a peer."""
    if _machine(seen) >= row.devices:
        return row.nvlinks
    return max(sum(link.active for link in peer.links) for peer in seen.peers)


def _machine(seen: Seen) -> int:
    """How many devices of its product the machine has, by its bus: others may be with other pods."""
    own = _function(seen)
    if own is None:
        return len(seen.peers)
    return sum((one.vendor, one.device) == (own.vendor, own.device) for one in seen.host.pci)


def _out_of_fabric(seen: Seen, row: ProductLinks | None) -> Iterator[Fault]:
    found = seen.device.fabric
    if found is None or (found.state in _NO_FABRIC and not (found.status or found.summary or found.health)):
        if any(peer.fabric and peer.fabric.state == "completed" for peer in seen.peers):
            yield Fault("FabricNotReady", "it is in no fabric, and its peers are in one")
        return
    if found.state not in (*_NO_FABRIC, "completed"):
        yield Fault("FabricNotReady", f"its fabric is {found.state}: CUDA does not start on it (error 802)")
        return
    if found.status not in ("", "success"):
        yield Fault("FabricNotReady", f"its fabric ended with {found.status}")
    if found.summary not in _WELL:
        yield Fault("FabricDegraded", f"its fabric is {found.summary}")
    ill = {name: word for name, word in found.health.items() if name in _FABRIC_HEALTH and word not in _WELL}
    yield from (Fault("FabricDegraded", f"fabric: {name} is {word}") for name, word in ill.items())
    if row and row.rack:
        if not found.clique and seen.device.unread.get("fabric.clique") != NOT_PRINTED:
            yield Fault("FabricNotReady", "its clique is 0: it reaches no other machine of its rack")
        elif not found.cluster_uuid.strip("0-") and seen.device.unread.get("fabric.clusterUuid") != NOT_PRINTED:
            yield Fault("FabricNotReady", "its fabric has no cluster ID: it reaches no other machine of its rack")


CAUSES = {
    "DriverLibraryMismatch": ("different versions", "version mismatch"),
    "DriverNotLoaded": ("driver is not loaded", "driver not loaded", "driver/library not loaded"),
}
_ANY_DEVICE = ("handle", "uuid", "pciAddress", "memoryTotal")
"""What every device answers, of whatever product."""

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
        reported = next(iter(refused), "the device is lost")
        words = f"the driver lists the device and gets no answer from it ({reported}): the next job on it fails"
        return Answer(faults=[Fault("DeviceDoesNotAnswer", words)])
    if not seen.device.uuid and seen.driver.vendor == "nvidia" and unread.get("uuid") != NOT_PRINTED:
        return Answer(unknown=f"it has no UUID: {unread.get('uuid', 'no reason is given')}")
    return Answer("it answers")
