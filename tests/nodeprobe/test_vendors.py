"""AMD's and Intel's devices through mocked libraries and sysfs: the document says what they answer, whatever they answer."""

from pathlib import Path

import pytest

from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import Way
from fixtures.nodeprobe.smi import collect
from tests.nodeprobe.tables import OF_VENDORS, Table, write_cards
from tests.nodeprobe.test_nvml import COMPILER, RUNS, _at, batched, each, library
from tests.tables import table

__all__ = ["library"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
NOT_SUPPORTED, LOST = 2, "GPU is lost"
TABLE = table(__file__)
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
