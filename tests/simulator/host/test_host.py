"""The machine below a node's kubelet."""

import pytest

from fixtures.simulator.config.hardware import PRODUCTS, Hardware, gpus
from fixtures.simulator.nodes.machine.host import GpuMode, Host

pytestmark = pytest.mark.test_all


def _host(count: int = 2) -> Host:
    return Host("gpu-1", Hardware(node="gpu-1", gpus=gpus("gpu-1", PRODUCTS["H100"], count)))


def test_a_failure_with_an_xid_is_a_mode_and_an_event() -> None:
    host, woken = _host(), []
    host.listen(lambda: woken.append(len(host.xids)))
    uuid = host.hardware.gpus[0].uuid
    host.fail(uuid, GpuMode.LOST, xid=79)
    host.raise_xid(uuid, 48)
    assert host.mode(host.hardware.gpus[0]) is GpuMode.LOST
    assert [(event.number, event.code) for event in host.xids] == [(1, 79), (2, 48)]
    assert woken == [1, 2]


def test_ecc_errors_stay_when_the_mode_is_healthy_again_and_go_with_the_reset() -> None:
    host = _host()
    gpu = host.hardware.gpus[0]
    host.fail(gpu.uuid, GpuMode.ECC_UNCORRECTABLE)
    host.fail(gpu.uuid, GpuMode.ECC_UNCORRECTABLE)
    host.fail(gpu.uuid, GpuMode.HEALTHY)
    assert [host.table.number(gpu, name) for name in ("ecc.uncorrected", "remap.uncorrected", "remap.pending")] == [2, 2, 1]
    host.heal(gpu.uuid)
    assert [host.table.number(gpu, name) for name in ("ecc.uncorrected", "remap.uncorrected", "remap.pending")] == [0, 2, 0]


def test_the_kernel_log_numbers_records_and_one_line_is_one_record() -> None:
    host = _host()
    host.log("first\n\nsecond")
    host.log("third")
    assert [(line.number, line.text) for line in host.kernel_log] == [(1, "first"), (2, "second"), (3, "third")]


def test_the_mig_layout_is_what_the_driver_enumerates() -> None:
    host = _host()
    assert all(not gpu.instances for gpu in host.hardware.gpus)
    host.mig_layout = {"1g.10gb": 7}
    assert [len(gpu.instances) for gpu in host.hardware.gpus] == [7, 7]
    host.mig_layout = {}
    assert all(not gpu.instances for gpu in host.hardware.gpus)
    assert [gpu.uuid for gpu in host.hardware.gpus] == [gpu.uuid for gpu in host.built.gpus]
