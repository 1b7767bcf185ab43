import asyncio
from typing import Any

import msgspec

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour, Tempo
from fixtures.simulator.nodes.machine.host import GpuMode
from tests.simulator.programs.plugin_pods import GPU, QUICK, SYSTEM, devices, plugin_pod
from tests.simulator.programs.small_cluster import SmallCluster, hardware, in_cluster, node
from tests.tables import each_row

NODE = "/api/v1/nodes/a"


async def until_devices(cluster: SmallCluster, capacity: str, allocatable: str, resource: str = GPU) -> None:
    await cluster.until(NODE, lambda obj: devices(obj, resource) == (capacity, allocatable))


LONG = msgspec.structs.replace(QUICK, plugin_grace=Tempo().plugin_grace)
SLOW = msgspec.structs.replace(QUICK, plugin_registration=0.3)


@in_cluster(hardware("a", 4), objects=[plugin_pod("a")], tempo=SLOW)
async def test_a_second_plugin_on_a_node_takes_no_device_away_when_it_starts(cluster: SmallCluster) -> None:
    stated: list[tuple[str, str]] = []

    async def listen() -> None:
        async for event, obj in cluster.client.list_and_watch("/api/v1/nodes", {"fieldSelector": "metadata.name=a"}):
            if event in ("ADDED", "MODIFIED"):
                stated.append(devices(obj))

    listening = asyncio.create_task(listen())
    for name in ("copy-1", "copy-2", "copy-3"):
        await cluster.client.create(SYSTEM, plugin_pod("a", name, runs=False))
        await cluster.until(f"{SYSTEM}/{name}", lambda obj: obj["status"].get("phase") == "Running")
    await asyncio.sleep(2 * SLOW.plugin_registration)
    assert set(stated) == {("4", "4")}
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await until_devices(cluster, "4", "0")
    await until_devices(cluster, "4", "4")
    listening.cancel()


@each_row
def test_which_xids_count_and_which_device_they_mark(env: dict[str, str], xid: int, left: str, switches: dict[str, Any]) -> None:
    @in_cluster(hardware("a", 4), behaviour=Behaviour(**switches), objects=[plugin_pod("a", env=env)], tempo=QUICK)
    async def scenario(cluster: SmallCluster) -> None:
        gpus = hardware("a", 4).gpus
        cluster.hosts["a"].raise_xid(gpus[3].uuid, xid)
        cluster.hosts["a"].raise_xid("GPU-of-another-machine", 79)
        registry = cluster.kubelets.machines["a"].manager.registry
        if left == "3":
            await until_devices(cluster, "4", "3")
            assert registry[GPU].unhealthy == {gpus[0 if "plugin_marks_another_device" in switches else 3].uuid}
        else:
            assert len(registry[GPU].healthy) == 4  # events are taken at once
            assert registry[GPU].unhealthy == set()

    scenario()


SHORT = node(hardware("b", 4), 9)
SHORT["status"]["allocatable"] = {**SHORT["status"]["allocatable"], GPU: "3"}


@in_cluster(hardware("a", 4), objects=[SHORT, plugin_pod("b", "plugin-b")], tempo=QUICK, more={"b": hardware("b", 4)})
async def test_a_status_that_says_less_stays_until_something_changes(cluster: SmallCluster) -> None:
    kubelet = cluster.kubelets.machines["b"]
    assert devices(await cluster.client.get("/api/v1/nodes/b")) == ("4", "3")
    assert len(kubelet.manager.registry[GPU].healthy) == 3
    await cluster.client.delete(f"{SYSTEM}/plugin-b")
    await cluster.until("/api/v1/nodes/b", lambda obj: devices(obj) == ("4", "0"))


def states(pod: Json) -> dict[str, str]:
    """The reason for which a container waits, or ``running``, by its name."""
    found = pod["status"]["containerStatuses"]
    return {item["name"]: item["state"].get("waiting", {}).get("reason", "running") for item in found}


@in_cluster(hardware("a", 4), objects=[plugin_pod("a")], tempo=LONG)
async def test_a_plugin_that_starts_while_the_driver_lists_a_lost_device_ends_until_that_is_healed(cluster: SmallCluster) -> None:
    host = cluster.hosts["a"]
    host.fail(hardware("a", 4).gpus[2].uuid, GpuMode.LOST)
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await until_devices(cluster, "4", "0")
    await cluster.client.create(SYSTEM, plugin_pod("a", "next", runs=False))
    ended = await cluster.until(f"{SYSTEM}/next", lambda obj: "CrashLoopBackOff" in str(obj["status"]))
    assert "GPU is lost" in str(ended["status"]["containerStatuses"][0]["lastState"])
    assert devices(await cluster.client.get(NODE)) == ("4", "0")
    host.heal()
    await until_devices(cluster, "4", "4")


@in_cluster(hardware("a", 4), objects=[plugin_pod("a")], tempo=LONG)
async def test_a_device_that_the_driver_lists_no_more_is_left_out(cluster: SmallCluster) -> None:
    cluster.hosts["a"].fail(hardware("a", 4).gpus[2].uuid, GpuMode.FALLEN_OFF_BUS)
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await cluster.client.create(SYSTEM, plugin_pod("a", "next", runs=False))
    await until_devices(cluster, "3", "3")


CONFIGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "device-plugin-config", "namespace": "kube-system"},
    "data": {"refused": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: -3}]}}", "plain": "version: v1"},
}
GFD = "gpu-feature-discovery"


@in_cluster(hardware("a", 4), objects=[plugin_pod("a", managed=True), plugin_pod("a", GFD, app=GFD, managed=True), CONFIGS], tempo=LONG)
async def test_a_label_without_key_ends_the_managers_and_a_refused_configuration_the_programs(cluster: SmallCluster) -> None:
    async def until_all(plugin: str, manager: str) -> None:
        for name in ("plugin", GFD):
            await cluster.until(f"{SYSTEM}/{name}", lambda obj: states(obj) == {"plugin": plugin, "config-manager": manager})

    async def label(value: str | None) -> None:
        await cluster.client.patch(NODE, {"metadata": {"labels": {"nvidia.com/device-plugin.config": value}}})

    await label("no-such-key")
    await until_all("running", "CrashLoopBackOff")
    assert devices(await cluster.client.get(NODE)) == ("4", "4")
    await label("refused")
    await until_all("CrashLoopBackOff", "running")
    await until_devices(cluster, "4", "0")
    await label("plain")
    await until_all("running", "running")
    await until_devices(cluster, "4", "4")
