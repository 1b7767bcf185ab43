"""A folder that may not be read is not an empty one: what a run left is not "nothing", and a snapshot is not judged as if it were whole."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.surface.cli import main
from conformance.cli.main import main as any_command
from conformance.plugin.baseline import read_baseline
from conformance.plugin.options import Options
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.ownership.read_proofs import read_folder
from fixtures.snapshot.files import SnapshotError, load_files
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, PRODUCT, RUN, fetch, ledger, strip, world
from tests.core.test_snapshot_files import NODE, POD, write
from tests.tables import each_row

LOST_AND_FOUND = "lost+found"

Shut = Callable[[Path], None]


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> Shut:
    """Lets nobody look into a folder, root neither."""
    closed: set[str] = set()
    scandir = os.scandir

    def guarded(path: Any = ".") -> Any:
        if os.fspath(path) in closed:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", guarded)
    return lambda folder: closed.add(str(folder))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with one open change, of which nothing but a file in ``out`` tells any more."""
    with world(tmp_path) as (found, _):
        book = ledger(tmp_path / "out", experiment="A9")
        strip(found, book)
        yield found


def recover(folder: Path) -> int:
    kubeconfig = folder.parent / "kubeconfig"
    return main(["chaos", "recover", "--kubeconfig", str(kubeconfig), "--folder", str(folder), "--chaos-cluster", KUBE_SYSTEM, "--yes"])


@pytest.mark.parametrize("below", ["", RUN, f"{RUN}/A9"], ids=["the folder", "a run's", "an experiment's"])
def test_recover_says_which_folder_it_could_not_read(
    cluster: Cluster, tmp_path: Path, shut: Shut, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    shut(tmp_path / "out" / below)
    assert recover(tmp_path / "out") == 11
    assert capsys.readouterr().out.count(f"NOT put back: folder {tmp_path / 'out' / below}: Permission denied\n") == 1
    assert PRODUCT not in fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]


def test_what_a_file_system_keeps_for_itself_holds_nobody_up(cluster: Cluster, tmp_path: Path, shut: Shut) -> None:
    (tmp_path / "out" / LOST_AND_FOUND).mkdir()
    shut(tmp_path / "out" / LOST_AND_FOUND)
    assert recover(tmp_path / "out") == 0
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"


def test_a_record_of_runs_says_which_of_them_it_could_not_read(tmp_path: Path, shut: Shut, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r1").mkdir()
    shut(tmp_path / "r1")
    assert main(["chaos", "record", str(tmp_path)]) == 5
    assert f"folder {tmp_path / 'r1'}: Permission denied; it is left out" in capsys.readouterr().err


def test_a_proof_that_may_be_in_a_folder_is_reported(tmp_path: Path, shut: Shut) -> None:
    (tmp_path / "run").mkdir()
    shut(tmp_path / "run")
    assert read_folder(tmp_path) == ({}, [f"folder {tmp_path / 'run'}: Permission denied"])


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot whose pods are in a folder of their namespace."""
    (tmp_path / "snapshot" / "team").mkdir(parents=True)
    write(tmp_path / "snapshot" / "nodes.json", NODE)
    write(tmp_path / "snapshot" / "team" / "pods.json", POD)
    return tmp_path / "snapshot"


def test_a_part_of_a_snapshot_is_not_the_snapshot(snapshot: Path, shut: Shut) -> None:
    shut(snapshot / "team")
    with pytest.raises(SnapshotError, match="team: Permission denied"):
        load_files(snapshot)


def test_a_file_of_a_snapshot_that_may_not_be_read_is_named(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr("fixtures.text.users_files.read", refused)
    with pytest.raises(SnapshotError, match=r"nodes\.json: Permission denied"):
        load_files(snapshot)


def test_a_snapshot_on_a_volume_of_its_own_is_read(snapshot: Path, shut: Shut) -> None:
    (snapshot / LOST_AND_FOUND).mkdir()
    shut(snapshot / LOST_AND_FOUND)
    assert [pod.name for pod in load_files(snapshot).pods] == ["p"]


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path below a folder that nobody may enter, as below another user's home."""
    home = tmp_path / "home"
    stat = os.stat

    def guarded(path: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str | Path) and home in Path(path).parents:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return stat(path, **options)

    monkeypatch.setattr("os.stat", guarded)
    return home / "out"


@each_row
def test_a_path_that_may_not_be_looked_at_is_a_wrong_argument(
    hidden: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback would end the gate with 1, which says that something is worse."""
    assert any_command([word.format(hidden) for word in words]) == 4
    assert str(hidden) in capsys.readouterr().err


def test_a_run_does_not_end_in_a_traceback_by_such_a_path(hidden: Path) -> None:
    with pytest.raises(ClusterUnreachable, match="cannot be used"):
        Cluster.from_kubeconfig(hidden)
    with pytest.raises(SnapshotError, match="Permission denied"):
        load_files(hidden)
    with pytest.raises(pytest.UsageError, match="--baseline"):
        read_baseline(Options(baseline=str(hidden)))


def test_a_report_in_a_folder_that_may_not_be_entered_is_a_wrong_argument(hidden: Path) -> None:
    hidden.parent.mkdir()
    assert any_command(["gate", str(hidden.parent), str(hidden.parent)]) == 4
