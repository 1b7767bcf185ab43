"""What a run waits for is said while it waits, where somebody watches, and disturbs no other line."""

import contextlib
import io
import os
import pty
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.plugin.waiting import LOG_AGAIN, LOG_FIRST, Waiting, sentence
from fixtures.cluster.waits import Wait, Waits
from tests.endtoend.runs import command, environment

CLOCK = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)


def a_wait(what: str = "pods in probe", *, began: float = 100, until: float = 190) -> Wait:
    return Wait(what=what, began=began, until=until)


def test_a_wait_says_what_for_how_long_and_until_when() -> None:
    assert sentence("FENCE-06", [a_wait()], 90, 130, CLOCK) == (
        "FENCE-06: waiting 30 s so far, until 12:01:00 at the latest, for pods in probe"
    )
    assert sentence("FENCE-06", [a_wait(), a_wait("pods in other")], 90, 130, CLOCK).endswith("for pods in probe (and 1 more)")
    assert sentence("reading the cluster", [], 90, 130, CLOCK) == "reading the cluster: 40 s so far"
    assert "until 12:00:00" in sentence("FENCE-06", [a_wait(until=110)], 90, 130, CLOCK)  # it is late, and does not end in the past


def test_waits_are_known_while_they_last_and_longest_first() -> None:
    waits = Waits()
    with waits.of("first", 10):
        with contextlib.suppress(RuntimeError), waits.of("second", 20):
            assert [wait.what for wait in waits.now()] == ["first", "second"]
            raise RuntimeError
        assert [wait.what for wait in waits.now()] == ["first"]
    assert waits.now() == []


class Followed:
    """A run that is followed, with a clock of the test's."""

    def __init__(self, *, live: bool, what: str = "pods in probe", width: int = 60) -> None:
        self.stream = io.StringIO()
        self.began = time.monotonic()
        self.waiting = Waiting(self.stream, lambda: [a_wait(what, began=self.began, until=self.began + 600)], live=live, width=width)
        self.waiting.begin("FENCE-06")

    def after(self, seconds: float) -> str:
        """What has been printed when so much time has passed."""
        self.waiting.tell(self.began + seconds + 0.5, CLOCK)
        return self.stream.getvalue()


def test_a_log_is_reported_after_a_while_and_then_seldom() -> None:
    run = Followed(live=False)
    assert run.after(LOG_FIRST - 5) == ""
    assert run.after(LOG_FIRST + 1).count("\n") == 1
    assert run.after(LOG_FIRST + LOG_AGAIN - 5).count("\n") == 1
    assert run.after(LOG_FIRST + LOG_AGAIN + 5).count("\n") == 2
    assert "\x1b" not in run.stream.getvalue()


def test_a_result_ends_what_was_reported_of_the_wait() -> None:
    run = Followed(live=False)
    run.after(LOG_FIRST + 1)
    run.waiting.begin("")
    assert run.after(LOG_FIRST + 2 * LOG_AGAIN).count("\n") == 1


def test_a_terminal_shows_all_of_it_and_nothing_when_others_print() -> None:
    """Two lines of 59 columns here: the cursor goes up one before they are erased."""
    run = Followed(live=True, what="pods in probe")
    shown = run.after(3)
    assert shown.startswith("\r\x1b[JFENCE-06: waiting ")
    lines = shown.removeprefix("\r\x1b[J").split("\n")
    assert [len(line) <= 59 for line in lines] == [True, True]
    assert lines[-1].endswith("for pods in probe")
    with run.waiting.quiet():
        assert run.stream.getvalue().endswith("\x1b[A\r\x1b[J")
        before = run.stream.getvalue()
    with run.waiting.quiet():
        assert run.stream.getvalue() == before


def test_the_narrowest_terminal_ends_no_thread() -> None:
    run = Followed(live=True, width=1)
    assert run.after(3).startswith("\r\x1b[J")


@pytest.mark.parametrize("live", [True, False])
def test_what_is_awaited_cannot_move_the_cursor(live: bool) -> None:
    shown = Followed(live=live, what="\x1b[2J\r\n::error::x").after(LOG_FIRST + 1)
    assert "\x1b[2J" not in shown
    assert shown.removeprefix("\r\x1b[J").replace("\n", "").isprintable()


@pytest.mark.test_all
def test_a_run_on_a_terminal_says_what_it_waits_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    arguments = command("--simulate", "healthy:podStart=4", "--only", "FENCE-06", "--report-dir", str(tmp_path / "report"))
    with subprocess.Popen(arguments, cwd=tmp_path, env={**environment(), "TERM": "xterm"}, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown = ""
        try:
            while piece := os.read(ours, 65536):
                shown += piece.decode(errors="replace")
        except OSError:
            pass  # a terminal whose program has ended
        assert run.wait(120) == 0, shown
    os.close(ours)
    assert "\r\x1b[JFENCE-06: waiting" in shown
    assert "at the latest, for pods in" in " ".join(shown.split())
    assert "PASSED WITHIN THE SELECTION" in " ".join(shown.split())[-600:]
