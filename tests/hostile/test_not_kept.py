"""Proof and ledger that are answered as written and not kept: no fault is made, nothing is called clean, and nobody asks without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from chaoslib.exceptions import ActivityFailed

from chaos.cluster import leak_scan, namespaces
from chaos.ledger import authentic, config_maps, mirror
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.ledger_lines import State
from chaos.surface.cli import main
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned, proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, PROOF
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, RUN, acting, fetch, ledger, recover, world
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect, Forward, Whole
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.watching import PATIENCE

PRODUCT = "nvidia.com/gpu.product"
WRITTEN = ("priorityclasses", "configmaps")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write is given up soon."""
    monkeypatch.setattr(proof, "WRITE_SECONDS", 2.0)
    monkeypatch.setattr(mirror, "ARM_SECONDS", 2.0)


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
    told = capsys.readouterr().err
    assert "show" in told
    assert "somebody else" not in told
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
