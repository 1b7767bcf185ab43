"""Whatever ends a run, nothing of it stays; after SIGKILL, ``cleanup`` removes it and touches nothing else."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.policy.allowlist import cluster_uid
from fixtures.simulator.process.child import EmbeddedCluster
from tests.endtoend.runs import ROOT, command, environment

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start("healthy", tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def session(embedded: EmbeddedCluster) -> Cluster:
    return Cluster.from_kubeconfig(embedded.kubeconfig)


def _take_signals() -> None:
    """A shell's background jobs ignore SIGINT, and SIGHUP under nohup, and so would this run."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start_and_wait_for_pods(embedded: EmbeddedCluster, session: Cluster, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A run that has created at least one pod."""
    arguments = ("--kubeconfig", str(embedded.kubeconfig), "--report-dir", str(folder / "report"), *arguments)
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_take_signals,
    )
    with Observation(session, "pods", labels=f"{owned.MANAGED_BY}={owned.SUITE}") as observation:
        for objects in observation.until(time.monotonic() + 90):
            if objects:
                return process
    process.kill()
    raise AssertionError("the run created no pod within 90 s")


def pods_of_the_suite(session: Cluster) -> list[str]:
    query = {"labelSelector": f"{owned.MANAGED_BY}={owned.SUITE}"}
    answer = session.request("GET", session.path("pods"), query=query)
    return [item["metadata"]["name"] for item in answer.json()["items"]]


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "workers"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing(
    embedded: EmbeddedCluster, session: Cluster, tmp_path: Path, number: signal.Signals, arguments: tuple[str, ...]
) -> None:
    process = start_and_wait_for_pods(embedded, session, tmp_path, *arguments)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output.decode()
    assert owned.find(session) == []
    assert pods_of_the_suite(session) == []


def test_after_sigkill_cleanup_removes_the_run_and_nothing_else(embedded: EmbeddedCluster, session: Cluster, tmp_path: Path) -> None:
    mine = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-conformance-look-alike"}}
    assert session.create("namespaces", mine).ok
    before = {item["metadata"]["name"] for item in session.request("GET", session.path("namespaces")).json()["items"]}
    process = start_and_wait_for_pods(embedded, session, tmp_path)
    process.kill()
    process.communicate(timeout=30)
    left = owned.find(session)
    assert left, "the killed run left nothing, so cleanup would prove nothing"
    tool = [str(Path(command()[0]).parent / "gpu-conformance"), "cleanup", "--kubeconfig", str(embedded.kubeconfig)]
    tool += ["--chaos-cluster", cluster_uid(session), "--yes"]
    other = subprocess.run([*tool, "--run", "20200101-000000-dead"], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert other.returncode == 0
    assert owned.find(session) == left, "another run's cleanup must not touch this one"
    done = subprocess.run([*tool, "--run", left[0].run_id], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert owned.find(session) == []
    assert pods_of_the_suite(session) == []
    after = {item["metadata"]["name"] for item in session.request("GET", session.path("namespaces")).json()["items"]}
    assert after == before
