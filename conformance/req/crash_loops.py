"""Containers that crash again and again, and since when (docs/facts/pod-lifecycle.md#restarts)."""

from __future__ import annotations

import msgspec

from fixtures.kubernetes.models import ContainerStatus, Pod
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.demand.pod_events import PodEvents
from fixtures.model.jobs.marks import placed_at

RESTARTS = 5
"""So many restarts make a loop of a container that just runs; fewer happen to anybody."""

LONGEST_TURN = 900.0
"""A container that crashes runs for less than ten minutes, or the pause is begun anew, and then pauses for five at most."""

_LOOPING = "CrashLoopBackOff"
_LONGEST_PAUSE = "5m0s"


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """One container's crash loop. ``since`` is None where nothing tells; ``at_most``: the pause between restarts is the longest."""

    container: str
    restarts: int
    reason: str
    since: float | None
    at_most: bool


def crash_loop(pod: Pod, events: PodEvents, now: float) -> Loop | None:
    """The loop of the container that restarted most, or None."""
    loops = [loop for status in pod.status.container_statuses or () if (loop := _loop(pod, status, events, now))]
    return max(loops, key=lambda loop: loop.restarts, default=None)


def _loop(pod: Pod, status: ContainerStatus, events: PodEvents, now: float) -> Loop | None:
    waiting = mapping(mapping(status.state).get("waiting"))
    pausing = waiting.get("reason") == _LOOPING
    if not pausing and not _just_crashed(status, now):
        return None
    since = _since(pod, status, events, now)
    if since is None and not pausing:
        return None  # many restarts in a long life
    last = mapping(mapping(status.last_state).get("terminated"))
    code = last.get("exitCode")
    reason = ", ".join(text for text in (text_of(last.get("reason")), f"exit code {code}" if code is not None else "") if text)
    return Loop(
        container=status.name,
        restarts=status.restart_count,
        reason=reason,
        since=since,
        at_most=_LONGEST_PAUSE in text_of(waiting.get("message")),
    )


def _just_crashed(status: ContainerStatus, now: float) -> bool:
    """Whether a container that runs now crashed a short while ago, after a short run, and has done so often."""
    last = mapping(mapping(status.last_state).get("terminated"))
    ended, begun = moment(text_of(last.get("finishedAt"))), moment(text_of(last.get("startedAt")))
    if status.restart_count < RESTARTS or ended is None or now - ended > LONGEST_TURN:
        return False
    return begun is None or ended - begun < LONGEST_TURN


def _since(pod: Pod, status: ContainerStatus, events: PodEvents, now: float) -> float | None:
    """Since when it loops: all its life, if the restarts fill that, else since the first event about its pauses."""
    begun = placed_at(pod)
    if begun is not None and status.restart_count and (now - begun) / status.restart_count <= LONGEST_TURN:
        return begun
    first = [event.first for event in events.of(pod) if event.reason == "BackOff"]
    return min((at for text in first if (at := moment(text)) is not None), default=None)
