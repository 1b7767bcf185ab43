"""Proof and ledger that are answered as written and not kept: no fault is made, nothing is called clean, and nobody asks without end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from chaoslib.exceptions import ActivityFailed

from chaos.cluster import namespaces
from chaos.engine import recover as recovering
from chaos.engine.recover import preview, status
from chaos.ledger import authentic, config_maps, replay
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Reason
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.records import LeaseRefused, LedgerError, State
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.surface.cli import main
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned, proof
from fixtures.ownership.proof import Proof, ProofRefused
from fixtures.ownership.proof_record import CHAOS_PREFIX, PROOF
from fixtures.ownership.read_proofs import read_proofs
from tests.chaos import leak_scan
from tests.chaos.ledger.simulated_cluster import ANYTHING, KUBE_SYSTEM, PRODUCT, RUN, acting, fetch, ledger, recover, strip, world
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect, Forward, Whole
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


def behind(reads: int) -> Effect:
    """Reads of a server that is behind: so many of them show the object as the first one did."""
    seen: list[Whole] = []

    async def effect(request: web.Request, forward: Forward) -> web.StreamResponse:
        now = await forward()
        seen.append(seen[0] if 0 < len(seen) <= reads else now)
        return effects.answer(seen[-1].status, seen[-1].body)

    return effect


async def without_uids(request: web.Request, forward: Forward) -> web.StreamResponse:
    """Whatever would write down a UID is not kept."""
    record = json.loads((await request.json())["metadata"]["annotations"][PROOF])
    if any(item.get("uid") for item in record["created"]):
        return await effects.not_done(request, forward)
    whole = await forward()
    return effects.answer(whole.status, whole.body)


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


@pytest.mark.parametrize("resource", WRITTEN)
def test_what_was_not_kept_once_is_written_again(tmp_path: Path, cluster: Cluster, resource: str) -> None:
    lie = Fault(name="not kept", verb="patch", resource=resource, effect=effects.not_done, times=0)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        book = ledger(tmp_path, Cluster.from_kubeconfig(tmp_path / "proxied"))
        lie.met, lie.times = 0, 1
        book.arm("node.labels", {"name": "gpu-1"})
    assert lie.befell == 1
    assert [entry.seq for entry in authentic.read_ledgers(cluster).open_entries] == [1]


@pytest.mark.parametrize("resource", WRITTEN)
def test_reads_that_are_behind_are_repeated(tmp_path: Path, cluster: Cluster, resource: str) -> None:
    late = Fault(name="behind", verb="get", resource=resource, effect=behind(3), times=0)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [late]):
        proxied = Cluster.from_kubeconfig(tmp_path / "proxied")
        book = ledger(tmp_path, proxied)
        book.mark(book.arm("node.labels", {"name": "gpu-1"}), State.APPLIED)  # which nobody reads again
        late.met, late.times = 0, ALWAYS
        kept = (namespaces.SHARED, config_maps.config_map_name(RUN)) if resource == "configmaps" else ("", f"{CHAOS_PREFIX}-{RUN}")
        proxied.get(owned.PRIORITY_CLASSES if resource == "priorityclasses" else resource, kept[1], kept[0])
        book.mark(1, State.UNDOING)
        book.arm("node.labels", {"name": "gpu-2"})
    assert late.met > 3
    assert [entry.seq for entry in authentic.read_ledgers(cluster).open_entries] == [2, 1]


def test_a_proof_that_takes_writes_and_is_never_shown_costs_each_act_less(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that nobody has to be shown succeed between the acts."""
    monkeypatch.setattr(proof, "LEAST_WRITE_SECONDS", 0.1)
    gone = Fault(name="not found", verb="get", resource="priorityclasses", effect=effects.refused(404, "NotFound"), times=0)
    reads = []
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [gone]):
        held = Proof.open(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, renewing=False)
        gone.met, gone.times = 0, ALWAYS
        for act in "abcdef":
            before = gone.met
            with pytest.raises(ProofRefused, match="a list shows it"):
                held.vouch(act)
            reads.append(gone.met - before)
            held.forget([act])
    assert reads[-1] < 0.7 * reads[0]


@pytest.mark.parametrize("honest", [False, True], ids=["the answer lies", "the answer shows it"])
def test_a_halt_that_is_not_kept_ends_soon_and_leaves_nothing(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str], honest: bool
) -> None:
    before = leak_scan.scan(cluster)
    effect = stripped(cluster.server) if honest else effects.not_done
    lie = Fault(name="not kept", verb="patch", resource="priorityclasses", effect=effect, times=ALWAYS)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]) as proxy:
        assert main(["chaos", "halt", "--kubeconfig", str(tmp_path / "proxied"), "--chaos-cluster", KUBE_SYSTEM, "--yes"]) == 10
        assert proxy.requests < 60
    stated = capsys.readouterr().err
    assert "show" in stated
    assert "somebody else" not in stated
    assert before.differences(leak_scan.scan(cluster)) == []


def test_a_shared_namespace_whose_uid_is_never_kept_is_made_three_times_and_no_more(tmp_path: Path, cluster: Cluster) -> None:
    """Its announcement is kept each time, and its UID never."""
    before = leak_scan.scan(cluster)
    lie = Fault(name="not kept", verb="patch", resource="priorityclasses", effect=without_uids, times=ALWAYS)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]) as proxy:
        with pytest.raises(ApiTrouble, match="was made 3 times"):
            namespaces.ensure_shared(Cluster.from_kubeconfig(tmp_path / "proxied"))
        assert proxy.requests < 150
    assert cluster.get("namespaces", namespaces.SHARED).status == 404
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
    stated = capsys.readouterr().out
    ledger_of_run = f"configmaps {namespaces.SHARED}/{config_maps.config_map_name(RUN)}"
    assert f"NOT put back: {ledger_of_run}: 2 entries stand open in it, although they are closed" in stated
    assert products(cluster) == [None if words else "H100", "H100"]
    assert recovered(tmp_path / "kubeconfig", *words) == 0
    assert products(cluster) == [None if words else "H100", "H100"]
    assert (read_proofs(cluster), status(cluster).runs) == ({}, ())


@pytest.mark.parametrize("times", [1, ALWAYS])
def test_a_class_that_only_a_page_says_to_be_gone_is_removed_again_or_reported(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], times: int
) -> None:
    monkeypatch.setattr(recovering, "LEAVE_SECONDS", 5.0)
    before = leak_scan.scan(cluster)
    armed(cluster, tmp_path)
    page = effects.replaced(404, b"<html><body>default backend - 404</body></html>", "text/html")
    lie = Fault(name="page", verb="delete", resource="priorityclasses", effect=page, times=times)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        assert recovered(tmp_path / "proxied") == (0 if times == 1 else 11)
    assert lie.befell
    stated = capsys.readouterr().out
    assert (f"NOT put back: PriorityClass {CHAOS_PREFIX}-{RUN}: it did not go away" in stated) is (times == ALWAYS)
    assert (before.differences(leak_scan.scan(cluster)) == []) is (times == 1)


# -- afterwards: the proof lists it, the ledger does not hold it -------------------------------------------


def test_an_entry_whose_words_are_gone_is_lost_and_named_until_somebody_accepts_it(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    armed(cluster, tmp_path, faults=2)
    rewritten(cluster, lines=lines_of(cluster)[1])
    assert recovered(tmp_path / "kubeconfig") == 11
    stated = capsys.readouterr().out
    assert f"NOT put back: run {RUN}: entry {RUN}/A9/1 node.labels gpu-1 is open" in stated
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


def test_neither_ledger_nor_an_old_folder_settles_an_entry_that_was_shown(tmp_path: Path, cluster: Cluster) -> None:
    book = armed(cluster, tmp_path)
    assert book.path is not None
    old = book.path.read_bytes()
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {PRODUCT: None}))
    assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    book.path.write_bytes(old)
    done = recover(cluster, tmp_path / RUN, seconds=PATIENCE)
    assert [f"entry {RUN}/A9/2 node.labels gpu-2 is open" in line for line in done.unreadable] == [True]
    assert done.unmade == ()


def test_a_run_that_ended_before_it_reported_that_the_ledger_holds_an_entry_is_put_back(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(self: Proof, digest: str) -> None:
        raise ApiTrouble("Timeout", "no answer in time")

    monkeypatch.setattr(Proof, "held", ended)
    with pytest.raises(LedgerError, match="no answer in time"):
        armed(cluster, tmp_path)
    assert products(cluster) == ["H100", "H100"]
    done = recover(cluster, seconds=PATIENCE)
    assert (done.clean, done.restored, done.unmade) == (True, 1, ())
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


def test_an_entry_that_the_ledger_has_closed_is_not_missed(tmp_path: Path, cluster: Cluster) -> None:
    """The run ended before its proof forgot it."""
    book = armed(cluster, tmp_path, faults=2)
    assert cluster.patch("nodes", "gpu-2", {"metadata": {"labels": {PRODUCT: "H100"}}}).ok
    book.mark(2, State.VERIFIED)
    assert status(cluster).lost == ()
    done = recover(cluster, seconds=PATIENCE)
    assert (done.clean, done.restored, done.unmade) == (True, 1, ())
    assert read_proofs(cluster) == {}


# -- afterwards: the ledger holds it, the proof does not list it -------------------------------------------


def test_an_entry_that_has_lost_its_proof_is_residue_until_somebody_accepts_it(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    armed(cluster, tmp_path)
    Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False).only(())
    assert recovered(tmp_path / "kubeconfig") == 11
    stated = capsys.readouterr().out
    assert [line for line in stated.splitlines() if line.startswith("NOT put back: ") and f"entry {RUN}/A9/1" in line]
    assert "0 changes" in stated
    (left,) = recover(cluster, seconds=PATIENCE).residue
    assert (left.reason, left.seq, left.command) == (Reason.UNPROVEN, 1, "")
    assert products(cluster) == [None, "H100"]  # anybody could have written what nothing proves
    assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 11
    with pytest.raises(LeaseRefused, match="1 changes of run"):
        LeaseKeeper(cluster, "next", lambda reason: None).acquire()
    assert recovered(tmp_path / "kubeconfig", "--accept", f"{RUN}/A9/1") == 0
    assert (read_proofs(cluster), status(cluster).unproven) == ({}, ())
