"""The table that ``nvidia-smi`` prints by itself, and ``--query-gpu … --format=csv``, as the values of ``nvidia-smi -q``.

Facts: docs/facts/device-health.md#other-forms-of-nvidia-smi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_GPU_ROW = re.compile(
    r"\|\s{1,8}(\d{1,4})\s{1,8}(\S.{0,64}?)\s{2,40}(?:On|Off|N/A)\s{1,8}\|\s{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
    r"\s{1,16}\S{1,8}\s{0,8}\|\s{0,32}(\S{1,16})\s{0,8}\|"
)
_BORDER = re.compile(r"\+[-=+]{8,200}\+?\s*\Z|\|[=+|]{8,200}\|?\s*\Z")
_VERSIONS = re.compile(r"\| NVIDIA-SMI \S{1,32}\s{1,40}(?:KMD |Driver )Version: (\S{1,32})(?:\s{1,40}CUDA (?:UMD )?Version: (\S{1,32}))?")
_COLUMNS: Mapping[str, str] = {
    "name": "product_name",
    "gpu_name": "product_name",
    "uuid": "gpu_uuid",
    "gpu_uuid": "gpu_uuid",
    "retired_pages.single_bit_ecc.count": "retired_pages/single_bit_ecc",
    "retired_pages.double_bit.count": "retired_pages/double_bit_ecc",
    "retired_pages.pending": "retired_pages/pending_page_blacklist",
    "remapped_rows.correctable": "remapped_rows/correctable_error",
    "remapped_rows.uncorrectable": "remapped_rows/uncorrectable_error",
    "remapped_rows.pending": "remapped_rows/pending",
    "remapped_rows.failure": "remapped_rows/remapping_failure_occurred",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/uncorrectable",
    "gpu_recovery_action": "gpu_recovery_action",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "mig.mode.current": "mig_mode/current",
}
_ACTIVE = re.compile(r"clocks_(event|throttle)_reasons\.(hw_\w{1,32})\Z")
_PCI = ("pci.bus_id", "gpu_bus_id")
_UNITS = re.compile(r"\s*\[[^\]]{1,16}\]\Z")

Gpus = list[tuple[str, dict[str, str]]]
"""PCI bus id, and values by path as ``-q`` has them."""


def versions(line: str) -> tuple[str, str] | None:
    """Driver and CUDA of the table's head line."""
    match = _VERSIONS.search(line)
    return (match[1], match[2] or "") if match else None


def from_table(lines: Sequence[str]) -> Gpus:
    """GPUs of the table. What its rows call ``ERR!`` the driver cannot read."""
    gpus: Gpus = []
    inside = False
    for line in lines:
        if match := _GPU_ROW.search(line):
            ecc = match[4]
            values = {"product_name": match[2], "index": match[1]}
            if ecc.isdigit():
                values["ecc_errors/volatile/uncorrectable"] = ecc
            gpus.append((match[3], values))
            inside = True
        elif _BORDER.search(line.strip()):
            inside = False
        if inside and gpus and "ERR!" in line:
            gpus[-1][1]["handle"] = "ERR!"
    return gpus


def from_csv(lines: Sequence[str]) -> Gpus:
    """GPUs of ``--format=csv`` with its head. Columns that say nothing of health are left out."""
    gpus: Gpus = []
    heads: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        named = [_UNITS.sub("", cell) for cell in cells]
        if len(cells) > 1 and sum(name in _COLUMNS or name in _PCI or _ACTIVE.match(name) is not None for name in named) >= 1:
            heads = named
        elif heads and len(cells) == len(heads):
            row = dict(zip(heads, cells, strict=True))
            values = {_COLUMNS[name]: value for name, value in row.items() if name in _COLUMNS}
            values |= {f"clocks_{m[1]}_reasons/{m[2]}": value for name, value in row.items() if (m := _ACTIVE.match(name))}
            gpus.append((next((row[name] for name in _PCI if name in row), row.get("index", str(len(gpus)))), values))
    return gpus
