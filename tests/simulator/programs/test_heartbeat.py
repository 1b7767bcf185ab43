from __future__ import annotations

import asyncio

from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.api.objects import Json
from fixtures.simulator.client.watches import Watches
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.tempo import Tempo
from fixtures.simulator.nodes.kubelet.kubelets import Kubelets
from tests.simulator.programs.small_cluster import hardware, node, small_cluster
from tests.watching import PATIENCE

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def ready(obj: Json) -> str:
    return next((c["status"] for c in obj["status"].get("conditions", []) if c["type"] == "Ready"), "")


def test_new_nodes_become_ready_and_dead_ones_stay_dead() -> None:
    dead = node(hardware("dead"), 9)
    dead["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]

    async def scenario() -> None:
        async with small_cluster([hardware("fresh")], objects=[dead]) as cluster:
            beating = ApiClient(cluster.client._base)
            machines = {"fresh": hardware("fresh"), "dead": hardware("dead")}
            watches = Watches(beating)
            task = asyncio.create_task(Kubelets(beating, Behaviour(), machines, watches, Tempo(), heartbeat_seconds=0.05).run())
            try:
                await cluster.until("/api/v1/nodes/fresh", lambda obj: ready(obj) == "True")
                await cluster.until(f"{LEASES}/fresh", lambda obj: obj["spec"]["holderIdentity"] == "fresh")
                assert ready(await cluster.client.get("/api/v1/nodes/dead")) == "Unknown"
                leases, _ = await cluster.client.list(LEASES)
                assert [lease["metadata"]["name"] for lease in leases] == ["fresh"]
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await watches.close()
                await beating.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
