"""Readers of what jobs print: CUDA's vectorAdd, the MIG manager, and perftest (``ib_write_bw``, ``ib_read_bw``, ``ib_send_bw``).

Bandwidths are Gb/s. Only the lines about CUDA or ROCm prove that GPU memory was used. Their absence proves host memory when the output
is whole (it ends with the closing rule); in a cut excerpt it proves nothing.

Facts: docs/facts/nccl.md#perftest.
"""

import re
from enum import StrEnum

import msgspec

from conformance.outputs.captured_text import Unreadable, log_lines
from conformance.outputs.inspection import OutputVerdict

_STATE = re.compile(r"mig\.config\.state' node label to '(\w{1,32})'")
_ASSERTING = re.compile(r"Updating MIG config: map\[([^\]]{0,256})\]")
_CUDA_CALL = re.compile(r"Failed to [a-z].{1,120}\(error code .{1,120}\)!")
_MIG_MANAGER = re.compile(r"MIG (?:config|mode|device|configuration|manager)|mig\.config|mig-parted")


class VectorAdd(msgspec.Struct, frozen=True):
    """``passed`` is ``None`` when the log ends before the sample's own verdict."""

    passed: bool | None
    error: str


class MigManagerLog(msgspec.Struct, frozen=True):
    """``state`` is the last value that the manager gave the label ``nvidia.com/mig.config.state``; ``""`` when it gave none."""

    state: str
    updates: tuple[str, ...]
    errors: tuple[str, ...]


def parse_vector_add(text: str) -> VectorAdd:
    """Read a vectorAdd log. Raises ``Unreadable`` when no line of the sample is in it."""
    passed: bool | None = None
    error = ""
    seen = False
    for line in log_lines(text):
        seen = seen or "[Vector addition of " in line or "CUDA kernel launch with" in line or bool(_CUDA_CALL.search(line))
        if line.strip() == "Test PASSED":
            passed = True if passed is None else passed
        elif (seen and "Failed to " in line) or "Result verification failed" in line or line.strip() == "Test FAILED":
            passed, error = False, line.strip()[:300]
    if not seen and passed is None:
        raise Unreadable("no line of the vectorAdd sample found")
    return VectorAdd(passed, error)


def parse_mig_manager(text: str) -> MigManagerLog:
    """Read a MIG manager log. Raises ``Unreadable`` when no line of it is in the text."""
    state, seen = "", False
    updates: list[str] = []
    errors: list[str] = []
    for line in log_lines(text):
        seen = seen or bool(_MIG_MANAGER.search(line))
        if match := _STATE.search(line):
            state = match[1]
        if match := _ASSERTING.search(line):
            updates.append(match[1])
        if "level=error" in line or "level=fatal" in line:
            errors.append(line.strip()[:300])
    if not seen:
        raise Unreadable("no line of the MIG manager found")
    return MigManagerLog(state, tuple(updates), tuple(errors))


_MIB_TO_GBIT = 2**20 * 8 / 1e9
_TITLE = re.compile(r"\s{0,80}(RDMA_Write|RDMA_Read|Send|RDMA_Atomic) (?:Bidirectional )?(?:Post List )?BW Test")
_HEADER = re.compile(r"\s{0,8}#bytes\s{1,24}#iterations\s.{0,80}?BW average\[(Gb/sec|MB/sec|MiB/sec)\]")
_ROW = re.compile(
    r"\s{0,8}(\d{1,12})\s{1,24}(\d{1,12})\s{1,24}(\d{1,9}(?:\.\d{1,9})?)\s{1,24}(\d{1,9}(?:\.\d{1,9})?)(?:\s{1,24}(\d{1,9}\.\d{1,12}))?\s*\Z"
)
_FIELD = re.compile(r"(Device|Link type|Transport type|Number of qps|Mtu)\s{1,24}:\s{1,24}(\S{1,64})")
_RULE = re.compile(r"-{60,200}\s*\Z")
_CUDA = re.compile(
    r"initializing CUDA|Listing all CUDA devices|CUDA device \d{1,3}: PCIe address|creating CUDA Ctx|current CUDA Ctx"
    r"|cuMemAlloc\(\) of a |allocated GPU buffer|deallocating GPU buffer|using DMA-BUF for GPU buffer"
)
_ROCM = re.compile(r"Using ROCm Device|ROCm (?:device|GPU)|hipMalloc|allocated \d{1,20} bytes of GPU buffer")
_COMMAND = re.compile(r"--use_(cuda|rocm)\w{0,16}")
_FAILURES = re.compile(
    r"Couldn't allocate MR|ibv_reg_mr failed|Unable to find the Infiniband/RoCE device|DMA-BUF is not supported on this GPU"
    r"|Couldn't (?:connect|get|create|read|initialize)|Failed to (?:complete|exchange|modify|open)"
    r"|Completion with error|Cannot allocate memory"
)


class Memory(StrEnum):
    """Where the payload lay."""

    CUDA = "cuda"
    ROCM = "rocm"
    HOST = "host"
    UNKNOWN = "unknown"


class BandwidthRow(msgspec.Struct, frozen=True):
    """One message size in bytes; peak and average in Gb/s."""

    size: int
    iterations: int
    peak: float
    average: float


class Perftest(msgspec.Struct, frozen=True):
    """One captured output, which may hold both sides of a loopback run."""

    test: str
    rows: tuple[BandwidthRow, ...]
    memory: Memory
    dmabuf: bool
    devices: tuple[str, ...]
    link_types: tuple[str, ...]
    whole: bool
    failures: tuple[str, ...]

    @property
    def best(self) -> BandwidthRow | None:
        """The row of the largest size (the fastest of them); ``None`` without rows."""
        return max(self.rows, key=lambda row: (row.size, row.average), default=None)


class PerftestCode(StrEnum):
    """What a run proves of GPUDirect RDMA."""

    GDR_MEASURED = "GDR_MEASURED"
    HOST_MEMORY = "HOST_MEMORY"
    MEMORY_UNKNOWN = "MEMORY_UNKNOWN"
    BELOW_MINIMUM = "BELOW_MINIMUM"
    NO_MEASUREMENT = "NO_MEASUREMENT"
    FAILED = "FAILED"


def parse_perftest(text: str) -> Perftest:
    """Read a captured output.

    Raises:
        Unreadable: empty, binary or oversized text, or no line that perftest writes.
    """
    test, unit, after_rows = "", "", False
    rows: list[BandwidthRow] = []
    fields: dict[str, dict[str, None]] = {}
    failures: list[str] = []
    memory, asked, dmabuf, whole = Memory.HOST, False, False, False
    for line in log_lines(text):
        if title := _TITLE.match(line):
            test, unit, after_rows, whole = title[1], "", False, False
        elif header := _HEADER.match(line):
            unit = header[1]
        elif unit and (row := _ROW.match(line)):
            scale = 1.0 if unit == "Gb/sec" else _MIB_TO_GBIT
            rows.append(BandwidthRow(int(row[1]), int(row[2]), float(row[3]) * scale, float(row[4]) * scale))
            after_rows = True
        elif after_rows and _RULE.match(line):
            whole = True
        for name, value in _FIELD.findall(line):
            fields.setdefault(name, {})[value] = None
        if _CUDA.search(line):
            memory = Memory.CUDA
            dmabuf = dmabuf or "using DMA-BUF" in line
        elif _ROCM.search(line):
            memory = Memory.ROCM
        asked = asked or bool(_COMMAND.search(line))
        if _FAILURES.search(line):
            failures.append(line.strip()[:300])
    if not test and not rows and not failures and memory is Memory.HOST:
        raise Unreadable("no line of a perftest bandwidth test found")
    if memory is Memory.HOST and (asked or not whole):
        memory = Memory.UNKNOWN
    return Perftest(
        test=test,
        rows=tuple(rows),
        memory=memory,
        dmabuf=dmabuf,
        devices=tuple(fields.get("Device", {})),
        link_types=tuple(fields.get("Link type", {})),
        whole=whole,
        failures=tuple(failures),
    )


def judge_perftest(output: Perftest, *, minimum_gbits: float | None = None) -> OutputVerdict[PerftestCode]:
    """Verdict as GPUDirect RDMA evidence. ``minimum_gbits`` is the average Gb/s that the largest size must reach. Pure."""
    best = output.best
    facts: dict[str, object] = {
        "test": output.test,
        "largestBytes": best.size if best else None,
        "gbits": round(best.average, 3) if best else None,
        "peakGbits": round(max(row.average for row in output.rows), 3) if output.rows else None,
        "memory": output.memory.value,
        "dmabuf": output.dmabuf,
        "devices": list(output.devices),
        "linkTypes": list(output.link_types),
        "rows": len(output.rows),
        "whole": output.whole,
    }
    code, message = _code(output, best, minimum_gbits)
    # in the host, or nobody knows where: that proves nothing
    good = None if code in (PerftestCode.HOST_MEMORY, PerftestCode.MEMORY_UNKNOWN) else code is PerftestCode.GDR_MEASURED
    return OutputVerdict(code=code, message=message, facts=facts, good=good)


def _code(output: Perftest, best: BandwidthRow | None, minimum: float | None) -> tuple[PerftestCode, str]:
    if output.failures:
        return PerftestCode.FAILED, output.failures[0]
    if best is None or best.average <= 0:
        return PerftestCode.NO_MEASUREMENT, "no row with a bandwidth: the run measured nothing"
    measured = f"{best.average:.2f} Gb/s at {best.size} bytes"
    if minimum is not None and best.average < minimum:
        return PerftestCode.BELOW_MINIMUM, f"{measured}, expected at least {minimum:g} Gb/s"
    if output.memory is Memory.HOST:
        return PerftestCode.HOST_MEMORY, f"{measured} from host memory: no evidence of GPUDirect RDMA"
    if output.memory is Memory.UNKNOWN:
        return PerftestCode.MEMORY_UNKNOWN, f"{measured}, but the output is incomplete and holds no CUDA line: memory type unknown"
    return PerftestCode.GDR_MEASURED, f"{measured} from {output.memory.value} memory"
