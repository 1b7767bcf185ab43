from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Sharing
from tests.simulator.programs.small_cluster import PODS, RDMA, UUID, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

GPU = "nvidia.com/gpu"


def run(machines: Any, body: Any, behaviour: Behaviour | None = None, **more: Any) -> None:
    async def scenario() -> None:
        async with small_cluster(machines, behaviour, **more) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def sibling(script: str) -> dict[str, Any]:
    return {"name": "sibling", "image": "x", "command": ["sh", "-c", script]}


def test_a_pod_sees_its_devices_and_its_sibling_none() -> None:
    async def body(cluster: SmallCluster) -> None:
        shape = pod("p", "nvidia-smi -L; ls /dev", {GPU: 2})
        shape["spec"]["containers"].append(sibling("nvidia-smi -L; ls /dev/nvidia0; exit 0"))
        await cluster.start(shape)
        output = await cluster.output("p")
        assert len(UUID.findall(output)) == 2
        assert "nvidiactl" in output
        other = await cluster.log("p", "sibling")
        assert "sh: 1: nvidia-smi: not found" in other
        assert "cannot access '/dev/nvidia0'" in other

    run([hardware("a")], body)


@pytest.mark.parametrize(
    ("switch", "script", "devices", "env", "count"),
    [
        ("plugin_hands_out_all", "nvidia-smi -L", {GPU: 1}, {}, 4),
        ("env_bypass", "nvidia-smi -L", {}, {"NVIDIA_VISIBLE_DEVICES": "all"}, 4),
        ("env_bypass", "nvidia-smi -L || true", {}, {}, 0),
        ("", "nvidia-smi -L || true", {}, {"NVIDIA_VISIBLE_DEVICES": "all"}, 0),
    ],
)
def test_visibility(switch: str, script: str, devices: dict[str, int], env: dict[str, str], count: int) -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", script, devices, env=env))
        assert len(UUID.findall(await cluster.output("p"))) == count

    run([hardware("a", 4)], body, msgspec.structs.replace(Behaviour(), **(dict.fromkeys([switch], True) if switch else {})))


def test_nvidia_smi_for_another_user_than_root() -> None:
    async def body(cluster: SmallCluster) -> None:
        security = {"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}
        await cluster.start(
            pod("p", "id -u; nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader; exit $?", {GPU: 1}, spec=security)
        )
        ended = await cluster.phase("p", "Succeeded", "Failed")
        assert "Insufficient Permissions" in await cluster.log("p")
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4

    run([hardware("a", 1)], body, Behaviour(toolkit_needs_root=True))


def test_nvidia_smi_query_and_mig_listing_are_read_by_the_suite() -> None:
    async def body(cluster: SmallCluster) -> None:
        from conformance.outputs import nvidia_smi

        await cluster.start(pod("p", "nvidia-smi -L", {"nvidia.com/mig-1g.10gb": 2}))
        await cluster.start(pod("q", "nvidia-smi --query-gpu=name,mig.mode.current --format=csv", {"nvidia.com/mig-3g.40gb": 1}))
        listing = await cluster.output("p")
        assert listing.count("  MIG 1g.10gb     Device ") == 2
        parsed = nvidia_smi.parse_listing(listing)
        assert parsed
        assert "name, mig.mode.current\nNVIDIA H100 80GB HBM3, Enabled" in await cluster.output("q")

    run([hardware("a", 1, layout={"3g.40gb": 1, "1g.10gb": 2})], body)


def test_pods_in_exclusive_mode_hold_other_devices_and_the_repeating_plugin_shows() -> None:
    for repeats in (False, True):

        async def body(cluster: SmallCluster, repeats: bool = repeats) -> None:
            names = ("p", "q")
            await cluster.start(*(pod(name, "nvidia-smi -L; sleep infinity", {GPU: 1}) for name in names))
            seen = [await cluster.devices_seen(name) for name in names]
            assert (seen[0] == seen[1]) is repeats

        run([hardware("a", 2)], body, Behaviour(plugin_repeats_device=repeats))


def test_a_request_of_two_replicas_is_refused_at_the_node() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "true", {GPU: 2}))
        failed = await cluster.phase("p", "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        assert "maximum request size for shared resources is 1; found 2" in failed["status"]["message"]

    sharing = Sharing(strategy="time-slicing", replicas=4, fail_requests_greater_than_one=True)
    run([hardware("a", 1, sharing=sharing)], body)


def test_fabric_devices_for_those_who_asked() -> None:
    script = "ls /dev/infiniband; cat /sys/class/infiniband/mlx5_0/ports/1/state"

    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("asked", script, {RDMA: 1}), pod("not", script))
        assert "uverbs0" in (asked := await cluster.output("asked"))
        assert "4: ACTIVE" in asked
        assert "uverbs" not in await cluster.output("not")

    run([hardware("a", 1, hcas=2)], body)


def test_a_two_node_run_meets_and_measures() -> None:
    env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV"}
    torchrun = "torchrun --nnodes=2 --nproc-per-node=2 --master-addr=n0.nccl"

    async def body(cluster: SmallCluster) -> None:
        from conformance.outputs import nccl_lines, nccl_log, nccl_tests

        for rank in (0, 1):
            shape = {"spec": {"hostname": f"n{rank}", "subdomain": "nccl"}}
            await cluster.start(pod(f"n{rank}", f"{torchrun} --node-rank={rank} /opt/allreduce.py", {GPU: 2, RDMA: 1}, env=env, **shape))
        logs = [await cluster.output("n0"), await cluster.output("n1")]
        assert str(nccl_log.judge(nccl_lines.parse("".join(logs))).code) == "GDR_ENGAGED"
        assert str(nccl_tests.judge(nccl_tests.parse(logs[0])).code) == "OK"
        assert "Avg bus bandwidth" not in logs[1]

    run([hardware("a", 2, hcas=2), hardware("b", 2, hcas=2)], body)


def test_a_run_without_its_peer_times_out() -> None:
    env = {"RENDEZVOUS_TIMEOUT": "0"}

    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "torchrun --nnodes=2 --master-addr=gone all_reduce.py", {GPU: 1}, env=env))
        assert "has timed out" in await cluster.output("p")

    run([hardware("a", 1)], body)


def test_restarts_back_off_and_init_containers_come_first() -> None:
    async def body(cluster: SmallCluster) -> None:
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
            await cluster.client.text(f"{PODS}/p/log?container=probe&previous=true")

    run([hardware("a", 1)], body)


def test_a_failing_init_container_fails_the_pod() -> None:
    async def body(cluster: SmallCluster) -> None:
        init = {"initContainers": [{"name": "first", "image": "x", "command": ["sh", "-c", "exit 9"]}]}
        await cluster.start(pod("p", "echo never", spec=init))
        failed = await cluster.phase("p", "Failed")
        assert failed["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 9

    run([hardware("a", 1)], body)


def test_deletion_is_confirmed_and_devices_come_back() -> None:
    async def body(cluster: SmallCluster) -> None:
        for name in ("p", "q"):
            await cluster.start(pod(name, devices={GPU: 1}))
            await cluster.phase(name, "Running")
            await cluster.client.delete(f"{PODS}/{name}")
            await cluster.gone(f"{PODS}/{name}")
        with pytest.raises(ApiError):
            await cluster.client.get(f"{PODS}/p")

    run([hardware("a", 1)], body)


def test_environment_and_what_cannot_be_created() -> None:
    async def body(cluster: SmallCluster) -> None:
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

            def told(obj: Json, text: str = text) -> bool:
                return text in str(obj["status"].get("containerStatuses"))

            await cluster.until(f"{PODS}/{name}", told)

    run([hardware("a", 1)], body)


def exporter() -> dict[str, Any]:
    shape = pod(
        "exporter",
        container={"image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.0", "command": []},
        metadata={"labels": {"app": "nvidia-dcgm-exporter"}},
    )
    shape["metadata"]["namespace"] = "default"
    return shape


async def scraped(cluster: SmallCluster, path: str, differs: str = "") -> str:
    """What the exporter serves once it has collected, and once that is not ``differs``."""
    async with asyncio.timeout(PATIENCE):
        while (text := await cluster.client.text(path)) in ("", differs):
            await asyncio.sleep(0.1)
    return text


def test_the_exporter_names_who_holds_a_device() -> None:
    async def body(cluster: SmallCluster) -> None:
        from conformance.outputs import dcgm

        await cluster.start(exporter(), pod("p", devices={GPU: 1}))
        for name in ("exporter", "p"):
            await cluster.phase(name, "Running")
        path = f"{PODS}/exporter:9400/proxy/metrics"
        first = await scraped(cluster, path)
        devices = dcgm.parse(first)
        assert len(devices) == 2
        assert sum(device.allocated for device in devices) == 1
        assert 'container="probe",namespace="default",pod="p"' in first
        await scraped(cluster, path, first)
        await cluster.client.delete(f"{PODS}/p")
        await cluster.gone(f"{PODS}/p")
        held = await cluster.client.text(path)
        while 'pod="p"' in held:
            held = await scraped(cluster, path, held)

    run([hardware("a", 2)], body)


def test_a_log_can_be_followed_to_its_end() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "echo one; sleep 0.2; echo two"))
        await cluster.phase("p", "Running")
        assert await cluster.client.text(f"{PODS}/p/log?follow=true") == "one\ntwo\n"
        assert await cluster.client.text(f"{PODS}/p/log?tailLines=1") == "two\n"

    run([hardware("a", 1)], body)


def test_running_pods_of_the_initial_state_keep_their_devices() -> None:
    holder = pod("holder", devices={GPU: 1})
    holder["metadata"] |= {"namespace": "default", "uid": "u-1"}
    holder["spec"]["nodeName"] = "a"
    holder["status"] = {"phase": "Running", "containerStatuses": [{"name": "probe", "state": {"running": {}}}]}

    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "nvidia-smi -L", {GPU: 1}))
        own = UUID.findall(await cluster.output("p"))
        worker = cluster.kubelets.worker_of("default", "holder")
        assert worker is not None
        assert [unit.uuid for unit in worker.allocation.units] != own

    run([hardware("a", 2)], body, objects=[holder])


def test_a_pod_past_its_active_deadline_fails_and_frees_its_devices() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "echo on; sleep 3600", {GPU: 4}, spec={"activeDeadlineSeconds": 1}))
        ended = await cluster.phase("p", "Failed")
        assert ended["status"]["reason"] == "DeadlineExceeded"
        assert ended["status"]["message"] == "Pod was active on the node longer than the specified deadline"
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        assert (await cluster.log("p")).startswith("on")
        await cluster.start(pod("q", "echo free", {GPU: 4}, spec={"activeDeadlineSeconds": 60}))
        await cluster.phase("q", "Succeeded")

    run([hardware("a", 4)], body)
