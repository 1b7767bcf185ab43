"""Runs on a machine whose clock is wrong: what they say of a cluster does not depend on it, and they say that clocks differ."""

from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.verdict.record import Verdict
from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

HOURS, YEARS = 3600, 365 * 86400


def judged(folder: Path, cluster: EmbeddedCluster, skew: int) -> Finished:
    folder.mkdir()
    options = ["--kubeconfig", str(cluster.kubeconfig), "--read-only", "--only", "ADV-03"]
    return run_for_record(folder, "-p", "tests.endtoend.skewed_clock", *options, CLOCK_SKEW=str(skew))


def join(cluster: EmbeddedCluster) -> None:
    """A GPU node that joins now: it has no devices yet."""
    session = Cluster.from_kubeconfig(cluster.kubeconfig)
    known = next(node for node in session.each("nodes") if node["status"].get("capacity", {}).get("nvidia.com/gpu"))
    labels = {**known["metadata"]["labels"], "kubernetes.io/hostname": "gpu-new"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-new", "labels": labels}, "spec": known["spec"]}
    node["spec"].pop("providerID", None)
    answer = session.create("nodes", node)
    assert answer.ok, answer.message


def notes(run: Finished) -> list[str]:
    return [note for note in run.scope.notes if "clock" in note]


def test_a_node_that_joined_now_is_new_whatever_the_runners_clock_says(tmp_path: Path) -> None:
    with EmbeddedCluster.start("healthy", tmp_path) as cluster:
        healthy = judged(tmp_path / "healthy", cluster, 2 * HOURS)
        assert (healthy.code, healthy.result("ADV-03").verdict) == (0, Verdict.PASSED), healthy.output
        assert notes(healthy) == ["this machine's clock is 2 h ahead of the API server's: ages are judged by the API server's clock"]
        join(cluster)
        for name, skew in (("right", 0), ("ahead", 2 * HOURS)):
            run = judged(tmp_path / name, cluster, skew)
            assert (run.code, run.result("ADV-03").verdict) == (10, Verdict.INCONCLUSIVE), run.output
            assert bool(notes(run)) is bool(skew)
