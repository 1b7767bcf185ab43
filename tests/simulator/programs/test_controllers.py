from __future__ import annotations

import asyncio
import functools
from typing import Any

from fixtures.simulator.api.objects import Json
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, node, pod, small_cluster
from tests.watching import PATIENCE

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def run(body: Any, machines: int = 2, **more: Any) -> None:
    async def scenario() -> None:
        async with small_cluster([hardware(f"n{i}") for i in range(machines)], **more) as cluster:
            await body(cluster)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


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


def test_an_indexed_job_completes_every_index() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(JOBS, job("j", "echo $JOB_COMPLETION_INDEX", parallelism=2, completions=3, completionMode="Indexed"))
        done = await cluster.until(f"{JOBS}/j", lambda obj: "Complete" in true_conditions(obj))
        assert done["status"]["succeeded"] == 3
        assert done["status"]["completedIndexes"] == "0-2"
        pods, _ = await cluster.client.list(PODS)
        logs = sorted([await cluster.log(p["metadata"]["name"]) for p in pods])
        assert logs == ["0\n", "1\n", "2\n"]

    run(body)


def test_a_failing_job_stops_at_its_limit_and_a_suspended_one_waits() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(JOBS, job("bad", "exit 1", backoffLimit=1))
        await cluster.client.create(JOBS, job("held", "true", suspend=True))
        failed = await cluster.until(f"{JOBS}/bad", lambda obj: "Failed" in true_conditions(obj))
        assert failed["status"]["failed"] == 2
        await cluster.until(f"{JOBS}/held", lambda obj: "Suspended" in true_conditions(obj))
        await cluster.client.patch(f"{JOBS}/held", {"spec": {"suspend": False}})
        await cluster.until(f"{JOBS}/held", lambda obj: "Complete" in true_conditions(obj))

    run(body)


def test_a_job_past_its_deadline_fails_and_goes_with_all_that_it_owns() -> None:
    """Without pods too: its clock runs from the moment that the controller has seen it."""

    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(JOBS, job("end", "true", parallelism=0, completions=1, activeDeadlineSeconds=1))
        failed = await cluster.until(f"{JOBS}/end", lambda obj: "Failed" in true_conditions(obj))
        assert [c["reason"] for c in failed["status"]["conditions"]] == ["DeadlineExceeded"] * 2
        assert (await cluster.client.list(PODS))[0] == []
        brief = job("brief", "true", parallelism=0, completions=1, activeDeadlineSeconds=1, ttlSecondsAfterFinished=0)
        made = await cluster.client.create(JOBS, brief)
        owned = workload("Deployment", "web", replicas=1)
        owned["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "brief", "uid": made["metadata"]["uid"]}]
        await cluster.client.create(f"{APPS}/deployments", owned)
        await cluster.until(f"{APPS}/deployments/web", lambda obj: obj.get("status", {}).get("availableReplicas") == 1)
        await cluster.gone(f"{JOBS}/brief")
        await cluster.gone(f"{APPS}/deployments/web")
        for pod_ in (await cluster.client.list(PODS))[0]:
            await cluster.gone(f"{PODS}/{pod_['metadata']['name']}")
        assert "Failed" in true_conditions(await cluster.client.get(f"{JOBS}/end"))  # without a time to live it stays

    run(body)


def test_a_deployment_replaces_lost_pods_and_follows_its_template() -> None:
    async def body(cluster: SmallCluster) -> None:
        path = f"{APPS}/deployments/web"
        await cluster.client.create(f"{APPS}/deployments", workload("Deployment", "web", replicas=2))
        await cluster.until(path, lambda obj: obj.get("status", {}).get("availableReplicas") == 2)
        pods, _ = await cluster.client.list(PODS)
        before = {p["metadata"]["uid"] for p in pods}
        await cluster.client.delete(f"{PODS}/{pods[0]['metadata']['name']}")
        await cluster.gone(f"{PODS}/{pods[0]['metadata']['name']}")
        await cluster.until(path, lambda obj: obj["status"].get("availableReplicas") == 2)
        async with asyncio.timeout(PATIENCE):
            while len(pods) != 2 or len({p["metadata"]["uid"] for p in pods} & before) != 1:
                await asyncio.sleep(0.01)
                pods, _ = await cluster.client.list(PODS)
        change = {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}
        await cluster.client.patch(path, change)
        await cluster.until(path, lambda obj: obj["status"].get("observedGeneration") == 2 and obj["status"].get("readyReplicas") == 2)
        sets, _ = await cluster.client.list(f"{APPS}/replicasets")
        assert sorted(item["spec"]["replicas"] for item in sets) == [0, 2]

    run(body)


def test_a_daemon_set_covers_the_nodes_it_tolerates() -> None:
    async def body(cluster: SmallCluster) -> None:
        path = f"{APPS}/daemonsets/agent"
        await cluster.client.create(f"{APPS}/daemonsets", workload("DaemonSet", "agent"))
        await cluster.until(path, lambda obj: obj.get("status", {}).get("numberReady") == 2)
        fenced = [{"key": "other", "effect": "NoSchedule"}]
        await cluster.client.create("/api/v1/nodes", node(hardware("n2"), 3))
        await cluster.client.create("/api/v1/nodes", node(hardware("n3"), 4, fenced))
        done = await cluster.until(path, lambda obj: obj["status"].get("numberReady") == 3)
        assert done["status"]["desiredNumberScheduled"] == 3
        pods, _ = await cluster.client.list(PODS)
        assert sorted(p["spec"]["nodeName"] for p in pods) == ["n0", "n1", "n2"]

    run(body)


def test_a_taint_that_ends_no_pod_leaves_the_counts_of_a_daemon_set_as_they_were() -> None:
    """The real controller does not look again; when something else makes it, the pod is misscheduled."""

    async def body(cluster: SmallCluster) -> None:
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

    run(body)


def test_a_new_template_is_rolled_out_unless_pods_are_replaced_on_deletion_only() -> None:
    async def body(cluster: SmallCluster) -> None:
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

    run(body)


def _has_counts(wanted: tuple[int, int, int], item: Json) -> bool:
    status = item["status"]
    counts = status["desiredNumberScheduled"], status["updatedNumberScheduled"], status["numberReady"]
    return status.get("observedGeneration") == item["metadata"]["generation"] and counts == wanted


def test_a_stateful_set_starts_in_order() -> None:
    async def body(cluster: SmallCluster) -> None:
        await cluster.client.create(f"{APPS}/statefulsets", workload("StatefulSet", "db", replicas=3, serviceName="db"))
        await cluster.until(f"{APPS}/statefulsets/db", lambda obj: obj.get("status", {}).get("readyReplicas") == 3)
        pods, _ = await cluster.client.list(PODS)
        assert [p["metadata"]["name"] for p in pods] == ["db-0", "db-1", "db-2"]

    run(body)


def test_the_status_of_a_quota_follows_the_pods() -> None:
    async def body(cluster: SmallCluster) -> None:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "5", "requests.nvidia.com/gpu": "4"}},
        }
        path = "/api/v1/namespaces/default/resourcequotas"
        await cluster.client.create(path, quota)
        await cluster.until(f"{path}/q", lambda obj: obj.get("status", {}).get("used", {}).get("pods") == "0")
        await cluster.start(pod("p", devices={"nvidia.com/gpu": 3}))
        used = {"pods": "1", "requests.nvidia.com/gpu": "3"}
        await cluster.until(f"{path}/q", lambda obj: obj["status"]["used"] == used)

    run(body)


def test_what_the_initial_state_says_is_left_alone() -> None:
    status = {"desiredNumberScheduled": 0, "numberReady": 0, "observedGeneration": 1}
    seeded = workload("DaemonSet", "agent")
    seeded["metadata"] |= {"namespace": "default", "generation": 1, "uid": "u-1"}
    seeded["status"] = status

    async def body(cluster: SmallCluster) -> None:
        await asyncio.sleep(0.3)
        assert (await cluster.client.get(f"{APPS}/daemonsets/agent"))["status"] == status
        assert (await cluster.client.list(PODS))[0] == []

    run(body, objects=[seeded])
