import asyncio

from fixtures.simulator.api.objects import Json
from fixtures.simulator.pods.state import condition
from tests.simulator.programs.small_cluster import PODS, MakesTest, SmallCluster, hardware, in_cluster, pod

GPU = "nvidia.com/gpu"
API = "kueue.x-k8s.io/v1beta2"
WORKLOADS = f"/apis/{API}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETTLE = 0.4


def queues(quota: int) -> list[Json]:
    amounts = {"cpu": "1000", "memory": "10Ti", GPU: str(quota)}
    flavor = {"name": "h100", "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]}
    groups = [{"coveredResources": list(amounts), "flavors": [flavor]}]
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return [
        {
            "apiVersion": API,
            "kind": "ResourceFlavor",
            "metadata": {"name": "h100"},
            "spec": {"nodeLabels": {"pool": "h100"}, "tolerations": tolerations},
        },
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "team"}, "spec": {"resourceGroups": groups}},
        {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "q", "namespace": "default"}, "spec": {"clusterQueue": "team"}},
    ]


async def labelled(cluster: SmallCluster) -> None:
    for name in ("n0", "n1"):
        await cluster.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"pool": "h100"}}})


def with_quota(quota: int, *objects: Json) -> MakesTest:
    machines = hardware("n0"), hardware("n1")
    return in_cluster(*machines, addons=["kueue"], objects=[*queues(quota), *objects], before=labelled)


def members(name: str, count: int, total: int | None = None, script: str = "sleep infinity", devices: int = 8) -> list[Json]:
    metadata = {
        "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": name},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(total or count)},
    }
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    return [pod(f"{name}-{n}", script, {GPU: devices}, tolerations=[], spec=dict(gates), metadata=dict(metadata)) for n in range(count)]


@with_quota(16)
async def test_an_incomplete_group_goes_when_all_its_pods_are_deleted(cluster: SmallCluster) -> None:
    await cluster.start(*members("g", 2, total=3))
    for n in range(2):
        await cluster.until(f"{PODS}/g-{n}", lambda obj: obj["metadata"].get("finalizers"))
    await cluster.client.delete(f"{PODS}/g-0")
    await asyncio.sleep(SETTLE)
    assert (await cluster.client.get(f"{PODS}/g-0"))["metadata"]["deletionTimestamp"]
    await cluster.client.delete(f"{PODS}/g-1")
    for n in range(2):
        await cluster.gone(f"{PODS}/g-{n}")


@with_quota(16)
async def test_a_suspended_job_is_started_when_quota_is_there(cluster: SmallCluster) -> None:
    template = {"spec": {**pod("x", "sleep 0.2", {GPU: 8}, tolerations=[])["spec"]}}
    spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": spec,
    }
    await cluster.client.create(JOBS, job)
    done = await cluster.until(f"{JOBS}/train", lambda obj: condition(obj, "Complete").get("status") == "True")
    assert done["status"]["succeeded"] == 2
    workloads, _ = await cluster.client.list(WORKLOADS)
    assert workloads[0]["metadata"]["name"].startswith("job-train-")


TEXT = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady: {timeout: 5m, blockAdmission: true}\n"
METADATA = {"name": "kueue-manager-config", "namespace": "kueue-system"}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA, "data": {"controller_manager_config.yaml": TEXT}}


@with_quota(32, CONFIG)
async def test_a_workload_that_is_not_ready_blocks_the_next(cluster: SmallCluster) -> None:
    await cluster.start(*members("g", 3))
    await cluster.until(f"{WORKLOADS}/g", lambda obj: condition(obj, "PodsReady").get("status") == "False")
    await cluster.start(*members("h", 1))
    await cluster.until(f"{WORKLOADS}/h", lambda obj: condition(obj, "QuotaReserved").get("reason") == "WaitingForPodsReady")
    await cluster.client.delete(f"{WORKLOADS}/g")
    await cluster.until(f"{WORKLOADS}/h", lambda obj: condition(obj, "QuotaReserved").get("status") == "True")
