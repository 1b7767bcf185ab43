"""Files of a run name nodes, tenants, images and what was wrong with them: they are their user's alone, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli import main
from fixtures.localcluster.control_plane.processes import Process
from tests.endtoend.runs import run_suite
from tests.reports.sample_report import sample_report

pytestmark = pytest.mark.test_all


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The most careless umask that there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def too_open(folder: Path) -> dict[str, str]:
    """What anybody else could look into, with its mode."""
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*")) if not path.is_symlink()}
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_whole_report_folder_is_its_user_s_alone(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy", "--only", "INV,REQ-01", *workers)
    assert done.report is not None, done.output
    assert (tmp_path / "report" / "allure-results").is_dir()
    assert too_open(tmp_path / "report") == {}


def test_a_folder_that_was_there_gets_no_open_files(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.mkdir()
    (report / "report.json").write_text("{}")
    assert run_suite(tmp_path, "--simulate", "healthy", "--only", "INV-01").report is not None
    assert set(too_open(report)) <= {"."}  # the folder is whoever's made it


def test_views_that_are_written_again_are_private(tmp_path: Path) -> None:
    from reports.folder import write_all

    write_all(sample_report(), tmp_path / "out" / "one")
    assert too_open(tmp_path / "out") == {}
    assert main.main(["report", str(tmp_path / "out" / "one")]) == 0
    assert too_open(tmp_path / "out") == {}


def test_allure_s_folder_of_somebody_else_leads_nowhere(tmp_path: Path) -> None:
    from reports.formats import allure

    folder, mine = tmp_path / "results", tmp_path / "profile"
    folder.mkdir(mode=0o777)
    mine.write_text("mine")
    (folder / "categories.json").write_text("{}")
    (folder / "environment.properties").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic links"):
        allure.write(sample_report(), folder)
    assert mine.read_text() == "mine"
    (folder / "environment.properties").unlink()
    allure.write(sample_report(), folder)
    assert set(too_open(folder)) == {"."}


def test_programs_of_a_local_cluster_write_for_their_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir(mode=0o700)
    process = Process.start("writer", ["/bin/sh", "-c", "echo said; mkdir data; echo secret > data/key"], folder, mark="m")
    process._popen.wait(60)
    assert (folder / "data" / "key").is_file()
    assert too_open(folder) == {}
