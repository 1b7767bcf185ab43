"""What a run waits for, while it waits: on a terminal some lines that are renewed each second, in a log a line now and then.

``--settle`` lists again instead of watching: the account of a read-only run may list and nothing else.
"""

import io
import os
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TextIO

import pytest

from conformance.common_findings import still_moving
from fixtures.cluster.client import Cluster
from fixtures.cluster.waits import Wait
from fixtures.model.cluster import Scope
from fixtures.model.platform.namespaces import OPERATORS
from fixtures.policy.model import Policy
from fixtures.snapshot.collect import collect
from fixtures.text.sentences import plain
from reports.terminal import actions

LIVE_SECONDS = 1.0
LOG_FIRST, LOG_AGAIN = 30.0, 60.0
"""Seconds without a result after which a log is told, and told again: many CI systems end a job that is silent."""

_ERASE = "\r\x1b[J"
_UP = "\x1b[A"
MAX_LINES = 8
"""Lines of a terminal that the wait takes at most: what has scrolled out of it cannot be erased."""
LEAST = 3
"""Columns that textwrap needs for an indented line that is cut."""

KEYS = ("nodes", "pods", "apps/daemonsets", "resource.k8s.io/resourceslices", *OPERATORS)
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 15.0
"""Seconds between two reads; each pause is half as long again as the one before."""

MAX_NAMED = 3


def sentence(doing: str, waits: list[Wait], since: float, now: float, clock: datetime) -> str:
    """What is awaited, for how long already, and until when at the latest. Seconds are monotonic, ``clock`` is the time of ``now``."""
    if not waits:
        return f"{doing}: {now - since:.0f} s so far"
    longest = waits[0]
    end = clock + timedelta(seconds=max(longest.until - now, 0))
    more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    return f"{doing}: waiting {now - longest.began:.0f} s so far, until {end:%H:%M:%S} at the latest, for {longest.what}{more}"


class Waiting:
    """Tells what goes on, from a thread of its own, in a stream of its own: pytest may be capturing the other one."""

    def __init__(self, stream: TextIO, waits: Callable[[], list[Wait]], *, live: bool, width: int) -> None:
        self._stream = stream
        self._waits = waits
        self._live = live
        self._width = width
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = 0  # lines
        self._stated = 0.0  # when a log was last told
        self._doing, self._since = "", time.monotonic()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)

    def start(self) -> None:
        """Begin to look at the clock."""
        self._thread.start()

    def begin(self, doing: str) -> None:
        """Something else is done from now on: a requirement by its id, or a sentence. Nothing is said of an empty one."""
        with self._lock:
            self._doing, self._since = doing, time.monotonic()
            self._stated = 0.0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Others print inside of this; the lines that were drawn are gone."""
        with self._lock:
            self._erase()
            yield

    def end(self) -> None:
        """Say nothing any more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LIVE_SECONDS * 5)
        with self._lock:
            self._erase()
            self._stream.close()

    def tell(self, now: float, clock: datetime) -> None:
        """Draw the lines, or tell the log if it was silent for long enough."""
        with self._lock:
            waits = self._waits()
            if not self._doing or now - self._since < LIVE_SECONDS:
                return
            words = plain(sentence(self._doing, waits, self._since, now, clock))
            if self._live:
                self._erase()
                lines = textwrap.wrap(words, max(self._width - 1, LEAST), subsequent_indent="  ", max_lines=MAX_LINES, placeholder=" …")
                self._stream.write(_ERASE + "\n".join(lines))
                self._drawn = len(lines)
            elif now - (self._stated or self._since) >= (LOG_AGAIN if self._stated else LOG_FIRST):
                self._stream.write(actions.harmless(words) + "\n")
                self._stated = now
            self._stream.flush()

    def _run(self) -> None:
        while not self._ended.wait(LIVE_SECONDS):
            self.tell(time.monotonic(), datetime.now().astimezone())

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(_UP * (self._drawn - 1) + _ERASE)
            self._stream.flush()
            self._drawn = 0


WAITING = pytest.StashKey[Waiting]()


def follow(config: pytest.Config, waits: Callable[[], list[Wait]]) -> None:
    """Begin to tell what the run waits for, where there is a terminal or a log to tell. Ends with the configuration."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.option.verbose < 0 or config.option.usepdb:
        return
    try:
        stream = os.fdopen(os.dup(reporter._tw._file.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, io.UnsupportedOperation, AttributeError):
        return  # what is printed goes to memory: nobody watches
    live = bool(reporter.isatty) and os.environ.get("TERM", "") != "dumb" and not actions.is_on(os.environ)
    waiting = Waiting(stream, waits, live=live, width=reporter._tw.fullwidth)
    config.stash[WAITING] = waiting
    config.add_cleanup(waiting.end)
    waiting.start()


@contextmanager
def quiet(config: pytest.Config) -> Iterator[None]:
    """Print inside of this what the drawn line must not disturb."""
    waiting = config.stash.get(WAITING, None)
    if waiting is None:
        yield
        return
    with waiting.quiet():
        yield


def begin(config: pytest.Config, doing: str) -> None:
    """Say what is done from now on; nothing where nobody watches."""
    if (waiting := config.stash.get(WAITING, None)) is not None:
        waiting.begin(doing)


def settle(cluster: Cluster, policy: Policy, version: str, seconds: float, say: Callable[[str], None]) -> bool:
    """Wait for at most ``seconds``. Returns whether the cluster is at rest; says what is awaited, and for how long still."""
    begun, pause = time.monotonic(), FIRST_PAUSE
    waited = threading.Event()  # never set: an interrupt ends the wait at once
    while True:
        doing = still_moving(Scope(collect(cluster, KEYS, version=version), policy))
        left = seconds - (time.monotonic() - begun)
        if not doing:
            say(f"settled: nothing is under way after {time.monotonic() - begun:.0f} s")
            return True
        named = "; ".join(doing[:MAX_NAMED]) + (f" (and {len(doing) - MAX_NAMED} more)" if len(doing) > MAX_NAMED else "")
        if left <= 0:
            say(f"not settled after {seconds:.0f} s, judged as it is: {named}")
            return False
        end = datetime.now().astimezone() + timedelta(seconds=left)
        say(f"settling, up to {left:.0f} s more, until {end:%H:%M:%S}: {named}")
        waited.wait(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
