import asyncio
import functools
from typing import Any

from fixtures.simulator.api.objects import Json
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"

on_two_nodes = in_cluster(hardware("n0"), hardware("n1"))


def workload(
    kind: str, name: str, script: str = "sleep infinity", *, version: str = "apps/v1", restart: str = "Always", **spec: Any
) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": {**pod("x", script)["spec"], "restartPolicy": restart}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {**selector, "template": template, **spec}}


def job(name: str, script: str, **spec: Any) -> Json:
    return workload("Job", name, script, version="batch/v1", restart="Never", **spec)


def true_conditions(obj: Json) -> set[str]:
    return {c["type"] for c in obj.get("status", {}).get("conditions", []) if c["status"] == "True"}


@on_two_nodes
async def test_a_failing_job_stops_at_its_limit_and_a_suspended_one_waits(cluster: SmallCluster) -> None:
    await cluster.client.create(JOBS, job("bad", "exit 1", backoffLimit=1))
    await cluster.client.create(JOBS, job("held", "true", suspend=True))
    failed = await cluster.until(f"{JOBS}/bad", lambda obj: "Failed" in true_conditions(obj))
    assert failed["status"]["failed"] == 2
    await cluster.until(f"{JOBS}/held", lambda obj: "Suspended" in true_conditions(obj))
    await cluster.client.patch(f"{JOBS}/held", {"spec": {"suspend": False}})
    await cluster.until(f"{JOBS}/held", lambda obj: "Complete" in true_conditions(obj))


@on_two_nodes
async def test_a_job_past_its_deadline_fails_and_goes_with_all_that_it_owns(cluster: SmallCluster) -> None:
    """Without pods too: its clock runs from the moment that the controller has seen it."""
    await cluster.client.create(JOBS, job("end", "true", parallelism=0, completions=1, activeDeadlineSeconds=1))
    failed = await cluster.until(f"{JOBS}/end", lambda obj: "Failed" in true_conditions(obj))
    assert [c["reason"] for c in failed["status"]["conditions"]] == ["DeadlineExceeded"] * 2
    assert (await cluster.client.list(PODS))[0] == []
    await cluster.client.create(f"{APPS}/deployments", workload("Deployment", "web", replicas=1))
    await cluster.until(f"{APPS}/deployments/web", lambda obj: obj.get("status", {}).get("availableReplicas") == 1)
    brief = job("brief", "true", parallelism=0, completions=1, activeDeadlineSeconds=1, ttlSecondsAfterFinished=0)
    made = await cluster.client.create(JOBS, brief)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "brief", "uid": made["metadata"]["uid"]}
    await cluster.client.patch(f"{APPS}/deployments/web", {"metadata": {"ownerReferences": [owner]}})
    await cluster.gone(f"{JOBS}/brief")
    await cluster.gone(f"{APPS}/deployments/web")
    for pod_ in (await cluster.client.list(PODS))[0]:
        await cluster.gone(f"{PODS}/{pod_['metadata']['name']}")
    assert "Failed" in true_conditions(await cluster.client.get(f"{JOBS}/end"))  # without a time to live it stays


@on_two_nodes
async def test_a_taint_that_ends_no_pod_leaves_the_counts_of_a_daemon_set_as_they_were(cluster: SmallCluster) -> None:
    """The real controller does not look again; when something else makes it, the pod is misscheduled."""
    path = f"{APPS}/daemonsets/agent"
    await cluster.client.create(f"{APPS}/daemonsets", workload("DaemonSet", "agent"))
    before = await cluster.until(path, lambda obj: obj.get("status", {}).get("numberReady") == 2)
    await cluster.client.patch("/api/v1/nodes/n1", {"spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}})
    await asyncio.sleep(0.3)
    assert (await cluster.client.get(path))["status"] == before["status"]
    await cluster.client.patch(path, {"spec": {"minReadySeconds": 1}})
    after = await cluster.until(path, lambda obj: obj["status"].get("observedGeneration") == 2)
    assert (after["status"]["desiredNumberScheduled"], after["status"]["numberMisscheduled"]) == (1, 1)
    assert len((await cluster.client.list(PODS))[0]) == 2


@on_two_nodes
async def test_a_new_template_is_rolled_out_unless_pods_are_replaced_on_deletion_only(cluster: SmallCluster) -> None:
    for name, strategy in (("rolling", {"type": "RollingUpdate"}), ("waiting", {"type": "OnDelete"})):
        path = f"{APPS}/daemonsets/{name}"
        await cluster.client.create(f"{APPS}/daemonsets", workload("DaemonSet", name, updateStrategy=strategy))
        await cluster.until(path, lambda obj: obj.get("status", {}).get("numberReady") == 2)
        pods = {item["metadata"]["uid"] for item in (await cluster.client.list(PODS))[0] if item["metadata"]["name"].startswith(name)}
        await cluster.client.patch(path, {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}})
        done = (2, 2 if name == "rolling" else 0, 2)
        await cluster.until(path, functools.partial(_has_counts, done))
        now = {item["metadata"]["uid"] for item in (await cluster.client.list(PODS))[0] if item["metadata"]["name"].startswith(name)}
        assert (now == pods) is (name == "waiting")


def _has_counts(wanted: tuple[int, int, int], item: Json) -> bool:
    status = item["status"]
    counts = status["desiredNumberScheduled"], status["updatedNumberScheduled"], status["numberReady"]
    return status.get("observedGeneration") == item["metadata"]["generation"] and counts == wanted


@on_two_nodes
async def test_a_stateful_set_starts_in_order(cluster: SmallCluster) -> None:
    await cluster.client.create(f"{APPS}/statefulsets", workload("StatefulSet", "db", replicas=3, serviceName="db"))
    await cluster.until(f"{APPS}/statefulsets/db", lambda obj: obj.get("status", {}).get("readyReplicas") == 3)
    pods, _ = await cluster.client.list(PODS)
    assert [p["metadata"]["name"] for p in pods] == ["db-0", "db-1", "db-2"]
