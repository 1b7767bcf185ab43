"""T2: the API is lost in the middle of a fault, or of its undo, for a while or for good; or it refuses.

Whatever happens: what was there before is there again at the end, or the run says that it is not and ``recover`` puts it back.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import leak_scan
from chaos.engine import campaign as engine
from chaos.engine import runner
from chaos.engine.campaign import Campaign
from chaos.engine.recover import status
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import LABEL, activity, document
from tests.chaos.engine.cutting import Proxy, Trigger, through
from tests.chaos.engine.stage import Stage, load
from tests.chaos.experiments.test_end_to_end import NoConformance
from tests.chaos.ledger.simulated_cluster import recover

pytestmark = pytest.mark.test_all

NODES = b"PATCH /api/v1/nodes/"
FAULT, UNDO = 1, 2
"""Writes to a node, in the order in which they come."""


@contextmanager
def campaign(on: Stage, folder: Path, trigger: Trigger) -> Iterator[tuple[Campaign, Proxy]]:
    """A campaign whose every connection, its child's too, goes through a proxy. Its Lease is a short one."""
    with through(on.kubeconfig, folder, trigger) as (kubeconfig, proxy):
        cluster = Cluster.from_kubeconfig(kubeconfig)
        where = msgspec.structs.replace(on.where(folder), cluster=cluster)
        cluster.learn_versions(where.access.versions)
        where = msgspec.structs.replace(where, access=msgspec.structs.replace(where.access, kubeconfig=str(kubeconfig)))
        made = Campaign(where)
        made._conforming = NoConformance()  # type: ignore[assignment]
        made._lease = LeaseKeeper(cluster, where.run_id, made.stop.request, seconds=8, renew_seconds=1.0)
        with made:
            yield made, proxy


@pytest.mark.parametrize("lose", ["request", "answer"])
@pytest.mark.parametrize("write", [FAULT, UNDO], ids=["fault", "undo"])
def test_a_connection_that_breaks_for_a_while_leaves_nothing(on: Stage, tmp_path: Path, write: int, lose: str) -> None:
    before = leak_scan.scan(on.cluster)
    trigger = Trigger(words=NODES, nth=write, lose=lose, seconds=3.0)
    with campaign(on, tmp_path, trigger) as (made, proxy):
        result = made.carry_out(load(document()))
    assert proxy.cuts == 1
    assert made.residue == []
    assert before.differences(leak_scan.scan(on.cluster)) == []
    if write == FAULT:  # nobody has confirmed that it landed, also where it did
        assert result.verdict is Verdict.ERROR, result.message
    else:
        assert result.verdict in (Verdict.PASSED, Verdict.INCONCLUSIVE), result.message


def test_an_api_that_is_away_for_longer_than_the_lease_is_told_at_the_end(on: Stage, tmp_path: Path) -> None:
    """The child undoes when the API is back; Lease, namespace and the cluster's copy of the ledger used to stay, and nobody said so."""
    before = leak_scan.scan(on.cluster)
    trigger = Trigger(words=NODES, nth=FAULT, lose="", seconds=0.0)
    with campaign(on, tmp_path, trigger) as (made, proxy):
        trigger.words, trigger.nth, trigger.lose, trigger.seconds = b"GET /api/v1/nodes", 30, "request", 14.0
        made.carry_out(load(document(activity("label"), activity("hold", seconds=6.0))))
    assert proxy.cuts == 1
    assert "could not be renewed" in made.stop.reason
    left = before.differences(leak_scan.scan(on.cluster))
    assert (left, made.residue) == ([], [])
    assert status(on.cluster).lines == ["nobody holds the Lease", "0 open entries"]


@pytest.mark.parametrize(("write", "status"), [(FAULT, 409), (UNDO, 429)], ids=["fault", "undo"])
def test_an_api_that_refuses_for_a_while_is_asked_again(on: Stage, tmp_path: Path, write: int, status: int) -> None:
    before = leak_scan.scan(on.cluster)
    with campaign(on, tmp_path, Trigger(words=NODES, nth=write, times=2, status=status)) as (made, _):
        result = made.carry_out(load(document()))
    assert made.residue == []
    assert before.differences(leak_scan.scan(on.cluster)) == []
    assert (result.verdict is Verdict.PASSED) is (write == UNDO or status == 429), result.message


@pytest.mark.parametrize("lose", ["request", "answer"])
def test_what_is_lost_for_good_is_told_and_recovered_from_elsewhere(
    on: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: str
) -> None:
    """The run may not know what became of its undo: it says so, and ``recover`` on a connection that works leaves what was before."""
    monkeypatch.setattr(runner, "UNDO_SECONDS", dict.fromkeys(runner.UNDO_SECONDS, 3.0))
    monkeypatch.setattr(engine, "END_SECONDS", dict.fromkeys(engine.END_SECONDS, 3.0))
    before = leak_scan.scan(on.cluster)
    brief = document(seconds={"deadline": {"live": 60, "simulated": 8}, "recovery": {"live": 60, "simulated": 3}})
    with campaign(on, tmp_path, Trigger(words=NODES, nth=UNDO, lose=lose, seconds=math.inf)) as (made, proxy):
        result = made.carry_out(load(brief))
    assert proxy.cuts == 1
    assert (result.verdict, "Residue" in result.reason_codes) == (Verdict.ERROR, True), result.message
    assert any(LABEL in line for line in made.residue), made.residue
    assert any(line.startswith("open: node ") for line in made.residue), made.residue
    assert f"put back what is left with `gpu-conformance chaos recover --folder {tmp_path}`" in made.residue
    assert (on.labelled() != []) is (lose == "request")
    done = recover(on.cluster, tmp_path, seconds=60)
    assert (done.clean, done.restored) == (True, 1)
    assert before.differences(leak_scan.scan(on.cluster)) == []
    assert recover(on.cluster, tmp_path, seconds=60).restored == 0
