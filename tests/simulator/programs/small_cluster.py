"""A small cluster for the programs: a real simulated API server on a free port, nodes with devices, and the node side."""

import asyncio
import contextlib
import functools
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import aiohttp

from fixtures.simulator.admission.plugins import chain
from fixtures.simulator.api.client import ApiClient, error_of
from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.api.resources import Registry
from fixtures.simulator.config.behaviour import Behaviour, Tempo
from fixtures.simulator.config.hardware import PRODUCTS, Hardware, Sharing, gpus
from fixtures.simulator.config.scenario import NATIVE_GANGS, Scenario
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from fixtures.simulator.simulated_cluster import Programs
from tests.definitions import definitions
from tests.troubles import Trouble
from tests.watching import PATIENCE, seen

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PODS = "/api/v1/namespaces/default/pods"
RDMA = "rdma/rdma_shared_device_a"
MakesTest = Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]
UUID = re.compile(r"UUID: ((?:GPU|MIG)-[0-9a-f-]+)")


def hardware(name: str, count: int = 8, **more: Any) -> Hardware:
    """An H100 node; ``hcas=8`` gives it a fabric, ``layout`` MIG (strategy mixed)."""
    hcas = int(more.pop("hcas", 0))
    layout = more.pop("layout", None)
    return Hardware(
        node=name,
        gpus=gpus(name, PRODUCTS["H100"], count, layout),
        mig_strategy="mixed" if layout else "none",
        driver="580.95.05",
        cuda="13.0",
        hcas=tuple(f"mlx5_{n}" for n in range(hcas)),
        rdma_resource=RDMA if hcas else "",
        rdma_units=63 if hcas else 0,
        rdma_bandwidth=390.0 if hcas else 0.0,
        sharing=more.pop("sharing", Sharing()),
        **more,
    )


def node(machine: Hardware, number: int = 1, taints: Sequence[Mapping[str, str]] = (TAINT,)) -> Json:
    """The Node object of a machine."""
    devices = {resource: str(len(units)) for resource, units in machine.units().items()}
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.node, "labels": {"kubernetes.io/hostname": machine.node}},
        "spec": {"podCIDR": f"10.128.{number}.0/24", "taints": [dict(taint) for taint in taints]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}],
            "capacity": amounts,
            "allocatable": amounts,
            "nodeInfo": {"bootID": f"boot-{machine.node}", "kernelVersion": "6.8.0-87-generic"},
        },
    }


def pod(name: str, script: str = "sleep infinity", devices: Mapping[str, int] | None = None, **more: Any) -> Json:
    """A probe-like pod. ``more``: env, tolerations, spec, metadata, container."""
    wanted = {"cpu": "100m", "memory": "64Mi", **{key: str(value) for key, value in (devices or {}).items()}}
    env = [{"name": key, "value": value} for key, value in more.pop("env", {}).items()]
    container = {
        "name": "probe",
        "image": "registry.example/probe:1",
        "command": ["/bin/sh", "-c", script],
        "resources": {"limits": wanted, "requests": wanted},
        "env": env,
        **more.pop("container", {}),
    }
    spec = {
        "restartPolicy": "Never",
        "tolerations": more.pop("tolerations", [TOLERATION]),
        "containers": [container],
        **more.pop("spec", {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec}


class SmallCluster:
    """A running cluster with a client."""

    def __init__(self, server: str, client: ApiClient, programs: Programs) -> None:
        self.server = server
        self.client = client
        self.kubelets = programs.kubelets
        self.hosts = programs.kubelets.hosts

    async def start(self, *pods: Json) -> None:
        """Create pods in namespace default."""
        for item in pods:
            await self.client.create(PODS, item)

    async def until(self, path: str, true: Callable[[Json], Any], seconds: float = PATIENCE) -> Json:
        """As :func:`tests.watching.seen`."""
        return await seen(self.client, path, true, seconds)

    async def phase(self, name: str, *phases: str, seconds: float = PATIENCE) -> Json:
        """A pod of namespace default once it is in one of the phases."""
        return await self.until(f"{PODS}/{name}", lambda obj: obj["status"].get("phase") in phases, seconds)

    async def bound(self, *names: str, seconds: float = PATIENCE) -> list[str]:
        """The nodes of the pods once all are bound."""
        found = [await self.until(f"{PODS}/{name}", lambda obj: obj["spec"].get("nodeName"), seconds) for name in names]
        return [str(obj["spec"]["nodeName"]) for obj in found]

    async def unbound(self, *names: str) -> list[str]:
        """Those of the pods that have no node now."""
        return [name for name in names if not (await self.client.get(f"{PODS}/{name}"))["spec"].get("nodeName")]

    async def log(self, name: str, container: str = "probe", **more: str) -> str:
        """A container's log. Raises ``ApiError``."""
        path = f"{self.server}{PODS}/{name}/log"
        async with aiohttp.ClientSession() as session, session.get(path, params={"container": container, **more}) as answer:
            if answer.status >= 400:
                raise error_of(await answer.json())
            return await answer.text()

    async def output(self, name: str, seconds: float = PATIENCE) -> str:
        """The log of a pod that ended."""
        await self.phase(name, "Succeeded", "Failed", seconds=seconds)
        return await self.log(name)

    async def devices_seen(self, name: str) -> list[str]:
        """The UUIDs that a pod has named, once it has: that it runs does not say that it has written."""
        await self.phase(name, "Running")
        async with asyncio.timeout(PATIENCE):
            while not (found := UUID.findall(await self.log(name))):
                await asyncio.sleep(0.02)
        return found

    async def gone(self, path: str, seconds: float = PATIENCE) -> None:
        """Wait until an object is gone."""
        folder, name = path.rsplit("/", 1)

        async def wait() -> None:
            async for event, obj in self.client.list_and_watch(folder, {"fieldSelector": f"metadata.name={name}"}):
                if event == "DELETED":
                    return
                if event == "SYNCED":
                    try:
                        await self.client.get(path)
                    except ApiError:
                        return
                del obj

        await asyncio.wait_for(wait(), seconds)


@contextlib.asynccontextmanager
async def small_cluster(
    machines: Sequence[Hardware],
    behaviour: Behaviour | None = None,
    *,
    addons: Collection[str] = (),
    objects: Sequence[Json] = (),
    taints: Sequence[Mapping[str, str]] = (TAINT,),
    troubles: Sequence[Trouble] = (),
    tempo: Tempo | None = None,
    more: Mapping[str, Hardware] | None = None,
) -> AsyncIterator[SmallCluster]:
    """Serve a cluster of these machines. ``more`` is the hardware of nodes among ``objects``."""
    gangs = NATIVE_GANGS in addons
    store = Store(Registry(native_gangs=gangs))
    defining = [name for name in addons if name != NATIVE_GANGS]
    kinds = definitions(*defining) if defining else []
    for item in [*kinds, *(node(machine, number + 1, taints) for number, machine in enumerate(machines)), *objects]:
        store.put_initial(item)
    server = SimulatedServer(
        store,
        admissions=chain(native_gangs=gangs),
        troubles=list(troubles),
        enforces_budgets=not (behaviour or Behaviour()).eviction_ignores_budget,
    )
    url = await server.start()
    scenario = Scenario(name="small", description="", pools=[], addons=list(addons), tempo=tempo or Tempo())
    programs = Programs(url, scenario, behaviour or Behaviour(), {**{machine.node: machine for machine in machines}, **(more or {})})
    server.kubelets = programs.kubelets
    client = ApiClient(url)
    try:
        programs.start()
        await programs.ready()
        yield SmallCluster(url, client, programs)
    finally:
        await programs.stop()
        await client.close()
        await server.stop()


def in_cluster(*machines: Hardware, before: Callable[[SmallCluster], Awaitable[None]] | None = None, **more: Any) -> MakesTest:
    """Makes a test of a coroutine, whose ``cluster`` is a :func:`small_cluster` of these machines. pytest gives its other arguments.

    ``before`` prepares the cluster.
    """

    def decorate(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(body)
        def test(**given: Any) -> None:
            async def scenario() -> None:
                async with small_cluster(machines, **more) as cluster:
                    if before is not None:
                        await before(cluster)
                    await body(cluster=cluster, **given)

            asyncio.run(asyncio.wait_for(scenario(), PATIENCE))

        asked = inspect.signature(body)
        test.__signature__ = asked.replace(parameters=[one for one in asked.parameters.values() if one.name != "cluster"])  # type: ignore[attr-defined]
        return test

    return decorate
