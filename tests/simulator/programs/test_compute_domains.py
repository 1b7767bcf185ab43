"""The look-alike of NVIDIA's compute-domain controller: a domain's members follow its daemons' pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.tempo import Tempo
from fixtures.simulator.dra.devices import DOMAIN
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

UID = "6a1f0c8e-4f0b-4b0e-9a55-2f6d3c1b9e01"
PATH = "/apis/resource.nvidia.com/v1beta1/namespaces/default/computedomains/one"
NEVER = {"name": "c", "ipAddress": "10.9.9.9", "cliqueID": "", "index": 0, "status": "Ready"}
ONE: Json = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "one", "namespace": "default", "uid": UID},
    "spec": {"numNodes": 2},
    "status": {"status": "Ready", "nodes": [NEVER]},
}


def daemon(name: str, node: str) -> Json:
    return pod(name, metadata={"labels": {DOMAIN: UID}}, spec={"nodeName": node})


def run(body: Callable[[SmallCluster], Awaitable[None]], behaviour: Behaviour | None = None) -> None:
    async def scenario() -> None:
        machines = [hardware("a", 1), hardware("b", 1)]
        async with small_cluster(machines, behaviour, addons=["dra"], objects=[ONE], tempo=Tempo(domain_sync=0.1)) as cluster:
            await cluster.start(daemon("d-a", "a"), daemon("d-b", "b"))
            for name in ("d-a", "d-b"):
                await cluster.phase(name, "Running")
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def members(domain: Json) -> dict[str, tuple[str, str, int]]:
    return {item["name"]: (item["ipAddress"], item["status"], item["index"]) for item in domain["status"]["nodes"]}


def test_a_domain_follows_its_daemons_once_one_has_gone() -> None:
    async def body(cluster: SmallCluster) -> None:
        assert members(await cluster.client.get(PATH)) == {"c": ("10.9.9.9", "Ready", 0)}, "left as the scenario has it"
        await cluster.client.delete(f"{PODS}/d-b", {"gracePeriodSeconds": 0})
        address = (await cluster.client.get(f"{PODS}/d-a"))["status"]["podIP"]
        short = await cluster.until(PATH, lambda domain: domain["status"]["status"] == "NotReady")
        assert members(short) == {"a": (address, "Ready", 0)}
        await cluster.start(daemon("d-next", "b"))
        whole = await cluster.until(PATH, lambda domain: domain["status"]["status"] == "Ready")
        anew = (await cluster.client.get(f"{PODS}/d-next"))["status"]["podIP"]
        assert members(whole) == {"a": (address, "Ready", 0), "b": (anew, "Ready", 1)}

    run(body)


def test_with_the_bug_the_lost_member_stays_and_the_domain_is_not_ready() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.delete(f"{PODS}/d-b", {"gracePeriodSeconds": 0})
        domain = await cluster.until(PATH, lambda domain: "a" in members(domain))
        assert domain["status"]["status"] == "NotReady"
        assert members(domain)["c"] == ("10.9.9.9", "NotReady", 0)

    run(body, Behaviour(domain_keeps_lost_member=True))
