"""The document from ``nvidia-smi``: the same as from NVML, from any driver's release, whatever is printed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from conformance.cli.inspect import inspect
from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import Device, Document, encode
from fixtures.simulator.nodes.programs import nvidia_smi_query
from tests.nodeprobe.tables import MACHINES, Table
from tests.nodeprobe.test_nvml import COMPILER, FAULTS, each, library

__all__ = ["library"]
RUNS = int(os.environ.get("NODEPROBE_RUNS", "10"))
OUTPUTS = {"-q -x": nvidia_smi_query.query, "-L": nvidia_smi_query.listing, "nvlink -s": nvidia_smi_query.links}


def printed(table: Table) -> str:
    """What the script prints on a machine, without facts of the host."""
    lines = ["## node probe"]
    for name, output in zip(("smi", "list", "links"), OUTPUTS.values(), strict=True):
        text = "\n".join(output(table)).split("\n")
        lines += [f"## {name}", *(f"{number}:{line}" for number, line in enumerate(text, 1)), f"## end {name} 0"]
    return "\n".join(lines)


def compared(device: Device, *others: Device) -> dict[str, object]:
    """A device without what one of the ways could not read."""
    found = msgspec.to_builtins(device)
    for path in {path for one in (device, *others) for path in one.unread}:
        *parents, name = path.split(".")
        holder = found
        for parent in parents:
            holder = (holder.get(parent) if isinstance(holder, dict) else None) or {}
        if isinstance(holder, dict):
            holder.pop(name, None)
    return {**found, "unread": None}


@pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
@pytest.mark.parametrize("name", MACHINES)
def test_nvml_and_nvidia_smi_give_one_document(library: Path, tmp_path: Path, name: str) -> None:
    tables = [MACHINES[name], *({**MACHINES[name], **fault} for fault, _ in FAULTS if not any("nvml" in key for key in fault))]
    for table, by_nvml in zip(tables, each(library, tmp_path, tables), strict=True):
        [by_smi] = smi.document(printed(table)).drivers
        assert (by_smi.version, by_smi.cuda, by_smi.problem) == (by_nvml.version, by_nvml.cuda, by_nvml.problem)
        for one, other in zip(by_nvml.devices, by_smi.devices, strict=True):
            assert compared(one, other) == compared(other, one)


def test_the_script_prints_what_the_reader_reads(tmp_path: Path) -> None:
    texts = {arguments: "\n".join(output(MACHINES["gb200"])) for arguments, output in OUTPUTS.items()}
    document = ran(tmp_path, "\n".join(f"'{arguments}') cat <<'EOF'\n{text}\nEOF\n;;" for arguments, text in texts.items()))
    assert document.drivers == smi.document(printed(MACHINES["gb200"])).drivers
    assert document.host.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()


def ran(folder: Path, cases: str) -> Document:
    """The document of the script in a real shell with an ``nvidia-smi`` that answers by its arguments."""
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
    program.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", smi.SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=60)
    return smi.document(done.stdout)


@pytest.mark.parametrize(
    ("cases", "problem"),
    [
        ("*) echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18;;", "driver and library are of different versions"),
        ('*) echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9;;', "the driver is not loaded"),
        ("*) exit 127;;", "nvidia-smi is not in the container"),
        ("*) echo 'No devices were found'; exit 6;;", ""),
        ("*) echo what; exit 1;;", "what"),
    ],
)
def test_what_nvidia_smi_says_instead_is_the_driver_s_problem(tmp_path: Path, cases: str, problem: str) -> None:
    [driver] = ran(tmp_path, cases).drivers
    assert (driver.problem, driver.devices) == (problem, [])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({}, ("good", "HEALTHY")),
        ({"1.remap.failed": 1}, ("bad", "REPLACE")),
        ({"1.lost": 1}, ("bad", "REBOOT")),
        ({"1.fabric.state": 2}, ("bad", "RESET")),
    ],
)
def test_inspect_judges_a_document_as_it_judges_what_nvidia_smi_prints(fault: Table, expected: tuple[str, str]) -> None:
    text = printed({**MACHINES["gb200"], **fault})
    for captured in (text, encode(smi.document(text)).decode()):
        result = inspect("node-probe", captured)
        assert (result.verdict, result.reason_code) == expected
    assert inspect("nvidia-smi", "\n".join(nvidia_smi_query.query({**MACHINES["gb200"], **fault}))).verdict == expected[0]
