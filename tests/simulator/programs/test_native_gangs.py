"""Native gangs: PodGroups of ``scheduling.k8s.io`` and the default scheduler, words as kube-scheduler 1.37 was seen to write them."""

import asyncio
from typing import Any

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.pods.state import FINALIZER, SCHEDULED, condition
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod

GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
SETTLE = 0.3


def group(name: str, minimum: int = 2, **spec: Any) -> Json:
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def members(name: str, count: int, devices: int = 8, **spec: Any) -> list[Json]:
    link = {"schedulingGroup": {"podGroupName": name}, **spec}
    return [pod(f"{name}-{index}", devices={GPU: devices}, spec=link) for index in range(count)]


with_the_gate = in_cluster(hardware("a"), hardware("b"), addons=["native-gangs"])


async def stated(cluster: SmallCluster, name: str, status: str) -> Json:
    """The PodGroup's condition once it has this status."""
    found = await cluster.until(f"{GROUPS}/{name}", lambda obj: condition(obj, SCHEDULED).get("status") == status)
    return condition(found, SCHEDULED)


@with_the_gate
async def test_a_gang_follows_the_one_that_leaves_and_more_pods_than_its_minimum_may_wait(cluster: SmallCluster) -> None:
    await cluster.client.create(GROUPS, group("first", 2))
    await cluster.client.create(GROUPS, group("second", 1))
    await cluster.start(*members("first", 2))
    await cluster.bound("first-0", "first-1")
    await cluster.start(*members("second", 3))
    await stated(cluster, "second", "False")
    for name in ("first-0", "first-1"):
        await cluster.client.delete(f"{PODS}/{name}")
    await stated(cluster, "second", "True")
    await cluster.until(f"{PODS}/second-2", lambda obj: "Insufficient" in condition(obj, "PodScheduled").get("message", ""))
    assert await cluster.unbound("second-0", "second-1", "second-2") == ["second-2"]


@with_the_gate
async def test_a_deleted_group_stays_until_its_last_pod_is_gone(cluster: SmallCluster) -> None:
    await cluster.client.create(GROUPS, group("g", 1))
    await cluster.start(*members("g", 1))
    await cluster.bound("g-0")
    await cluster.client.delete(f"{GROUPS}/g")
    await asyncio.sleep(SETTLE)
    assert (await cluster.client.get(f"{GROUPS}/g"))["metadata"]["finalizers"] == [FINALIZER]
    await cluster.client.delete(f"{PODS}/g-0", {"gracePeriodSeconds": 0})
    await cluster.gone(f"{GROUPS}/g")


@in_cluster(hardware("a"), hardware("b"))
async def test_without_the_gate_nothing_is_served_and_pods_lose_their_group(cluster: SmallCluster) -> None:
    with pytest.raises(ApiError) as refusal:
        await cluster.client.create(GROUPS, group("g"))
    assert refusal.value.code == 404
    await cluster.start(*members("g", 1))
    await cluster.bound("g-0")
    assert "schedulingGroup" not in (await cluster.client.get(f"{PODS}/g-0"))["spec"]
