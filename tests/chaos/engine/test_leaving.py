"""What a run leaves, when the answers at its end are lost or lies: it asks again, and what it cannot show to be gone it tells."""

from pathlib import Path

import pytest

from chaos.cluster import leak_scan, namespaces
from chaos.engine.leaving import until_gone
from chaos.engine.recover import end_halt, preview, status
from chaos.ledger import authentic
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.ledger_lines import State, digest
from chaos.safety.lease import KEY, NAME, halt
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, fetch, ledger, namespace, recover, soon, world
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

ADMINISTRATORS = "uid-of-the-administrators"
LOST = {
    "done, and no answer": effects.dropped(arrives=True),
    "done, and an empty body": effects.replaced(200, b"", arrives=True),
    "done, and a sign-in page": effects.replaced(200, effects.SIGN_IN, "text/html", arrives=True),
    "a sign-in page": effects.replaced(200, effects.SIGN_IN, "text/html"),
    "never arrived": effects.dropped(arrives=False),
    "503": effects.refused(503, "ServiceUnavailable"),
}


def fault(verb: str, resource: str, how: str, *, times: int = 2, skip: int = 0) -> Fault:
    return Fault(name=how, verb=verb, resource=resource, effect=LOST[how], times=times, skip=skip)


def keeper(cluster: Cluster, administrators: str = "") -> LeaseKeeper:
    return LeaseKeeper(cluster, RUN, lambda reason: None, renew_seconds=0.5, administrators=administrators)


CUT = [(resource, how) for number, resource in enumerate(("namespaces", "priorityclasses", "configmaps")) for how in list(LOST)[number::3]]


@pytest.mark.parametrize(("resource", "how"), CUT)
@pytest.mark.usefixtures("unchanged")
def test_a_deletion_whose_answer_is_lost_is_finished(tmp_path: Path, cluster: Cluster, resource: str, how: str) -> None:
    met = fault("delete", resource, how, times=6)  # more than one request asks by itself
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [met]):
        proxied = Cluster.from_kubeconfig(tmp_path / "proxied")
        lease = keeper(proxied)
        lease.acquire()
        book = ledger(tmp_path, proxied)
        book.mark(book.arm("node.labels", {"name": "gpu-1"}), State.VERIFIED)
        assert book.flush(soon())
        assert until_gone(lease.release, 60, "perhaps") == []
        assert until_gone(lambda: list(filter(None, [Proof.open(cluster, RUN, prefix=CHAOS_PREFIX).close()])), 60, "perhaps") == []
    assert met.befell > 0


@pytest.mark.parametrize("how", list(LOST)[::2])
def test_the_lease_in_an_administrators_namespace_is_finished_too(tmp_path: Path, how: str) -> None:
    with world(tmp_path, extra=[namespace(namespaces.SHARED, ADMINISTRATORS)]) as (cluster, _):
        before = leak_scan.scan(cluster)
        faults = [fault("delete", "leases", how, times=6), fault("delete", "priorityclasses", how, times=6)]
        with through(tmp_path / "kubeconfig", tmp_path / "proxied", faults):
            lease = keeper(Cluster.from_kubeconfig(tmp_path / "proxied"), ADMINISTRATORS)
            lease.acquire()
            assert until_gone(lease.release, 60, "perhaps") == []
        assert [met.befell > 0 for met in faults] == [True, True]
        assert before.differences(leak_scan.scan(cluster)) == []
        assert fetch(cluster, "namespaces", namespaces.SHARED)["metadata"]["uid"] == ADMINISTRATORS


@pytest.mark.parametrize("how", ["a sign-in page", "never arrived", "503"])
@pytest.mark.parametrize("resource", ["namespaces", "priorityclasses"])
@pytest.mark.usefixtures("unchanged")
def test_what_is_not_known_to_be_gone_is_told_and_recover_removes_it(tmp_path: Path, cluster: Cluster, resource: str, how: str) -> None:
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault("delete", resource, how, times=ALWAYS)]):
        lease = keeper(Cluster.from_kubeconfig(tmp_path / "proxied"))
        lease.acquire()
        left = until_gone(lease.release, 3, "perhaps")
    assert [line for line in left if "gpu-conformance-chaos" in line] == left != []
    cluster.delete(KEY, "gpu-conformance-chaos", namespaces.SHARED)  # or its holder, this process, would count as alive
    plan, _ = preview(cluster, terms=ANYTHING)
    assert plan == ["delete Lease and namespace that runs share, and their proof, unless a ledger in them has open entries"]
    assert recover(cluster, seconds=PATIENCE).clean
    assert preview(cluster, terms=ANYTHING)[0] == []


@pytest.mark.usefixtures("unchanged")
def test_a_lease_that_was_let_go_is_taken_again_before_its_namespace_goes(tmp_path: Path, cluster: Cluster) -> None:
    """A first call met an open entry, which was closed after it."""
    lease = keeper(cluster)
    lease.acquire()
    book = ledger(tmp_path, cluster)
    seq = book.arm("node.labels", {"name": "gpu-1"})
    assert lease.release() == []
    assert status(cluster).lines[0] == "nobody holds the Lease"
    book.mark(seq, State.VERIFIED)
    assert book.flush(soon())
    assert lease.release() == []
    assert Proof.open(cluster, RUN, prefix=CHAOS_PREFIX).close() == ""


@pytest.mark.parametrize("before", ["nothing", "a Lease that nobody holds"])
@pytest.mark.parametrize("times", [2, ALWAYS])
@pytest.mark.usefixtures("unchanged")
def test_a_lease_that_is_taken_by_the_answer_alone_is_told_or_taken_in_earnest(
    tmp_path: Path, cluster: Cluster, before: str, times: int
) -> None:
    """Somebody on the way answers in the server's place, and the namespace is without a Lease, or with one that nobody holds."""
    if before != "nothing":
        space = namespaces.ensure_shared(cluster)
        cluster.create(KEY, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}}, namespace=space)
    lies = [Fault(name="not done", verb=verb, resource="leases", effect=effects.not_done, times=times) for verb in ("create", "patch")]
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", lies):
        lease = keeper(Cluster.from_kubeconfig(tmp_path / "proxied"))
        lease.acquire()
        left = until_gone(lease.release, 5, "perhaps")
    assert [namespaces.SHARED in line and namespaces.ANCHOR in line for line in left] == [True] * (times == ALWAYS)
    assert recover(cluster, seconds=PATIENCE).clean


def test_a_namespace_whose_proof_cannot_be_written_is_taken_back_at_once(tmp_path: Path) -> None:
    refused = Fault(name="403", verb="patch", resource="priorityclasses", effect=effects.refused(403, "Forbidden"), skip=1, times=ALWAYS)
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [refused]):
        with pytest.raises(ApiTrouble, match="could not be written"):
            namespaces.ensure_shared(Cluster.from_kubeconfig(tmp_path / "proxied"))
        assert cluster.get("namespaces", namespaces.SHARED).status == 404


def test_the_end_of_a_halt_spares_who_holds_the_lease(cluster: Cluster) -> None:
    lease = keeper(cluster)
    lease.acquire()
    halt(cluster)
    assert end_halt(cluster) == []
    assert RUN in status(cluster).lines[0]
    assert lease.release() == []


# -- the cluster's copy of a ledger ----------------------------------------------------------------------


@pytest.mark.usefixtures("unchanged")
def test_what_the_run_closed_in_its_file_is_no_attack(tmp_path: Path, cluster: Cluster) -> None:
    """Its copy could not be written any more, and its proof forgot the entry: the run's own folder vouches for it."""
    book = ledger(tmp_path, cluster)
    seq = book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {"chaos": "yes"}))
    (entry,) = book.entries()
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault("patch", "configmaps", "a sign-in page", times=ALWAYS)]):
        book._mirror._cluster = Cluster.from_kubeconfig(tmp_path / "proxied")  # type: ignore[union-attr]
        book.mark(seq, State.VERIFIED)
        assert not book.flush(soon(2))
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    assert proof.view.vouches(digest(entry))  # as long as the copy holds it
    proof.only(())
    assert authentic.read_ledgers(cluster).forged != ()
    plan, shown = preview(cluster, tmp_path / RUN, terms=ANYTHING)
    assert ([line.partition(":")[0] for line in plan[:1]], shown.forged) == (["close in the cluster's copy"], ())
    done = recover(cluster, tmp_path / RUN, seconds=PATIENCE)
    assert (done.clean, done.restored, done.forged) == (True, 0, ())


def test_an_entry_that_no_file_of_the_run_holds_is_still_an_attack(tmp_path: Path, cluster: Cluster) -> None:
    mine = ledger(tmp_path, cluster)
    mine.mark(mine.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {"a": "b"})), State.VERIFIED)
    forged = ledger(tmp_path / "elsewhere", cluster, experiment="A4")
    forged.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {"a": "b"}))
    Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False).only(())
    done = recover(cluster, tmp_path / RUN, seconds=PATIENCE)
    assert [f"entry {RUN}/A4/1" in line for line in done.forged] == [True]
    assert done.restored == 0
