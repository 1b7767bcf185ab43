"""Tenants and persons go on working while an experiment is on: what they do is not the cluster's failure, and stays."""

import threading
import time
from pathlib import Path

import pytest

from chaos.cluster.node_work import named_cordoner
from chaos.observe.view import restarts_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import Verdict
from tests.chaos.engine.stage import campaign_on
from tests.chaos.experiments.test_end_to_end import SCENARIO
from tests.chaos.shipped import EXPERIMENTS

pytestmark = pytest.mark.test_all

TEAM = "team-x"


def working(name: str, node: str, command: str, policy: str = "Never") -> Json:
    """A tenant's pod with one device."""
    one = {"nvidia.com/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "restartPolicy": policy,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1",
                    "command": ["/bin/sh", "-c", command],
                    "resources": {"limits": one, "requests": one},
                }
            ],
        },
    }


def populate(cluster: Cluster, *pods: Json) -> None:
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}).ok
    for pod in pods:
        assert cluster.create("pods", pod, namespace=TEAM).ok


def await_restarts(cluster: Cluster, *names: str) -> None:
    with Observation(cluster, "pods", TEAM) as observation:
        for objects in observation.until(time.monotonic() + 30.0):
            pods = {pod["metadata"]["name"]: pod for pod in objects.values()}
            if all(name in pods and restarts_of(pods[name]) for name in names):
                return
    raise AssertionError("they were not started again")


def test_a_tenants_pod_that_fails_by_itself_is_undecided_and_named(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        pods = [working(f"own-{seconds}", "h100-2", f"sleep {seconds}; exit 1") for seconds in range(3, 15, 2)]
        populate(campaign._setup.access.open(), *pods)
        result = campaign.carry_out(EXPERIMENTS["A5"])
        assert result.verdict is Verdict.INCONCLUSIVE, result.message
        assert result.reason_codes == ["OthersAtWork"]
        assert f"{TEAM}/own-" in result.message
        assert "main: Error, exit code 1" in result.message
        assert not [one for one in result.findings if one.verdict is Verdict.FAILED]


def test_tenants_that_crash_all_the_time_or_are_done_disturb_nothing(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster = campaign._setup.access.open()
        loops = [working(f"loop-{seconds}", "h100-2", f"sleep {seconds}; exit 1", "Always") for seconds in (1, 2, 3, 7)]
        done = [working(f"done-{seconds}", "h100-2", f"sleep {seconds}") for seconds in range(8, 17, 3)]
        populate(cluster, *loops, *done)
        await_restarts(cluster, *(one["metadata"]["name"] for one in loops))
        result = campaign.carry_out(EXPERIMENTS["A5"])
        assert result.verdict is Verdict.PASSED, result.message


SECONDS = 60.0


def faulty(node: Json) -> bool:
    return any(item["type"] == "SysLogsXIDError" and item["status"] == "True" for item in node["status"]["conditions"])


def cordon_the_first_faulty(cluster: Cluster, cordoned: list[str]) -> None:
    with Observation(cluster, "nodes") as observation:
        for objects in observation.until(time.monotonic() + SECONDS):
            found = [node for node in objects.values() if faulty(node)]
            if found:
                name = str(found[0]["metadata"]["name"])
                path, query = cluster.path("nodes", "", name), {"fieldManager": "kubectl-cordon"}
                body, kind = {"spec": {"unschedulable": True}}, "application/strategic-merge-patch+json"
                if cluster.request("PATCH", path, query=query, body=body, content_type=kind).ok:
                    cordoned.append(name)
                return


def test_a_persons_cordon_makes_it_inconclusive_and_outlives_it(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster, cordoned = campaign._setup.access.open(), list[str]()
        person = threading.Thread(target=cordon_the_first_faulty, args=(cluster, cordoned))
        person.start()
        result = campaign.carry_out(EXPERIMENTS["D13"])
        person.join()
        assert len(cordoned) == 1
        assert result.verdict is Verdict.INCONCLUSIVE, result.message
        assert result.reason_codes == ["OthersAtWork"]
        assert f'somebody else cordoned the node (["{cordoned[0]}: kubectl-cordon"])' in result.message
        assert campaign.residue == []
        node = cluster.get("nodes", cordoned[0]).json()
        assert named_cordoner(node) == "kubectl-cordon"
        assert not faulty(node)
