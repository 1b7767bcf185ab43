"""Ending a child: in order when it can, for certain in any case."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from chaos.engine.supervision import Stop, end_process, supervise
from chaos.model.engine_record import Ending

READY = "import sys; print('ready', flush=True); "
ORDERLY = "import signal, sys, threading; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7)); " + READY + "threading.Event().wait(60)"


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.close()


def child(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_child_beyond_its_deadline_is_asked_first(stop: Stop) -> None:
    ending = supervise(child(ORDERLY), stop, seconds=0.1, grace=30)
    assert (ending.code, [sent.signal for sent in ending.sent], ending.deadline_passed) == (7, ["SIGUSR1"], True)


def test_a_request_to_stop_ends_the_wait_and_keeps_its_first_reason(stop: Stop) -> None:
    process = child(ORDERLY)

    def ask_twice() -> None:
        stop.request("halted by somebody")
        stop.request("SIGINT", interrupted=True)

    asking = threading.Timer(0.1, ask_twice)
    asking.start()
    ending = supervise(process, stop, seconds=60, grace=30)
    asking.join(30)
    assert (ending.code, ending.stopped, ending.deadline_passed) == (7, "halted by somebody", False)
    assert stop.interrupted


def test_grandchildren_go_with_the_group(stop: Stop) -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    supervise(process, stop, seconds=30, grace=1)
    descriptor = None
    try:
        descriptor = os.pidfd_open(grandchild)
    except ProcessLookupError:
        return
    import select

    assert select.select([descriptor], [], [], 10)[0], "the grandchild is still there"
    os.close(descriptor)


def test_ending_what_has_ended_changes_nothing(stop: Stop) -> None:
    process = child(READY)
    process.wait(30)
    ending = Ending()
    end_process(process, ending)
    assert ending.undisturbed
