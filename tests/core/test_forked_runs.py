"""Runs in forked processes are as those of an interpreter of their own."""

import multiprocessing
import os
from pathlib import Path

import pytest

from conformance.matrix.detection import Finished, run_pytest

TEST = """
import atexit, os, pathlib, sys, time

def test_it():
    atexit.register(pathlib.Path("left").write_text, "at exit")
    print("seen", os.environ.get("COLOUR"), os.environ.get("LEAKED"), sys.dont_write_bytecode, os.getpid())
    {more}
"""


def run(folder: Path, more: str = "", seconds: float = 60, **environment: str) -> Finished:
    (folder / "test_one.py").write_text(TEST.format(more=more))
    (folder / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "test_one.py"]
    return run_pytest(arguments, cwd=folder, environment={**environment, "HOME": str(folder)}, log=folder / "log", seconds=seconds)


def test_it_has_the_environment_it_was_given_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    done = run(tmp_path, COLOUR="green", PYTHONDONTWRITEBYTECODE="1")
    assert done.code == 0, done.output
    assert "seen green None True" in done.output
    assert str(os.getpid()) not in done.output
    assert not (tmp_path / "__pycache__").exists()


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(TimeoutError, match="no end within 1 s"):
        run(tmp_path, "time.sleep(600)", seconds=1)
    assert set(multiprocessing.active_children()) == before


def test_one_that_dies_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path, "os.kill(os.getpid(), 9)")
    assert done.code == -9
