"""The compute check against mocked drivers that compute on the host: whatever a library does is a value of the document."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from fixtures.compute.checking import Sizes
from fixtures.compute.document import Device, Document, Library, Status, decode
from fixtures.compute.drivers import CUDA, ROCM
from fixtures.compute.kernels import Matrices, compare, filled
from fixtures.compute.level_zero import OUT_OF_MEMORY
from tests.nodeprobe.tables import MACHINES, Table, machine
from tests.tables import each_row, table

RUNS = int(os.environ.get("COMPUTE_RUNS", "5"))
"""Seeds of random answers for each machine and kind. The environment asks for more."""

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked drivers")
SMALL = ("--rows", "1", "--memory", "3", "--copy", "1", "--patience", "2")
TABLES: dict[str, Table] = {
    **MACHINES,
    "mi300x": machine(8, name="AMD Instinct MI300X", memory__total=206_158_430_208),
    "max1550": machine(2, name="Intel(R) Data Center GPU Max 1550", memory__total=68_719_476_736),
}
APIS = {"mi300x": "hip", "max1550": "levelZero"}
"""Of products that are not CUDA's."""

LIBRARIES = {"cuda": ("libcuda.so.1",), "hip": ("libamdhip64.so", "libhiprtc.so"), "levelZero": ("libze_loader.so.1",)}

EACH = """
import ctypes, json, os, sys
from fixtures.compute.checking import Sizes
from fixtures.compute.worker import Order, Spoilt, Worker
order = Order(apis=(sys.argv[2],), sizes=Sizes(copy=1 << 16, memory=1 << 19, rows=128))
out = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT)
for table in json.load(open(sys.argv[1])):
    with open(os.environ["MOCKED_NVML"], "w") as file:
        json.dump(table, file)
    ctypes.CDLL(sys.argv[4]).mocked_forget_compute()
    try:
        Worker(order, out).run()
    except Spoilt:  # the check goes on in another process
        pass
    os.write(out, b"\\n")
"""
"""Runs the worker on one table after the other, in one process."""


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with the libraries of each vendor."""
    found = {}
    for api, names in LIBRARIES.items():
        found[api] = tmp_path_factory.mktemp(api)
        command = [str(COMPILER), "-O2", "-shared", "-fPIC", "-w", "-o", str(found[api] / names[0]), str(HERE / "mocked_compute.c")]
        subprocess.run(command, check=True, timeout=120)
        for name in names[1:]:
            (found[api] / name).symlink_to(names[0])
    return found


def start(folders: dict[str, Path], folder: Path, name: str, fault: Table, *command: str, count: int = 2) -> subprocess.Popen[str]:
    (folder / "table.json").write_text(json.dumps({**TABLES[name], "count": count, **fault}))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folders[APIS.get(name, "cuda")]), "MOCKED_NVML": str(folder / "table.json")}
    return subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(folders: dict[str, Path], folder: Path, name: str, fault: Table, status: int, *more: str) -> Library:
    """The library of the machine, after ``gpu-conformance compute`` with an exit status."""
    with start(folders, folder, name, fault, "-m", "conformance.cli.main", "compute", "--json", *SMALL, *more) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == status, out + err
    document: Document = decode(out.encode())
    [library] = document.present
    return library


def ended(device: Device) -> str:
    """How the check of a device ended: its step, and what was wrong there."""
    failed = device.failed
    if failed is None:
        return "computes" if device.computes else "nothing"
    why = (failed.trouble.code or failed.trouble.message) if failed.trouble else failed.wrong.count if failed.wrong else ""
    return f"{failed.name} {failed.status} {why}".rstrip()


@pytest.mark.test_all
@pytest.mark.parametrize("name", TABLES)
def test_a_healthy_device_computes_and_has_figures(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    library = check(folders, tmp_path, name, {}, 0)
    assert [ended(device) for device in library.devices] == ["computes", "computes"]
    for device in library.devices:
        assert [step.name for step in device.steps] == ["context", "allocate", "copy", "kernel", "multiply", "bandwidth"]
        assert all(step.compared for step in device.steps[2:])
        figures = device.figures
        assert figures.repetitions == 3
        assert device.memory_total == TABLES[name][f"{device.index}.memory.total"]
        if name == "max1550":  # its clock is the host's
            assert None not in (figures.fp32, figures.memory, figures.to_device, figures.from_device)
            assert device.uuid == "GPU-" + str(UUID(bytes=bytes([0x21 + device.index] * 16)))
            continue
        assert [figures.to_device, figures.from_device] == pytest.approx([50e9, 50e9], rel=0.01)
        assert name == "mi300x" or device.uuid == TABLES[name][f"{device.index}.uuid"]


CALLS = {
    "cuda": CUDA.names,
    "hip": ROCM.names,
    "levelZero": {
        "device": "zeDeviceGetProperties",
        "current": "zeCommandListCreateImmediate",
        "pin": "zeMemAllocHost",
        "free": "zeMemFree",
        "load": "zeModuleCreate",
        "function": "zeKernelCreate",
        "launch": "zeCommandListAppendLaunchKernel",
    },
}
"""Names of calls by what they do."""

TABLE = table(__file__)
FAULTS: dict[str, tuple[Table, str]] = TABLE["FAULTS"]
OF_LEVEL_ZERO: dict[str, tuple[Table, str]] = TABLE["OF_LEVEL_ZERO"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "h100" else pytest.mark.test_all) for name in TABLES])
def test_a_fault_of_one_device_is_that_devices_alone(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A machine with as many devices as there are faults, one fault each."""
    api = APIS.get(name, "cuda")
    faults = FAULTS | (OF_LEVEL_ZERO if api == "levelZero" else {})
    like = {key.removeprefix("0."): value for key, value in TABLES[name].items() if key.startswith("0.")}
    table: Table = {"count": len(faults)}
    for index, (fault, _) in enumerate(faults.values()):
        named = {CALLS[api].get(key, key): value for key, value in fault.items()}
        table |= {f"{index}.{key}": value for key, value in {**like, **named}.items()}
    found = [ended(device) for device in check(folders, tmp_path, name, table, 1).devices]
    assert len(found) == len(faults)
    for (fault_name, (_, expected)), shown in zip(faults.items(), found, strict=True):
        assert shown.startswith(expected.format(memory=OUT_OF_MEMORY if api == "levelZero" else 2)), (fault_name, shown)


@pytest.mark.test_all
@each_row
def test_a_library_that_does_not_start_says_why(folders: dict[str, Path], tmp_path: Path, name: str, fault: Table, expected: str) -> None:
    library = check(folders, tmp_path, name, fault, 1)
    assert (str(library.trouble), library.devices) == (expected, [])


@pytest.mark.test_all
def test_values_and_clocks_are_the_devices_own(folders: dict[str, Path], tmp_path: Path) -> None:
    table: Table = {"1.cuda.uuid": "GPU-ffffffff-0000-0000-0000-000000000000", "1.flops": 5_000_000_000_000, "1.bus": 6_000_000_000}
    fast, slow = check(folders, tmp_path, "h100", table, 0).devices
    assert slow.uuid != TABLES["h100"]["1.uuid"]
    assert fast.figures.fp32 is not None
    assert slow.figures.fp32 is not None
    assert slow.figures.fp32 < fast.figures.fp32 / 4
    assert slow.figures.to_device == pytest.approx(6e9, rel=0.01)


@pytest.mark.test_all
def test_where_the_first_wrong_value_is_is_known(folders: dict[str, Path], tmp_path: Path) -> None:
    [device] = check(folders, tmp_path, "h100", {"count": 1, "0.wrong.every": 700_000}, 1).devices
    assert device.failed is not None
    assert device.failed.wrong is not None
    assert (device.failed.name, device.failed.wrong.first, device.failed.wrong.count) == ("kernel", 4 * 699_999, 2)


@pytest.mark.test_all
def test_people_read_what_computes_and_what_does_not(folders: dict[str, Path], tmp_path: Path) -> None:
    with start(folders, tmp_path, "h100", {"1.cuLaunchKernel": 719}, "-m", "conformance.cli.main", "compute", *SMALL) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "libcuda.so.1 13.0, 2 devices" in out
    assert "hip: libamdhip64.so.7 is not there" in out
    assert [line.split("  ")[-1].strip() for line in out.splitlines() if "HBM3" in line] == [
        "computes",
        "kernel error: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)",
    ]


@pytest.mark.test_all
def test_devices_that_hang_are_not_all_waited_for(folders: dict[str, Path], tmp_path: Path) -> None:
    begun = time.monotonic()
    library = check(folders, tmp_path, "h100", {"count": 8, "cuMemAlloc_v2": -1}, 1)
    assert time.monotonic() - begun < 15
    assert [device.index for device in library.devices] == [0, 1]
    assert "left alone" in str(library.trouble)


@pytest.mark.test_all
@pytest.mark.parametrize("fault", [{}, {"0.cuMemAlloc_v2": -1}], ids=["busy", "hung"])
def test_it_ends_within_two_seconds_when_it_is_asked(folders: dict[str, Path], tmp_path: Path, fault: Table) -> None:
    command = ("-m", "conformance.cli.main", "compute", "--json", *SMALL[:-2], "--seconds", "300")
    with start(folders, tmp_path, "h100", fault, *command) as process:
        assert process.stderr is not None
        assert process.stderr.readline() in ("it multiplies\n", "cuMemAlloc_v2 hangs\n")
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    crowd = max(os.getloadavg()[0] / (os.cpu_count() or 1), 1)  # how many processes wait for each core
    assert time.monotonic() - asked < 2 * crowd
    assert fault or err == "0 bytes held\n", "everything was given back"
    assert process.returncode == 10
    document = decode(out.encode())
    assert document.stopped
    [device] = document.present[0].devices
    assert fault or (device.steps[-1].name, device.steps[-1].status) == ("multiply", Status.STOPPED)


@pytest.mark.test_all
@pytest.mark.parametrize("noise", [{"random.percent": 10}, {"random.percent": 2}, {"random.answers": 1}], ids=["errors", "few", "noise"])
@pytest.mark.parametrize("name", TABLES)
def test_no_answer_of_a_library_ends_the_check(folders: dict[str, Path], tmp_path: Path, name: str, noise: Table) -> None:
    tables = [{**TABLES[name], "count": 1, **noise, "random.seed": seed} for seed in range(RUNS)]
    (tmp_path / "tables.json").write_text(json.dumps(tables))
    api = APIS.get(name, "cuda")
    arguments = (str(tmp_path / "tables.json"), api, str(tmp_path / "out"), LIBRARIES[api][0])
    with start(folders, tmp_path, name, {}, "-c", EACH, *arguments) as process:
        _, err = process.communicate(timeout=60 + 5 * RUNS)  # a check takes 50 ms where nothing else runs
    assert process.returncode == 0, err
    ends = (tmp_path / "out").read_bytes().split(b"\n\n")
    assert len(ends) == RUNS + 1
    assert all(b'"library"' in one for one in ends[:-1])


def test_values_are_what_arithmetic_says() -> None:
    rows = 128
    matrices = Matrices(rows)
    left, right, product = (memoryview(part).cast("f") for part in (matrices.left, matrices.right, matrices.product))
    for i, j in ((0, 0), (5, 127), (127, 3), (64, 65)):
        assert product[i * rows + j] == sum(left[k * rows + i] * right[k * rows + j] for k in range(rows))
    assert len(matrices.product) == 4 * rows * rows
    values = bytearray(filled(Sizes().copy, 7))
    assert compare(bytes(values), memoryview(values)) is None
    good = bytes(values)
    values[1_000_001] ^= 1
    values[2_000_000] ^= 1
    wrong = compare(good, memoryview(values))
    assert wrong is not None
    assert (wrong.count, wrong.first) == (2, 1_000_000)
