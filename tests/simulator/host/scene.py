"""A scenario served in the test's own loop, with a client that may do everything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.scenario import load_scenario
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.simulated_cluster import SimulatedCluster
from tests.watching import PATIENCE, seen

NODES = "/api/v1/nodes"
OPERATOR = "/api/v1/namespaces/gpu-operator"


class Scene:
    """A running scenario."""

    def __init__(self, client: ApiClient, hosts: dict[str, Host]) -> None:
        self.client = client
        self.hosts = hosts

    async def until(self, path: str, true: Callable[[Json], Any], seconds: float = PATIENCE) -> Json:
        """As :func:`tests.watching.seen`."""
        return await seen(self.client, path, true, seconds)

    async def node(self, name: str, true: Callable[[dict[str, str]], Any], seconds: float = PATIENCE) -> dict[str, str]:
        """The labels of a node once they are as wanted."""
        found = await self.until(f"{NODES}/{name}", lambda obj: true(obj["metadata"].get("labels") or {}), seconds)
        return dict(found["metadata"]["labels"])

    async def labels(self, name: str) -> dict[str, str]:
        """The labels of a node now."""
        return dict((await self.client.get(f"{NODES}/{name}"))["metadata"]["labels"])

    async def set_labels(self, node: str, labels: dict[str, str | None]) -> None:
        """Set labels; None removes one."""
        await self.client.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})

    async def pods(self, app: str, node: str = "", namespace: str = "gpu-operator") -> list[Json]:
        """Pods of an agent that are not being deleted."""
        found, _ = await self.client.list(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": f"app={app}"})
        return [pod for pod in found if (not node or pod["spec"].get("nodeName") == node) and not pod["metadata"].get("deletionTimestamp")]

    async def kill(self, app: str, node: str = "", namespace: str = "gpu-operator") -> Json:
        """Delete an agent's pod at once; the pod as it was."""
        pod = (await self.pods(app, node, namespace))[0]
        await self.client.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        return pod

    async def ready_again(self, app: str, old: Json, seconds: float = PATIENCE) -> Json:
        """The pod that took another's place, once it is ready."""
        metadata = old["metadata"]
        daemon = any(owner["kind"] == "DaemonSet" for owner in metadata["ownerReferences"])

        def took_over(pod: Json) -> bool:
            if pod["metadata"]["uid"] == metadata["uid"] or (daemon and pod["spec"].get("nodeName") != old["spec"]["nodeName"]):
                return False
            conditions = (pod.get("status") or {}).get("conditions") or ()
            return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

        async def wait() -> Json:
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
            async for event, pod in self.client.list_and_watch(path, {"labelSelector": f"app={app}"}):
                if event in ("ADDED", "MODIFIED") and took_over(pod):
                    return pod
            raise AssertionError("the watch ended")

        return await asyncio.wait_for(wait(), seconds)

    async def metrics(self, node: str) -> str:
        """The page of a node's exporter. Raises ``ApiError`` 503 where there is none."""
        pods = await self.pods("nvidia-dcgm-exporter", node)
        name = pods[0]["metadata"]["name"] if pods else "none"
        return await self.client.text(f"{OPERATOR}/pods/{name}:9400/proxy/metrics")

    async def metric(self, node: str, name: str, gpu: int) -> str:
        """One sample's value, empty when there is none."""
        for line in (await self.metrics(node)).splitlines():
            if line.startswith(name + "{") and f'gpu="{gpu}"' in line and "GPU_I_ID" not in line:
                return line.rpartition(" ")[2]
        return ""


@contextlib.asynccontextmanager
async def scene(name: str = "resilience", *, gang_binding: float = 0.05, **switches: Any) -> AsyncIterator[Scene]:
    """Serve a scenario, its programs with some switches set; ``gang_binding``: seconds between two bindings of a gang."""
    scenario = load_scenario(name)
    tempo = msgspec.structs.replace(scenario.tempo, gang_binding=gang_binding)
    scenario = msgspec.structs.replace(scenario, behaviour=Behaviour(**switches), tempo=tempo)
    cluster = SimulatedCluster(scenario)
    url = await cluster.start()
    client = ApiClient(url)
    try:
        yield Scene(client, cluster.hosts)
    finally:
        await client.close()
        await cluster.stop()


async def soon(true: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until something holds. Raises ``TimeoutError``."""

    async def wait() -> None:
        while not true():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), seconds)
