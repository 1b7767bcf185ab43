"""Ends a child process for certain: SIGUSR1, a grace for its rollbacks, SIGKILL to its whole group.

Never SIGTERM, which chaostoolkit takes for a failed activity and goes on after, and never SIGUSR2, which skips the rollbacks
(docs/facts/chaostoolkit.md#signals-and-rollbacks).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time

from chaos.model.engine_record import Ending, Sent

KILL_SECONDS = 10.0
"""How long a killed process may take to be gone; then it hangs in the kernel, and that is said."""


class Stop:
    """A request to end the experiment, from a signal handler or any thread. The first reason is kept. Closed by its owner."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.RLock()  # a signal handler may interrupt the main thread inside the lock
        self.reason = ""
        self.interrupted = False

    def request(self, reason: str, *, interrupted: bool = False) -> None:
        """Ask for the end. ``interrupted``: by a person or the system, so that nothing else is to start either."""
        with self._lock:
            self.interrupted |= interrupted
            if not self.reason:
                self.reason = reason
                with contextlib.suppress(OSError):
                    os.write(self._write, b"!")

    def fileno(self) -> int:
        """Readable once the end was asked for."""
        return self._read

    def wait(self, seconds: float) -> bool:
        """Whether the end is asked for within that time."""
        return bool(select.select([self._read], [], [], max(seconds, 0.0))[0])

    def close(self) -> None:
        """Give the pipe back."""
        for descriptor in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def supervise(process: subprocess.Popen[bytes], stop: Stop, *, seconds: float, grace: float) -> Ending:
    """Wait for the end of a child that leads its own session, and bring it about after ``seconds`` or when asked to stop."""
    ending = Ending()
    descriptor = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([descriptor, stop.fileno()], [], [], max(seconds, 0.0))
        if descriptor not in ready:
            ending.deadline_passed = not ready
            ending.stopped = stop.reason or f"deadline of {seconds:g} s"
            _send(process, signal.SIGUSR1, ending)
            select.select([descriptor], [], [], grace)
    finally:
        os.close(descriptor)
        end_process(process, ending)
    return ending


def end_process(process: subprocess.Popen[bytes], ending: Ending) -> None:
    """Kill whatever is left of the child and its group. Does not raise: what comes next is undoing."""
    if process.poll() is None:
        ending.stopped = ending.stopped or "the runner was interrupted"
        _send(process, signal.SIGKILL, ending)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # grandchildren, which outlive an orderly end too
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)
    ending.code = process.returncode


def _send(process: subprocess.Popen[bytes], number: signal.Signals, ending: Ending) -> None:
    ending.sent = [*ending.sent, Sent(signal=number.name, at=time.time(), why=ending.stopped)]
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
