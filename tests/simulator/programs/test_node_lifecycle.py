from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.controllers.taint_eviction import patience
from tests.simulator.programs.plugin_pods import QUICK, SYSTEM, plugin_pod
from tests.simulator.programs.small_cluster import PODS, TAINT, SmallCluster, hardware, node, pod, small_cluster
from tests.watching import PATIENCE

NODE = "/api/v1/nodes/a"
UNREACHABLE = "node.kubernetes.io/unreachable"


def run(
    body: Callable[[SmallCluster], Awaitable[None]],
    behaviour: Behaviour | None = None,
    objects: Sequence[Json] = (),
    registers: bool = True,
) -> None:
    quick = msgspec.structs.replace(QUICK, node_monitor_grace=2.0)
    tempo = quick if registers else msgspec.structs.replace(quick, node_registration=-1.0)

    async def scenario() -> None:
        machines = [hardware("a", 4), hardware("b", 4)]
        async with small_cluster(machines, behaviour, objects=[plugin_pod("a"), *objects], tempo=tempo) as cluster:
            await cluster.until(NODE, lambda obj: ready(obj) == "True")
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def ready(obj: Json) -> str:
    return next((c["status"] for c in obj["status"].get("conditions", []) if c["type"] == "Ready"), "")


def taints(obj: Json) -> list[tuple[str, str]]:
    return sorted((taint["key"], taint["effect"]) for taint in obj["spec"].get("taints") or ())


def toleration(seconds: int | None) -> Json:
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", **more}


async def unreachable(cluster: SmallCluster) -> Json:
    cluster.hosts["a"].stop_kubelet()
    return await cluster.until(NODE, lambda obj: (UNREACHABLE, "NoExecute") in taints(obj))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([toleration(None)], None),
        ([toleration(5)], 5.0),
        ([toleration(5), toleration(None)], 5.0),
        ([{"operator": "Exists"}], None),
        ([{**toleration(5), "effect": "NoSchedule"}], 0.0),
        ([toleration(-1)], 0.0),
    ],
)
def test_patience(tolerations: list[Json], expected: float | None) -> None:
    assert patience({"spec": {"tolerations": tolerations}}, [{"key": UNREACHABLE, "effect": "NoExecute"}]) == expected


def test_a_cordon_is_a_taint_too() -> None:
    async def body(cluster: SmallCluster) -> None:
        cordon = ("node.kubernetes.io/unschedulable", "NoSchedule")
        await cluster.client.patch(NODE, {"spec": {"unschedulable": True}})
        await cluster.until(NODE, lambda obj: cordon in taints(obj))
        await cluster.client.patch(NODE, {"spec": {"unschedulable": None}})
        await cluster.until(NODE, lambda obj: cordon not in taints(obj))

    run(body)


def test_a_node_that_was_dead_from_the_start_stays_as_it_is() -> None:
    dead = node(hardware("dead"), 9)
    dead["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]

    async def body(cluster: SmallCluster) -> None:
        before = await cluster.client.get("/api/v1/nodes/dead")
        await unreachable(cluster)  # as long as it takes for another node
        assert await cluster.client.get("/api/v1/nodes/dead") == before

    run(body, objects=[dead])


def test_pods_of_a_deleted_node_are_collected() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", spec={"nodeName": "a"}))
        await cluster.phase("p", "Running")
        await cluster.client.delete(NODE)
        await cluster.gone(f"{PODS}/p")
        await cluster.gone(f"{SYSTEM}/plugin")
        assert cluster.kubelets.machines["a"].manager.holders() == {}
        cluster.hosts["a"].restart_kubelet()
        back = await cluster.until(NODE, lambda obj: ready(obj) == "True")
        assert taints(back) == [(TAINT["key"], TAINT["effect"])]

    run(body, registers=False)
