"""Events about pods, as far as the cluster still has them: they are kept for an hour or so and may not be readable at all.

Whoever may write events in a namespace can write there what he likes, in anybody's name. So an event tells of pods of its own namespace
only.

Facts: docs/facts/pod-lifecycle.md#events.
"""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Event, Pod
from fixtures.kubernetes.times import unix
from fixtures.snapshot.state import Snapshot

MAX_QUOTED = 300
"""Characters of a cluster's text in one message."""


class PodEvents:
    """Warnings about the pods of a snapshot, newest first. None where events were not read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_uid: dict[tuple[str, str], list[Event]] = {}
        self._by_name: dict[tuple[str, str], list[Event]] = {}
        pods = snapshot.listing("pods").items
        self._known = {(pod.namespace, pod.metadata.uid) for pod in pods}
        self._names = {(pod.namespace, pod.name) for pod in pods}
        warnings = (event for event in snapshot.listing("events").items if event.about.kind == "Pod" and event.type != "Normal")
        about_pods = [event for event in warnings if event.at_home]
        for event in sorted(about_pods, key=lambda event: unix(event.last) or 0.0, reverse=True):
            about = event.about
            if about.uid:
                self._by_uid.setdefault((event.namespace, about.uid), []).append(event)
            else:
                self._by_name.setdefault((event.namespace, about.name), []).append(event)

    def of(self, pod: Pod) -> list[Event]:
        """Warnings about a pod, newest first. An event that names a UID is never about another pod of the same name."""
        return [*self._by_uid.get((pod.namespace, pod.metadata.uid), ()), *self._by_name.get((pod.namespace, pod.name), ())]

    def of_bound(self, pod: Pod) -> list[Event]:
        """Warnings about a pod that has its node, newest first: what schedulers said before is over."""
        return [event for event in self.of(pod) if event.reason != "FailedScheduling"]

    def of_gone_pods(self) -> Iterator[Event]:
        """Warnings about pods that the cluster no longer has."""
        for key, events in self._by_uid.items():
            if key not in self._known:
                yield from events
        for identity, events in self._by_name.items():
            if identity not in self._names:
                yield from events


def unread_events(snapshot: Snapshot) -> str:
    """Why events are not known, as a clause; empty where they were read. What nobody says then may have been said."""
    listing = snapshot.listing("events")
    if listing.trouble:
        return f"events could not be listed: {listing.message}"
    return "" if listing.collected else "the snapshot holds no events"


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """A cluster's text on one line, cut to what a message can carry."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[:limit]}…"
