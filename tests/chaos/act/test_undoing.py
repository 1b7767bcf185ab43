"""The one rollback: everything is undone, and what was set up may stay until the faults' undo was seen."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import ActivityContext
from chaos.activities.undoing import undo_everything
from chaos.ledger.file import Ledger, parse
from chaos.ledger.undos.nodes import NodeLabels
from chaos.ledger.undos.objects import AbsentArgs
from chaos.model.conditions import ConditionError
from chaos.model.ledger_lines import PREPARATION, State
from chaos.safety.abort_flag import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, fetch, ledger, plan, world
from tests.troubles import Trouble

PRODUCT = "nvidia.com/gpu.product"
SCHEDULABLE = {"signal": "node.unschedulable", "is": False}
SECONDS = {"sample": 0.02, "recovery": 0.2, "before": 0.1, "undo": 5.0}


def broken(folder: Path, cluster: Cluster) -> tuple[ActivityContext, Ledger]:
    """A preparation, entry 1, and a fault after it, entry 2."""
    book = ledger(folder, cluster)
    labels = owned.labels(RUN)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary", "labels": labels}}
    prepared = book.arm("object.absent", AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN))
    assert cluster.create("configmaps", body, namespace="gpu-operator").ok
    book.mark(prepared, State.APPLIED, {PREPARATION: True})
    args = NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})
    fault = book.arm("node.labels", args)
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": args.ours}}).ok
    book.mark(fault, State.APPLIED)
    acting = ActivityContext(
        cluster, msgspec.structs.replace(plan(), seconds=SECONDS), book, AbortFlag(folder), allowed=lambda: None, terms=ANYTHING
    )
    return acting, book


def steps(book: Ledger) -> list[tuple[int, State]]:
    assert book.path is not None
    lines, _ = parse(book.path.read_bytes(), "")
    return [(line.seq, line.state) for line in lines if line.state in (State.UNDOING, State.VERIFIED)]


def apart(book: Ledger) -> list[tuple[int, State]]:
    """The fault is undone and read back before anything that was set up goes."""
    return [(2, State.UNDOING), (2, State.VERIFIED), (1, State.UNDOING), (1, State.VERIFIED)]


@pytest.mark.parametrize(
    ("watched", "least"),
    [(SCHEDULABLE, 0.1), ({"signal": "node.unschedulable", "is": True}, 0.3)],
    ids=["seen", "never seen"],
)
def test_what_was_set_up_stays_until_the_undo_of_the_faults_was_seen(
    tmp_path: Path, cluster: Cluster, watched: dict[str, Any], least: float
) -> None:
    acting, book = broken(tmp_path, cluster)
    began = time.monotonic()
    with acting.as_current():
        assert undo_everything(watched, "recovery") == {"undone": ["2 node.labels", "1 object.absent"]}
    assert time.monotonic() - began >= least
    assert steps(book) == apart(book)
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"


@pytest.mark.parametrize("aborted", [False, True], ids=["no condition", "aborted"])
def test_where_nothing_is_watched_everything_goes_at_once(tmp_path: Path, cluster: Cluster, aborted: bool) -> None:
    acting, book = broken(tmp_path, cluster)
    with acting.as_current():
        if aborted:
            acting.abort.set("halted")
            undo_everything(SCHEDULABLE, "recovery")
        else:
            undo_everything()
    assert steps(book)[:2] == [(2, State.UNDOING), (1, State.UNDOING)]
    assert book.open_entries() == []


def test_a_condition_that_cannot_be_read_keeps_nothing_from_being_undone(tmp_path: Path, cluster: Cluster) -> None:
    acting, book = broken(tmp_path, cluster)
    with acting.as_current():
        undo_everything({"signal": "no.such.signal", "is": True}, "recovery")
    assert steps(book) == apart(book)


def test_a_condition_that_is_none_is_an_error_and_keeps_nothing_from_being_undone(tmp_path: Path, cluster: Cluster) -> None:
    acting, book = broken(tmp_path, cluster)
    with acting.as_current(), pytest.raises(ConditionError):
        undo_everything({"signal": "node.unschedulable"}, "recovery")
    assert steps(book) == apart(book)


def test_a_fault_that_stays_keeps_nothing_else_from_being_undone(tmp_path: Path) -> None:
    refused = Trouble("patch", "nodes", 403, 0)
    with world(tmp_path, refused) as (cluster, _):
        acting, book = broken(tmp_path, cluster)
        acting.plan.seconds["undo"] = 0.3
        refused.times = 10**6
        with acting.as_current(), pytest.raises(ActivityFailed, match="not restored"):
            undo_everything(SCHEDULABLE, "recovery")
        assert [entry.seq for entry in book.open_entries()] == [2]
