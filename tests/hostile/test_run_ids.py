"""An id that a file or a command line names is believed of nothing: it may be another run's, no run's, or how another id begins."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.ledger.file import Ledger
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.ledger_lines import State
from chaos.surface.cli import main
from conformance.cli import cleanup
from fixtures.cluster.client import Cluster
from fixtures.ownership.leftovers import find_leftovers, remove
from fixtures.ownership.read_proofs import read_proofs
from fixtures.probes.workspace import Workspace
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, fetch, ledger, plan, world
from tests.definitions import definitions
from tests.served import served

LIVING = "20261121-130000-beef"
PRODUCT = "nvidia.com/gpu.product"
CONSENT = ("--chaos-cluster", KUBE_SYSTEM, "--yes")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def unpacked(folder: Path, cluster: Cluster, run_id: str, *, closed: bool = True) -> Path:
    """A report as anybody may write it, with the ledger of a run of that id."""
    book = Ledger.create(folder / "ledger.jsonl", plan(experiment="A9", run_id=run_id).origin, None, None)
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    if closed:
        book.mark(1, State.VERIFIED)
    return folder


def recover(folder: Path, *more: str) -> int:
    return main(["chaos", "recover", "--kubeconfig", str(folder / "kubeconfig"), *CONSENT, "--seconds", "8", *more])


def test_recover_leaves_a_run_that_judges_alone_whatever_a_ledger_is_called(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = Workspace(cluster, LIVING)
    name = workspace.namespace()
    assert recover(tmp_path, "--run", LIVING) == 0
    code = recover(tmp_path, "--folder", str(unpacked(tmp_path / "unpacked", cluster, LIVING)))
    assert (code, LIVING in capsys.readouterr().out) == (0, False)
    assert cluster.get("namespaces", name).ok
    workspace.clear()
    workspace.close()


def test_what_runs_share_is_no_run(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = ledger(tmp_path / "true", cluster, experiment="A9")
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok
    assert recover(tmp_path, "--run", namespaces.SHARING) == 4
    assert recover(tmp_path, "--accept", f"{namespaces.SHARING}/A9/1") == 4
    recover(tmp_path, "--folder", str(unpacked(tmp_path / "unpacked", cluster, namespaces.SHARING)))
    told = capsys.readouterr()
    assert f"'{namespaces.SHARING}' is not the id of a run" in told.out
    assert "1 changes of 1 runs put back" in told.out
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"
    assert not namespaces.has_anchor(cluster)
    assert not cluster.get("namespaces", namespaces.SHARED).ok


@pytest.mark.parametrize("run_id", ["../../../nodes/gpu-1", "x,y", "\x1b[31mred", "", "chaos-1"])
def test_entries_of_no_run_are_not_carried_out(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    folder = unpacked(tmp_path / "unpacked", cluster, run_id, closed=False)
    before = fetch(cluster, "nodes", "gpu-1")
    assert recover(tmp_path, "--folder", str(folder)) == 11
    told = capsys.readouterr().out
    assert "is not the id of a run" in told
    assert "\x1b" not in told
    assert fetch(cluster, "nodes", "gpu-1") == before


@pytest.mark.parametrize("narrowed", [True, False])
@pytest.mark.parametrize("written", [True, False], ids=["its class is there", "a file knows it"])
def test_an_id_that_a_living_run_s_begins_with_reaches_nothing_of_it(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], narrowed: bool, written: bool
) -> None:
    own = tmp_path / "own"
    own.mkdir(0o700)
    workspace = Workspace(cluster, LIVING, folder=own)
    name = workspace.namespace()
    if not written:
        assert cluster.delete("scheduling.k8s.io/priorityclasses", f"gpu-conformance-{LIVING}").ok
    short = LIVING.partition("-")[0]
    uid = fetch(cluster, "namespaces", name)["metadata"]["uid"]
    created = [{"key": "namespaces", "name": name, "token": "", "uid": uid}]
    record = {"run": short, "process": "", "since": "", "renewed": "2020-01-01T00:00:00+00:00", "created": created}
    report = tmp_path / "unpacked"
    report.mkdir(0o700)
    (report / "created.json").write_bytes(msgspec.json.encode(record))
    (report / "created.json").chmod(0o600)
    arguments = ["--folder", str(report), *(["--run", short] if narrowed else [])]
    cleanup.main(["cleanup", "--kubeconfig", str(tmp_path / "kubeconfig"), *CONSENT, *arguments])
    assert cluster.get("namespaces", name).ok, capsys.readouterr().out


def test_groups_in_a_namespace_that_took_the_name_of_a_run_s_stay(tmp_path: Path) -> None:
    """Between the look and the deletion the run's own may have gone, and somebody may have made another."""
    groups = "kueue.x-k8s.io/workloads"
    with served(tmp_path, definitions("kueue")) as (cluster, _):
        name = Workspace(cluster, LIVING).namespace()
        views = read_proofs(cluster, LIVING)
        found = find_leftovers(cluster, views, LIVING)
        assert cluster.delete("namespaces", name).ok
        assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).ok
        template = {"spec": {"containers": [{"name": "main", "image": "registry.example/work:1"}]}}
        spec = {"queueName": "theirs", "podSets": [{"name": "main", "count": 1, "template": template}]}
        group = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "theirs"}, "spec": spec}
        assert cluster.create(groups, group, namespace=name).ok
        remove(cluster, found, views)
        assert cluster.get("namespaces", name).ok
        assert cluster.get(groups, "theirs", name).ok
