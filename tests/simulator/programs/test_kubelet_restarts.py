import asyncio

import msgspec
import pytest

from fixtures.kubernetes.pod_resources import PodResources
from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Tempo
from fixtures.simulator.pods.state import condition
from tests.simulator.programs.plugin_pods import GPU, QUICK, SYSTEM, devices, plugin_pod
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod

NODE = "/api/v1/nodes/a"
SOCKET = {
    "volumes": [{"name": "socket", "hostPath": {"path": "/var/lib/kubelet/pod-resources"}}],
    "tolerations": [{"operator": "Exists"}],
}
LISTER = {"volumeMounts": [{"name": "socket", "mountPath": "/pod-resources"}]}

on_a_node = in_cluster(hardware("a", 4), objects=[plugin_pod("a")], tempo=QUICK)


async def holder(cluster: SmallCluster, name: str = "holder", script: str = "nvidia-smi -L; sleep infinity", count: int = 1) -> Json:
    await cluster.start(pod(name, script, {GPU: count}))
    return await cluster.phase(name, "Running")


async def allocatable(cluster: SmallCluster, name: str) -> dict[str, list[str]]:
    """Ids of the healthy devices by resource, as a pod with the socket reads them."""
    await cluster.start(pod(name, "kubelet-podresources", spec={**SOCKET, "nodeName": "a"}, container=LISTER))
    line = (await cluster.output(name)).strip()
    found = msgspec.json.decode(line, type=PodResources)
    assert msgspec.json.encode(found).decode() == line  # nothing else than what the real program prints
    return {item.resource: item.ids for item in found.allocatable or ()}


@on_a_node
async def test_a_stopped_kubelet_admits_confirms_and_tells_nothing(cluster: SmallCluster) -> None:
    await holder(cluster)
    await holder(cluster, "short", "sleep 0.3")
    host = cluster.hosts["a"]
    host.stop_kubelet()
    await cluster.start(pod("new", "exit 0", {GPU: 1}))
    assert await cluster.bound("new") == ["a"]
    await cluster.client.delete(f"{PODS}/holder")
    for name in ("holder", "short"):
        with pytest.raises(ApiError, match="connect: connection refused") as refusal:
            await cluster.log(name)
        assert refusal.value.code == 500
    with pytest.raises(ApiError, match="connection refused"):
        await cluster.kubelets.execution("default", "holder", "probe")
    await asyncio.sleep(0.5)  # longer than the short pod's life, and than any write would take
    assert (await cluster.client.get(f"{PODS}/new"))["status"]["phase"] == "Pending"
    assert (await cluster.client.get(f"{PODS}/short"))["status"]["phase"] == "Running"
    assert (await cluster.client.get(f"{PODS}/holder"))["metadata"]["deletionTimestamp"]
    host.start_kubelet()
    await cluster.phase("short", "Succeeded")
    await cluster.gone(f"{PODS}/holder")


@on_a_node
async def test_a_restarted_kubelet_shows_no_device_until_its_next_status_and_ids_stay(cluster: SmallCluster) -> None:
    await holder(cluster, count=2)
    held = await cluster.devices_seen("holder")
    states: list[tuple[str, str]] = []
    heartbeats: set[str] = set()

    async def follow() -> None:
        async for event, obj in cluster.client.list_and_watch("/api/v1/nodes", {"fieldSelector": "metadata.name=a"}):
            if event in ("ADDED", "MODIFIED"):
                states.append(devices(obj))
                heartbeats.add(condition(obj, "Ready").get("status", "True"))

    following = asyncio.create_task(follow())
    await cluster.until(NODE, lambda obj: states)
    cluster.hosts["a"].stop_kubelet()
    cluster.hosts["a"].start_kubelet()
    await cluster.until(NODE, lambda obj: ("0", "0") in states and states[-1] == ("4", "4"))
    following.cancel()
    assert list(dict.fromkeys(states)) == [("4", "4"), ("0", "0")]
    assert heartbeats == {"True"}
    worker = cluster.kubelets.worker_of("default", "holder")
    assert worker is not None
    assert [unit.uuid for unit in worker.allocation.units] == held


@in_cluster(hardware("a", 4), objects=[plugin_pod("a")], tempo=msgspec.structs.replace(QUICK, plugin_grace=Tempo().plugin_grace))
async def test_the_capacity_of_a_plugin_that_is_gone_stays(cluster: SmallCluster) -> None:
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await cluster.until(NODE, lambda obj: devices(obj) == ("4", "0"))
    await asyncio.sleep(2 * QUICK.plugin_grace)
    assert devices(await cluster.client.get(NODE)) == ("4", "0")


@on_a_node
async def test_podresources_tell_which_devices_are_healthy_given_out_or_not(cluster: SmallCluster) -> None:
    await holder(cluster)
    uuids = [gpu.uuid for gpu in hardware("a", 4).gpus]
    assert await allocatable(cluster, "lister-1") == {GPU: uuids}
    cluster.hosts["a"].raise_xid(uuids[1], 79)
    assert await allocatable(cluster, "lister-2") == {GPU: [uuids[0], *uuids[2:]]}
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await cluster.until(NODE, lambda obj: devices(obj) == ("4", "0"))
    assert await allocatable(cluster, "lister-3") == {}


@on_a_node
async def test_podresources_need_the_socket_and_a_kubelet(cluster: SmallCluster) -> None:
    await cluster.start(pod("outside", "kubelet-podresources"))
    assert "No such file or directory" in await cluster.output("outside")
    waits = "while kubelet-podresources; do sleep 0.05; done"
    await cluster.start(pod("inside", waits, spec=SOCKET, container=LISTER))
    await cluster.phase("inside", "Running")
    worker = cluster.kubelets.worker_of("default", "inside")
    assert worker is not None
    cluster.hosts["a"].stop_kubelet()
    while not any(b"refused" in line.data for line in worker.logs["probe"].lines):
        await worker.logs["probe"].changed()
    cluster.hosts["a"].start_kubelet()
    assert "Connection refused" in await cluster.output("inside")
