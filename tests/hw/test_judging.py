"""The health of devices, judged from what real pynvml reads of a mocked driver: faults by cause and device, no healthy one blamed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.cli.inspect import inspect
from conformance.health import judging
from conformance.health.judging import fabric, host_link, memory, recovery, short_address, slowdown
from conformance.hw.firmware import firmware_judge
from conformance.hw.judging import per_device, use
from conformance.hw.kernel_errors import kernel_errors
from conformance.outputs.inspection import Judged
from conformance.probes.node_documents import NodeDocument
from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import (
    Clocks,
    Device,
    Driver,
    Ecc,
    Fabric,
    Host,
    Link,
    PciBridge,
    Pcie,
    PciFunction,
    RdmaPort,
    Way,
    encode,
)
from fixtures.tables.rows import PRODUCT_LINKS
from fixtures.verdict.findings import Finding, Outcome
from tests.hw.documents import of_driver
from tests.nodeprobe.tables import MACHINES, OF_VENDORS, Table
from tests.nodeprobe.test_nvml import COMPILER, each, library
from tests.tables import each_row, table

__all__ = ["library"]

POLLS = int(os.environ.get("HEALTHY_POLLS", "40"))
"""How often each healthy machine is asked. The environment asks for more."""

with_driver = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
PROFILES = {name: MACHINES[name] for name in ("h100", "a100-mig", "gb200", "l40s")}
PROFILES["h100"] = {**PROFILES["h100"], **{f"{index}.fabric.state": 3 for index in range(8)}}  # as Fabric Manager leaves them
OF_OTHERS = {"ProcessWithoutPod", "PersistenceUnlike", "FirmwareDiffers"}
"""Causes that pods, the policy or other nodes decide: a document by itself does not."""
SOUND = {Outcome.OK, Outcome.NOT_JUDGED}


def judged(*documents: NodeDocument) -> Iterator[Finding]:
    """What every requirement says of documents of one pool."""
    for judge in (memory, host_link, slowdown, fabric, recovery, use(persistence=True)):
        for one in documents:
            yield from per_device(judge, "")(one)
    compare = firmware_judge(documents, [[one.node for one in documents]])
    yield from (finding for one in documents for finding in compare(one))


def inspected(one: NodeDocument) -> tuple[Judged, set[str]]:
    """What ``inspect`` says of the same document, and by which causes."""
    found = inspect("node-probe", encode(one.document).decode())
    return found.verdict, set(found.facts["causes"])  # type: ignore[call-overload]


def a_driver(name: str, count: int = 2, vendor: str = "nvidia", way: Way = Way.NVML, **fields: object) -> Driver:
    """A driver of equal devices; ``fields`` are those of the first."""
    devices = [Device(index=index, name=name, pci_address=f"00000000:{0x10 + index:02x}:00.0") for index in range(count)]
    for field, value in fields.items():
        setattr(devices[0], field, value)
    return Driver(vendor=vendor, way=way, devices=devices)


def links(up: int, of: int) -> list[Link]:
    return [Link(number=number, active=number < up) for number in range(of)]


TABLE = table(__file__)
FAULTS: list[tuple[Table, str]] = TABLE["FAULTS"]


@with_driver
@pytest.mark.parametrize("name", PROFILES)
def test_each_fault_is_found_by_its_cause_on_its_device(library: Path, tmp_path: Path, name: str) -> None:
    without = {key for key, stated in (("1.link.5", "1.links"), ("1.fabric.state", "1.fabric.state")) if stated not in PROFILES[name]}
    without |= {"1.processes"} if "mig" in name else set()  # processes of others may be on a part of a device
    able = [(fault, cause) for fault, cause in FAULTS if not without & fault.keys()]
    drivers = each(library, tmp_path, [{**PROFILES[name], **fault} for fault, _ in able])
    assert len(able) >= 12
    for driver, (fault, cause) in zip(drivers, able, strict=True):
        one = of_driver(driver)
        found = [finding for finding in judged(one) if finding.outcome not in SOUND]
        assert {(finding.outcome, finding.cause) for finding in found} == {(Outcome.BAD, cause)}, (fault, found)
        assert inspected(one) == ((Judged.GOOD, set()) if cause in OF_OTHERS else (Judged.BAD, {cause})), fault
        assert all("device 1 GPU-00000001-" in f"{finding.subject} {finding.message}" for finding in found), found


@with_driver
@pytest.mark.parametrize("name", PROFILES)
def test_no_healthy_machine_is_blamed_however_often_it_is_asked(library: Path, tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    [driver] = each(library, tmp_path, [PROFILES[name]])
    for poll in range(POLLS):
        for device in driver.devices:
            wobble(device, dice)
        assert inspected(of_driver(driver)) == (Judged.GOOD, set()), poll
        found = list(judged(of_driver(driver), of_driver(driver, name="gpu-1")))
        assert not [finding for finding in found if finding.outcome not in SOUND], poll
        assert sum(finding.outcome is Outcome.OK for finding in found) > 8 * len(driver.devices)


MI300X = TABLE["MI300X"]
CALM = TABLE["CALM"]


def an_mi300x(driver: Driver, dice: random.Random, *, link: str = "", power: float = 0, vbios: str = "", log: str = "") -> NodeDocument:
    """What sysfs adds to AMD's library, with what is wrong with the second device."""
    functions = []
    for device in driver.devices:
        busy = dice.random() < 0.5
        device.power, device.power_limit = (560.0 if busy else 140.0), 750.0
        now = f"{'32.0' if busy else dice.choice(['2.5', '16.0', '32.0'])} GT/s PCIe x16"
        if device.index == 1:
            device.power, device.vbios, now = power or device.power, vbios or device.vbios, link or now
        function = PciFunction(address=device.pci_address, vendor="1002", device="74a1", kind="accelerator", link=now)
        function.max_link = "32.0 GT/s PCIe x16"
        functions.append(function)
    return of_driver(driver, host=Host(pci=functions, kernel_log=[*CALM, *([f"[999010.0] {log}"] if log else [])], uptime=1e6))


@with_driver
def test_amds_devices_are_judged_by_what_their_library_sysfs_and_kernel_say(library: Path, tmp_path: Path) -> None:
    dice, table = random.Random(1), OF_VENDORS["amd"]
    healthy, *drivers = each(library, tmp_path, [table, *({**table, **fault} for fault, _, _ in MI300X)], "amd")
    for _ in range(POLLS):
        one = an_mi300x(healthy, dice)
        assert {finding.outcome for finding in (*judged(one), *kernel_errors(24)(one))} == SOUND
    assert len(MI300X) >= 12
    for driver, (_, wrong, cause) in zip(drivers, MI300X, strict=True):
        one = an_mi300x(driver, dice, **wrong)
        assert host._ABOUT_DEVICES.search(wrong.get("log", "amdgpu reset")), "the probe keeps such lines"
        found = [finding for finding in (*judged(one), *kernel_errors(24)(one)) if finding.outcome not in SOUND]
        assert {(finding.outcome, finding.cause) for finding in found} == {(Outcome.BAD, cause)}, (wrong, found)
        assert all("device 1 " in f"{finding.subject} {finding.message}" for finding in found), found


def wobble(device: Device, dice: random.Random) -> None:
    """What changes on a healthy device from one moment to the next: it computes or idles, and idle links and clocks go down."""
    pcie, clocks, ecc, limit = device.pcie or Pcie(), device.clocks or Clocks(), device.ecc or Ecc(), device.power_limit or 1
    busy = dice.random() < 0.5
    device.power = limit * (dice.uniform(0.6, 1.05) if busy else dice.uniform(0.05, 0.3))
    pcie.generation = pcie.max_generation if busy else dice.choice([1, 2, 4])
    pcie.replays = (pcie.replays or 0) + dice.randrange(3)
    clocks.sm = dice.randrange(900, 1980) if busy else dice.choice([210, 345])
    clocks.slowdowns = dice.choice([[], ["software power cap"]]) if busy else []
    device.temperature = dice.randrange(25, 82)
    ecc.corrected = (ecc.corrected or 0) + dice.randrange(2)
    device.memory_used = dice.randrange(1 << 34)


H100 = "NVIDIA H100 80GB HBM3"
DONE = Fabric(state="completed", status="success")
JUDGES = {
    "fabric": fabric,
    "host link": host_link,
    "memory": memory,
    "recovery": recovery,
    "use": use(None),
    "use, persistence on": use(persistence=True),
}


@each_row
def test_what_others_reported_is_judged_as_they_found_it(
    judge: str, product: str, count: int, fields: dict[str, Any], outcome: Outcome, cause: str
) -> None:
    """``fields`` are those of the first of ``count`` devices; of its links, each that is up is a ``|``."""
    shown = {**fields, "links": [{"number": number, "active": mark == "|"} for number, mark in enumerate(fields.get("links", ""))]}
    driver = a_driver(product, count)
    driver.devices[0] = msgspec.convert({**msgspec.to_builtins(driver.devices[0]), **shown}, Device)
    first = next(per_device(JUDGES[judge], "")(of_driver(driver)))
    assert (first.outcome, first.cause) == (outcome, cause), first.message


def test_a_link_that_the_driver_does_not_know_is_read_from_sysfs() -> None:
    function = PciFunction(address="0000:10:00.0", vendor="1002", device="74a1", kind="accelerator", link="32.0 GT/s PCIe x8")
    function.max_link = "32.0 GT/s PCIe x16"
    driver = a_driver("AMD Instinct MI300X", 1)
    for path, outcome in (["0000:00:01.0"], Outcome.BAD), ([], Outcome.ADVISED):  # a virtual machine shows no bridge: its slot is not known
        function.path = path
        [found] = per_device(host_link, "")(of_driver(driver, host=Host(pci=[function])))
        assert (found.outcome, found.cause, "8 of 16 lanes" in found.message) == (outcome, "HostLinkBelowMaximum", True)


@each_row
def test_a_slot_with_few_lanes_is_no_fault_of_the_device_in_it(width: int, most: int, slot: int | None, outcome: Outcome) -> None:
    driver = a_driver("Tesla T4", 1, pcie=Pcie(generation=3, width=width, max_generation=3, max_width=most))
    address = short_address(driver.devices[0].pci_address)
    bridge = PciBridge(address="0000:00:01.0", first_bus=1, last_bus=255, max_link=f"8.0 GT/s PCIe x{slot}" if slot else "")
    function = PciFunction(address=address, vendor="10de", device="1eb8", kind="accelerator", path=[bridge.address] if slot else [])
    [found] = per_device(host_link, "")(of_driver(driver, host=Host(pci=[function], bridges=[bridge])))
    assert found.outcome is outcome, found


HARMLESS = TABLE["HARMLESS"]


# https://github.com/NVIDIA/NVSentinel/pull/1629: one crashed job raised Xid 45 on 77 healthy nodes
LOGS = [*TABLE["LOGS"], (["NVRM: Xid (PCI:0000:10:00): 45, pid=1, Ch 00000001"] * 40, "")]


@pytest.mark.parametrize(("log", "cause"), LOGS)
def test_the_kernel_log_is_judged_by_the_catalogue_of_xids(log: list[str], cause: str) -> None:
    lines = [line if line.startswith("[") else f"[999000.0] {line}" for line in (*log, *HARMLESS)]
    found = list(kernel_errors(24)(of_driver(a_driver(H100, 4), host=Host(kernel_log=lines, uptime=1e6))))
    assert {finding.cause for finding in found} - {""} == ({cause} if cause else set())
    assert found[1].outcome is Outcome.OK, "its neighbour is well"


def test_a_log_that_nobody_may_read_proves_nothing() -> None:
    assert [finding.outcome for finding in kernel_errors(24)(of_driver(a_driver(H100)))] == [Outcome.NOT_JUDGED]


def test_firmware_is_compared_among_parts_of_one_board() -> None:
    def node(name: str, vbios: str, inforom: str, adapter: str, board: str = "MT_0838") -> NodeDocument:
        port = RdmaPort(adapter="mlx5_0", port=1, firmware=adapter, board=board)
        return of_driver(a_driver(H100, 1, vbios=vbios, inforom=inforom), host=Host(rdma=[port]), name=name)

    usual = ("96.00.74.00.01", "G520.0200.00.05", "28.43.1014")
    documents = [
        node("same-0", *usual),
        node("same-1", *usual),
        node("old", "96.00.30.00.01", "G520.0200.00.03", "28.39.1002"),
        node("another-board", "96.00.A5.00.01", "G525.0225.00.05", "20.1", "DEL_0001"),
        node("in-a-sandbox", "??.??.??.??.??", usual[1], usual[2]),  # https://github.com/NVIDIA/gpu-operator/issues/1932
    ]
    compare = firmware_judge(documents, [[one.node for one in documents]])
    found = {finding.subject.name: finding for one in documents for finding in compare(one)}
    assert {name: finding.outcome for name, finding in found.items()} == {
        **dict.fromkeys(("same-0", "same-1", "in-a-sandbox"), Outcome.OK),
        "old": Outcome.BAD,
        "another-board": Outcome.NOT_JUDGED,
    }
    assert "device 0 has VBIOS" in found["old"].message
    assert "mlx5_0 has firmware" in found["old"].message


def test_what_hides_behind_one_free_device_or_a_nameless_board_is_no_proof() -> None:
    cards = [PciFunction(address=f"0000:{at:02x}:00.0", vendor="10de", device="2330", kind="accelerator") for at in range(0x10, 0x18)]
    one_of_eight = of_driver(a_driver(H100, 1, links=links(0, 18), fabric=DONE), host=Host(pci=cards))
    assert [finding.cause for finding in per_device(fabric, "")(one_of_eight)] == ["NvlinkDown"]
    ports = [RdmaPort(adapter=f"rdma{at}", port=1, firmware=firmware) for at, firmware in enumerate(("1.62", "22.35.1012"))]
    documents = [of_driver(a_driver(H100, 1), host=Host(rdma=ports))]
    assert [one.outcome for one in firmware_judge(documents, [])(documents[0])] == [Outcome.NOT_JUDGED]
    cool = a_driver(H100, 1, clocks=Clocks(slowdowns=["hardware slowdown"]), temperature=41, temperature_slowdown=88)
    assert [finding.cause for finding in per_device(slowdown, "")(of_driver(cool))] == ["PowerBrake"]


def test_the_rows_of_products_are_dated_and_say_where_from() -> None:
    rows = PRODUCT_LINKS.rows
    assert len(rows) >= 12
    assert all(row.source and row.date.year >= 2026 and (row.joined == "board" or row.step) for row in rows)
    named = {"NVIDIA H200": 18, "NVIDIA A10": 0, "NVIDIA A100-SXM4-80GB": 12, "NVIDIA GB300": 18, "AMD Instinct MI300X": 7, "Tesla T4": 0}
    assert {name: row.nvlinks for name in named if (row := judging.links_of(name))} == named
