"""Dynamic resource allocation in the simulated cluster: claims are made, allocated, prepared and freed as Kubernetes 1.36 does."""

from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.dra.claims import API_VERSION, SLICES, choose, taints_by_rules
from tests.simulator.programs.plugin_pods import QUICK, SYSTEM, plugin_pod
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod
from tests.tables import each_row
from tests.watching import PATIENCE

TEMPO = msgspec.structs.replace(QUICK, slice_wiping=PATIENCE)
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


async def published(cluster: SmallCluster) -> Json:
    """The node's slice, once it is there."""
    async for event, obj in cluster.client.list_and_watch(SLICES):
        if event == "ADDED":
            return obj
    raise AssertionError("the watch ended")


async def claimable(cluster: SmallCluster) -> None:
    await cluster.client.create(SYSTEM, driver_pod(runs=False))
    await cluster.client.create(TEMPLATES, template("one", request()))
    await published(cluster)


with_dra = in_cluster(hardware("a", 2, dra=True), objects=[DEVICE_CLASS], tempo=TEMPO, before=claimable)


async def claim_of(cluster: SmallCluster, name: str) -> Json:
    stated = await cluster.until(f"{PODS}/{name}", lambda obj: obj["status"].get("resourceClaimStatuses"))
    return await cluster.client.get(f"{OWN_CLAIMS}/{stated['status']['resourceClaimStatuses'][0]['resourceClaimName']}")


async def stated(cluster: SmallCluster, name: str, reason: str) -> str:
    """The message of a pod's event, once it is there."""
    async for event, obj in cluster.client.list_and_watch("/api/v1/events"):
        if event != "SYNCED" and obj["involvedObject"]["name"] == name and obj["reason"] == reason:
            return str(obj["message"])
    raise AssertionError("the watch ended")


@with_dra
async def test_a_claim_of_a_pod_that_ended_is_deleted(cluster: SmallCluster) -> None:
    await cluster.start(claiming("p", script="nvidia-smi -L"))
    claim = await claim_of(cluster, "p")
    await cluster.phase("p", "Succeeded")
    await cluster.gone(f"{OWN_CLAIMS}/{claim['metadata']['name']}")


@with_dra
async def test_a_claim_that_somebody_wrote_is_shared_and_outlives_its_pods(cluster: SmallCluster) -> None:
    claim = {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": {"name": "ours"}, "spec": request()}
    await cluster.client.create(OWN_CLAIMS, claim)
    await cluster.start(claiming("p", resourceClaimName="ours"), claiming("q", resourceClaimName="ours"))
    assert await cluster.devices_seen("p") == await cluster.devices_seen("q")
    for name in ("p", "q"):
        await cluster.client.delete(f"{PODS}/{name}")
    free = await cluster.until(f"{OWN_CLAIMS}/ours", lambda obj: not obj["metadata"].get("finalizers"))
    assert "allocation" not in free["status"]


@with_dra
async def test_too_many_claims_wait_in_the_schedulers_words_until_one_is_free(cluster: SmallCluster) -> None:
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


@pytest.mark.parametrize(
    "spec",
    [
        request(allocationMode="All", count=0),
        request(adminAccess=True),
        request(selectors=[{"cel": {"expression": "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1Gi'))"}}]),
        request(deviceClassName="no-such-class"),
    ],
    ids=["all", "admin", "cel", "class"],
)
@with_dra
async def test_what_is_not_understood_is_never_allocated(cluster: SmallCluster, spec: Json) -> None:
    await cluster.client.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
    await cluster.client.create(TEMPLATES, template("odd", spec))
    await cluster.start(claiming("p", "odd"))
    assert "1 cannot allocate all claims" in await stated(cluster, "p", "FailedScheduling")
    assert "allocation" not in ((await claim_of(cluster, "p")).get("status") or {})


@with_dra
async def test_without_its_template_a_pod_has_no_claim_and_is_not_tried(cluster: SmallCluster) -> None:
    await cluster.start(claiming("p", "absent"))
    assert 'resource claim template "absent"' in await stated(cluster, "p", "FailedResourceClaimCreation")
    assert not (await cluster.client.get(f"{PODS}/p"))["spec"].get("nodeName")
    await cluster.client.create(TEMPLATES, template("absent", request()))
    await cluster.phase("p", "Running")


@with_dra
async def test_a_pod_bound_past_the_scheduler_may_not_use_a_claim(cluster: SmallCluster) -> None:
    made = claiming("p")
    made["spec"]["nodeName"] = "a"
    await cluster.start(made)
    message = await stated(cluster, "p", "FailedPrepareDynamicResources")
    assert "ResourceClaim" in message
    assert (await cluster.client.get(f"{PODS}/p"))["status"]["phase"] == "Pending"


# -- device taints in the simulated cluster: which devices a rule means ------------------------------

DEVICE = ("gpu.nvidia.com", "node-1", "gpu-0")


def rule(effect: str = "NoSchedule", **selector: str) -> dict[str, Any]:
    return {"spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}}


@each_row
def test_what_a_selector_leaves_out_matches_any(selector: dict[str, str], matches: bool) -> None:
    assert bool(list(taints_by_rules([rule(**selector)], DEVICE))) is matches
    assert list(taints_by_rules([{"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}], DEVICE)) == []  # no selector, no taint


@pytest.mark.parametrize(("effect", "device"), [("NoSchedule", "gpu-1"), ("NoExecute", "gpu-1"), ("None", "gpu-0")])
def test_a_claim_gets_the_first_device_that_no_rule_keeps_from_it(effect: str, device: str) -> None:
    classes = {"gpus": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}}}
    claim = {"spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpus"}}]}}}
    published = {"driver": DEVICE[0], "pool": {"name": DEVICE[1]}, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    chosen = choose(claim, classes, [{"spec": published}], [], [rule(effect, device="gpu-0")])
    assert [result["device"] for result in chosen or ()] == [device]
