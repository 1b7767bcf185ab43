"""AMD's and Intel's devices through mocked libraries and sysfs: the document says what they answer, whatever they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import Way
from fixtures.nodeprobe.smi import collect
from tests.nodeprobe.tables import OF_VENDORS, Table, write_cards
from tests.nodeprobe.test_nvml import COMPILER, RUNS, _at, batched, each, library

__all__ = ["library"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
NOT_SUPPORTED, LOST = 2, "GPU is lost"
HEALTHY: dict[str, dict[str, object]] = {
    "amd": {
        "uuid": "01ff74a1-0000-1000-8000-000000000000",
        "name": "AMD Instinct MI300X OAM",
        "pci_address": "0000:11:00.0",
        "vbios": "113-M3000100-102",
        "memory_total": 192 << 30,
        "memory_used": 1 << 30,
        "ecc.uncorrected": 0,
        "ecc.corrected": 0,
        "partitions.compute": "CPX",
        "partitions.memory": "NPS4",
        "power": 143.0,
        "power_limit": 750.0,
        "temperature": 41,
        "lost": False,
    },
    "intel": {
        "uuid": "21212121-2121-2121-2121-212121212121",
        "name": "Intel(R) Data Center GPU Max 1550",
        "pci_address": "0000:11:00.0",
        "serial": "AB1",
        "memory_total": 128 << 30,
        "memory_used": 2 << 30,
        "recovery_action": "none",
        "lost": False,
        "pcie.generation": 5,
        "pcie.width": 16,
        "pcie.max_width": 16,
        "unread": {},
    },
}
FAULTS: dict[str, list[tuple[Table, dict[str, object]]]] = {
    "amd": [
        ({"1.ecc.uncorrected": 3}, {"ecc.uncorrected": 3}),
        ({"1.compute": "SPX", "1.parts": 1}, {"partitions.compute": "SPX", "partitions.devices": []}),
        ({"1.memory.used": 1 << 37}, {"memory_used": 1 << 37}),
        ({"amdsmi_get_gpu_total_ecc_count": NOT_SUPPORTED}, {"ecc.uncorrected": 1, "unread.ecc": "Not Supported"}),
        ({"amdsmi_get_gpu_device_uuid": 10}, {"uuid": "abc", "unread.uuid": "No Permission"}),
        ({"amdsmi_get_gpu_compute_partition": NOT_SUPPORTED}, {"partitions.compute": ""}),
        ({"amdsmi_init": 34}, {"uuid": "abc", "partitions.compute": "SPX", "ecc.corrected": 2}),
        ({"amdsmi_get_socket_handles": 12345}, {"uuid": "abc"}),
        ({"amdsmi_get_processor_handles": 7}, {"uuid": "abc"}),
        ({"amdsmi_get_gpu_device_bdf": 40}, {"uuid": "abc"}),
        ({"1.bdf": 0x9900}, {"uuid": "abc"}),
        ({"count": 7}, {"partitions.compute": "CPX"}),
    ],
    "intel": [
        ({"1.lost": 1}, {"lost": True, "uuid": "", "unread.handle": LOST}),
        ({"1.reset": 1}, {"recovery_action": "reset"}),
        ({"1.pcie.width": 8}, {"pcie.width": 8, "pcie.max_width": 16}),
        ({"1.pcie.generation": -1}, {"pcie.generation": None}),
        ({"1.memory.total": 1 << 30}, {"memory_total": 2 << 30}),
        ({"1.modules": 0}, {"memory_total": None}),
        ({"zesDeviceGetProperties": 0x78000003}, {"uuid": "", "unread.handle": "Not Supported"}),
        ({"zesDevicePciGetProperties": 0x70010000}, {"pci_address": "", "unread.pciAddress": "Insufficient Permissions"}),
        ({"zesDevicePciGetState": 0x78000003}, {"pcie.width": None, "pcie.max_width": 16}),
        ({"zesDeviceGetState": 7}, {"recovery_action": None, "unread.recoveryAction": "error 0x7"}),
        ({"zesMemoryGetState": 0x78000003}, {"memory_total": None}),
        ({"zesDeviceEnumMemoryModules": 0x78000004}, {"memory_total": None, "unread.memoryTotal": "Invalid Argument"}),
    ],
}


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


def test_graphics_of_a_processor_are_told_from_a_card(tmp_path: Path) -> None:
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
