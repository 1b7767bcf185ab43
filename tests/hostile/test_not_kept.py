"""Proof and ledger that are answered as written and not kept: no fault is made, nothing is called clean, and nobody asks without end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from chaoslib.exceptions import ActivityFailed

from chaos.cluster import namespaces
from chaos.engine import recover as recovering
from chaos.engine.recover import preview, status
from chaos.ledger import config_maps, replay
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Reason
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.records import LeaseRefused
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.surface.cli import main
from fixtures.cluster.client import Cluster
from fixtures.ownership import proof
from fixtures.ownership.proof import Proof, ProofRefused
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import read_proofs
from tests.chaos import leak_scan
from tests.chaos.ledger.simulated_cluster import ANYTHING, KUBE_SYSTEM, PRODUCT, RUN, acting, fetch, ledger, recover, strip, world
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect, Forward
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

WRITTEN = ("priorityclasses", "configmaps")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write is given up soon."""
    monkeypatch.setattr(proof, "WRITE_SECONDS", 2.0)
    monkeypatch.setattr(config_maps, "ARM_SECONDS", 2.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def stripped(server: str) -> Effect:
    """The answer shows the object as it is, as after an admission webhook that takes the change out."""

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        async with ClientSession() as session, session.get(server + request.path) as response:
            return effects.answer(response.status, await response.read())

    return effect


def armed(cluster: Cluster, folder: Path, *, faults: int = 1) -> Ledger:
    """The ledger of an experiment that has taken the label from this many nodes."""
    book = ledger(folder, cluster, experiment="A9")
    for name in ("gpu-1", "gpu-2")[:faults]:
        strip(cluster, book, name)
    return book


def rewritten(cluster: Cluster, **data: str) -> None:
    """The run's ledger in the cluster, changed by an administrator."""
    keys = {f"A9{config_maps.LINES if key == 'lines' else config_maps.CLOSED}": text for key, text in data.items()}
    assert cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": keys}, namespaces.SHARED).ok


def lines_of(cluster: Cluster) -> list[str]:
    stored = fetch(cluster, "configmaps", config_maps.config_map_name(RUN), namespaces.SHARED)
    return str(stored["data"][f"A9{config_maps.LINES}"]).splitlines(keepends=True)


def products(cluster: Cluster) -> list[object]:
    return [fetch(cluster, "nodes", name)["metadata"]["labels"].get(PRODUCT) for name in ("gpu-1", "gpu-2")]


def recovered(kubeconfig: Path, *words: str) -> int:
    """The exit code of the command on another machine."""
    return main(["chaos", "recover", "--kubeconfig", str(kubeconfig), "--chaos-cluster", KUBE_SYSTEM, "--yes", *words])


# -- writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("honest", [False, True], ids=["the answer lies", "the answer shows it"])
@pytest.mark.parametrize("resource", WRITTEN)
def test_no_fault_is_made_whose_undo_was_not_kept(tmp_path: Path, cluster: Cluster, resource: str, honest: bool) -> None:
    before = leak_scan.scan(cluster)
    effect = stripped(cluster.server) if honest else effects.not_done
    lie = Fault(name="not kept", verb="patch", resource=resource, effect=effect, times=0)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        proxied = Cluster.from_kubeconfig(tmp_path / "proxied")
        book = ledger(tmp_path, proxied, experiment="A9")
        lie.times = ALWAYS
        args = NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})
        with pytest.raises(ActivityFailed, match=r"could not be written down.*show"):
            with acting(tmp_path, proxied, book, experiment="A9").fault("node.labels", args):
                pytest.fail("the body ran")
    assert recover(cluster, seconds=PATIENCE).clean
    assert before.differences(leak_scan.scan(cluster)) == []


def test_a_proof_that_is_created_without_its_record_is_removed_again(tmp_path: Path, cluster: Cluster) -> None:
    before = leak_scan.scan(cluster)

    @effects.in_json
    def bare(document: dict[str, Any]) -> None:
        document["metadata"].pop("annotations")

    lie = Fault(name="bare", verb="create", resource="priorityclasses", effect=effects.rewritten(bare))
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        with pytest.raises(ProofRefused, match=r"does not show it$"):
            Proof.open(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, prefix=CHAOS_PREFIX, renewing=False)
    assert before.differences(leak_scan.scan(cluster)) == []


@pytest.mark.parametrize("words", [(), ("--accept", f"{RUN}/A9/1")], ids=["put back", "accepted"])
def test_a_recovery_whose_closing_is_never_kept_tells_which_ledger_stays(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(recovering, "LEAVE_SECONDS", 2.0)
    for module in (replay, recovering):
        monkeypatch.setattr(module, "FLUSH_SECONDS", 0.5)
    armed(cluster, tmp_path, faults=2)
    lie = Fault(name="not kept", verb="patch", resource="configmaps", effect=effects.not_done, times=ALWAYS)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        assert recovered(tmp_path / "proxied", *words) == 11
    told = capsys.readouterr().out
    ledger_of_run = f"configmaps {namespaces.SHARED}/{config_maps.config_map_name(RUN)}"
    assert f"NOT put back: {ledger_of_run}: 2 entries stand open in it, although they are closed" in told
    assert products(cluster) == [None if words else "H100", "H100"]
    assert recovered(tmp_path / "kubeconfig", *words) == 0
    assert products(cluster) == [None if words else "H100", "H100"]
    assert (read_proofs(cluster), status(cluster).runs) == ({}, ())


# -- afterwards: the proof lists it, the ledger does not hold it -------------------------------------------


def test_an_entry_whose_words_are_gone_is_lost_and_named_until_somebody_accepts_it(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    armed(cluster, tmp_path, faults=2)
    rewritten(cluster, lines=lines_of(cluster)[1])
    assert recovered(tmp_path / "kubeconfig") == 11
    told = capsys.readouterr().out
    assert f"NOT put back: run {RUN}: entry {RUN}/A9/1 node.labels gpu-1 is open" in told
    assert products(cluster) == [None, "H100"]
    assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 11
    with pytest.raises(LeaseRefused, match="1 changes of run"):
        LeaseKeeper(cluster, "next", lambda reason: None).acquire()
    assert recovered(tmp_path / "kubeconfig", "--accept", f"{RUN}/A9/1") == 0
    assert read_proofs(cluster) == {}


@pytest.mark.parametrize("faults", [1, 2])
def test_the_newest_entry_is_lost_if_it_is_taken_out_alone(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str], faults: int
) -> None:
    armed(cluster, tmp_path, faults=faults)
    before = lines_of(cluster)
    rewritten(cluster, lines="".join(before[:-1]))
    _, foreseen = preview(cluster, terms=ANYTHING)
    assert [f"entry {RUN}/A9/{faults} node.labels gpu-{faults} is open" in line for line in foreseen.unreadable] == [True]
    assert recovered(tmp_path / "kubeconfig") == 11
    assert f"NOT put back: run {RUN}: entry {RUN}/A9/{faults} node.labels gpu-{faults} is open" in capsys.readouterr().out
    assert products(cluster)[faults - 1] is None
    assert recovered(tmp_path / "kubeconfig") == 11  # nothing has forgotten it meanwhile
    assert recover(cluster, tmp_path / RUN, seconds=PATIENCE).clean  # the run's own folder knows its words
    assert products(cluster) == ["H100", "H100"]
    assert read_proofs(cluster) == {}


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("before", [0, 1])
def test_a_run_that_ended_between_the_two_writes_has_made_nothing(tmp_path: Path, cluster: Cluster, before: int, folder: bool) -> None:
    book = armed(cluster, tmp_path, faults=before)
    book._mirror = None
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {PRODUCT: None}))
    planned, _ = preview(cluster, tmp_path / RUN if folder else None, terms=ANYTHING)
    assert planned
    done = recover(cluster, tmp_path / RUN if folder else None, seconds=PATIENCE)
    assert (done.clean, done.restored) == (True, before + folder)
    assert [f"entry {RUN}/A9/{before + 1} node.labels gpu-2 was announced" in line for line in done.unmade] == [True] * (not folder)
    assert products(cluster) == ["H100", "H100"]
    assert read_proofs(cluster) == {}


# -- afterwards: the ledger holds it, the proof does not list it -------------------------------------------


def test_an_entry_that_has_lost_its_proof_is_residue_until_somebody_accepts_it(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    armed(cluster, tmp_path)
    Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False).only(())
    assert recovered(tmp_path / "kubeconfig") == 11
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("NOT put back: ") and f"entry {RUN}/A9/1" in line]
    assert "0 changes" in told
    (left,) = recover(cluster, seconds=PATIENCE).residue
    assert (left.reason, left.seq, left.command) == (Reason.UNPROVEN, 1, "")
    assert products(cluster) == [None, "H100"]  # anybody could have written what nothing proves
    assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 11
    with pytest.raises(LeaseRefused, match="1 changes of run"):
        LeaseKeeper(cluster, "next", lambda reason: None).acquire()
    assert recovered(tmp_path / "kubeconfig", "--accept", f"{RUN}/A9/1") == 0
    assert (read_proofs(cluster), status(cluster).unproven) == ({}, ())
