"""Gang scheduler and queue manager stop with their pods; their successors know nothing and leave nothing half done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fixtures.simulator.api.objects import Json
from tests.simulator.host.scene import Scene, scene
from tests.simulator.programs.small_cluster import pod
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch/v1/namespaces/team-assistant/jobs"
SCHEDULER = "/apis/apps/v1/namespaces/volcano-system/deployments/volcano-scheduler"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-assistant/workloads"

SLOWLY = 0.3
"""Seconds between two bindings of a gang whose scheduler is to be killed between them, on a slow machine too."""


def group(name: str, size: int) -> Json:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size, "queue": "default"},
    }


def member(name: str, of: str, gpus: int = 1) -> Json:
    annotations = {"scheduling.k8s.io/group-name": of}
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    spec = {"schedulerName": "volcano", "nodeSelector": selector}
    return pod(name, "sleep infinity", {"nvidia.com/gpu": gpus}, metadata={"annotations": annotations}, spec=spec)


async def bound(at: Scene, prefix: str) -> int:
    found, _ = await at.client.list(PODS)
    return sum(bool(item["spec"].get("nodeName")) for item in found if item["metadata"]["name"].startswith(prefix))


async def until_bound(at: Scene, prefix: str, wanted: int, seconds: float = PATIENCE) -> None:
    """Watch the pods of a gang until so many are bound."""
    nodes: dict[str, bool] = {}

    async def wait() -> None:
        async for event, item in at.client.list_and_watch(PODS):
            if event != "SYNCED" and item["metadata"]["name"].startswith(prefix):
                nodes[item["metadata"]["uid"]] = event != "DELETED" and bool(item["spec"].get("nodeName"))
            if sum(nodes.values()) == wanted and (wanted or event != "ADDED"):
                return

    await asyncio.wait_for(wait(), seconds)


async def begun(at: Scene, size: int) -> None:
    """A gang of which one pod is bound."""
    await at.client.create(GROUPS, group("g", size))
    for number in range(size):
        await at.client.create(PODS, member(f"g-{number}", "g"))
    await until_bound(at, "g-", 1)


async def half_placed(at: Scene, size: int = 8) -> Json:
    """A gang whose scheduler was killed between two bindings; the killed pod."""
    await begun(at, size)
    killed = await at.kill("volcano-scheduler", namespace="volcano-system")
    assert 0 < await bound(at, "g-") < size
    return killed


async def scale(at: Scene, replicas: int) -> None:
    """Have so many pods of the gang scheduler, none or one."""
    await at.client.patch(SCHEDULER, {"spec": {"replicas": replicas}})
    await at.until(SCHEDULER, lambda obj: (obj["status"].get("readyReplicas") or 0) == replicas)


def test_nobody_schedules_gangs_while_the_scheduler_is_away() -> None:
    async def scenario() -> None:
        async with scene() as at:
            await scale(at, 0)
            await at.client.create(GROUPS, group("g", 2))
            for name in ("g-0", "g-1"):
                await at.client.create(PODS, member(name, "g"))
            with pytest.raises(TimeoutError):
                await until_bound(at, "g-", 1, 2)
            await scale(at, 1)
            await until_bound(at, "g-", 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_a_successor_completes_a_half_placed_gang(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(gang_partial_after_restart=broken, gang_binding=SLOWLY) as at:
            await half_placed(at)
            if broken:
                with pytest.raises(TimeoutError):
                    await until_bound(at, "g-", 8, 5)
                assert 0 < await bound(at, "g-") < 8
            else:
                await until_bound(at, "g-", 8)

    asyncio.run(scenario())


def test_a_successor_releases_a_half_placed_gang_that_has_no_room_any_more() -> None:
    async def scenario() -> None:
        async with scene(gang_binding=1.0) as at:
            await begun(at, 16)
            await scale(at, 0)  # no successor may come before another pod has taken the room
            assert 0 < await bound(at, "g-") < 16
            await at.client.create(
                PODS, {**member("big", "big", 8), "spec": {**member("big", "big", 8)["spec"], "schedulerName": "default-scheduler"}}
            )
            await at.until(f"{PODS}/big", lambda obj: obj["spec"].get("nodeName"))
            await scale(at, 1)
            await until_bound(at, "g-", 0)

    asyncio.run(scenario())


def job(name: str, gpus: int) -> Json:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "c",
        "image": "registry.example/work:1",
        "command": ["sleep", "infinity"],
        "resources": {"limits": amounts, "requests": amounts},
        "securityContext": security,
    }
    pod_security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    spec = {"restartPolicy": "Never", "containers": [container], "securityContext": pod_security, "tolerations": tolerations}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "gpu-queue"}},
        "spec": {"suspend": True, "template": {"spec": spec}},
    }


def admitted(workload: Json) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Admitted" and item["status"] == "True" for item in conditions)


async def workload_of(at: Scene, name: str, true: Any, seconds: float = PATIENCE) -> Json:
    """The Workload of a job once it is as wanted."""

    async def wait() -> Json:
        async for event, item in at.client.list_and_watch(WORKLOADS):
            if event in ("ADDED", "MODIFIED") and item["metadata"]["name"].startswith(f"job-{name}") and true(item):
                return item
        raise AssertionError("the watch ended")

    return await asyncio.wait_for(wait(), seconds)


@pytest.mark.parametrize("broken", [False, True])
def test_a_replaced_queue_manager_starts_what_was_admitted_and_admits_no_more_than_fits(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(kueue_admits_twice=broken) as at:
            await at.client.create(JOBS, job("one", 8))
            await workload_of(at, "one", admitted)
            name = (await at.client.list("/api/v1/namespaces/kueue-system/pods"))[0][0]["metadata"]["name"]
            await at.client.delete(f"/api/v1/namespaces/kueue-system/pods/{name}", {"gracePeriodSeconds": 0})
            await at.client.create(JOBS, job("two", 16))
            await at.until(f"{JOBS}/one", lambda obj: not obj["spec"].get("suspend"))
            if broken:
                await workload_of(at, "two", admitted)
            else:
                waiting = await workload_of(at, "two", lambda item: (item.get("status") or {}).get("conditions"))
                assert not admitted(waiting)

    asyncio.run(scenario())
