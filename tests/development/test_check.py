import subprocess
import sys
from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from tests.development.check import ROOT, Job, changed_files, check, jobs, main
from tests.tables import each_row


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("same.py", "edited.py", "committed.py", "deleted.py"):
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_changed_are_files_that_differ_from_where_the_branch_left_main(checkout: Path) -> None:
    assert changed_files(checkout) == []
    git(checkout, "checkout", "-qb", "work")
    (checkout / "committed.py").write_text("1\n")
    git(checkout, "commit", "-qam", "second")
    (checkout / "edited.py").write_text("1\n")
    (checkout / "deleted.py").unlink()
    for name in ("new.py", "ignored.py", "note.md"):
        (checkout / name).write_text("")
    assert changed_files(checkout) == ["committed.py", "deleted.py", "edited.py", "new.py", "note.md"]
    git(checkout, "branch", "-D", "main")
    assert changed_files(checkout) == ["deleted.py", "edited.py", "new.py", "note.md"]


@pytest.mark.parametrize("id_", [area.requirements[0].id for area in load_catalogue().areas])
def test_every_area_has_a_folder_of_unit_tests(id_: str) -> None:
    _, unit, _, matrix = jobs(id_, [])
    assert (ROOT / unit.commands[0][-1]).is_dir()
    assert matrix.commands[0][-2:] == ["--requirement", id_]


def say(words: str, code: int = 0) -> list[str]:
    return [sys.executable, "-c", f"print({words!r}); raise SystemExit({code})"]


def test_a_job_that_fails_shows_what_it_reported_and_one_that_passes_its_last_line(tmp_path: Path) -> None:
    stated: list[str] = []
    assert not check([Job("good", [say("first"), say("last")]), Job("bad", [say("why", 3), say("never")])], stated.append, tmp_path)
    (good,) = [line for line in stated if line.startswith("passed  good")]
    (bad,) = [line for line in stated if line.startswith("FAILED  bad")]
    assert (good.split()[-1], bad.split()[-1]) == ("last", "why")
    assert set(stated) - {good, bad} == {"why\n"}
    assert check([Job("good", [say("last")])], stated.append, tmp_path)


@each_row
def test_an_id_that_is_not_known_is_one_line(arguments: list[str], reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 4
    err = capsys.readouterr().err
    assert reported in err
    assert len(err.splitlines()) == 1
