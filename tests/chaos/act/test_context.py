"""The only way to a fault: nothing is done that is not written down, allowed and undoable."""

from pathlib import Path

import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import ActivityContext, current
from chaos.ledger import mirror
from chaos.ledger.file import Ledger
from chaos.ledger.undos.nodes import NodeLabels, ValueArgs
from chaos.model.errors import Aborted
from chaos.model.ledger_lines import State
from chaos.safety.abort_flag import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.simulator.config.rights import Rights
from tests.chaos.ledger.simulated_cluster import ANYTHING, acting, fetch, ledger, plan, world
from tests.troubles import Trouble

PRODUCT = "nvidia.com/gpu.product"


def strip(cluster: Cluster) -> ValueArgs:
    return NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})


def test_a_fault_that_is_not_confirmed_did_not_land(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    with pytest.raises(ActivityFailed, match="counts as not landed"):
        with acting(tmp_path, cluster, book).fault("node.labels", strip(cluster)):
            pass
    assert [book.state(entry.seq) for entry in book.open_entries()] == [State.ARMED]


def test_an_error_in_the_act_leaves_its_entry_open(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        with acting(tmp_path, cluster, book).fault("node.labels", strip(cluster)):
            raise KeyboardInterrupt
    assert len(book.open_entries()) == 1


def refused(does: ActivityContext, cluster: Cluster, said: str) -> None:
    """Refused before the body, with nothing written and nothing done."""
    with pytest.raises(ActivityFailed, match=said):
        with does.fault("node.labels", strip(cluster)):
            pytest.fail("the body ran")


def test_nothing_is_done_once_aborted_and_the_first_reason_is_kept(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    AbortFlag(tmp_path).set("the sampler saw a breach")
    AbortFlag(tmp_path).set("another reason")
    refused(acting(tmp_path, cluster, book), cluster, "the sampler saw a breach")
    assert book.entries() == []


def test_nothing_is_done_after_the_plan_expired(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    refused(acting(tmp_path, cluster, book, expires_in=-1), cluster, "expired")
    assert book.entries() == []
    assert "expired" in AbortFlag(tmp_path).reason


def test_nothing_is_done_without_the_lease(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    def lost() -> None:
        raise Aborted("the Lease is lost")

    does = ActivityContext(cluster, plan(), book, AbortFlag(tmp_path), allowed=lost, terms=ANYTHING)
    refused(does, cluster, "the Lease is lost")
    assert book.entries() == []


def test_nothing_is_done_that_could_not_be_undone(tmp_path: Path) -> None:
    class Denied(Rights):
        def allowed(self, user: str, *words: str) -> bool:
            return super().allowed("gpu-conformance", *words)

    with world(tmp_path, authorizer=Denied([("patch", "", "nodes", "")])) as (cluster, _):
        book = ledger(tmp_path, cluster)
        refused(acting(tmp_path, cluster, book), cluster, "could not be undone; missing rights: patch nodes")
        assert book.entries() == []


def test_nothing_is_done_when_nobody_can_say_whether_it_may_be_undone(tmp_path: Path) -> None:
    trouble = Trouble("create", "authorization.k8s.io/selfsubjectaccessreviews", 403, 0)
    with world(tmp_path, trouble) as (cluster, _):
        does = acting(tmp_path, cluster, ledger(tmp_path, cluster))
        trouble.times = 1
        refused(does, cluster, "not known whether it may be undone")


def test_nothing_is_done_that_the_cluster_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "ARM_SECONDS", 0.2)
    with world(tmp_path, Trouble("patch", "configmaps", 500, 1000)) as (cluster, _):
        refused(acting(tmp_path, cluster, ledger(tmp_path, cluster)), cluster, "its undo could not be written down")


def test_an_undo_that_nobody_knows_is_refused(tmp_path: Path, cluster: Cluster) -> None:
    does = acting(tmp_path, cluster, ledger(tmp_path, cluster))
    for name in ("node.moon", "node.taints"):  # unknown, and one with other arguments
        with pytest.raises(ActivityFailed, match="nothing was done"):
            with does.fault(name, strip(cluster)):
                pytest.fail("the body ran")


def test_activities_are_no_library() -> None:
    with pytest.raises(ActivityFailed, match="chaos run"):
        current()
