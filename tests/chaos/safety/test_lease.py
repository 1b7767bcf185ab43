"""One run at a time, and a halt from anywhere."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.recover import status
from chaos.model.records import Aborted, LeaseRefused, State
from chaos.safety.lease import HALT, KEY, NAME, Holder, halt, must_hold, read_lease
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from tests.chaos.ledger.simulated_cluster import RUN, Json, fetch, ledger, namespace, soon, world
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.tables import each_row
from tests.troubles import Trouble
from tests.watching import PATIENCE

ELSEWHERE = "other-host/1/pid:[1]/run"
ADMINISTRATORS = "uid-of-the-administrators"


class Run:
    """A run that wants the cluster."""

    def __init__(self, cluster: Cluster, run_id: str = RUN, *, seconds: int = 15, renew: float = 0.05, administrators: str = "") -> None:
        self.stated: list[str] = []
        self.stopped = threading.Event()
        self.lease = LeaseKeeper(cluster, run_id, self._stop, seconds=seconds, renew_seconds=renew, administrators=administrators)

    def _stop(self, reason: str) -> None:
        self.stated.append(reason)
        self.stopped.set()


@contextmanager
def running(cluster: Cluster, run_id: str = RUN, **options: Any) -> Iterator[Run]:
    run = Run(cluster, run_id, **options)
    run.lease.acquire()
    try:
        yield run
    finally:
        run.lease.abandon()


def act(cluster: Cluster) -> None:
    """A run gets the cluster, and lets it go."""
    with running(cluster):
        must_hold(cluster, RUN)


def refused(cluster: Cluster, match: str = "one run acts on a cluster at a time") -> None:
    with pytest.raises(LeaseRefused, match=match):
        Run(cluster).lease.acquire()


def respected(cluster: Cluster, age: float, later: float) -> None:
    """Another machine's hold looks as old as that, and is renewed meanwhile."""
    held_by(cluster, ELSEWHERE, age, seconds=2)
    beat = threading.Timer(0.3, held_by, args=(cluster, ELSEWHERE, later, 2))
    beat.start()
    refused(cluster, "by another clock")
    beat.join()


def held_by(cluster: Cluster, identity: str, age: float, seconds: int = 15) -> None:
    renewed = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": renewed}
    namespaces.ensure_shared(cluster)
    body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": spec}
    if not cluster.create(KEY, body, namespace=namespaces.SHARED).ok:
        assert cluster.patch(KEY, NAME, {"spec": spec}, namespaces.SHARED).ok


def test_a_run_holds_the_cluster_and_leaves_nothing(cluster: Cluster) -> None:
    with running(cluster) as run:
        found = read_lease(cluster)
        assert found is not None
        assert (found.identity, found.seconds) == (str(Holder.me(RUN)), 15)
        must_hold(cluster, RUN)
        with pytest.raises(Aborted, match="not held by this run"):
            must_hold(cluster, "another")
    run.lease.release()
    assert cluster.get("namespaces", namespaces.SHARED).status == 404
    act(cluster)  # and again


def test_a_second_run_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), running(cluster) as first:
        with pytest.raises(LeaseRefused, match="one run acts on a cluster at a time"):
            Run(cluster, "20261121-130000-ffff").lease.acquire()
        must_hold(cluster, RUN)
        assert first.stated == []


def test_of_runs_that_start_at_once_one_gets_it(cluster: Cluster) -> None:
    runs = [Run(cluster, f"20261121-13000{number}-ffff") for number in range(6)]
    got, refused = [], []

    def start(run: Run) -> None:
        try:
            run.lease.acquire()
            got.append(run)
        except LeaseRefused as reason:
            refused.append(str(reason))

    threads = [threading.Thread(target=start, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(got), len(refused)) == (1, 5)
    got[0].lease.release()


def test_one_that_looks_expired_is_watched_first_because_clocks_differ(cluster: Cluster) -> None:
    respected(cluster, 3, 2.5)
    act(cluster)  # nobody renews it any more


@pytest.mark.parametrize("ahead", [20, 3600, 10 * 365 * 86_400])
def test_a_clock_that_was_ahead_locks_nobody_out(cluster: Cluster, ahead: float) -> None:
    """Of a machine that died: nobody would get the cluster back until that time has come."""
    held_by(cluster, ELSEWHERE, -ahead, seconds=1)
    assert "by a clock that is" in status(cluster).lines[0]
    assert status(cluster).expired
    act(cluster)


@pytest.mark.parametrize("behind", [-3600, 9, 70, 3600, 10 * 365 * 86_400])
def test_a_run_that_lives_by_another_clock_is_respected(cluster: Cluster, behind: float) -> None:
    """However far the two machines' clocks are apart: two runs would act at once otherwise."""
    respected(cluster, behind, behind - 0.3)


def test_a_dead_process_of_this_machine_holds_nothing(cluster: Cluster) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    held_by(cluster, a_holder(pid=child.pid), 1)
    act(cluster)
    held_by(cluster, a_holder(pid=os.getpid(), started="1"), 1)  # the PID is another process's by now
    act(cluster)
    held_by(cluster, a_holder(), 1)
    refused(cluster)


def a_holder(**process: Any) -> str:
    """Identity of a run of this very process, or of one that differs from it."""
    me = Holder.me("old")
    return str(msgspec.structs.replace(me, process=msgspec.structs.replace(me.process, **process)))


@each_row
def test_a_machine_of_the_same_name_is_another_machine(cluster: Cluster, differs: dict[str, str]) -> None:
    """Its first PID namespace has the same inode, and no process here has that PID; but it renews the Lease every 0.7 s."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    held_by(cluster, a_holder(pid=child.pid, **differs), 0.7)
    refused(cluster, "one run acts on a cluster at a time")


def test_a_holder_that_no_run_wrote_is_respected_until_it_expires(cluster: Cluster) -> None:
    me = Holder.me("").process
    for identity in (f"{me.host}/4000000/pid:[{me.space}]/old", f"{me.host}", "kube-scheduler", "/" * 5):
        held_by(cluster, identity, 0.7)
        refused(cluster)


def test_what_an_earlier_run_left_comes_first(tmp_path: Path, cluster: Cluster) -> None:
    book = ledger(tmp_path, cluster, run_id="20261121-110000-dead")
    seq = book.arm("node.labels", {"name": "gpu-1"})
    refused(cluster, r"1 changes of run 20261121-110000-dead .* chaos recover")
    recovering = Run(cluster)
    recovering.lease.acquire(recovering=True)
    book.mark(seq, State.VERIFIED)
    assert book.flush(soon())
    recovering.lease.release()
    act(cluster)


def test_a_lease_that_may_not_be_deleted_is_let_go(tmp_path: Path) -> None:
    with world(tmp_path, Trouble("delete", KEY, 403, 1), extra=[namespace(namespaces.SHARED, ADMINISTRATORS)]) as (cluster, _):
        with running(cluster, administrators=ADMINISTRATORS) as run:
            pass
        run.lease.release()
        assert not fetch(cluster, KEY, NAME, namespaces.SHARED)["spec"].get("holderIdentity")


def test_the_lease_of_a_namespace_that_somebody_else_made_says_nothing(tmp_path: Path) -> None:
    """A tenant may hold and halt what he has made himself: nobody minds, and his Lease is left as it is."""
    with world(tmp_path, extra=[namespace(namespaces.SHARED)]) as (cluster, _):
        spec = {"holderIdentity": str(Holder.me("his")), "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"}
        metadata = {"name": NAME, "annotations": {HALT: "true"}}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        assert cluster.create(KEY, body, namespace=namespaces.SHARED).ok
        before = fetch(cluster, KEY, NAME, namespaces.SHARED)
        assert (status(cluster).holder, status(cluster).halted) == ("", "")
        with running(cluster) as run:
            must_hold(cluster, RUN)
        run.lease.release()
        assert fetch(cluster, KEY, NAME, namespaces.SHARED) == before


def test_a_lost_lease_stops_the_run_and_is_left_to_its_new_holder(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), running(cluster) as run:
        held_by(cluster, ELSEWHERE, 0)
        assert run.stopped.wait(PATIENCE)
        assert run.stated == [f"the Lease was lost to {ELSEWHERE}"]
        run.lease.release()
        found = read_lease(cluster)
        assert found is not None
        assert found.identity == ELSEWHERE
        with pytest.raises(Aborted, match="not held by this run"):
            must_hold(cluster, RUN)


def test_a_deleted_lease_stops_the_run(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), running(cluster) as run:
        cluster.delete(KEY, NAME, namespaces.SHARED)
        assert run.stopped.wait(PATIENCE)
        assert run.stated == ["the Lease was lost to nobody: it was deleted"]


def test_a_halt_from_elsewhere_stops_the_run_and_keeps_others_out(tmp_path: Path, cluster: Cluster) -> None:
    with running(cluster) as run:
        halt(Cluster.from_kubeconfig(tmp_path / "kubeconfig"))
        assert run.stopped.wait(PATIENCE)
        assert run.stated[0].startswith("halted by ")
        with pytest.raises(Aborted, match="halted by"):
            must_hold(cluster, RUN)
    run.lease.release()
    found = read_lease(cluster)
    assert found is not None
    assert (found.identity, bool(found.halted)) == ("", True)
    refused(cluster, r"halted by .* halt --off")
    recovering = Run(cluster)
    recovering.lease.acquire(recovering=True)  # putting back is never halted
    recovering.lease.release()
    halt(cluster, on=False)
    act(cluster)


def test_an_expired_hold_is_none_for_who_acts(cluster: Cluster) -> None:
    held_by(cluster, str(Holder.me(RUN)), 16)
    with pytest.raises(Aborted, match="no longer renewed"):
        must_hold(cluster, RUN)
    assert status(cluster).expired


def test_a_halt_that_did_not_stay_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook, or a stale copy of the object, may answer 200 with a Lease as it was before."""
    with world(tmp_path) as (cluster, _), running(cluster):
        asked = cluster.patch

        def stripped(key: str, name: str, patch: object, namespace: str = "", subresource: str = "") -> Answer:
            assert isinstance(patch, dict)
            kept = {name: part for name, part in patch.items() if name != "metadata"}
            return asked(key, name, {**kept, "metadata": {"labels": {"kept": "yes"}}}, namespace, subresource)

        monkeypatch.setattr(cluster, "patch", stripped)
        with pytest.raises(ApiTrouble, match="a Lease without the annotation"):
            halt(cluster)


@pytest.mark.parametrize("effect", [effects.not_done, effects.refused(409, "AlreadyExists")], ids=["not done", "409 for ever"])
def test_a_halt_that_the_cluster_does_not_show_is_none(tmp_path: Path, effect: Effect) -> None:
    lie = Fault(name="lie", verb="create", resource="leases", effect=effect, times=ALWAYS)
    with world(tmp_path), through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        with pytest.raises(ApiTrouble, match="halt: the cluster shows no Lease"):
            halt(Cluster.from_kubeconfig(tmp_path / "proxied"))


def test_a_lease_that_came_back_with_another_holder_is_not_taken(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(cluster, "", 3600)
    asked = cluster.patch
    monkeypatch.setattr(cluster, "patch", lambda key, name, patch, *rest: asked(key, name, {"metadata": {"labels": {"a": "b"}}}, *rest))
    with pytest.raises(ApiTrouble, match="another holder"):
        Run(cluster).lease.acquire()


def test_a_lease_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    with world(tmp_path, Trouble("get", KEY, 403, 1)) as (cluster, _):
        namespaces.ensure_shared(cluster)
        with pytest.raises(Aborted, match="cannot be read"):
            must_hold(cluster, RUN)
