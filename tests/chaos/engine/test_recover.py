"""A run that was killed is put back by recover, and what a run leaves is told, also where the answers at its end are lost or lie."""

import multiprocessing
import signal
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.cluster.requests import until_gone
from chaos.engine.recover import accepted_entry, end_halt, preview, status
from chaos.ledger import authentic, config_maps
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Reason
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.records import LeaseRefused, State, digest
from chaos.safety.lease import KEY, NAME, halt
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from tests.chaos import leak_scan
from tests.chaos.leak_scan import Fingerprint
from tests.chaos.ledger import crash
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, fetch, ledger, namespace, plan, recover, soon, world
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

PRODUCT = "nvidia.com/gpu.product"


def child(folder: Path, instant: int, out: Path) -> int | None:
    """The exit code of a run in a process of its own, forked from one that has the modules and no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.ledger.crash"])
    process = context.Process(target=crash.main, args=(folder / "kubeconfig", out, instant))
    process.start()
    process.join(60)
    return process.exitcode


def killed(folder: Path, instant: int) -> Path:
    """Run until the instant and be killed there; the folder of its ledger."""
    out = folder / "out"
    assert child(folder, instant, out) == -signal.SIGKILL
    return out


@pytest.mark.parametrize("instant", range(crash.INSTANTS))
def test_a_killed_run_leaves_nothing_after_recover(tmp_path: Path, cluster: Cluster, unchanged: Fingerprint, instant: int) -> None:
    by = ("folder", "cluster", "both")[instant % 3]
    folder = killed(tmp_path, instant)
    if by == "folder":
        cluster.delete("namespaces", namespaces.SHARED)
    done = recover(cluster, None if by == "cluster" else folder, seconds=PATIENCE)
    assert done.clean, done
    assert unchanged.differences(leak_scan.scan(cluster)) == []
    again = recover(cluster, None if by == "cluster" else folder, seconds=PATIENCE)
    assert (again.clean, again.restored) == (True, 0)


def test_the_instants_are_all_that_there_are(tmp_path: Path, cluster: Cluster) -> None:
    """One more instant is after the last: the run is killed at its end. So each of them is reached, and differs from the others."""
    folder = killed(tmp_path, crash.INSTANTS + 100)
    (path,) = folder.rglob("ledger.jsonl")
    book = Ledger.open(path)
    assert [book.state(seq) for seq in (1, 2, 3, 4)] == [State.APPLIED, State.APPLIED, State.VERIFIED, State.VERIFIED]
    assert recover(cluster, folder, seconds=PATIENCE).clean


def test_a_torn_ledger_is_recovered_and_reported(tmp_path: Path, cluster: Cluster) -> None:
    folder = killed(tmp_path, 5)
    (path,) = folder.rglob("ledger.jsonl")
    with path.open("ab") as file:
        file.write(b'{"seq":3,"state":"arm')
    done = recover(cluster, folder, seconds=PATIENCE)
    assert (done.clean, done.torn) == (True, (str(path),))


@pytest.mark.usefixtures("unchanged")
def test_a_broken_file_is_reported_and_the_clusters_copy_is_enough(tmp_path: Path, cluster: Cluster) -> None:
    folder = killed(tmp_path, 5)
    (path,) = folder.rglob("ledger.jsonl")
    path.write_bytes(b"garbage\n" + path.read_bytes())
    done = recover(cluster, folder, seconds=PATIENCE)
    assert (done.clean, done.residue) == (False, ())
    assert "line 1 cannot be read" in done.unreadable[0]


def test_a_broken_copy_is_reported_stays_and_the_file_is_enough(tmp_path: Path, cluster: Cluster) -> None:
    folder = killed(tmp_path, 5)
    cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": "garbage\n"}}, namespaces.SHARED)
    done = recover(cluster, folder, seconds=PATIENCE)
    assert (done.clean, done.restored, done.residue) == (False, 2, ())
    assert f"ConfigMap {config_maps.config_map_name(RUN)}" in done.unreadable[0]
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"
    assert status(cluster).forged == (f"possible attack: {done.unreadable[0]}; nothing vouches for it",)  # nothing of it is open


def test_a_copy_that_nobody_can_read_keeps_the_next_from_starting(tmp_path: Path, cluster: Cluster) -> None:
    killed(tmp_path, 5)
    cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": "garbage\n"}}, namespaces.SHARED)
    with pytest.raises(LeaseRefused, match="2 changes of run"):
        LeaseKeeper(cluster, "next", lambda reason: None).acquire()


def test_a_ledger_that_nobody_can_read_keeps_no_other_from_being_undone(tmp_path: Path, cluster: Cluster) -> None:
    killed(tmp_path, 5)
    other = ledger(tmp_path, cluster, run_id="20261121-000000-0000")
    other.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {PRODUCT: None}))
    cluster.patch("nodes", "gpu-2", {"metadata": {"labels": {PRODUCT: None}}})
    cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": "garbage\n"}}, namespaces.SHARED)
    done = recover(cluster, seconds=PATIENCE)
    assert (done.clean, done.restored) == (False, 1)
    assert fetch(cluster, "nodes", "gpu-2")["metadata"]["labels"][PRODUCT] == "H100"


def test_what_the_cluster_knows_to_be_closed_is_closed(tmp_path: Path, cluster: Cluster) -> None:
    """The file of another machine still says open what was recovered here: the cluster's copy decides while it is there."""
    one = ledger(tmp_path, cluster)
    args = NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {"chaos": "yes"})
    one.arm("node.labels", args)
    assert one.path is not None
    stale = one.path.read_bytes()
    one.mark(1, State.VERIFIED)
    two = ledger(tmp_path, cluster, experiment="A4")  # keeps the run's copy in the cluster
    two.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {"chaos": "yes"}))
    one.path.write_bytes(stale)
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {"chaos": "yes"}}})  # somebody else's by now
    done = recover(cluster, tmp_path / RUN, seconds=PATIENCE)
    assert done.clean
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]["chaos"] == "yes"


def test_files_of_another_cluster_are_left_alone(tmp_path: Path, cluster: Cluster) -> None:
    origin = msgspec.structs.replace(plan().origin, cluster_uid="another")
    other = Ledger.create(tmp_path / "out" / "ledger.jsonl", origin, None)
    other.arm("node.unschedulable", {"name": "gpu-1"})
    done = recover(cluster, tmp_path / "out", seconds=PATIENCE)
    assert (done.elsewhere, done.restored, done.clean) == ((str(other.path),), 0, True)


def test_a_copy_that_came_from_another_cluster_is_reported_and_undoes_nothing(tmp_path: Path, cluster: Cluster) -> None:
    node = fetch(cluster, "nodes", "gpu-1")
    origin = msgspec.structs.replace(plan().origin, cluster_uid="another")
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    other = Ledger.create(tmp_path / "out" / "ledger.jsonl", origin, Mirror.open(cluster, RUN, "A1", seconds=PATIENCE), proof)
    other.arm("node.labels", NodeLabels().args(node, {PRODUCT: "ours"}))
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: "ours"}}})
    done = recover(cluster, seconds=PATIENCE)
    assert (done.clean, done.restored, done.residue) == (False, 0, ())
    assert "is of another cluster" in done.unreadable[0]
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "ours"


def test_residue_is_reported_with_a_command_and_can_be_accepted(cluster: Cluster, book: Ledger) -> None:
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: "ours"}))
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: "B200"}}})
    done = recover(cluster, seconds=PATIENCE)
    (left,) = done.residue
    assert (done.clean, left.reason) == (False, Reason.CHANGED)
    assert "by hand: kubectl label node gpu-1" in str(left)
    assert len(status(cluster).open_entries) == 1  # it stays open, and in the way
    assert "kubectl" in "\n".join(status(cluster).lines)
    assert f"entry {RUN}/A1/1" in str(left)
    accepted = recover(cluster, seconds=PATIENCE, accept={accepted_entry(f"{RUN}/A1/1")})
    assert (accepted.clean, status(cluster).open_entries) == (True, ())
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "B200"


def test_a_living_run_is_not_recovered(tmp_path: Path, cluster: Cluster) -> None:
    lease = LeaseKeeper(Cluster.from_kubeconfig(tmp_path / "kubeconfig"), RUN, lambda reason: None)
    lease.acquire()
    with pytest.raises(LeaseRefused, match="one run acts"):
        recover(cluster, seconds=PATIENCE)
    lease.release()


@pytest.mark.parametrize("wrong", ["", "x", f"{RUN}/A1", f"{RUN}/A1/one", f"{RUN}//1", "A Run/A1/1"])
def test_an_entry_is_accepted_by_its_whole_name_only(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected RUN/EXPERIMENT/NUMBER"):
        accepted_entry(wrong)


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
def test_what_is_not_known_to_be_gone_is_reported_and_recover_removes_it(tmp_path: Path, cluster: Cluster, resource: str, how: str) -> None:
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
def test_a_lease_that_is_taken_by_the_answer_alone_is_reported_or_taken_in_earnest(
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
