"""The only way to a fault, and the one rollback: nothing is done that is not written down, allowed and undoable; all of it is undone."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import ActivityContext, current
from chaos.activities.undoing import undo_everything
from chaos.ledger import config_maps
from chaos.ledger.file import Ledger, parse
from chaos.ledger.undos.nodes import NodeLabels, ValueArgs
from chaos.ledger.undos.objects import AbsentArgs
from chaos.model.conditions import ConditionError
from chaos.model.records import PREPARATION, Aborted, State
from chaos.safety.lease import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, Denied, acting, fetch, ledger, path_of, plan, world
from tests.tables import each_row
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


def refused(does: ActivityContext, cluster: Cluster, reported: str) -> None:
    """Refused before the body, with nothing written and nothing done."""
    with pytest.raises(ActivityFailed, match=reported):
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
    with world(tmp_path, authorizer=Denied([("patch", "", "nodes", "")])) as (cluster, _):
        book = ledger(tmp_path, cluster)
        refused(acting(tmp_path, cluster, book), cluster, "could not be undone; missing rights: patch nodes")
        assert book.entries() == []


def test_nothing_is_done_when_nobody_can_say_whether_it_may_be_undone(tmp_path: Path, cluster: Cluster, trouble: Trouble) -> None:
    does = acting(tmp_path, cluster, ledger(tmp_path, cluster))
    trouble.verb, trouble.resource, trouble.status, trouble.times = "create", "authorization.k8s.io/selfsubjectaccessreviews", 403, 1
    refused(does, cluster, "not known whether it may be undone")


def test_nothing_is_done_that_the_cluster_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_maps, "ARM_SECONDS", 0.2)
    with world(tmp_path, Trouble("patch", "configmaps", 500, 1000)) as (cluster, _):
        refused(acting(tmp_path, cluster, ledger(tmp_path, cluster)), cluster, "its undo could not be written down")


def test_an_undo_that_nobody_knows_is_refused(tmp_path: Path, cluster: Cluster) -> None:
    does = acting(tmp_path, cluster, ledger(tmp_path, cluster))
    for name in ("node.moon", "node.unschedulable"):  # unknown, and one with other arguments
        with pytest.raises(ActivityFailed, match="nothing was done"):
            with does.fault(name, strip(cluster)):
                pytest.fail("the body ran")


def test_activities_are_no_library() -> None:
    with pytest.raises(ActivityFailed, match="chaos run"):
        current()


SCHEDULABLE = {"signal": "node.unschedulable", "is": False}
SECONDS = {"sample": 0.02, "recovery": 0.2, "before": 0.1, "undo": 5.0}


@pytest.fixture
def broken(tmp_path: Path, cluster: Cluster, book: Ledger) -> Iterator[ActivityContext]:
    """A preparation, entry 1, and a fault after it, entry 2."""
    labels = owned.labels(RUN)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary", "labels": labels}}
    prepared = book.arm("object.absent", AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN))
    assert cluster.create("configmaps", body, namespace="gpu-operator").ok
    book.mark(prepared, State.APPLIED, {PREPARATION: True})
    args = strip(cluster)
    fault = book.arm("node.labels", args)
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": args.ours}}).ok
    book.mark(fault, State.APPLIED)
    made = acting(tmp_path, cluster, book)
    made.plan = msgspec.structs.replace(made.plan, seconds=SECONDS)
    with made.as_current():
        yield made


def steps(book: Ledger) -> list[tuple[int, State]]:
    lines, _ = parse(path_of(book).read_bytes(), "")
    return [(line.seq, line.state) for line in lines if line.state in (State.UNDOING, State.VERIFIED)]


APART = [(2, State.UNDOING), (2, State.VERIFIED), (1, State.UNDOING), (1, State.VERIFIED)]
"""The fault is undone and read back before anything that was set up goes."""


@each_row
@pytest.mark.usefixtures("broken")
def test_what_was_set_up_stays_until_the_undo_of_the_faults_was_seen(
    cluster: Cluster, book: Ledger, watched: dict[str, Any], least: float
) -> None:
    began = time.monotonic()
    assert undo_everything(watched, "recovery") == {"undone": ["2 node.labels", "1 object.absent"]}
    assert time.monotonic() - began >= least
    assert steps(book) == APART
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"


@pytest.mark.parametrize("aborted", [False, True], ids=["no condition", "aborted"])
def test_where_nothing_is_watched_everything_goes_at_once(broken: ActivityContext, book: Ledger, aborted: bool) -> None:
    if aborted:
        broken.abort.set("halted")
        undo_everything(SCHEDULABLE, "recovery")
    else:
        undo_everything()
    assert steps(book)[:2] == [(2, State.UNDOING), (1, State.UNDOING)]
    assert book.open_entries() == []


@pytest.mark.usefixtures("broken")
def test_a_condition_that_is_none_is_an_error_and_keeps_nothing_from_being_undone(book: Ledger) -> None:
    with pytest.raises(ConditionError):
        undo_everything({"signal": "node.unschedulable"}, "recovery")
    assert steps(book) == APART


def test_a_fault_that_stays_keeps_nothing_else_from_being_undone(broken: ActivityContext, book: Ledger, trouble: Trouble) -> None:
    broken.plan.seconds["undo"] = 0.3
    trouble.verb, trouble.resource, trouble.status, trouble.times = "patch", "nodes", 403, 10**6
    with pytest.raises(ActivityFailed, match="not restored"):
        undo_everything(SCHEDULABLE, "recovery")
    assert [entry.seq for entry in book.open_entries()] == [2]
