"""What sysfs, /proc and device files say, from a tree of files."""

from pathlib import Path

import pytest

from fixtures.nodeprobe import host, smi
from fixtures.nodeprobe.document import DirectAccess, Distance, PciFunction, RdmaPort, Way
from fixtures.nodeprobe.smi import collect
from tests.nodeprobe.tables import OF_VENDORS, Table, write_cards
from tests.nodeprobe.test_nvml import COMPILER, RUNS, _at, batched, each, library
from tests.tables import table

TABLE = table(__file__)
FILES = TABLE["FILES"]


def test_a_machine_is_described_by_its_files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = host.collect(tmp_path)
    assert (found.kernel, found.boot_id) == ("6.8.0-1021-nvidia", "b00t")
    assert found.modules == {"nvidia": "580.95.05", "nvidia_uvm": ""}
    assert found.device_files == ["nvidia-caps/nvidia-cap1", "nvidia-uvm", "nvidia0"]
    device, adapter = found.pci
    assert adapter == PciFunction(address="0000:2a:00.0", vendor="", device="", kind="infiniband")
    assert found.distances == [Distance(device="0000:1b:00.0", adapter="0000:2a:00.0", level="")], "a machine without bridges says nothing"
    assert found.direct_access == DirectAccess(peermem=False, dma_buf=True)
    assert device == PciFunction(
        address="0000:1b:00.0",
        vendor="10de",
        device="2330",
        kind="accelerator",
        driver="nvidia",
        numa=1,
        link="32.0 GT/s PCIe x8",
        max_link="32.0 GT/s PCIe x16",
    )
    counters = {"port_xmit_data": 17, "out_of_sequence": 3}
    card = {"adapter": "mlx5_0", "firmware": "28.43.1014", "board": "MT_0000000838", "layer": "InfiniBand", "pci_address": "0000:2a:00.0"}
    assert found.rdma == [RdmaPort(port=1, state="ACTIVE", rate="400 Gb/sec (4X NDR)", counters=counters, **card)]
    assert found.kernel_log == ["[1.500000] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."]
    assert found.uptime == 3600.25


def test_what_is_not_there_or_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    found = host.collect(tmp_path)
    assert (found.kernel, found.modules, found.pci, found.rdma) == ("", {}, [], [])
    assert found.kernel_log is None


BUS = TABLE["BUS"]


def test_the_way_between_devices_and_adapters_is_measured_in_bridges() -> None:
    files: dict[str, str] = {}
    for address, (kind, first, last, numa) in BUS.items():
        names = {"class": kind, "numa_node": numa, **({"secondary_bus_number": first, "subordinate_bus_number": last} if first else {})}
        files |= {f"{host.PCI}/{address}/{name}": str(value) for name, value in names.items()}
    found = host.described(files, [], None)
    levels = {(one.device, one.adapter): one.level for one in found.distances}
    assert {adapter: level for (device, adapter), level in levels.items() if device == "0000:03:00.0"} == {
        "0000:04:00.0": "PIX",
        "0000:06:00.0": "PHB",
        "0000:80:00.0": "NODE",
        "0000:90:00.0": "SYS",
    }
    assert levels["0000:04:00.1", "0000:04:00.0"] == "PIX"
    assert levels["0000:07:00.0", "0000:06:00.0"] == "PIX"
    [device] = [one for one in found.pci if one.address == "0000:03:00.0"]
    assert device.path == ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]
    assert [one.acs for one in found.bridges] == [None] * 7, "their configuration may not be read here"


def test_controls_of_acs_are_read_from_the_extended_configuration() -> None:
    other, acs = bytes([0x01, 0, 0x01, 0x14]), bytes([0x0D, 0, 0x01, 0, 0xFF, 0, 0x1D, 0])
    space = bytes(256) + other + bytes(0x140 - 0x104) + acs
    assert host.acs_of(space) == ["source validation", "request redirect", "completion redirect", "upstream forwarding"]
    assert host.acs_of(space[:-8]) == host.acs_of(bytes(4096)) == []
    assert host.acs_of(bytes(64)) is host.acs_of(b"") is None
    assert host.acs_of(bytes(256) + bytes([0x01, 0, 0x01, 0x10]) + bytes(60)) == [], "a list that leads to itself ends"


__all__ = ["library"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
NOT_SUPPORTED, LOST = 2, "GPU is lost"
HEALTHY: dict[str, dict[str, object]] = TABLE["HEALTHY"]
FAULTS: dict[str, list[tuple[Table, dict[str, object]]]] = TABLE["FAULTS"]


@needs_compiler
@pytest.mark.parametrize("vendor", OF_VENDORS)
def test_a_machine_and_its_faults_are_read(library: Path, tmp_path: Path, vendor: str) -> None:
    table = OF_VENDORS[vendor]
    healthy, *drivers = each(library, tmp_path, [table, *({**table, **fault} for fault, _ in FAULTS[vendor])], vendor)
    assert (healthy.problem, healthy.way) == ("", {"amd": Way.AMD_SMI, "intel": Way.LEVEL_ZERO}[vendor])
    assert [len(driver.devices) for driver in (healthy, *drivers)] == [table["count"]] * (len(drivers) + 1)
    assert {path: _at(healthy.devices[1], path) for path in HEALTHY[vendor]} == HEALTHY[vendor]
    if vendor == "amd":
        assert [len(device.partitions.devices) if device.partitions else 0 for device in healthy.devices] == [8] * 8
    for driver, (fault, shown) in zip(drivers, FAULTS[vendor], strict=True):
        assert {path: _at(driver.devices[1], path) for path in shown} == shown, fault


@pytest.mark.test_all
@needs_compiler
@pytest.mark.parametrize("noise", [{"random.percent": 20}, {"random.percent": 5, "random.answers": 1}], ids=["errors", "noise"])
@pytest.mark.parametrize("vendor", OF_VENDORS)
def test_no_answer_of_a_library_ends_the_probe(library: Path, tmp_path: Path, vendor: str, noise: Table) -> None:
    for seeds in batched(RUNS):
        tables: list[Table] = [{**OF_VENDORS[vendor], **noise, "random.seed": seed} for seed in seeds]
        assert len(each(library, tmp_path, tables, vendor)) == len(seeds)


def test_without_a_library_sysfs_has_amd_s_devices_and_the_problem_of_intel_s(tmp_path: Path) -> None:
    write_cards(tmp_path, "amd", 2)
    [amd] = [driver for driver in collect("", root=tmp_path).drivers if driver.vendor == "amd"]
    assert (amd.way, [device.name for device in amd.devices]) == (Way.SYSFS, ["AMD Instinct MI300X OAM"] * 2)
    write_cards(tmp_path / "other", "intel", 1)
    [intel] = [driver for driver in collect("", root=tmp_path / "other").drivers if driver.vendor == "intel"]
    assert intel.problem == "the library libze_loader.so.1 is not there"


def test_graphics_of_a_processor_are_reported_from_a_card(tmp_path: Path) -> None:
    """The kernel's amdgpu has no power1_cap for them (amdgpu_pm.c, hwmon_attributes_visible)."""
    write_cards(tmp_path, "amd", 3)
    for number in (1, 2):
        (tmp_path / f"sys/bus/pci/devices/0000:{0x10 + number:02x}:00.0/class").write_text("0x030000\n")
    (tmp_path / "sys/bus/pci/devices/0000:12:00.0/hwmon/hwmon7/power1_cap").unlink()
    [amd] = [driver for driver in collect("", root=tmp_path).drivers if driver.vendor == "amd"]
    assert [device.integrated for device in amd.devices] == [False, False, True]


def test_a_pod_of_any_image_reads_amd_s_devices_too(tmp_path: Path) -> None:
    write_cards(tmp_path, "amd", 2)
    lines = [
        f"/{path.relative_to(tmp_path)}:{line}"
        for path in sorted(tmp_path.rglob("*"))
        if path.is_file()
        for line in path.read_text().splitlines()
    ]
    numbered = [f"{number}:{line}" for number, line in enumerate(lines, 1)]
    missing = ["## smi", "1:sh: 1: nvidia-smi: not found", "## end smi 127"]
    document = smi.document("\n".join(["## node probe", *missing, "## files", *numbered, "## end files 0"]))
    on_the_node = collect("", root=tmp_path).drivers[1]
    assert on_the_node.unread.pop("library"), "no library of AMD's is here"
    assert document.drivers[1] == on_the_node
