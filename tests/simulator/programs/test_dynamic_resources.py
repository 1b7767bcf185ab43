"""Dynamic resource allocation in the simulated cluster: claims are made, allocated, prepared and freed as Kubernetes 1.36 does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.tempo import Tempo
from fixtures.simulator.dra.devices import API_VERSION, CLAIMS, CLASSES, FINALIZER, SLICES
from tests.simulator.programs.plugin_pods import QUICK, SYSTEM, plugin_pod
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

Body = Callable[[SmallCluster], Awaitable[None]]
TEMPO = msgspec.structs.replace(QUICK, slice_wiping=PATIENCE)
WIPING = msgspec.structs.replace(QUICK, slice_wiping=0.4)
TEMPLATES = f"/apis/{API_VERSION}/namespaces/default/resourceclaimtemplates"
OWN_CLAIMS = f"/apis/{API_VERSION}/namespaces/default/resourceclaims"
LISTS = "nvidia-smi -L; sleep infinity"


def driver_pod(name: str = "plugin", *, runs: bool = True) -> Json:
    made = plugin_pod("a", name, app="dra", runs=runs)
    made["metadata"]["labels"] = {"nvidia-dra-driver-gpu-component": "kubelet-plugin"}
    return made


def request(count: int = 1, **more: Any) -> Json:
    return {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count, **more}}]}}


def claiming(name: str, template: str = "one", script: str = LISTS, **source: str) -> Json:
    claims = [{"name": "gpu", **(source or {"resourceClaimTemplateName": template})}]
    made = pod(name, script, spec={"resourceClaims": claims})
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return made


def template(name: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec}}


DEVICE_CLASS: Json = {
    "apiVersion": API_VERSION,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]
    },
}


def run(body: Body, behaviour: Behaviour | None = None, count: int = 2, tempo: Tempo = TEMPO) -> None:
    async def scenario() -> None:
        machine = hardware("a", count, dra=True)
        async with small_cluster([machine], behaviour, objects=[DEVICE_CLASS], tempo=tempo) as cluster:
            await cluster.client.create(SYSTEM, driver_pod(runs=False))
            await cluster.client.create(TEMPLATES, template("one", request()))
            await published(cluster)
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


async def published(cluster: SmallCluster) -> Json:
    """The node's slice, once it is there."""
    async for event, obj in cluster.client.list_and_watch(SLICES):
        if event == "ADDED":
            return obj
    raise AssertionError("the watch ended")


async def claim_of(cluster: SmallCluster, name: str) -> Json:
    told = await cluster.until(f"{PODS}/{name}", lambda obj: obj["status"].get("resourceClaimStatuses"))
    return await cluster.client.get(f"{OWN_CLAIMS}/{told['status']['resourceClaimStatuses'][0]['resourceClaimName']}")


async def told(cluster: SmallCluster, name: str, reason: str) -> str:
    """The message of a pod's event, once it is there."""
    async for event, obj in cluster.client.list_and_watch("/api/v1/events"):
        if event != "SYNCED" and obj["involvedObject"]["name"] == name and obj["reason"] == reason:
            return str(obj["message"])
    raise AssertionError("the watch ended")


def test_the_driver_publishes_what_the_machine_has() -> None:
    async def body(cluster: SmallCluster) -> None:
        spec = (await published(cluster))["spec"]
        assert (spec["driver"], spec["nodeName"]) == ("gpu.nvidia.com", "a")
        assert spec["pool"] == {"name": "a", "generation": 1, "resourceSliceCount": 1}
        assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1"]
        attributes = spec["devices"][0]["attributes"]
        assert attributes["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
        assert attributes["driverVersion"] == {"version": "580.95.5"}
        assert attributes["uuid"] == {"string": cluster.hosts["a"].hardware.gpus[0].uuid}
        assert spec["devices"][0]["capacity"] == {"memory": {"value": "81559Mi"}}
        node = await cluster.client.get("/api/v1/nodes/a")
        assert "nvidia.com/gpu" not in node["status"]["capacity"]

    run(body)


def test_a_pod_gets_exactly_the_device_of_its_claim_and_gives_it_back() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p"))
        seen = await cluster.devices_seen("p")
        claim = await claim_of(cluster, "p")
        gpus = cluster.hosts["a"].hardware.gpus
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["request"], result["driver"], result["pool"]) == ("gpus", "gpu.nvidia.com", "a")
        assert seen == [gpus[int(result["device"].removeprefix("gpu-"))].uuid]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert claim["status"]["reservedFor"][0]["name"] == "p"
        listed = msgspec.to_builtins(cluster.hosts["a"].pod_devices())["pods"]
        (own,) = [item["containers"][0] for item in listed if item["name"] == "p"]
        where = {"driver": "gpu.nvidia.com", "pool": "a", "device": result["device"]}
        assert own["devices"] == []
        assert own["claims"] == [{"namespace": "default", "name": claim["metadata"]["name"], "devices": [where]}]
        await cluster.client.delete(f"{PODS}/p")
        await cluster.gone(f"{OWN_CLAIMS}/{claim['metadata']['name']}")

    run(body)


def test_a_claim_of_a_pod_that_ended_is_deleted() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p", script="nvidia-smi -L"))
        claim = await claim_of(cluster, "p")
        await cluster.phase("p", "Succeeded")
        await cluster.gone(f"{OWN_CLAIMS}/{claim['metadata']['name']}")

    run(body)


def test_a_claim_that_somebody_wrote_is_shared_and_outlives_its_pods() -> None:
    async def body(cluster: SmallCluster) -> None:
        claim = {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": {"name": "ours"}, "spec": request()}
        await cluster.client.create(OWN_CLAIMS, claim)
        await cluster.start(claiming("p", resourceClaimName="ours"), claiming("q", resourceClaimName="ours"))
        assert await cluster.devices_seen("p") == await cluster.devices_seen("q")
        for name in ("p", "q"):
            await cluster.client.delete(f"{PODS}/{name}")
        free = await cluster.until(f"{OWN_CLAIMS}/ours", lambda obj: not obj["metadata"].get("finalizers"))
        assert "allocation" not in free["status"]

    run(body)


def test_too_many_claims_wait_in_the_schedulers_words_until_one_is_free() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p"), claiming("q"))
        first, second = await cluster.devices_seen("p"), await cluster.devices_seen("q")
        assert sorted(first + second) == sorted(gpu.uuid for gpu in cluster.hosts["a"].hardware.gpus)
        await cluster.start(claiming("late"))
        waits = await cluster.until(f"{PODS}/late", lambda obj: obj["status"].get("conditions"))
        assert waits["status"]["conditions"][0]["message"] == (
            "0/1 nodes are available: 1 cannot allocate all claims. preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        await cluster.client.delete(f"{PODS}/p")
        assert await cluster.devices_seen("late") == first

    run(body)


@pytest.mark.parametrize(
    "spec",
    [
        request(allocationMode="All", count=0),
        request(adminAccess=True),
        request(selectors=[{"cel": {"expression": "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1Gi'))"}}]),
        request(deviceClassName="no-such-class"),
        {"devices": {"requests": [{"name": "gpus", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.nvidia.com"}]}]}},
        {"devices": {**request()["devices"], "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]}},
    ],
    ids=["all", "admin", "cel", "class", "first-available", "constraints"],
)
def test_what_is_not_understood_is_never_allocated(spec: Json) -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
        await cluster.client.create(TEMPLATES, template("odd", spec))
        await cluster.start(claiming("p", "odd"))
        assert "1 cannot allocate all claims" in await told(cluster, "p", "FailedScheduling")
        assert "allocation" not in ((await claim_of(cluster, "p")).get("status") or {})

    run(body)


def test_selectors_of_a_request_choose_by_attribute() -> None:
    async def body(cluster: SmallCluster) -> None:
        wanted = cluster.hosts["a"].hardware.gpus[1].uuid
        expression = f"device.attributes['gpu.nvidia.com'].uuid == '{wanted}'"
        await cluster.client.create(TEMPLATES, template("that", request(selectors=[{"cel": {"expression": expression}}])))
        await cluster.start(claiming("p", "that"))
        assert await cluster.devices_seen("p") == [wanted]

    run(body)


def test_without_its_template_a_pod_has_no_claim_and_is_not_tried() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p", "absent"))
        assert 'resource claim template "absent"' in await told(cluster, "p", "FailedResourceClaimCreation")
        assert not (await cluster.client.get(f"{PODS}/p"))["spec"].get("nodeName")
        await cluster.client.create(TEMPLATES, template("absent", request()))
        await cluster.phase("p", "Running")

    run(body)


def test_while_the_plugin_is_away_pods_keep_devices_and_new_ones_wait() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p"))
        before = await cluster.devices_seen("p")
        slice_before = await published(cluster)
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await cluster.gone(f"{SYSTEM}/plugin")
        await cluster.start(claiming("late"))
        assert await told(cluster, "late", "FailedPrepareDynamicResources") == (
            "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered"
        )
        waits = await cluster.client.get(f"{PODS}/late")
        assert waits["status"]["phase"] == "Pending"
        assert waits["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
        assert (await cluster.client.get(f"{PODS}/p"))["status"]["phase"] == "Running"
        await cluster.client.create(SYSTEM, driver_pod("plugin-2", runs=False))
        after = await cluster.devices_seen("late")
        assert after
        assert after != before
        assert (await published(cluster))["metadata"]["uid"] == slice_before["metadata"]["uid"]

    run(body)


def test_slices_of_a_plugin_that_stays_away_go_and_come_back_with_it() -> None:
    async def body(cluster: SmallCluster) -> None:
        name = (await published(cluster))["metadata"]["name"]
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await cluster.gone(f"{SLICES}/{name}")
        await cluster.start(claiming("late"))
        assert "1 cannot allocate all claims" in await told(cluster, "late", "FailedScheduling")
        await cluster.client.create(SYSTEM, driver_pod("plugin-2", runs=False))
        await published(cluster)
        assert await cluster.devices_seen("late")

    run(body, tempo=WIPING)


def test_a_slice_that_somebody_deletes_is_published_again() -> None:
    async def body(cluster: SmallCluster) -> None:
        first = await published(cluster)
        await cluster.client.delete(f"{SLICES}/{first['metadata']['name']}")
        await cluster.gone(f"{SLICES}/{first['metadata']['name']}")
        again = await asyncio.wait_for(published(cluster), PATIENCE)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        assert again["spec"] == first["spec"]
        assert again["metadata"]["ownerReferences"][0]["kind"] == "Node"

    run(body)


def test_a_pod_bound_past_the_scheduler_may_not_use_a_claim() -> None:
    async def body(cluster: SmallCluster) -> None:
        made = claiming("p")
        made["spec"]["nodeName"] = "a"
        await cluster.start(made)
        message = await told(cluster, "p", "FailedPrepareDynamicResources")
        assert "ResourceClaim" in message
        assert (await cluster.client.get(f"{PODS}/p"))["status"]["phase"] == "Pending"

    run(body)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_forgetful_driver_hands_out_a_held_device_after_its_restart(forgets: bool) -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(claiming("p"))
        held = await cluster.devices_seen("p")
        await cluster.client.delete(f"{SYSTEM}/plugin")
        await cluster.gone(f"{SYSTEM}/plugin")
        await cluster.client.create(SYSTEM, driver_pod("plugin-2", runs=False))
        await cluster.start(claiming("late"))
        seen = await cluster.devices_seen("late")
        (result,) = (await claim_of(cluster, "late"))["status"]["allocation"]["devices"]["results"]
        allocated = cluster.hosts["a"].hardware.gpus[int(result["device"].removeprefix("gpu-"))].uuid
        assert allocated not in held  # the books are right either way
        assert seen == (held if forgets else [allocated])

    run(body, Behaviour(dra_forgets_claims=forgets))


def test_a_cluster_without_a_driver_does_not_bind_pods_with_claims() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 1)], tempo=TEMPO) as cluster:
            await cluster.start(claiming("p"))
            waits = await cluster.until(f"{PODS}/p", lambda obj: obj["status"].get("conditions"))
            assert "1 cannot allocate all claims" in waits["status"]["conditions"][0]["message"]
            with pytest.raises(ApiError):
                await cluster.client.get(f"{CLAIMS}/none")

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def asking(name: str, resource: str, count: int, **spec: Any) -> Json:
    made = pod(name, LISTS, spec=spec)
    made["spec"]["containers"][0]["resources"] = {"limits": {resource: str(count)}, "requests": {resource: str(count)}}
    return made


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"])
def test_the_scheduler_claims_what_a_pod_asks_for_as_an_extended_resource(resource: str) -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.patch(f"{CLASSES}/gpu.nvidia.com", {"spec": {"extendedResourceName": "nvidia.com/gpu"}})
        await cluster.start(asking("p", resource, 2))
        seen = await cluster.devices_seen("p")
        assert sorted(seen) == sorted(gpu.uuid for gpu in cluster.hosts["a"].hardware.gpus)
        told = (await cluster.client.get(f"{PODS}/p"))["status"]["extendedResourceClaimStatus"]
        (mapping,) = told["requestMappings"]
        assert (mapping["containerName"], mapping["resourceName"]) == ("probe", resource)
        claim = await cluster.client.get(f"{OWN_CLAIMS}/{told['resourceClaimName']}")
        assert claim["metadata"]["generateName"] == "p-extended-resources-"
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        (wanted,) = claim["spec"]["devices"]["requests"]
        assert (wanted["name"], wanted["exactly"]["count"]) == (mapping["requestName"], 2)
        await cluster.start(asking("q", resource, 1))
        waits = await cluster.until(f"{PODS}/q", lambda obj: obj["status"].get("conditions"))
        assert "cannot allocate all claims" in waits["status"]["conditions"][0]["message"]
        await cluster.client.delete(f"{PODS}/p")
        await cluster.gone(f"{OWN_CLAIMS}/{told['resourceClaimName']}")
        assert len(await cluster.devices_seen("q")) == 1

    run(body)


def test_a_resource_that_no_class_maps_stays_insufficient() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.start(asking("p", "nvidia.com/gpu", 1))
        waits = await cluster.until(f"{PODS}/p", lambda obj: obj["status"].get("conditions"))
        assert "Insufficient nvidia.com/gpu" in waits["status"]["conditions"][0]["message"]

    run(body)
