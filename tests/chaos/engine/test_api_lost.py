"""T2: the API is lost in the middle of a fault, or of its undo, for a while or for good; or it refuses.

Whatever happens: what was there before is there again at the end, or the run says that it is not and ``recover`` puts it back.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from chaos.engine import campaign as engine
from chaos.engine import runner
from chaos.engine.campaign import Campaign
from chaos.engine.recover import status
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.verdict.record import Verdict
from tests.chaos import leak_scan
from tests.chaos.catalogue.documents import LABEL, activity, document
from tests.chaos.engine.stage import NoConformance, Stage, load
from tests.chaos.leak_scan import Fingerprint
from tests.chaos.ledger.simulated_cluster import recover
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Forward
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.faults.requests import Asked

pytestmark = pytest.mark.test_all


@pytest.fixture(autouse=True)
def unchanged(on: Stage) -> Iterator[Fingerprint]:
    """What the leak scan shows is as before when a test has ended."""
    before = leak_scan.scan(on.cluster)
    yield before
    assert before.differences(leak_scan.scan(on.cluster)) == []


FAULT, UNDO = 0, 1
"""Writes to a node, in the order in which they come."""


class Outage(Fault, kw_only=True):
    """Once ``after`` has befallen a request nothing goes through for ``seconds``."""

    after: Fault
    seconds: float
    until: float = 0.0

    def due(self, request: Asked) -> bool:
        if self.after.befell and not self.until:
            self.until = time.monotonic() + self.seconds
        return time.monotonic() < self.until


def lost(skip: int, seconds: float, *, arrives: bool) -> Outage:
    """From a write to a node on, which never arrives, or takes place and nobody hears of it. Every open connection is cut."""

    async def cut(request: web.Request, forward: Forward) -> web.StreamResponse:
        if arrives:
            await forward()
        for connection in request.protocol._manager.connections:  # type: ignore[union-attr]
            connection.transport.abort()  # type: ignore[union-attr]
        return web.Response()

    write = Fault(name="lost", verb="patch", resource="nodes", skip=skip, effect=cut)
    return Outage(name="outage", verb="*", effect=effects.dropped(arrives=False), after=write, seconds=seconds)


@contextmanager
def campaign(on: Stage, folder: Path, fault: Fault) -> Iterator[Campaign]:
    """A campaign whose every connection, its child's too, goes through a proxy. Its Lease is a short one."""
    faults = [fault.after, fault] if isinstance(fault, Outage) else [fault]
    with through(on.kubeconfig, folder / "proxied", faults):
        cluster = Cluster.from_kubeconfig(folder / "proxied")
        where = msgspec.structs.replace(on.where(folder), cluster=cluster)
        cluster.learn_versions(where.access.versions)
        where = msgspec.structs.replace(where, access=msgspec.structs.replace(where.access, kubeconfig=str(folder / "proxied")))
        made = Campaign(where)
        made._conforming = NoConformance()  # type: ignore[assignment]
        made._lease = LeaseKeeper(cluster, where.run_id, made.stop.request, seconds=8, renew_seconds=1.0)
        with made:
            yield made


@pytest.mark.parametrize("arrives", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("write", [FAULT, UNDO], ids=["fault", "undo"])
def test_a_connection_that_breaks_for_a_while_leaves_nothing(on: Stage, tmp_path: Path, write: int, arrives: bool) -> None:
    outage = lost(write, 3.0, arrives=arrives)
    with campaign(on, tmp_path, outage) as made:
        result = made.carry_out(load(document()))
    assert outage.after.befell == 1
    assert made.residue == []
    if write == FAULT:  # nobody has confirmed that it landed, also where it did
        assert result.verdict is Verdict.ERROR, result.message
    else:
        assert result.verdict in (Verdict.PASSED, Verdict.INCONCLUSIVE), result.message


def test_an_api_that_is_away_for_longer_than_the_lease_is_reported_at_the_end(on: Stage, tmp_path: Path) -> None:
    """The child undoes when the API is back; Lease, namespace and the cluster's copy of the ledger used to stay, and nobody said so."""
    outage = lost(10**6, 14.0, arrives=False)
    outage.after.verb = "[!p]*"  # reads, of which the 30th is lost
    with campaign(on, tmp_path, outage) as made:
        outage.after.skip = outage.after.met + 29
        made.carry_out(load(document(activity("label"), activity("hold", seconds=6.0))))
    assert outage.after.befell == 1
    assert "could not be renewed" in made.stop.reason
    assert made.residue == []
    assert status(on.cluster).lines == ["nobody holds the Lease", "0 open entries"]


@pytest.mark.parametrize(("write", "status", "reason"), [(FAULT, 409, "Conflict"), (UNDO, 429, "TooManyRequests")], ids=["fault", "undo"])
def test_an_api_that_refuses_for_a_while_is_asked_again(on: Stage, tmp_path: Path, write: int, status: int, reason: str) -> None:
    effect = effects.refused(status, reason, {"Retry-After": "1"} if status == 429 else None)
    with campaign(on, tmp_path, Fault(name=reason, verb="patch", resource="nodes", skip=write, times=2, effect=effect)) as made:
        result = made.carry_out(load(document()))
    assert made.residue == []
    assert (result.verdict is Verdict.PASSED) is (write == UNDO), result.message


@pytest.mark.parametrize("arrives", [False, True], ids=["request", "answer"])
def test_what_is_lost_for_good_is_reported_and_recovered_from_elsewhere(
    on: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unchanged: Fingerprint, arrives: bool
) -> None:
    """The run may not know what became of its undo: it says so, and ``recover`` on a connection that works leaves what was before."""
    monkeypatch.setattr(runner, "UNDO_SECONDS", dict.fromkeys(runner.UNDO_SECONDS, 3.0))
    monkeypatch.setattr(engine, "END_SECONDS", dict.fromkeys(engine.END_SECONDS, 3.0))
    brief = document(seconds={"deadline": {"live": 60, "simulated": 8}, "recovery": {"live": 60, "simulated": 3}})
    outage = lost(UNDO, math.inf, arrives=arrives)
    with campaign(on, tmp_path, outage) as made:
        result = made.carry_out(load(brief))
    assert outage.after.befell == 1
    assert (result.verdict, "Residue" in result.reason_codes) == (Verdict.ERROR, True), result.message
    assert any(LABEL in line for line in made.residue), made.residue
    assert any(line.startswith("open: node ") for line in made.residue), made.residue
    assert f"put back what is left with `gpu-conformance chaos recover --folder {tmp_path}`" in made.residue
    assert (on.labelled() == []) is arrives
    done = recover(on.cluster, tmp_path, seconds=60)
    assert (done.clean, done.restored) == (True, 1)
    assert unchanged.differences(leak_scan.scan(on.cluster)) == []
    assert recover(on.cluster, tmp_path, seconds=60).restored == 0
