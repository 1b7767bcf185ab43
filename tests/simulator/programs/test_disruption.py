from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
LABELS = {"app": "x"}


def run(body: Callable[[SmallCluster], Awaitable[None]], behaviour: Behaviour | None = None) -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 4)], behaviour) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def budget(**spec: Any) -> Json:
    spec["selector"] = {"matchLabels": LABELS}
    metadata = {"name": "pdb", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def labelled(name: str, script: str = "sleep infinity") -> Json:
    return pod(name, script, metadata={"labels": LABELS})


async def counts(cluster: SmallCluster, **wanted: int) -> Json:
    return await cluster.until(f"{BUDGETS}/pdb", lambda obj: wanted.items() <= (obj.get("status") or {}).items())


async def evict(cluster: SmallCluster, name: str) -> None:
    await cluster.client.create(f"{PODS}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})


def test_the_status_follows_the_pods() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(BUDGETS, budget(minAvailable=2))
        told = await counts(cluster, currentHealthy=0, desiredHealthy=2, disruptionsAllowed=0, expectedPods=0)
        assert told["status"]["conditions"][0]["reason"] == "InsufficientPods"
        await cluster.start(*(labelled(name) for name in ("p", "q", "r")))
        told = await counts(cluster, currentHealthy=3, desiredHealthy=2, disruptionsAllowed=1, expectedPods=3)
        assert told["status"]["conditions"][0]["reason"] == "SufficientPods"
        await evict(cluster, "p")
        await counts(cluster, currentHealthy=2, disruptionsAllowed=0, expectedPods=2)
        with pytest.raises(ApiError) as refusal:
            await evict(cluster, "q")
        assert (refusal.value.code, refusal.value.reason) == (429, "TooManyRequests")
        assert refusal.value.details is not None
        assert refusal.value.details["causes"][0]["reason"] == "DisruptionBudget"
        await cluster.client.patch(f"{BUDGETS}/pdb", {"spec": {"minAvailable": 1}})
        await counts(cluster, desiredHealthy=1, disruptionsAllowed=1)
        await evict(cluster, "q")

    run(body)


def test_a_share_is_one_of_what_the_controller_wants() -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "set", "namespace": "default"},
        "spec": {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template},
    }

    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(BUDGETS, budget(maxUnavailable=1))
        await cluster.client.create(SETS, owner)
        told = await counts(cluster, currentHealthy=4, desiredHealthy=3, expectedPods=4)
        assert told["status"]["disruptionsAllowed"] == 1

    run(body)


def test_a_pod_that_is_not_ready_may_go_while_the_budget_is_kept() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(labelled("well"), labelled("ill", "exit 1"), labelled("starting"))
        await cluster.client.create(BUDGETS, budget(minAvailable=2))
        await counts(cluster, currentHealthy=2, desiredHealthy=2)
        for name, sick in (("well", False), ("starting", True)):
            await cluster.phase(name, "Running")
            if sick:
                status = {"conditions": [{"type": "Ready", "status": "False"}]}
                cluster.hosts["a"].stop_kubelet()  # so that nobody says it is ready
                await cluster.client.patch(f"{PODS}/{name}/status", {"status": status}, "strategic")
        await counts(cluster, currentHealthy=1, disruptionsAllowed=0)
        with pytest.raises(ApiError):
            await evict(cluster, "starting")
        await cluster.client.patch(f"{BUDGETS}/pdb", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
        await evict(cluster, "starting")
        leaving = await cluster.client.get(f"{PODS}/starting")
        assert {c["type"]: c.get("reason") for c in leaving["status"]["conditions"]}["DisruptionTarget"] == "EvictionByEvictionAPI"

    run(body)


def test_an_api_server_that_ignores_budgets() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(labelled("p"))
        await cluster.client.create(BUDGETS, budget(maxUnavailable=0))
        await counts(cluster, currentHealthy=1, disruptionsAllowed=0)
        await evict(cluster, "p")
        await cluster.gone(f"{PODS}/p")

    run(body, Behaviour(eviction_ignores_budget=True))
