"""A run that was killed is put back by recover: from its folder, from the cluster alone, and however often one asks."""

import multiprocessing
import signal
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.recover import accepted_entry, status
from chaos.ledger import config_maps
from chaos.ledger.file import Ledger
from chaos.ledger.mirror import Mirror
from chaos.ledger.residue import Reason
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.errors import LeaseRefused
from chaos.model.ledger_lines import State
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from tests.chaos.ledger import crash
from tests.chaos.ledger.simulated_cluster import RUN, fetch, ledger, plan, recover
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
@pytest.mark.usefixtures("unchanged")
def test_a_killed_run_leaves_nothing_after_recover(tmp_path: Path, cluster: Cluster, instant: int) -> None:
    by = ("folder", "cluster", "both")[instant % 3]
    folder = killed(tmp_path, instant)
    if by == "folder":
        cluster.delete("namespaces", namespaces.SHARED)
    done = recover(cluster, None if by == "cluster" else folder, seconds=PATIENCE)
    assert done.clean, done
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
def test_a_broken_file_is_told_and_the_clusters_copy_is_enough(tmp_path: Path, cluster: Cluster) -> None:
    folder = killed(tmp_path, 5)
    (path,) = folder.rglob("ledger.jsonl")
    path.write_bytes(b"garbage\n" + path.read_bytes())
    done = recover(cluster, folder, seconds=PATIENCE)
    assert (done.clean, done.residue) == (False, ())
    assert "line 1 cannot be read" in done.unreadable[0]


def test_a_broken_copy_is_told_stays_and_the_file_is_enough(tmp_path: Path, cluster: Cluster) -> None:
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


def test_a_copy_that_came_from_another_cluster_is_told_and_undoes_nothing(tmp_path: Path, cluster: Cluster) -> None:
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


def test_residue_is_told_with_a_command_and_can_be_accepted(cluster: Cluster, book: Ledger) -> None:
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
