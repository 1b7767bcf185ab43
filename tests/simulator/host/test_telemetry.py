"""What an exporter shows of a machine's faults, and of its own and its host engine's absence."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.nodes.machine.host import GpuMode
from tests.simulator.host.scene import Scene, scene
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

NODE = "h100-1"
XID = "DCGM_FI_DEV_XID_ERRORS"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
POWER = "DCGM_FI_DEV_POWER_USAGE"


async def _metrics(at: Scene) -> str:
    try:
        return await at.metrics(NODE)
    except ApiError as error:
        return f"unavailable: {error.code}"


async def _pages(at: Scene, until: str, seconds: float = PATIENCE) -> list[str]:
    """Pages of the node's exporter, polled until one has ``until`` in it."""
    pages: list[str] = []

    async def poll() -> None:
        while not pages or until not in pages[-1]:
            pages.append(await _metrics(at))
            await asyncio.sleep(0.05)

    await asyncio.wait_for(poll(), seconds)
    return pages


@pytest.mark.parametrize("hidden", [False, True])
def test_an_injected_xid_latches_until_the_host_engine_restarts(hidden: bool) -> None:
    async def scenario() -> None:
        async with scene(exporter_hides_xid=hidden) as at:
            await at.set_labels(NODE, {"k8saas.nvidia.com/ManagedByNVSentinel": "false"})
            host = at.hosts[NODE]
            host.inject(3, 230, "79")
            assert await at.metric(NODE, XID, 3) == ("0" if hidden else "79")
            assert await at.metric(NODE, XID, 2) == "0"
            if hidden:
                return
            await asyncio.sleep(1.5)
            assert await at.metric(NODE, XID, 3) == "79"
            host.raise_xid(host.hardware.gpus[3].uuid, 48)
            assert await at.metric(NODE, XID, 3) == "48"
            old = await at.kill("nvidia-dcgm", NODE)
            await at.ready_again("nvidia-dcgm", old)
            await _pages(at, XID)
            assert await at.metric(NODE, XID, 3) == "0"

    asyncio.run(scenario())


def test_an_injected_gauge_is_overwritten_by_the_next_poll() -> None:
    async def scenario() -> None:
        async with scene() as at:
            before = int(await at.metric(NODE, TEMPERATURE, 0))
            at.hosts[NODE].inject(0, 150, "97")
            assert await at.metric(NODE, TEMPERATURE, 0) == "97"
            async with asyncio.timeout(PATIENCE):
                while (now := await at.metric(NODE, TEMPERATURE, 0)) == "97":
                    await asyncio.sleep(0.1)
            assert abs(int(now) - before) < 10

    asyncio.run(scenario())


def test_ecc_errors_are_counted_and_a_lost_device_has_no_sample() -> None:
    async def scenario() -> None:
        async with scene() as at:
            await at.set_labels(NODE, {"k8saas.nvidia.com/ManagedByNVSentinel": "false"})
            host = at.hosts[NODE]
            host.fail(host.hardware.gpus[0].uuid, GpuMode.ECC_UNCORRECTABLE)
            host.fail(host.hardware.gpus[1].uuid, GpuMode.LOST)
            assert await at.metric(NODE, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0) == "1"
            assert await at.metric(NODE, TEMPERATURE, 1) == ""
            assert await at.metric(NODE, TEMPERATURE, 2) != ""

    asyncio.run(scenario())


def test_a_killed_exporter_is_unavailable_until_its_successor_has_collected() -> None:
    async def scenario() -> None:
        async with scene() as at:
            uuids = {gpu.uuid for gpu in at.hosts[NODE].hardware.gpus}
            page = await at.metrics(NODE)
            assert all(uuid in page for uuid in uuids)
            await at.kill("nvidia-dcgm-exporter", NODE)
            pages = await _pages(at, POWER)
            assert any(page.startswith("unavailable: ") for page in pages)  # 503 while it ends, 404 until its successor is made
            assert all(uuid in pages[-1] for uuid in uuids)

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_without_a_host_engine_there_are_no_samples_and_then_they_change_again(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(exporter_freezes_after_restart=broken) as at:
            await at.metrics(NODE)
            old = await at.kill("nvidia-dcgm", NODE)
            if broken:
                await at.ready_again("nvidia-dcgm", old)
            else:
                assert "" in await _pages(at, POWER)
            first = await at.metric(NODE, POWER, 0)
            if broken:
                await asyncio.sleep(0.3)
                assert await at.metric(NODE, POWER, 0) == first
            else:
                async with asyncio.timeout(PATIENCE):
                    while await at.metric(NODE, POWER, 0) == first:
                        await asyncio.sleep(0.1)

    asyncio.run(scenario())
