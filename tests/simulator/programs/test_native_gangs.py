"""Native gangs: PodGroups of ``scheduling.k8s.io`` and the default scheduler, words as kube-scheduler 1.37 was seen to write them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.pods.groups import FINALIZER, SCHEDULED
from fixtures.simulator.pods.state import condition
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster

GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"
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


def run(body: Callable[[SmallCluster], Awaitable[None]], behaviour: Behaviour | None = None, addon: str = "native-gangs") -> None:
    async def whole() -> None:
        addons = [addon] if addon else []
        async with small_cluster([hardware("a"), hardware("b")], behaviour, addons=addons) as cluster:
            await body(cluster)

    asyncio.run(whole())


async def told(cluster: SmallCluster, name: str, status: str) -> Json:
    """The PodGroup's condition once it has this status."""
    found = await cluster.until(f"{GROUPS}/{name}", lambda obj: condition(obj, SCHEDULED).get("status") == status)
    return condition(found, SCHEDULED)


async def refused(cluster: SmallCluster, name: str) -> str:
    found = await cluster.until(f"{PODS}/{name}", lambda obj: condition(obj, "PodScheduled").get("reason"))
    return f"{condition(found, 'PodScheduled')['reason']}: {condition(found, 'PodScheduled')['message']}"


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(GROUPS, group("big", 3))
        await cluster.start(*members("big", 3))
        short = await told(cluster, "big", "False")
        assert short["reason"] == "Unschedulable"
        why = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        assert short["message"] == f"{why}, pod group preemption: No preemption victims found for incoming preemptor"
        assert await refused(cluster, "big-2") == "Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        assert await refused(cluster, "big-0") == f"Unschedulable: pod group is unschedulable, {short['message']}"
        await cluster.client.create(GROUPS, group("fits", 2))
        await cluster.start(*members("fits", 2))
        assert sorted(await cluster.bound("fits-0", "fits-1")) == ["a", "b"]
        assert (await told(cluster, "fits", "True"))["reason"] == "Scheduled"
        assert await cluster.unbound("big-0", "big-1", "big-2") == ["big-0", "big-1", "big-2"]

    run(body)


def test_a_gang_follows_the_one_that_leaves_and_more_pods_than_its_minimum_may_wait() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(GROUPS, group("first", 2))
        await cluster.client.create(GROUPS, group("second", 1))
        await cluster.start(*members("first", 2))
        await cluster.bound("first-0", "first-1")
        await cluster.start(*members("second", 3))
        await told(cluster, "second", "False")
        for name in ("first-0", "first-1"):
            await cluster.client.delete(f"{PODS}/{name}")
        await told(cluster, "second", "True")
        await cluster.until(f"{PODS}/second-2", lambda obj: "Insufficient" in condition(obj, "PodScheduled").get("message", ""))
        assert await cluster.unbound("second-0", "second-1", "second-2") == ["second-2"]

    run(body)


def test_pods_wait_in_silence_for_their_group_and_for_each_other() -> None:
    async def body(cluster: SmallCluster) -> None:
        first, second = members("late", 2)
        await cluster.start(first)
        await asyncio.sleep(SETTLE)
        assert not condition(await cluster.client.get(f"{PODS}/late-0"), "PodScheduled"), "there is no group"
        await cluster.client.create(GROUPS, group("late", 2))
        await asyncio.sleep(SETTLE)
        assert not condition(await cluster.client.get(f"{PODS}/late-0"), "PodScheduled"), "there are too few pods"
        await cluster.start(second)
        await cluster.bound("late-0", "late-1")

    run(body)


def test_a_group_whose_pods_have_another_priority_is_not_placed() -> None:
    async def body(cluster: SmallCluster) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        await cluster.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", high)
        await cluster.client.create(GROUPS, group("g", 1, priorityClassName="high"))
        assert (await cluster.client.get(f"{GROUPS}/g"))["spec"]["priority"] == 1000
        await cluster.start(*members("g", 1))
        said = await told(cluster, "g", "False")
        assert said["reason"] == "SchedulerError"
        assert said["message"].endswith("should have the same priority as the pod group's priority, got 0 and 1000")
        assert (await refused(cluster, "g-0")).startswith("SchedulerError: all pods in a single pod group")
        await cluster.client.create(GROUPS, group("same", 1, priorityClassName="high"))
        await cluster.start(*members("same", 1, priorityClassName="high"))
        await cluster.bound("same-0")

    run(body)


def test_a_deleted_group_stays_until_its_last_pod_is_gone() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(GROUPS, group("g", 1))
        await cluster.start(*members("g", 1))
        await cluster.bound("g-0")
        await cluster.client.delete(f"{GROUPS}/g")
        await asyncio.sleep(SETTLE)
        assert (await cluster.client.get(f"{GROUPS}/g"))["metadata"]["finalizers"] == [FINALIZER]
        await cluster.client.delete(f"{PODS}/g-0", {"gracePeriodSeconds": 0})
        await cluster.gone(f"{GROUPS}/g")

    run(body)


def test_the_defect_binds_what_fits() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(GROUPS, group("big", 3))
        await cluster.start(*members("big", 3))
        await cluster.bound("big-0", "big-1")
        assert "Insufficient" in await refused(cluster, "big-2")

    run(body, Behaviour(scheduler_ignores_groups=True))


def test_without_the_gate_nothing_is_served_and_pods_lose_their_group() -> None:
    async def body(cluster: SmallCluster) -> None:
        with pytest.raises(ApiError) as refusal:
            await cluster.client.create(GROUPS, group("g"))
        assert refusal.value.code == 404
        await cluster.start(*members("g", 1))
        await cluster.bound("g-0")
        assert "schedulingGroup" not in (await cluster.client.get(f"{PODS}/g-0"))["spec"]

    run(body, addon="")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, ["spec.schedulingPolicy"]),
        ({"schedulingPolicy": {"gang": {"minCount": 1}, "basic": {}}}, ["spec.schedulingPolicy"]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, ["spec.schedulingPolicy.gang.minCount"]),
        ({"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w"}}, ["spec.workloadRef.templateName"]),
    ],
)  # fmt: skip
def test_a_bad_group_is_refused(spec: Json, fields: list[str]) -> None:
    async def body(cluster: SmallCluster) -> None:
        with pytest.raises(ApiError) as refusal:
            await cluster.client.create(GROUPS, {**group("g"), "spec": spec})
        assert [cause["field"] for cause in (refusal.value.details or {})["causes"]] == fields

    run(body)
