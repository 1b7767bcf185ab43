"""A scenario's objects on a server that gives them UIDs of its own: what names an object names the one that is there."""

import asyncio

import msgspec

from fixtures.localcluster.nodes.attach import objects_of, parse
from fixtures.localcluster.seed.seeding import Seeding
from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store.store import Store
from tests.watching import PATIENCE

LABEL = "resource.nvidia.com/computeDomain"
KINDS = ("Namespace", "Node", "ComputeDomain", "DaemonSet")
"""Without the pods: nobody is there to make them."""


def test_nodes_and_daemons_of_a_compute_domain_name_the_domain_that_is_there() -> None:
    async def scenario() -> None:
        derived = objects_of(*parse("gb200"))
        chosen = [item for item in derived.objects if item["kind"] in KINDS]
        store = Store()
        for item in derived.objects:
            if item["kind"] == "CustomResourceDefinition":
                store.put_initial(item)
        server = SimulatedServer(store)
        client = ApiClient(await server.start())
        try:
            await Seeding(client, msgspec.structs.replace(derived, objects=chosen), "v1.37.2", PATIENCE).run()
            (domain,), _ = await client.list("/apis/resource.nvidia.com/v1beta1/computedomains")
            nodes, _ = await client.list("/api/v1/nodes", {"labelSelector": LABEL})
            daemons, _ = await client.list("/apis/apps/v1/daemonsets", {"labelSelector": LABEL})
        finally:
            await client.close()
            await server.stop()
        built = next(item for item in chosen if item["kind"] == "ComputeDomain")
        assert domain["metadata"]["uid"] != built["metadata"]["uid"]
        assert {item["metadata"]["labels"][LABEL] for item in [*nodes, *daemons]} == {domain["metadata"]["uid"]}
        assert (len(nodes), len(daemons)) == (2, 1)
        assert daemons[0]["metadata"]["name"].endswith(domain["metadata"]["uid"])

    asyncio.run(scenario())
