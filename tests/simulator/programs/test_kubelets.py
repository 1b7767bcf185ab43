import asyncio

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from tests.simulator.programs.small_cluster import PODS, UUID, SmallCluster, hardware, in_cluster, pod
from tests.tables import each_row
from tests.troubles import Trouble
from tests.watching import PATIENCE

GPU = "nvidia.com/gpu"


@in_cluster(hardware("a", 1))
async def test_restarts_back_off_and_init_containers_come_first(cluster: SmallCluster) -> None:
    init = {"initContainers": [{"name": "first", "image": "x", "command": ["sh", "-c", "echo ready"]}], "restartPolicy": "Always"}
    await cluster.start(pod("p", "echo again; exit 3", spec=init))
    waiting = await cluster.until(
        f"{PODS}/p",
        lambda obj: "CrashLoopBackOff" in str(obj["status"].get("containerStatuses")),
    )
    status = waiting["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert waiting["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert await cluster.log("p", "first") == "ready\n"
    with pytest.raises(ApiError, match="leave out previous"):
        await cluster.log("p", previous="true")


@in_cluster(hardware("a", 1))
async def test_environment_and_what_cannot_be_created(cluster: SmallCluster) -> None:
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "BOTH", "value": "$(POD)/$(NODE)"},
    ]
    other = pod("o", container={"envFrom": [{"configMapRef": {"name": "settings"}}]})
    root = pod("r", spec={"securityContext": {"runAsNonRoot": True}})
    await cluster.start(pod("p", "echo $POD on $NODE, $BOTH", container={"env": env}), root, other)
    assert await cluster.output("p") == "p on a, p/a\n"
    for name, text in (("r", "image will run as root"), ("o", "envFrom is not simulated")):

        def stated(obj: Json, text: str = text) -> bool:
            return text in str(obj["status"].get("containerStatuses"))

        await cluster.until(f"{PODS}/{name}", stated)


@in_cluster(hardware("a", 4, values={"3.unlinked": 1}))
async def test_a_container_whose_device_file_is_gone_is_not_created(cluster: SmallCluster) -> None:
    await cluster.start(pod("three", "sleep infinity", {GPU: 3}))
    await cluster.phase("three", "Running")
    await cluster.start(pod("one", "exit 0", {GPU: 1}))
    waiting = await cluster.until(f"{PODS}/one", lambda obj: "CreateContainerError" in str(obj["status"].get("containerStatuses")))
    assert waiting["status"]["phase"] == "Pending"
    message = waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert "CDI device injection failed" in message
    assert 'failed to stat CDI host device "/dev/nvidia3"' in message


@in_cluster(hardware("a", 1))
async def test_a_condition_that_became_true_has_no_reason_left(cluster: SmallCluster) -> None:
    init = {"initContainers": [{"name": "first", "image": "x", "command": ["sh", "-c", "sleep 0.1"]}]}
    await cluster.start(pod("p", spec=init))
    before = await cluster.until(f"{PODS}/p", lambda obj: "ContainersNotInitialized" in str(obj["status"].get("conditions")))
    assert before["status"]["phase"] == "Pending"
    after = await cluster.phase("p", "Running")
    assert {item["type"]: item.get("reason") for item in after["status"]["conditions"] if item["status"] == "True"} == dict.fromkeys(
        ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    )


async def events_of(cluster: SmallCluster, name: str, until: str, namespace: str = "default") -> list[tuple[str, str, str]]:
    """Reason, message and field path of what the kubelet says of an object, in its order, once it has given the reason ``until``."""
    found: list[tuple[str, str, str]] = []
    async with asyncio.timeout(PATIENCE):
        async for kind, event in cluster.client.list_and_watch(f"/api/v1/namespaces/{namespace}/events"):
            if kind not in ("ADDED", "MODIFIED") or event["involvedObject"]["name"] != name or event["source"]["component"] != "kubelet":
                continue
            found.append((event["reason"], event["message"], event["involvedObject"].get("fieldPath", "")))
            if event["reason"] == until:
                return found
    raise AssertionError("the watch ended")


@in_cluster(hardware("a", 1))
async def test_a_kubelet_tells_what_becomes_of_its_pods(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", container={"image": "probe:1"}))
    await cluster.phase("p", "Running")
    there, part = 'Container image "probe:1" already present on machine and can be accessed by the pod', "spec.containers{probe}"
    started = [("Pulled", there, part), ("Created", "Container created", part), ("Started", "Container started", part)]
    assert sorted(await events_of(cluster, "p", "Started")) == sorted(started)
    await cluster.client.delete(f"{PODS}/p")
    assert ("Killing", "Stopping container probe", part) in await events_of(cluster, "p", "Killing")


@in_cluster(hardware("a", 1))
async def test_a_kubelet_that_starts_tells_of_its_node(cluster: SmallCluster) -> None:
    cluster.hosts["a"].stop_kubelet()
    cluster.hosts["a"].start_kubelet()
    reasons = {reason for reason, _, _ in await events_of(cluster, "a", "NodeAllocatableEnforced")}
    assert reasons >= {"Starting", "InvalidDiskCapacity", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}


HOLDER = pod("holder", devices={GPU: 1})
HOLDER["metadata"] |= {"namespace": "default", "uid": "u-1"}
HOLDER["spec"]["nodeName"] = "a"
HOLDER["status"] = {"phase": "Running", "containerStatuses": [{"name": "probe", "state": {"running": {}}}]}


@in_cluster(hardware("a", 2), objects=[HOLDER])
async def test_running_pods_of_the_initial_state_keep_their_devices(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", "nvidia-smi -L", {GPU: 1}))
    own = UUID.findall(await cluster.output("p"))
    worker = cluster.kubelets.worker_of("default", "holder")
    assert worker is not None
    assert [unit.uuid for unit in worker.allocation.units] != own


@in_cluster(hardware("a", 4))
async def test_a_pod_past_its_active_deadline_fails_and_frees_its_devices(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", "echo on; sleep 3600", {GPU: 4}, spec={"activeDeadlineSeconds": 1}))
    ended = await cluster.phase("p", "Failed")
    assert ended["status"]["reason"] == "DeadlineExceeded"
    assert ended["status"]["message"] == "Pod was active on the node longer than the specified deadline"
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert (await cluster.log("p")).startswith("on")
    await cluster.start(pod("q", "echo free", {GPU: 4}, spec={"activeDeadlineSeconds": 60}))
    await cluster.phase("q", "Succeeded")


@each_row
def test_programs_live_through_an_api_in_trouble(troubles: list[Trouble]) -> None:
    @in_cluster(hardware("a", 2), troubles=troubles)
    async def scenario(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "nvidia-smi -L; exit 0", {GPU: 2}))
        ended = await cluster.phase("p", "Succeeded", "Failed")
        assert ended["status"]["phase"] == "Succeeded"
        assert (await cluster.log("p")).count("UUID: GPU-") == 2

    scenario()
