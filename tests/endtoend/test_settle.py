"""``--settle``: a run waits for a change to end, says so, and judges then; without it the change is inconclusive."""

import threading
from pathlib import Path

import pytest

from conformance.plugin.settle import settle
from conformance.policy.model import Policy
from fixtures.cluster.client import Cluster
from fixtures.simulator.process.embedded import EmbeddedCluster
from tests.endtoend.runs import run_for_record

pytestmark = pytest.mark.test_all

STATE = "nvidia.com/gpu-driver-upgrade-state"


def test_a_change_is_awaited_for_as_long_as_was_asked_and_named(tmp_path: Path) -> None:
    embedded = EmbeddedCluster.start("healthy", tmp_path)
    try:
        cluster, said = Cluster.from_kubeconfig(embedded.kubeconfig), list[str]()
        version = "v1.36.3"
        assert settle(cluster, Policy(), version, 5, said.append)
        assert said[-1].startswith("settled: nothing is under way")

        stop_operator(cluster)
        mark(cluster, "drain-required")
        assert not settle(cluster, Policy(), version, 1, said.append)
        assert said[-1].startswith("not settled after 1 s, judged as it is: h100-1: its driver is being upgraded")

        done = threading.Timer(1.0, mark, (cluster, "upgrade-done"))
        done.start()
        assert settle(cluster, Policy(), version, 30, said.append)
        done.join()
        assert said[-2].startswith("settling, up to")
    finally:
        embedded.stop()


def mark(cluster: Cluster, state: str) -> None:
    assert cluster.patch("nodes", "h100-1", {"metadata": {"labels": {STATE: state}}}).ok


def stop_operator(cluster: Cluster) -> None:
    """It would put its labels back."""
    assert cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator").ok


def test_a_run_says_that_it_settles_before_it_judges(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--read-only", "--only", "INV", "--settle", "20")
    assert done.code == 0, done.output
    assert "settled: nothing is under way" in done.output
