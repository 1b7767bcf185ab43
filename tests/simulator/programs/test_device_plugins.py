from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Hardware, Sharing
from fixtures.simulator.config.tempo import Tempo
from fixtures.simulator.nodes.machine.host import GpuMode
from tests.simulator.programs.plugin_pods import GPU, QUICK, SYSTEM, devices, plugin_pod
from tests.simulator.programs.small_cluster import PODS, RDMA, SmallCluster, hardware, node, pod, small_cluster
from tests.watching import PATIENCE

NODE = "/api/v1/nodes/a"
Body = Callable[[SmallCluster], Awaitable[None]]


def run(
    body: Body, behaviour: Behaviour | None = None, *, machine: Hardware | None = None, objects: Sequence[Json] = (), tempo: Tempo = QUICK
) -> None:
    async def scenario() -> None:
        machines = [machine or hardware("a", 4)]
        async with small_cluster(machines, behaviour, objects=objects or [plugin_pod("a")], tempo=tempo) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


async def replace_plugin(cluster: SmallCluster, **more: Any) -> None:
    await cluster.client.delete(f"{SYSTEM}/plugin")
    await cluster.client.create(SYSTEM, plugin_pod("a", "plugin-2", runs=False, **more))


async def until_devices(cluster: SmallCluster, capacity: str, allocatable: str, resource: str = GPU) -> None:
    await cluster.until(NODE, lambda obj: devices(obj, resource) == (capacity, allocatable))


def test_nothing_is_written_for_a_healthy_cluster() -> None:
    async def body(cluster: SmallCluster) -> None:
        before = await cluster.client.get(NODE)
        await cluster.start(pod("p", "exit 0", {GPU: 1}))
        await cluster.phase("p", "Succeeded")
        after = await cluster.client.get(NODE)
        assert after["status"]["capacity"] == before["status"]["capacity"]
        assert devices(after) == ("4", "4")

    run(body)


def test_devices_of_a_plugin_that_is_gone_stop_being_allocatable_and_then_capacity() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("holder", "sleep infinity", {GPU: 1}))
        before = await cluster.phase("holder", "Running")
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await until_devices(cluster, "4", "0")
        await cluster.start(pod("late", "exit 0", {GPU: 1}))
        await until_devices(cluster, "0", "0")
        told = await cluster.until(f"{PODS}/late", lambda obj: obj["status"].get("conditions"))
        assert told["status"]["phase"] == "Pending"
        assert "Insufficient nvidia.com/gpu" in told["status"]["conditions"][0]["message"]
        await cluster.client.create(SYSTEM, plugin_pod("a", "plugin-2", runs=False))
        await until_devices(cluster, "4", "4")
        await cluster.phase("late", "Succeeded")
        after = await cluster.client.get(f"{PODS}/holder")
        for field in ("containerID", "restartCount", "allocatedResourcesStatus"):
            assert after["status"]["containerStatuses"][0][field] == before["status"]["containerStatuses"][0][field]

    run(body)


def test_a_second_plugin_on_a_node_takes_no_device_away_when_it_starts() -> None:
    async def body(cluster: SmallCluster) -> None:
        told: list[tuple[str, str]] = []

        async def listen() -> None:
            async for event, obj in cluster.client.list_and_watch("/api/v1/nodes", {"fieldSelector": "metadata.name=a"}):
                if event in ("ADDED", "MODIFIED"):
                    told.append(devices(obj))

        listening = asyncio.create_task(listen())
        for name in ("copy-1", "copy-2", "copy-3"):
            await cluster.client.create(SYSTEM, plugin_pod("a", name, runs=False))
            await cluster.until(f"{SYSTEM}/{name}", lambda obj: obj["status"].get("phase") == "Running")
        await asyncio.sleep(2 * slow.plugin_registration)
        assert set(told) == {("4", "4")}
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await until_devices(cluster, "4", "0")
        await until_devices(cluster, "4", "4")
        listening.cancel()

    slow = msgspec.structs.replace(QUICK, plugin_registration=0.3)
    run(body, tempo=slow)


def test_a_pod_that_is_bound_without_a_plugin_is_refused_in_the_kubelets_words() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await until_devices(cluster, "4", "0")
        await cluster.start(pod("early", devices={GPU: 1}, spec={"nodeName": "a"}))
        early = await cluster.phase("early", "Failed")
        assert early["status"]["reason"] == "UnexpectedAdmissionError"
        assert "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu" in early["status"]["message"]
        await until_devices(cluster, "0", "0")
        await cluster.start(pod("late", devices={GPU: 1}, spec={"nodeName": "a"}))
        late = await cluster.phase("late", "Failed")
        assert late["status"]["message"] == (
            "Pod was rejected: Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"
        )

    run(body)


def test_a_plugin_that_never_registers_again() -> None:
    async def body(cluster: SmallCluster) -> None:
        await replace_plugin(cluster)
        await cluster.until(f"{SYSTEM}/plugin-2", lambda obj: obj["status"].get("phase") == "Running")
        await until_devices(cluster, "0", "0")

    run(body, Behaviour(plugin_never_reregisters=True))


def test_the_fabric_plugin_has_resources_of_its_own() -> None:
    rdma = plugin_pod("a", "rdma", app="rdma-shared-dp")

    async def body(cluster: SmallCluster) -> None:
        await cluster.client.delete(f"{SYSTEM}/rdma")
        await until_devices(cluster, "63", "0", RDMA)
        assert devices(await cluster.client.get(NODE)) == ("4", "4")
        await cluster.client.create(SYSTEM, plugin_pod("a", "rdma-2", app="rdma-shared-dp", runs=False))
        await until_devices(cluster, "63", "63", RDMA)

    run(body, machine=hardware("a", 4, hcas=4), objects=[plugin_pod("a"), rdma])


def test_a_critical_xid_takes_one_device_until_the_plugin_starts_anew() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("holder", "sleep infinity", {GPU: 4}))
        await cluster.phase("holder", "Running")
        uuid = hardware("a", 4).gpus[1].uuid
        cluster.hosts["a"].fail(uuid, GpuMode.LOST, 79)
        await until_devices(cluster, "4", "3")

        def healths(obj: Json) -> dict[str, str]:
            found = obj["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"]
            return {item["resourceID"]: item["health"] for item in found}

        told = await cluster.until(f"{PODS}/holder", lambda obj: "Unhealthy" in healths(obj).values())
        assert [key for key, health in healths(told).items() if health == "Unhealthy"] == [uuid]
        cluster.hosts["a"].heal()
        cluster.hosts["a"].raise_xid(hardware("a", 4).gpus[2].uuid, 48)
        await until_devices(cluster, "4", "2")  # healing brought nothing back
        await replace_plugin(cluster)
        await until_devices(cluster, "4", "4")

    run(body)


@pytest.mark.parametrize(
    ("env", "behaviour", "xid", "left"),
    [
        ({}, Behaviour(), 13, "4"),
        ({}, Behaviour(plugin_acts_on_ignored_xids=True), 13, "3"),
        ({}, Behaviour(plugin_ignores_xids=True), 79, "4"),
        ({"DP_DISABLE_HEALTHCHECKS": "79, 94"}, Behaviour(), 79, "4"),
        ({"DP_DISABLE_HEALTHCHECKS": "79"}, Behaviour(), 94, "3"),
        ({"DP_DISABLE_HEALTHCHECKS": "79"}, Behaviour(plugin_ignores_health_config=True), 79, "3"),
        ({"DP_DISABLE_HEALTHCHECKS": "xids"}, Behaviour(), 79, "4"),
        ({"DP_ENABLE_HEALTHCHECKS": "43"}, Behaviour(), 43, "3"),
        ({"DP_ENABLE_HEALTHCHECKS": "all"}, Behaviour(), 31, "3"),
        ({"DP_DISABLE_HEALTHCHECKS": "79", "DP_ENABLE_HEALTHCHECKS": "79"}, Behaviour(), 79, "3"),
    ],
)
def test_which_xids_count(env: dict[str, str], behaviour: Behaviour, xid: int, left: str) -> None:
    async def body(cluster: SmallCluster) -> None:
        first, second = hardware("a", 4).gpus[:2]
        cluster.hosts["a"].raise_xid(first.uuid, xid)
        cluster.hosts["a"].raise_xid("GPU-of-another-machine", 79)
        if left == "3":
            await until_devices(cluster, "4", "3")
            return
        assert cluster.kubelets.machines["a"].manager.registry.allocatable(GPU) == 4  # events are taken at once
        assert second.uuid not in cluster.kubelets.machines["a"].manager.registry.unhealthy(GPU)

    run(body, behaviour, objects=[plugin_pod("a", env=env)])


def test_a_failing_event_wait_takes_every_device() -> None:
    async def body(cluster: SmallCluster) -> None:
        cluster.hosts["a"].event_wait_fails = True
        cluster.hosts["a"].changed()
        await until_devices(cluster, "4", "0")
        cluster.hosts["a"].heal()
        await replace_plugin(cluster)
        await until_devices(cluster, "4", "4")

    run(body)


@pytest.mark.parametrize(("behaviour", "left"), [(Behaviour(), "4"), (Behaviour(plugin_marks_one_replica=True), "7")])
def test_every_replica_of_a_device_shares_its_health(behaviour: Behaviour, left: str) -> None:
    machine = hardware("a", 2, sharing=Sharing(strategy="time-slicing", replicas=4))

    async def body(cluster: SmallCluster) -> None:
        cluster.hosts["a"].raise_xid(machine.gpus[0].uuid, 79)
        await until_devices(cluster, "8", left)

    run(body, behaviour, machine=machine)


def test_every_mig_instance_of_a_device_shares_its_health() -> None:
    machine = hardware("a", 2, layout={"3g.40gb": 1, "1g.10gb": 3})

    async def body(cluster: SmallCluster) -> None:
        cluster.hosts["a"].raise_xid(machine.gpus[0].uuid, 79)
        await until_devices(cluster, "6", "3", "nvidia.com/mig-1g.10gb")
        await until_devices(cluster, "2", "1", "nvidia.com/mig-3g.40gb")

    run(body, machine=machine)


def test_a_plugin_that_comes_back_one_device_short() -> None:
    async def body(cluster: SmallCluster) -> None:
        assert devices(await cluster.client.get(NODE)) == ("4", "4")
        await replace_plugin(cluster)
        await until_devices(cluster, "3", "3")

    run(body, Behaviour(plugin_comes_back_short=True))


@pytest.mark.parametrize(("behaviour", "marked"), [(Behaviour(), 3), (Behaviour(plugin_marks_another_device=True), 0)])
def test_which_device_an_xid_marks(behaviour: Behaviour, marked: int) -> None:
    async def body(cluster: SmallCluster) -> None:
        gpus = hardware("a", 4).gpus
        cluster.hosts["a"].raise_xid(gpus[3].uuid, 79)
        await until_devices(cluster, "4", "3")
        assert cluster.kubelets.machines["a"].manager.registry.unhealthy(GPU) == {gpus[marked].uuid}

    run(body, behaviour)


@pytest.mark.parametrize(("behaviour", "left"), [(Behaviour(), "3"), (Behaviour(plugin_hides_all_when_one_lost=True), "0")])
def test_a_plugin_that_starts_lists_the_devices_that_are_there(behaviour: Behaviour, left: str) -> None:
    async def body(cluster: SmallCluster) -> None:
        cluster.hosts["a"].fail(hardware("a", 4).gpus[0].uuid, GpuMode.FALLEN_OFF_BUS)
        await replace_plugin(cluster)
        await until_devices(cluster, left, left)

    run(body, behaviour)


def test_a_status_that_says_less_stays_until_something_changes() -> None:
    machine = hardware("b", 4)
    short = node(machine, 9)
    short["status"]["allocatable"] = {**short["status"]["allocatable"], GPU: "3"}

    async def body(cluster: SmallCluster) -> None:
        kubelet = cluster.kubelets.machines["b"]
        assert devices(await cluster.client.get("/api/v1/nodes/b")) == ("4", "3")
        assert kubelet.manager.registry.allocatable(GPU) == 3
        await cluster.client.delete(f"{SYSTEM}/plugin-b")
        await cluster.until("/api/v1/nodes/b", lambda obj: devices(obj) == ("4", "0"))

    async def scenario() -> None:
        pods = [plugin_pod("b", "plugin-b")]
        async with small_cluster([hardware("a", 4)], objects=[short, *pods], tempo=QUICK, more={"b": machine}) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_configuration_that_is_not_there_ends_the_plugin_until_it_is_taken_back(replaced: bool) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "device-plugin-config", "namespace": "kube-system"},
        "data": {"t4": ""},
    }

    async def body(cluster: SmallCluster) -> None:
        name = "plugin"
        if replaced:
            name = "plugin-2"
            await replace_plugin(cluster)
            await until_devices(cluster, "4", "0")
            await until_devices(cluster, "4", "4")

        def state(obj: Json) -> dict[str, Any]:
            return dict(obj["status"]["containerStatuses"][0])

        before = state(await cluster.client.get(f"{SYSTEM}/{name}"))
        await cluster.client.patch(NODE, {"metadata": {"labels": {"nvidia.com/device-plugin.config": "none-such"}}})
        told = await cluster.until(f"{SYSTEM}/{name}", lambda obj: "waiting" in state(obj)["state"])
        assert state(told)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert state(told)["lastState"]["terminated"]["message"] == "error: specified config none-such does not exist"
        assert {c["type"]: c["status"] for c in told["status"]["conditions"]}["Ready"] == "False"
        await until_devices(cluster, "4", "0")
        await cluster.client.patch(NODE, {"metadata": {"labels": {"nvidia.com/device-plugin.config": "t4"}}})
        after = await cluster.until(f"{SYSTEM}/{name}", lambda obj: "running" in state(obj)["state"])
        assert state(after)["restartCount"] == before["restartCount"] + 1
        assert state(after)["containerID"] != before["containerID"]
        await until_devices(cluster, "4", "4")

    run(body, objects=[config, plugin_pod("a")])


def test_a_fabric_plugin_that_never_registers_again_leaves_the_gpus_alone() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.delete(f"{SYSTEM}/rdma")
        await cluster.client.create(SYSTEM, plugin_pod("a", "rdma-2", app="rdma-shared-dp", runs=False))
        await cluster.until(f"{SYSTEM}/rdma-2", lambda obj: obj["status"].get("phase") == "Running")
        await until_devices(cluster, "0", "0", RDMA)
        await replace_plugin(cluster)
        await until_devices(cluster, "4", "0")
        await until_devices(cluster, "4", "4")

    pods = [plugin_pod("a"), plugin_pod("a", "rdma", app="rdma-shared-dp")]
    run(body, Behaviour(rdma_never_reregisters=True), machine=hardware("a", 4, hcas=4), objects=pods)
