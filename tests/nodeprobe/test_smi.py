"""The document from ``nvidia-smi``: the same as from NVML, from any driver's release, whatever is printed."""

import os
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from conformance.cli.inspect import inspect
from fixtures.nodeprobe import host, smi
from fixtures.nodeprobe.document import Device, Document, decode, encode
from fixtures.nodeprobe.smi_xml import NotSmi
from fixtures.simulator.nodes.programs import nvidia_smi
from tests.nodeprobe.tables import MACHINES, Table
from tests.nodeprobe.test_nvml import COMPILER, FAULTS, _at, each, library, probe
from tests.simulator.programs.small_cluster import SmallCluster, hardware, in_cluster, pod
from tests.tables import each_row, table

__all__ = ["library"]
RUNS = int(os.environ.get("NODEPROBE_RUNS", "10"))
OUTPUTS = {"-q -x": nvidia_smi.query, "-L": nvidia_smi.listing, "nvlink -s": nvidia_smi.links}


def printed(table: Table) -> str:
    """What the script prints on a machine, without facts of the host."""
    lines = ["## node probe"]
    for name, output in zip(("smi", "list", "links"), OUTPUTS.values(), strict=True):
        text = "\n".join([*nvidia_smi.lost_lines(table), *output(table)]).split("\n")
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
def test_nvml_nvidia_smi_and_the_command_give_one_document(library: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "command").mkdir()
    tables = [MACHINES[name], *({**MACHINES[name], **fault} for fault, _ in FAULTS if not any("nvml" in key for key in fault))]
    found = each(library, tmp_path, tables)
    assert probe(library, tmp_path / "command", tables[0]) == found[0]
    for machine, by_nvml in zip(tables, found, strict=True):
        [by_smi] = smi.document(printed(machine)).drivers
        assert (by_smi.version, by_smi.cuda, by_smi.problem) == (by_nvml.version, by_nvml.cuda, by_nvml.problem)
        for one, other in zip(by_nvml.devices, by_smi.devices, strict=True):
            assert compared(one, other) == compared(other, one)


def test_the_script_prints_what_the_reader_reads(tmp_path: Path) -> None:
    texts = {arguments: "\n".join(output(MACHINES["gb200"])) for arguments, output in OUTPUTS.items()}
    document = ran(tmp_path, "\n".join(f"'{arguments}') cat <<'EOF'\n{text}\nEOF\n;;" for arguments, text in texts.items()))
    assert document.drivers == smi.document(printed(MACHINES["gb200"])).drivers
    here = host.collect()
    assert document.host.kernel == here.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()
    unlike: dict[str, object] = {"kernel_log": None, "uptime": None, "rdma": [], "bridges": []}  # rights, time and counters
    assert msgspec.structs.replace(document.host, **unlike) == msgspec.structs.replace(here, **unlike)


def ran(folder: Path, cases: str) -> Document:
    """The document of the script in a real shell with an ``nvidia-smi`` that answers by its arguments."""
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
    program.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", smi.SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=60)
    return smi.document(done.stdout)


@each_row
def test_what_nvidia_smi_says_instead_is_the_driver_s_problem(tmp_path: Path, cases: str, problem: str) -> None:
    [driver] = ran(tmp_path, cases).drivers
    assert (driver.problem, driver.devices) == (problem, [])


@each_row
def test_inspect_judges_a_document_as_it_judges_what_nvidia_smi_prints(fault: Table, expected: tuple[str, str]) -> None:
    text = printed({**MACHINES["gb200"], **fault})
    for captured in (text, encode(smi.document(text)).decode()):
        result = inspect("node-probe", captured)
        assert (result.verdict, result.reason_code) == expected
    table = {**MACHINES["gb200"], **fault}
    assert inspect("nvidia-smi", "\n".join([*nvidia_smi.lost_lines(table), *nvidia_smi.query(table)])).verdict == expected[0]


TABLE = table(__file__)
RELEASES: dict[str, tuple[str, dict[str, object]]] = TABLE["RELEASES"]
"""What each generation of drivers prints of a GPU, after captures in Telegraf's tests and in CNCF's results."""


@pytest.mark.parametrize("release", RELEASES)
def test_names_of_every_release_are_read(release: str) -> None:
    body, shown = RELEASES[release]
    [device] = smi.document(f'<nvidia_smi_log><gpu id="00000000:01:00.0">{body}</gpu></nvidia_smi_log>').drivers[0].devices
    assert {path: _at(device, path) for path in shown} == shown


BOMB = '<!DOCTYPE l [<!ENTITY a "AAAA">]>\n<nvidia_smi_log><gpu id="0"><uuid>&a;</uuid></gpu></nvidia_smi_log>'
HOSTILE = (
    BOMB,
    "<nvidia_smi_log>" + "<gpu>" * 100_000,
    "<nvidia_smi_log>" + "<gpu></gpu>" * 100_000 + "</nvidia_smi_log>",
    "<nvidia_smi_log><gpu>" + "".join(f"<a{number}>1</a{number}>" for number in range(50_000)) + "</gpu></nvidia_smi_log>",
    "<nvidia_smi_log><gpu>" + "<process_info><pid>1</pid></process_info>" * 10_000 + "</gpu></nvidia_smi_log>",
    f"<nvidia_smi_log><gpu><uuid>{'A' * 1_000_000}</uuid></gpu></nvidia_smi_log>",
    "<nvidia_smi_log><gpu><fb_memory_usage><total>" + "9" * 15 + " MiB</total></fb_memory_usage></gpu></nvidia_smi_log>",
    "## node probe\n## smi\n## smi\n",
    "## node probe\n",
    "",
)


def test_hostile_text_is_bounded() -> None:
    for text in HOSTILE:
        try:
            size = len(encode(smi.document(text)))
        except NotSmi:
            continue
        assert size < 1_000_000, text[:60]
    assert "AAAA" not in encode(smi.document(BOMB)).decode()


def test_broken_text_is_a_document_or_none() -> None:
    noise = random.Random(33)
    for run in range(RUNS):
        text = printed({**MACHINES[noise.choice(list(MACHINES))], **noise.choice(FAULTS)[0]})
        raw = "\n".join(nvidia_smi.query(MACHINES["gb200"])) if run % 2 else text
        for _ in range(noise.randint(1, 5)):
            start, end = sorted(noise.randrange(len(raw)) for _ in range(2))
            piece = raw[start : min(end, start + 2_000)]
            changed = (raw[:start], raw[:start] + raw[start + len(piece) :], raw[:start] + piece + raw[start:], _swapped(raw, start, noise))
            raw = noise.choice(changed)[:200_000] or "x"
        with suppress(NotSmi):
            assert decode(encode(smi.document(raw)))


def _swapped(text: str, at: int, noise: random.Random) -> str:
    return text[:at] + chr(noise.randrange(0x110000) & ~0x800) + text[at + 1 :]


@in_cluster(hardware("a"))
async def test_pods_of_any_image_and_of_the_suite_s_give_one_document(cluster: SmallCluster) -> None:
    await cluster.start(
        pod("smi", smi.SCRIPT, {"nvidia.com/gpu": 2}),
        pod("suite", "gpu-conformance probe --json", {"nvidia.com/gpu": 2}, container={"image": "registry.example/gpu-conformance:1"}),
    )
    for name in ("smi", "suite"):
        await cluster.phase(name, "Succeeded", "Failed")
    by_smi, by_suite = smi.document(await cluster.log("smi")), decode((await cluster.log("suite")).encode())
    assert [device.index for device in by_smi.drivers[0].devices] == [0, 1]
    unlike = {"uuid": "", "serial": "", "pci_address": "", "power": None, "temperature": None}  # each pod has devices of its own
    for one, other in zip(by_smi.drivers[0].devices, by_suite.drivers[0].devices, strict=True):
        one, other = (msgspec.structs.replace(device, **unlike) for device in (one, other))
        assert compared(one, other) == compared(other, one)
    by_smi_host, by_suite_host = (msgspec.structs.replace(one.host, device_files=[], uptime=None) for one in (by_smi, by_suite))
    assert by_smi_host == by_suite_host
    assert by_smi.host.uptime
    assert "nvidia-uvm" in by_smi.host.device_files
