"""A process is known to have ended only when it was of this boot, of this PID namespace, and is there no more; and runs that fork."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from conformance.matrix.detection import Finished, run_pytest
from fixtures.system.process import Process
from tests.tables import each_row


def test_one_that_has_ended_is_known_also_before_its_parent_has_asked() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        seen = msgspec.structs.replace(Process.me(), pid=child.pid, started="")
        assert not seen.ended
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
        assert seen.ended
    finally:
        child.kill()
        child.wait()
    assert seen.ended


def test_another_process_under_the_same_pid_does_not_keep_it_alive() -> None:
    assert msgspec.structs.replace(Process.me(), started="1").ended


@each_row
def test_nothing_is_known_of_another_machine_s_process(other: dict[str, str]) -> None:
    """The same host name, the same PID namespace's number, a PID that is free here: as on a clone, or in another pod."""
    here = msgspec.structs.replace(Process.me(), pid=4_000_000, started="5")
    assert here.ended
    assert not msgspec.structs.replace(here, **other).ended


@pytest.mark.parametrize(
    "text", ["", "a/b/c/d/e", "h/b/s/1", "h/b/s/1/2/3", "h/b/s/-1/2", "h/b/s/0/2", "h/b/s/²/2", "h/\x1b/s/1/2", "h/b/s/99999999999/1"]
)
def test_what_no_run_wrote_is_no_process(text: str) -> None:
    assert Process.parse(text) is None


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
