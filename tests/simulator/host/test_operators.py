"""What heals by itself: labels, objects of the operator, the state of its policy; and what does not while its agent is away."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.simulator.api.errors import ApiError
from tests.simulator.host.scene import NODES, OPERATOR, scene
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

PRODUCT = "nvidia.com/gpu.product"
PCI = "feature.node.kubernetes.io/pci-10de.present"
SERVICE = f"{OPERATOR}/services/nvidia-dcgm-exporter"


@pytest.mark.parametrize("broken", [False, True])
def test_a_stripped_label_comes_back_by_way_of_gfd_and_nfd(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(labels_not_restored=broken) as at:
            before = await at.labels("h100-1")
            await at.set_labels("h100-1", {PRODUCT: None, PCI: "false"})
            if broken:
                with pytest.raises(TimeoutError):
                    await at.node("h100-1", lambda labels: PRODUCT in labels, 3)
            else:
                assert await at.node("h100-1", lambda labels: labels.get(PRODUCT) and labels[PCI] == "true") == before

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_labels_stay_while_their_writer_is_away_and_are_written_when_it_is_back(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(labels_vanish_in_outage=broken) as at:
            before = await at.labels("h100-1")
            away: dict[str, str | None] = {"nvidia.com/gpu.deploy.gpu-feature-discovery": "false"}
            await at.set_labels("h100-1", away)
            if broken:
                await at.node("h100-1", lambda labels: PRODUCT not in labels)
            else:
                with pytest.raises(TimeoutError):
                    await at.node("h100-1", lambda labels: PRODUCT not in labels, 3)
                await at.set_labels("h100-1", {PRODUCT: None})
                with pytest.raises(TimeoutError):
                    await at.node("h100-1", lambda labels: PRODUCT in labels, 3)
            await at.set_labels("h100-1", {"nvidia.com/gpu.deploy.gpu-feature-discovery": "true"})
            assert await at.node("h100-1", lambda labels: PRODUCT in labels) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("node", ["h100-2", "t4-0", "a100-0"])
def test_a_node_that_was_deleted_gets_all_its_labels_again(node: str) -> None:
    async def scenario() -> None:
        async with scene() as at:
            before = await at.labels(node)
            old = await at.client.get(f"{NODES}/{node}")
            await at.client.delete(f"{NODES}/{node}")
            await at.until(f"{NODES}/{node}", lambda obj: obj["metadata"]["uid"] != old["metadata"]["uid"])
            await at.node(node, lambda labels: labels == before)

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_the_operator_makes_again_what_it_owns_and_only_while_it_runs(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(operand_not_recreated=broken) as at:
            old = await at.client.get(SERVICE)
            await at.client.delete(SERVICE)
            await at.client.delete(f"{OPERATOR}/configmaps/device-plugin-config")  # the administrator's: nobody makes it again
            if broken:
                with pytest.raises(TimeoutError):
                    await at.until(SERVICE, lambda obj: obj["metadata"]["uid"] != old["metadata"]["uid"], 3)
                return
            new = await at.until(SERVICE, lambda obj: obj["metadata"]["uid"] != old["metadata"]["uid"])
            assert new["spec"]["selector"] == old["spec"]["selector"]
            assert new["spec"]["ports"] == old["spec"]["ports"]
            assert new["metadata"]["ownerReferences"] == old["metadata"]["ownerReferences"]
            with pytest.raises(ApiError):
                await at.client.get(f"{OPERATOR}/configmaps/device-plugin-config")
            deployments = "/apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator"
            await at.client.patch(deployments, {"spec": {"replicas": 0}})
            await at.until(deployments, lambda obj: not obj["status"].get("readyReplicas"))
            await at.client.delete(SERVICE)
            with pytest.raises(TimeoutError):
                await at.until(SERVICE, lambda obj: obj["metadata"]["uid"] not in (old["metadata"]["uid"], new["metadata"]["uid"]), 3)
            await at.client.patch(deployments, {"spec": {"replicas": 1}})
            await at.until(SERVICE, lambda obj: obj["metadata"]["uid"] not in (old["metadata"]["uid"], new["metadata"]["uid"]))

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_a_killed_operator_rolls_no_daemon_set(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(operator_restarts_daemonsets=broken) as at:
            apps = ("nvidia-device-plugin-daemonset", "nvidia-dcgm", "nvidia-dcgm-exporter", "gpu-feature-discovery")

            async def uids() -> set[str]:
                return {pod["metadata"]["uid"] for app in apps for pod in await at.pods(app)}

            before = await uids()
            old = await at.kill("gpu-operator")
            await at.ready_again("gpu-operator", old)
            if broken:
                async with asyncio.timeout(PATIENCE):
                    while await uids() == before:
                        await asyncio.sleep(0.1)
            else:
                await asyncio.sleep(2)
                assert await uids() == before

    asyncio.run(scenario())


def test_the_policy_says_while_an_operand_is_not_ready() -> None:
    async def scenario() -> None:
        async with scene() as at:
            path = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
            node = "a100-0"
            at.hosts[node].stop_kubelet()
            await at.kill("nvidia-dcgm-exporter", node)  # its successor does not start
            told = await at.until(path, lambda obj: obj["status"]["state"] == "notReady")
            assert "nvidia-dcgm-exporter" in told["status"]["conditions"][0]["message"]
            at.hosts[node].start_kubelet()
            await at.until(path, lambda obj: obj["status"]["state"] == "ready")

    asyncio.run(scenario())
