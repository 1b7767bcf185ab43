"""How fast the experiment's own workers start and go on, and what they list: from their logs, and by this machine's clock.

A log without what it had held before was not read: while a container runtime restarts, a kubelet answers with an error in its place.

Facts: docs/facts/kubelet.md#logs.
"""

import re
import time

from chaos.model.conditions import JsonValue
from chaos.observe.signals.pods import WORKER, canaries
from chaos.observe.view import NoData, Reading, Signal, View
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_state import is_being_prepared
from fixtures.model.objects import is_going, is_live, is_ready, name_of, namespace_of, node_of, phase_of, uid_of

NO_LISTING = "devices cannot be listed"
"""What a worker's log says when its listing has failed."""

_BEAT = re.compile(r"^beat (\d{1,12})\s*$", re.MULTILINE)
_UUID = re.compile(r"\(UUID: ([A-Za-z0-9-]{1,80})\)")
_LINES = 40  # a worker lists its devices every 20 beats


def beat_in(text: str) -> int | None:
    """The last heartbeat of a worker's log; None without one."""
    found = _BEAT.findall(text)
    return int(found[-1]) if found else None


def uuids_in(text: str) -> list[str]:
    """UUIDs of an ``nvidia-smi -L`` listing, each once, sorted."""
    return sorted(set(_UUID.findall(text)))


def seen(reading: Reading) -> JsonValue:
    """``{worker: [UUID…]}``: devices that the workers list from inside; without a worker whose last listing failed, or is to come.

    Raises NoData for a log that held a listing before and holds none.
    """
    listing: set[str] = reading.memory.setdefault("canaries.listing", set())
    found = {}
    for pod in _beating(reading):
        before, failed, after = _log(reading, pod).rpartition(NO_LISTING)
        if uuids := uuids_in(after):
            listing.add(uid_of(pod))
            found[name_of(pod)] = uuids
        elif not failed and uid_of(pod) in listing:
            raise NoData(f"the log of {name_of(pod)} holds no listing: {_shown(before + after)}")
    return dict(sorted(found.items()))


def stalled(reading: Reading) -> JsonValue:
    """Seconds since the slowest worker's counter last moved, seen from here."""
    now = time.monotonic()
    return round(max((now - since for _, since in _moved(reading, now)), default=0.0), 2)


def pause(reading: Reading) -> JsonValue:
    """Seconds of the longest time so far between two beats of a worker."""
    now = time.monotonic()
    times = [now - since for beat, since in _moved(reading, now) if beat > 0]
    longest = reading.memory["canaries.pause"] = max([reading.memory.get("canaries.pause", 0.0), *times])
    return round(longest, 2)


def start(reading: Reading) -> JsonValue:
    """Seconds that the slowest of the experiment's pods so far took from its binding until it was Ready, seen from here.

    One that is still being prepared counts with the time that it has taken.
    """
    bound: dict[str, float] = reading.memory.setdefault("canaries.bound", {})
    taken: dict[str, float] = reading.memory.setdefault("canaries.start", {})
    now, longest = time.monotonic(), 0.0
    for pod in canaries(reading):
        since = bound.setdefault(uid_of(pod), now) if node_of(pod) else now
        if is_ready(pod) and is_live(pod):
            taken.setdefault(uid_of(pod), now - since)
        elif is_being_prepared(pod):
            longest = max(longest, now - since)
    return round(max([longest, *taken.values()]), 2)


def _beating(reading: Reading) -> list[Json]:
    return [pod for pod in canaries(reading, WORKER) if phase_of(pod) == "Running" and not is_going(pod)]


def _beats(reading: Reading) -> dict[str, int]:
    """Counters by UID of the workers that run; -1 before the first beat. Raises NoData when a log cannot be read."""
    known: dict[str, int] = reading.memory.setdefault("canaries.beats", {})
    found = {}
    for pod in _beating(reading):
        beat = beat_in(log := _log(reading, pod))
        if beat is None and known.get(uid_of(pod), -1) > 0:
            raise NoData(f"the log of {name_of(pod)} holds no beat: {_shown(log)}")
        found[uid_of(pod)] = known[uid_of(pod)] = -1 if beat is None else beat
    return found


def _moved(reading: Reading, now: float) -> list[tuple[int, float]]:
    """The counter of each worker that runs, and since when it is known to be that."""
    memory: dict[str, tuple[int, float]] = reading.memory.setdefault("canaries.moved", {})
    beats = _beats(reading)
    for uid, beat in beats.items():
        if uid not in memory or memory[uid][0] != beat:
            memory[uid] = (beat, now)
    return [memory[uid] for uid in beats]


def _log(reading: Reading, pod: Json) -> str:
    return View.at(reading).log_tail(namespace_of(pod), name_of(pod), _LINES)


def _shown(text: str) -> str:
    return repr(text[-120:]) if text else "it is empty"


SIGNALS: dict[str, Signal] = {
    # The smallest heartbeat counter of the workers; -1 while none beats.
    "canaries.progress": lambda reading: min(_beats(reading).values(), default=-1),
    "canaries.stalled": stalled,
    "canaries.seen": seen,
    "canaries.pause": pause,
    "canaries.start": start,
}
