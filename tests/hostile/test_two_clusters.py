"""Two clusters behind one address: nothing is done to the other one, and a run about both has no verdict."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.ledger.undos.nodes import NodeLabels
from chaos.safety.abort_flag import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.simulator.config.scenario import load_defect, load_scenario
from fixtures.simulator.simulated_cluster import initial_objects
from fixtures.verdict.record import Verdict
from tests.chaos.ledger.simulated_cluster import acting, fetch, ledger, replay, world
from tests.endtoend.runs import run_suite
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served

pytestmark = pytest.mark.test_all

PRODUCT = "nvidia.com/gpu.product"


def another(skip: int = 0) -> list[Fault]:
    """Another cluster's kube-system after some requests."""
    change = effects.rewritten(effects.another_uid)
    return [Fault(name="another", verb="list", resource="namespaces", effect=change, skip=skip, times=ALWAYS)]


@pytest.mark.parametrize("defects", [[], ["fence-untainted-gpu-node"]], ids=["healthy", "defect"])
def test_a_run_that_ends_at_another_cluster_has_no_verdict(tmp_path: Path, defects: list[str]) -> None:
    objects = initial_objects(load_scenario("healthy"), [load_defect(name) for name in defects], datetime.now(UTC))
    with served(tmp_path, objects), through(tmp_path / "kubeconfig", tmp_path / "proxied", another(1)):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "proxied"), "--read-only")
    assert done.code == 10, done.output
    assert done.report is not None
    assert done.report.verdict is Verdict.INCONCLUSIVE
    assert done.report.scope is not None
    assert ["the address now leads to cluster" in line for line in done.report.scope.shortfalls] == [True]
    assert done.report.other_cluster_uid not in ("", done.report.target.cluster_uid)


def test_no_fault_is_made_in_another_cluster(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", another()):
        book = ledger(tmp_path, cluster)
        does = acting(tmp_path, Cluster.from_kubeconfig(tmp_path / "proxied"), book)
        with pytest.raises(ActivityFailed, match="not done: the address now leads to cluster"):
            with does.fault("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})):
                pytest.fail("the body ran")
        assert book.entries() == []
        assert "the address now leads to" in AbortFlag(tmp_path).reason


@pytest.mark.parametrize("skip", [0, 1], ids=["at once", "after the undo"])
def test_nothing_is_taken_for_undone_in_another_cluster(tmp_path: Path, skip: int) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", another(skip)):
        book = ledger(tmp_path, cluster)
        book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
        cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}})
        left = replay(book, Cluster.from_kubeconfig(tmp_path / "proxied"), time.monotonic() + 2)
        assert ["the address now leads to cluster" in one.message for one in left] == [True]
        assert len(book.open_entries()) == 1
        assert (PRODUCT in fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]) is bool(skip)
        assert replay(book, cluster, time.monotonic() + 20) == []
