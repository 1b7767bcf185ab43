"""Whether what a detector says is about the device of an experiment."""

from __future__ import annotations

import pytest

from chaos.cluster.gpu_names import names_of, names_this
from chaos.model.plan import Target
from chaos.observe.signals.registry import SIGNALS
from tests.chaos.observe.made_up_cluster import Read, World, node, plan

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
FACTS = {"uuid": UUID, "pci": "0000:1B:00.0", "index": 1}


@pytest.mark.parametrize(
    ("message", "this"),
    [
        (f"ErrorCode:79 GPU_UUID:{UUID}", True),
        (f"ErrorCode:79 GPU_UUID:{UUID.lower()}.", True),
        (f"ErrorCode:79 GPU_UUID:{UUID}0", False),
        ("NVRM: Xid (PCI:0000:1b:00): 79", True),
        ("ErrorCode:79 PCI:00000000:1B:00.0", True),
        ("NVRM: Xid (PCI:0000:1b:001): 79", False),
        ("GPU 1 has fallen off the bus", True),
        ("GPU: 1 has fallen off the bus", True),
        ("GPU 10 has fallen off the bus", False),
        ("XGPU 1 is no device", False),
        ("", False),
    ],
)
def test_a_device_is_named_by_whole_words(message: str, this: bool) -> None:
    assert names_this(message, names_of(FACTS)) is this


def test_a_fault_of_gpu_10_is_none_of_gpu_1() -> None:
    target = Target(kind="nodes", name="a", uid="1", node="a", facts=FACTS)
    told = [
        World(nodes=[node("a", conditions=[{"type": "GpuMemWatch", "status": "True", "message": f"GPU {index} is lost"}])])
        for index in (1, 10)
    ]
    found = [SIGNALS["node.faults.name.target"](Read(world, plan(target))) for world in told]  # type: ignore[arg-type]
    assert found == [True, False]
