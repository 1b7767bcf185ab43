"""A process is known to have ended only when it was of this boot of this machine, of this PID namespace, and is there no more."""

import os
import subprocess
import sys

import msgspec
import pytest

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
