"""``nvidia-smi`` on the machine: the reset of a device with its refusals, and what it says of broken devices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.nodes.machine.host import GpuMode
from tests.simulator.host.injector import NSENTER, injector, on_host, ran_on_host
from tests.simulator.programs.small_cluster import PODS, hardware, pod, small_cluster

pytestmark = pytest.mark.test_all


def _agent(name: str, app: str) -> dict[str, Any]:
    return pod(name, metadata={"labels": {"app": app}}, spec={"nodeName": "a"})


def test_persistence_mode_alone_refuses_a_reset_and_without_clients_it_heals() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 2)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            first, second = (gpu.uuid for gpu in host.hardware.gpus)
            script = f"""
nvml-mock-ctl fail --gpu 0 --mode ecc_uncorrectable
nvml-mock-ctl fail --gpu 1 --mode ecc_uncorrectable
nvidia-smi --gpu-reset -i {first}
nvidia-smi -pm 0 -i {first}
nvidia-smi --query-gpu=uuid,persistence_mode --format=csv,noheader
nvidia-smi --gpu-reset -i {first}
"""
            output, codes = await ran_on_host(cluster, script)
            assert "  GPU 00000000:18:00.0: In use by another client\n    persistence mode is enabled\n" in output
            assert f"{first}, Disabled\n{second}, Enabled\n" in output
            assert "GPU 00000000:18:00.0 was successfully reset.\nAll done.\n" in output
            assert codes == [0, 0, 19, 0, 0, 0]
            assert host.ecc == {second: 1}
            assert host.modes == {first: GpuMode.HEALTHY, second: GpuMode.ECC_UNCORRECTABLE}

    asyncio.run(scenario())


def test_clients_are_named_and_agents_that_only_monitor_count() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 2)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            await cluster.start(pod("train", "sleep infinity", {"nvidia.com/gpu": 1}), _agent("plugin-x", "nvidia-device-plugin-daemonset"))
            await cluster.phase("train", "Running")
            await cluster.phase("plugin-x", "Running")
            worker = cluster.kubelets.worker_of("default", "train")
            assert worker is not None
            held = next(iter(worker.allocation.units)).uuid
            free = next(gpu.uuid for gpu in host.hardware.gpus if gpu.uuid != held)
            busy = await on_host(cluster, f"nvidia-smi -pm 0\nnvidia-smi --gpu-reset -i {held}\nnvidia-smi --gpu-reset -i {free}")
            assert busy.count("default/train/probe") == 1
            assert busy.count("default/plugin-x/probe") == 2
            apps = "nvidia-smi --query-compute-apps=pid,gpu_uuid --format=csv,noheader"
            rows = (await on_host(cluster, apps, name="apps")).splitlines()
            assert [row.partition(", ")[2] for row in rows] == [held]
            await cluster.client.delete(f"{PODS}/plugin-x")
            await cluster.gone(f"{PODS}/plugin-x")
            again, codes = await ran_on_host(cluster, f"nvidia-smi --gpu-reset -i {free}\nnvidia-smi --gpu-reset -i {held}", name="again")
            assert "1 device is currently being used" in again
            assert codes == [0, 19]
            assert (await cluster.client.get(f"{PODS}/train"))["status"]["phase"] == "Running"

    asyncio.run(scenario())


def test_who_is_not_root_on_the_machine_or_names_no_device_resets_nothing() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 2)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            host.fail(host.hardware.gpus[0].uuid, GpuMode.ECC_UNCORRECTABLE)
            await cluster.start(pod("tenant", "nvidia-smi --gpu-reset -i 0; echo $?", {"nvidia.com/gpu": 2}))
            assert await cluster.output("tenant") == "Unable to reset this GPU: Insufficient Permissions\n4\n"
            user = {"securityContext": {"privileged": True, "runAsUser": 1000}}
            await cluster.start(injector("user", NSENTER + "nvidia-smi --gpu-reset -i 0", container=user))
            assert "Permission denied" in await cluster.output("user")
            assert await ran_on_host(cluster, "nvidia-smi --gpu-reset -i GPU-0") == ("No devices were found\n", [6])
            assert host.modes[host.hardware.gpus[0].uuid] is GpuMode.ECC_UNCORRECTABLE

    asyncio.run(scenario())


def test_a_lost_device_is_told_and_one_off_the_bus_is_not_there() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 3)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            first, second, third = host.hardware.gpus
            host.fail(first.uuid, GpuMode.LOST)
            host.fail(second.uuid, GpuMode.FALLEN_OFF_BUS)
            output, codes = await ran_on_host(cluster, "nvidia-smi -L")
            assert output.splitlines() == [
                "Unable to determine the device handle for GPU 0000:18:00.0: GPU is lost.  Reboot the system to recover this GPU",
                f"GPU 2: NVIDIA H100 80GB HBM3 (UUID: {third.uuid})",
            ]
            assert codes == [15]

    asyncio.run(scenario())


def test_the_defects_of_a_reset() -> None:
    async def scenario() -> None:
        behaviour = Behaviour(reset_ignores_clients=True, reset_loses_device=True)
        async with small_cluster([hardware("a", 1)], behaviour) as cluster:
            host = cluster.kubelets.hosts["a"]
            await cluster.start(pod("train", "sleep infinity", {"nvidia.com/gpu": 1}))
            await cluster.phase("train", "Running")
            assert "successfully reset" in await on_host(cluster, "nvidia-smi --gpu-reset -i 0")
            ended = await cluster.phase("train", "Failed")
            assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
            assert host.modes[host.hardware.gpus[0].uuid] is GpuMode.FALLEN_OFF_BUS

    asyncio.run(scenario())
