"""Tables of the mocked driver: healthy machines of four products."""

from collections.abc import Callable
from pathlib import Path

from tests.tables import table

Table = dict[str, str | int]


def _device(index: int, **more: str | int) -> Table:
    values: Table = {
        "uuid": f"GPU-{index:08x}-1111-2222-3333-444444444444",
        "serial": f"16{index:08}",
        "pci": f"00000000:{0x10 + index:02X}:00.0",
        "inforom": "G520.0200.00.05",
        "memory.used": 1 << 29,
        "mig.mode": 0,
        "ecc.mode": 1,
        **dict.fromkeys(("ecc.corrected", "ecc.uncorrected", "ecc.corrected_ever", "ecc.uncorrected_ever", "ecc.threshold_exceeded"), 0),
        "remap.uncorrected": 0,
        "pcie.generation": 5,
        "pcie.max_generation": 5,
        "pcie.width": 16,
        "pcie.max_width": 16,
        "pcie.replays": 0,
        "power": 70_000,
        "energy": 9_876_543_210,
        "utilisation": 0,
        "power.limit": 700_000,
        "power.default": 700_000,
        "power.max": 700_000,
        "temperature": 31,
        "temperature.slowdown": 87,
        "temperature.shutdown": 92,
        "persistence": 1,
        "slowdowns": 1,
        "clock.sm": 345,
        "clock.max_sm": 1980,
        "clock.memory": 2619,
        "clock.max_memory": 2619,
        "recovery": 0,
        **more,
    }
    return {f"{index}.{name}": value for name, value in values.items()}


def machine(count: int, **more: str | int) -> Table:
    """``count`` equal devices. Two underscores in a name of ``more`` stand for a dot."""
    values = {name.replace("__", "."): value for name, value in more.items()}
    table: Table = {"driver": "580.95.05", "library": "13.580.95.05", "cuda": 13000, "count": count}
    for index in range(count):
        table |= _device(index, **values)
    return table


def _slices(table: Table, parts: int) -> Table:
    for name in [name for name in table if name.endswith(".uuid")]:
        device = name.partition(".")[0]
        table |= {f"{device}.mig.mode": 1, f"{device}.mig.most": 7}
        for part in range(parts):
            place = f"{device}.mig.{part}"
            table |= {
                f"{place}.uuid": f"MIG-0000000{device}-0000-{part:04}",
                f"{place}.name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                f"{place}.gi": 7 + part,
            }
            table |= {f"{place}.ci": 0}
    return table


NVLINKS = {"links": 18}
MACHINES: dict[str, Table] = {
    "h100": machine(8, name="NVIDIA H100 80GB HBM3", vbios="96.00.74.00.01", memory__total=85_520_809_984, **NVLINKS),
    "a100-mig": _slices(
        machine(8, name="NVIDIA A100-SXM4-40GB", vbios="92.00.45.00.03", memory__total=42_949_672_960, pcie__max_generation=4, links=12), 7
    ),
    "gb200": machine(
        4,
        name="NVIDIA GB200",
        vbios="97.00.B9.00.46",
        memory__total=198_674_743_296,
        fabric__state=3,
        fabric__clique=1,
        fabric__uuid=7,
        fabric__mask=0b01_10_10_10_10,
        fabric__summary=1,
        **NVLINKS,
    ),
    "l40s": machine(8, name="NVIDIA L40S", vbios="95.02.66.00.02", memory__total=48_305_799_168, pcie__max_generation=4),
}


def _mi300x(index: int) -> Table:
    uuid = f"{index:02}ff74a1-0000-1000-8000-00000000000"
    return {
        "bdf": 0x10 + index << 8,
        "parts": 8,
        **{f"{part}.uuid": f"{uuid}{part}" for part in range(8)},
        "-1.uuid": f"{uuid}0",
        "memory.used": 1 << 30,
        "compute": "CPX",
        "memory.mode": "NPS4",
        "ecc.corrected": 0,
        "ecc.uncorrected": 0,
    }


def _max1550(index: int) -> Table:
    return {
        "name": "Intel(R) Data Center GPU Max 1550",
        "serial": f"AB{index}",
        "bus": 0x10 + index,
        "modules": 2,
        "memory.total": 64 << 30,
        "memory.used": 1 << 30,
        **dict.fromkeys(("pcie.generation", "pcie.max_generation"), 5),
        **dict.fromkeys(("pcie.width", "pcie.max_width"), 16),
    }


def _numbered(device: Callable[[int], Table], count: int) -> Table:
    return {f"{index}.{name}": value for index in range(count) for name, value in device(index).items()}


OF_VENDORS: dict[str, Table] = {
    "amd": {"count": 8, **_numbered(_mi300x, 8)},
    "intel": {"count": 4, "driver": "1.6.32567", **_numbered(_max1550, 4)},
}
"""Healthy machines of other vendors: MI300X cut into partitions, and Max 1550."""

TABLE = table(__file__)
_CARDS = TABLE["_CARDS"]
"""What sysfs has of a card of each vendor."""


def write_cards(root: Path, vendor: str, count: int) -> None:
    """Files of ``count`` cards below ``root``."""
    for index in range(count):
        for name, text in _CARDS[vendor].items():
            path = root / f"sys/bus/pci/devices/0000:{0x10 + index:02x}:00.0/{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
