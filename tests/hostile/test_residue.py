"""Residue is what the cluster shows at the end, whatever the run remembers; a cluster that cannot be asked has kept it unknown."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from conformance.catalogue import load_catalogue
from conformance.plugin.opening import OpenTarget, WorkerHandover
from conformance.plugin.options import Options
from conformance.plugin.recording import sweep
from conformance.plugin.session import State
from conformance.requirement import Needs
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.policy.model import Policy
from fixtures.probes.workspace import Workspace
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Report, Target, TargetKind
from fixtures.verdict.subjects import Inconclusive
from tests.endtoend.runs import ROOT, command, environment
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect, Forward
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served
from tests.troubles import Trouble

pytestmark = pytest.mark.test_all

RUN = "20261121-100000-test"


def a_state(cluster: Cluster, folder: Path) -> State:
    target = Target(kind=TargetKind.LIVE, server=cluster.server)
    state = State(load_catalogue(), Options(), RUN)
    state.opened = OpenTarget(target, cluster, Policy(), WorkerHandover(target=target, run_id=RUN))
    state.needs = Needs(reads={}, writes={right: ["X"] for right in ("create namespaces", "create pods")})
    state.report_folder = folder
    return state


def killed(cluster: Cluster, folder: Path, worker: str = "gw0") -> None:
    """A worker created a namespace and was ended by SIGKILL."""
    workspace = Workspace(cluster, RUN, worker, folder=folder)
    workspace.namespace()
    proof = workspace._opened
    assert proof is not None
    proof.stop_renewing()


@contextmanager
def swept(folder: Path, *troubles: Trouble, killing: bool = True, workers: bool = True, **more: Any) -> Iterator[tuple[Cluster, State]]:
    """A cluster after a run's last look, mostly with what a killed worker left. ``more`` is what the run's state says besides."""
    with served(folder, troubles=troubles) as (cluster, _):
        if killing:
            killed(cluster, folder)
        state = a_state(cluster, folder)
        for name, value in more.items():
            setattr(state, name, value)
        sweep(state, workers=workers)
        yield cluster, state


def test_what_a_killed_worker_left_is_found_and_removed(tmp_path: Path) -> None:
    with swept(tmp_path) as (cluster, state):
        assert (state.residue, state.complaints) == ([], [])
        assert owned.find(cluster) == []
        assert list(tmp_path.glob("created*")) == []


def test_the_run_s_folder_is_enough_where_the_class_was_refused(tmp_path: Path) -> None:
    refused = Trouble("create", owned.PRIORITY_CLASSES, 403, 1)
    with swept(tmp_path, refused, never_created=frozenset({owned.PRIORITY_CLASSES})) as (cluster, state):
        assert (state.residue, owned.find(cluster)) == ([], [])


def test_what_stays_is_residue_though_the_run_remembers_nothing(tmp_path: Path) -> None:
    with swept(tmp_path, Trouble("delete", "namespaces", 403, 99)) as (_, state):
        assert any("namespaces gpu-conformance" in line for line in state.residue)
        assert list(tmp_path.glob("created*")) != []  # they vouch for what stays


@pytest.mark.parametrize(("began", "unknown"), [(True, True), (False, False)])
def test_a_cluster_that_cannot_be_asked_at_the_end_leaves_residue_unknown(tmp_path: Path, began: bool, unknown: bool) -> None:
    lost = [Trouble("list", key, "drop", 99) for key in ("namespaces", owned.PRIORITY_CLASSES)]
    with swept(tmp_path, *lost, killing=False, workers=False, began=began) as (_, state):
        assert [f"cannot tell what is left of run {RUN}" in line for line in state.residue] == [True] * unknown


def test_a_worker_without_a_word_may_have_left_anything(tmp_path: Path) -> None:
    with swept(tmp_path, Trouble("list", "namespaces", "drop", 99), killing=False, planned=1) as (_, state):  # and no result
        assert ["cannot tell" in line for line in state.residue] == [True]


def test_a_run_that_reads_only_looks_for_nothing(tmp_path: Path) -> None:
    with swept(tmp_path, killing=False, workers=False, needs=Needs(reads={}, writes={})) as (cluster, _):
        assert cluster.requests().count == 0


NOT_THERE = effects.refused(404, "NotFound")


@pytest.mark.parametrize(
    ("key", "lies"),
    [
        ("namespaces", {"delete": NOT_THERE}),
        ("namespaces", {"delete": effects.not_done, "watch": effects.gone_before}),
        ("priorityclasses", {"delete": NOT_THERE}),
    ],
    ids=["404", "event", "404 of the proof"],
)
def test_what_is_reported_to_be_gone_and_is_listed_is_residue(tmp_path: Path, key: str, lies: dict[str, Effect]) -> None:
    faults = [Fault(name=verb, verb=verb, resource=key, effect=effect, times=ALWAYS) for verb, effect in lies.items()]
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", faults):
        killed(cluster, tmp_path)
        state = a_state(Cluster.from_kubeconfig(tmp_path / "proxied"), tmp_path)
        sweep(state, workers=True)
        left = [str(item) for item in owned.find(cluster)]
        assert left != []
        assert all(any(line.startswith(item) for line in state.residue) for item in left)


@pytest.mark.parametrize(
    "lie",
    [
        effects.refused(403, "Forbidden", arrives=True),
        effects.refused(404, "NotFound", arrives=True),
        effects.refused(422, "Invalid", arrives=True),
        effects.rewritten(effects.another_uid),
    ],
    ids=["403", "404", "422", "another UID"],
)
def test_what_was_created_whatever_was_answered_is_the_run_s(tmp_path: Path, lie: Effect) -> None:
    fault = Fault(name="lie", verb="create", resource="namespaces", effect=lie)
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault]):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        assert cluster.get("namespaces", workspace.namespace()).ok
        workspace.close()
        assert workspace.residue == []
        assert owned.find(cluster) == []


def test_a_creation_that_the_cluster_does_not_show_is_none(tmp_path: Path) -> None:
    fault = Fault(name="lie", verb="create", resource="namespaces", effect=effects.not_done)
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault]):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        with pytest.raises(Inconclusive, match="the cluster does not show it"):
            workspace.namespace()
        workspace.close()
        assert owned.find(cluster) == []


@pytest.mark.parametrize("listed", [True, False])
def test_a_class_whose_creation_got_half_an_answer_is_removed_or_reported(tmp_path: Path, listed: bool) -> None:
    """It is the first that a run creates: nothing else was, so nothing else tells of it."""
    half = Fault(name="half", verb="create", resource="priorityclasses", effect=effects.half, times=ALWAYS)
    lost = Fault(name="no list", verb="list", resource="*", effect=effects.refused(401, "Unauthorized"), times=0 if listed else ALWAYS)
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [half, lost]):
        state = a_state(Cluster.from_kubeconfig(tmp_path / "proxied"), tmp_path)
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        with pytest.raises(ApiTrouble):
            workspace.namespace()
        assert [item.key for item in owned.find(cluster)] == [owned.PRIORITY_CLASSES]
        workspace.close()
        state.began = workspace.began
        sweep(state, workers=False)
        assert ["cannot tell what is left" in line for line in state.residue] == [True] * (not listed)
        assert [item.key for item in owned.find(cluster)] == [owned.PRIORITY_CLASSES] * (not listed)


def test_a_run_that_was_refused_its_class_has_begun_nothing(tmp_path: Path) -> None:
    with served(tmp_path, troubles=[Trouble("create", owned.PRIORITY_CLASSES, 403, 99)]) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        with pytest.raises(ApiTrouble):
            workspace.namespace()
        assert not workspace.began


def test_a_run_that_is_ended_while_it_cleans_up_without_the_api_says_that_it_cannot_tell(tmp_path: Path) -> None:
    runs: list[subprocess.Popen[bytes]] = []
    lost = Fault(name="lost", verb="*", effect=effects.dropped(arrives=False), skip=ALWAYS, times=ALWAYS)

    async def last_words(request: web.Request, forward: Forward) -> web.StreamResponse:
        lost.skip = 0
        runs[0].send_signal(signal.SIGTERM)
        return await effects.silent(request, forward)

    (tmp_path / "cluster").mkdir()
    faults = [Fault(name="last words", verb="delete", resource="namespaces", effect=last_words), lost]
    with EmbeddedCluster.start("healthy", tmp_path / "cluster") as cluster, through(cluster.kubeconfig, tmp_path / "proxied", faults):
        wanted = command("--kubeconfig", str(tmp_path / "proxied"), "--only", "PSA-03", "--report-dir", str(tmp_path / "report"))
        runs.append(subprocess.Popen(wanted, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        output, _ = runs[0].communicate(timeout=120)
        assert owned.find(Cluster.from_kubeconfig(cluster.kubeconfig)) != []
    assert runs[0].returncode == 11, output.decode()
    report = msgspec.json.decode((tmp_path / "report" / "report.json").read_bytes(), type=Report)
    assert ["cannot tell what is left" in line for line in report.residue] == [True]
