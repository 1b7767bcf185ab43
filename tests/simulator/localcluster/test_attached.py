"""The suite against real Kubernetes with simulated nodes, held to what it says of the embedded cluster."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.components import NODES_SOCKET
from fixtures.localcluster.install.release import Binaries
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.ownership.owned import new_run_id
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import load_scenario
from fixtures.verdict.record import TargetKind, Verdict
from reports.cncf.programme import CncfError, release_of
from tests import readme
from tests.endtoend.runs import Finished, run_suite
from tests.kubectl import needs_kubectl

pytestmark = pytest.mark.test_all

ON_HEALTHY = pytest.mark.xdist_group("healthy")

DIFFERENT = {
    "GANG-02": "the real scheduler has a gang API of its own, the embedded cluster of this scenario has no gang scheduler",
    "GANG-03": "as GANG-02",
    "GANG-04": "as GANG-02",
    "GANG-08": "as GANG-02",
}
"""Requirements whose verdict on ``healthy`` is another on real Kubernetes, and why. Each passes there and applies to nothing here."""


@pytest.fixture(scope="module")
def runs(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Finished]:
    embedded, real = tmp_path_factory.mktemp("embedded-run"), tmp_path_factory.mktemp("local-run")
    return run_suite(embedded, "--simulate", "healthy"), run_suite(real, "--local", binaries.minor)


def pods_of(cluster: Cluster) -> list[Json]:
    return list(cluster.request("GET", "/api/v1/pods").json()["items"])


def test_every_verdict_is_the_embedded_clusters(runs: tuple[Finished, Finished]) -> None:
    embedded, real = runs
    assert {r.id for r in embedded.record.results} == {r.id for r in real.record.results}
    differing = {
        r.id: (embedded.result(r.id).verdict, r.verdict) for r in real.record.results if r.verdict != embedded.result(r.id).verdict
    }
    assert differing == dict.fromkeys(DIFFERENT, (Verdict.NOT_APPLICABLE, Verdict.PASSED)), real.output
    assert real.code == embedded.code == 0, real.output


def test_the_record_says_that_the_nodes_are_simulated(runs: tuple[Finished, Finished]) -> None:
    report = runs[1].report
    assert report is not None
    assert (report.target.kind, report.target.scenario, report.residue) == (TargetKind.LOCAL, "healthy", [])
    assert "+simulated" not in report.target.kubernetes_version
    assert "LOCAL CONTROL PLANE" in runs[1].output


@ON_HEALTHY
def test_every_pod_of_the_scenario_is_there_on_its_node(healthy: LocalCluster) -> None:
    built = [item for item in build(load_scenario("healthy")) if item["kind"] == "Pod"]
    real = pods_of(Cluster.from_kubeconfig(healthy.kubeconfig))

    def placed(pods: list[Json]) -> list[tuple[str, str, str]]:
        return sorted((pod["metadata"]["namespace"], pod["spec"]["nodeName"], pod["status"]["phase"]) for pod in pods)

    assert placed(real) == placed(built)
    assert healthy.warnings == []


@ON_HEALTHY
def test_logs_come_through_the_nodes_kubelet(healthy: LocalCluster) -> None:
    admin = Cluster.from_kubeconfig(healthy.admin_kubeconfig)
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo one; echo two; echo three"]}
    spec = {"containers": [container], "nodeName": "cpu-0", "restartPolicy": "Never"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "speaker"}, "spec": spec}
    assert admin.create("pods", pod, namespace="default").status == 201
    try:
        with Observation(admin, "pods", "default") as pods:  # a pod that runs may not have written yet, one that ended has
            assert any(seen["default/speaker"]["status"]["phase"] == "Succeeded" for seen in pods.until(time.monotonic() + 60))
        answer = admin.request("GET", "/api/v1/namespaces/default/pods/speaker/log?tailLines=2&limitBytes=9")
        assert (answer.status, answer.body) == (200, b"two\nthree")
    finally:
        assert admin.delete("pods", "speaker", "default", grace_seconds=0).ok


@ON_HEALTHY
def test_probes_that_create_pods_side_by_side_do_not_refuse_each_other(healthy: LocalCluster) -> None:
    workspace = Workspace(Cluster.from_kubeconfig(healthy.kubeconfig), new_run_id(), devices={"nvidia.com/gpu": 8})
    workspace.namespace()
    parts = [workspace.branch() for _ in range(8)]
    try:
        with ThreadPoolExecutor(len(parts)) as pool:
            names = list(
                pool.map(lambda one: [one[1].start(side_by_side(f"p-{one[0]}-{number}")) for number in range(6)], enumerate(parts))
            )
        assert len({name for own in names for name in own}) == 48
    finally:
        for part in parts:
            workspace.join(part)
        workspace.close()
    assert workspace.residue == []


def side_by_side(name: str) -> Json:
    return probe_pod(PodShape(name=name, image="registry.example/probe:1", script="true", resources={"nvidia.com/gpu": 0}))


@ON_HEALTHY
def test_nodes_have_their_own_addresses_and_no_port_is_open(healthy: LocalCluster) -> None:
    nodes = Cluster.from_kubeconfig(healthy.admin_kubeconfig).request("GET", "/api/v1/nodes").json()["items"]
    addresses = {node["metadata"]["name"]: node["status"]["addresses"][0]["address"] for node in nodes}
    assert len(set(addresses.values())) == len(nodes)
    assert {node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for node in nodes} == {10250}
    socket = healthy.plane.folder / NODES_SOCKET
    assert socket.is_socket()
    assert socket.parent.stat().st_mode & 0o077 == 0


@pytest.mark.xdist_group("healthy")
def test_a_control_plane_with_simulated_nodes_is_no_live_cluster(healthy: LocalCluster, tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--kubeconfig", str(healthy.kubeconfig), "--read-only", "--only", "FENCE-01")
    target = done.record.target
    assert (target.kind, target.simulated_nodes) == (TargetKind.SIMULATED_NODES, target.nodes)
    assert "[cluster of simulated nodes]" in done.output.splitlines()[-1]
    assert "*** SIMULATED NODES: " in done.output
    for name in ("report.html", "report.md"):
        assert "SIMULATED NODES" in (tmp_path / "report" / name).read_text()
    with pytest.raises(CncfError, match="cluster of simulated nodes"):
        release_of(done.record)


# -- README ("Rights"): the commands that let an account list custom kinds do what they say ---------------

NAME = "gpu-conformance-custom-kinds"


@needs_kubectl
@pytest.mark.xdist_group("healthy")
def test_the_commands_of_the_readme_give_the_right_to_list_custom_kinds(healthy: LocalCluster) -> None:
    mine = f"{NAME}-of-the-readme"
    environment = {**os.environ, "KUBECONFIG": str(healthy.admin_kubeconfig)}
    cluster = Cluster.from_kubeconfig(healthy.admin_kubeconfig)
    try:
        done = subprocess.run(
            ["sh", "-euc", readme.GRANTING.replace(NAME, mine)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        definitions = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").json()["items"]
        custom = {item["spec"]["names"]["plural"] for item in definitions if item["spec"]["scope"] == "Namespaced"}
        rules = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{mine}").json()["rules"]
        assert custom
        assert {resource for rule in rules for resource in rule["resources"]} == custom
        assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
        binding = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{mine}").json()
        assert [(one["kind"], one["namespace"], one["name"]) for one in binding["subjects"]] == [
            ("ServiceAccount", "gpu-conformance", "gpu-conformance")
        ]
    finally:
        for kind in ("clusterroles", "clusterrolebindings"):
            cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{mine}", body={})
