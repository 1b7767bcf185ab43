"""The machine below a node's kubelet."""

from __future__ import annotations

import pytest

from fixtures.simulator.config.hardware import PRODUCTS, Hardware, gpus
from fixtures.simulator.nodes.machine.host import GpuMode, Host

pytestmark = pytest.mark.test_all


def _host(count: int = 2) -> Host:
    return Host("gpu-1", Hardware(node="gpu-1", gpus=gpus("gpu-1", PRODUCTS["H100"], count)))


def test_ecc_errors_stay_when_the_mode_is_healthy_again_and_go_with_the_reset() -> None:
    host = _host()
    uuid = host.hardware.gpus[0].uuid
    host.fail(uuid, GpuMode.ECC_UNCORRECTABLE)
    host.fail(uuid, GpuMode.ECC_UNCORRECTABLE)
    host.fail(uuid, GpuMode.HEALTHY)
    assert host.ecc == {uuid: 2}
    host.heal(uuid)
    assert host.ecc == {}
