"""Real pynvml against a mocked driver: what it answers is in the document, whatever it answers."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fixtures.nodeprobe.document import Device, Document, Driver, decode
from fixtures.nodeprobe.smi import collect
from fixtures.nodeprobe.tabled import TabledLibrary
from tests.nodeprobe.tables import MACHINES, Table, write_cards
from tests.tables import each_row, table

RUNS = int(os.environ.get("NODEPROBE_RUNS", "10"))
"""Seeds of random answers for each machine and kind. The environment asks for more."""

HERE = Path(__file__).parent
LIBRARIES = {"libnvidia-ml.so.1": "mocked_nvml.c", "libamd_smi.so": "mocked_amd_smi.c", "libze_loader.so.1": "mocked_level_zero.c"}
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")

EACH = """
import ctypes, json, os, pathlib, sys
from fixtures.nodeprobe.smi import collect
from fixtures.nodeprobe.document import encode
found = []
for table in json.load(open(sys.argv[1])):
    with open(os.environ["MOCKED_NVML"], "w") as file:
        json.dump(table, file)
    for name in sys.argv[3:]:
        ctypes.CDLL(name).mocked_forget()
    found.append(json.loads(encode(collect("", root=pathlib.Path(sys.argv[2])))))
json.dump(found, sys.stdout)
"""
"""Reads one table after the other in one process: a start of Python costs more than all of them."""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    for name, source in LIBRARIES.items():
        command = [str(COMPILER), "-O1", "-shared", "-fPIC", "-w", "-o", str(folder / name), str(HERE / source)]
        subprocess.run(command, check=True, timeout=120)
    return folder


def run(library: Path, folder: Path, table: Table, *command: str) -> subprocess.CompletedProcess[str]:
    (folder / "table.json").write_text(json.dumps(table))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "MOCKED_NVML": str(folder / "table.json")}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False, timeout=300)


def probe(library: Path, folder: Path, table: Table, *options: str) -> Driver:
    done = run(library, folder, table, "-m", "conformance.cli.main", "probe", "--json", *options)
    assert done.returncode in (0, 10), done.stderr
    document: Document = decode(done.stdout.encode())
    return document.drivers[0]


def batched(runs: int, size: int = 50) -> list[range]:
    """Seeds of so many runs, few at a time: what they found is held until they end."""
    return [range(start, min(start + size, runs)) for start in range(0, runs, size)]


def each(library: Path, folder: Path, tables: list[Table], vendor: str = "nvidia") -> list[Driver]:
    """What the vendor's driver says by each of the tables. The files of the machine are as many cards as the first table counts."""
    (folder / "tables.json").write_text(json.dumps(tables))
    write_cards(folder, vendor, int(tables[0]["count"]))
    done = run(library, folder, {}, "-c", EACH, str(folder / "tables.json"), str(folder), *LIBRARIES)
    assert done.returncode == 0, done.stderr
    documents = [decode(json.dumps(one).encode()) for one in json.loads(done.stdout)]
    return [next(driver for driver in document.drivers if driver.vendor == vendor) for document in documents]


@pytest.mark.parametrize("name", MACHINES)
def test_a_healthy_machine_is_read_whole(library: Path, tmp_path: Path, name: str) -> None:
    table = MACHINES[name]
    driver = probe(library, tmp_path, table)
    assert (driver.version, driver.cuda, driver.problem, driver.unread) == ("580.95.05", "13.0", "", {})
    assert len(driver.devices) == table["count"]
    for device in driver.devices:
        assert device.uuid == table[f"{device.index}.uuid"]
        assert device.memory_total == table[f"{device.index}.memory.total"]
        assert (device.lost, device.recovery_action, device.processes) == (False, "none", [])
        assert device.remapping is not None
        assert device.clocks is not None
        assert not device.clocks.slowdowns, "idle is no slowdown"
        assert device.unread.keys() <= {"retiredPages", "fabric"}, "newer devices retire no pages, and not every one has a fabric"
    first = driver.devices[0]
    assert len(first.links) == table.get("0.links", 0)
    assert [len(device.mig.devices) if device.mig else None for device in driver.devices] == [7 if name == "a100-mig" else 0] * len(
        driver.devices
    )
    if name == "a100-mig":
        assert first.mig is not None
        assert {part.profile for part in first.mig.devices} == {"1g.5gb"}
    if name == "gb200":
        assert first.fabric is not None
        assert (first.fabric.state, first.fabric.status, first.fabric.clique, first.fabric.summary) == (
            "completed",
            "success",
            1,
            "healthy",
        )
        assert first.fabric.health == {
            **dict.fromkeys(("bandwidth degraded", "route recovery", "route unhealthy", "access timeout recovery"), "no"),
            "incorrect configuration": "none",
        }


NOT_SUPPORTED, FUNCTION_GONE, MISMATCH = 3, 13, 18
TABLE = table(__file__)
FAULTS: list[tuple[Table, dict[str, object]]] = TABLE["FAULTS"]


@pytest.mark.parametrize("name", MACHINES)
def test_a_fault_of_one_device_is_a_value_of_that_device(library: Path, tmp_path: Path, name: str) -> None:
    drivers = each(library, tmp_path, [{**MACHINES[name], **fault} for fault, _ in FAULTS])
    for driver, (fault, shown) in zip(drivers, FAULTS, strict=True):
        simulated = collect("", partial(TabledLibrary, {**MACHINES[name], **fault}), tmp_path)
        assert [driver] == simulated.drivers, "the library of simulated machines says another"
        assert {path: _at(driver.devices[1], path) for path in shown} == shown, fault
        assert len(driver.devices) == MACHINES[name]["count"]
        assert [device.index for device in driver.devices if device.lost] == ([1] if "lost" in shown else [])


def _at(device: Device, path: str) -> object:
    if path == "links":
        return sum(link.active for link in device.links)
    if path == "processes":
        return [process.memory for process in device.processes]
    value: object = device
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part)
    return value


@each_row
def test_a_driver_that_enumerates_nothing_says_why(library: Path, tmp_path: Path, table: Table, words: str) -> None:
    driver = probe(library, tmp_path, table)
    assert words in driver.problem
    assert driver.devices == []


def test_xids_are_received_while_the_probe_listens(library: Path, tmp_path: Path) -> None:
    driver = probe(
        library, tmp_path, {**MACHINES["h100"], "1.xid": 79, "3.xid": 48, "3.nvmlDeviceRegisterEvents": NOT_SUPPORTED}, "--listen", "0.2"
    )
    assert driver.listened == 0.2
    assert [device.xids for device in driver.devices] == [[], [79], [], [], [], [], [], []]
    assert driver.devices[3].unread["xids"] == "Not Supported"
    assert "listened" in probe(library, tmp_path, {**MACHINES["h100"], "nvmlEventSetCreate": NOT_SUPPORTED}, "--listen", "0.2").unread


def test_without_a_library_the_document_says_so(tmp_path: Path) -> None:
    assert "libnvidia-ml.so.1 is not there" in probe(tmp_path, tmp_path, {}).problem


def test_more_devices_than_a_machine_can_have_are_not_asked(library: Path, tmp_path: Path) -> None:
    assert len(probe(library, tmp_path, {**MACHINES["h100"], "count": 4_000_000_000}).devices) == 64


@pytest.mark.test_all
@pytest.mark.parametrize("noise", [{"random.percent": 20}, {"random.percent": 5, "random.answers": 1}], ids=["errors", "noise"])
@pytest.mark.parametrize("name", MACHINES)
def test_no_answer_of_a_driver_ends_the_probe(library: Path, tmp_path: Path, name: str, noise: Table) -> None:
    for seeds in batched(RUNS):
        assert len(each(library, tmp_path, [{**MACHINES[name], **noise, "random.seed": seed} for seed in seeds])) == len(seeds)


@pytest.mark.test_all
@pytest.mark.parametrize("name", MACHINES)
def test_a_probe_takes_little_of_its_node(library: Path, tmp_path: Path, name: str) -> None:
    done = run(library, tmp_path, MACHINES[name], "-c", COST)
    assert done.returncode == 0, done.stderr
    seconds, kibibytes = map(float, done.stderr.split())
    assert (seconds < 1.5, kibibytes < 60 << 10) == (True, True), done.stderr


COST = """
import re, resource, sys
from conformance.cli.main import main
main(["probe", "--json"])
used = resource.getrusage(resource.RUSAGE_SELF)
[memory] = re.findall(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(used.ru_utime + used.ru_stime, memory, file=sys.stderr)
"""
"""Prints CPU seconds and peak KiB of the command. ``ru_maxrss`` would count the process that started it too; ``VmHWM`` does not."""
