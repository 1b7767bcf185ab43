"""What Volcano says of jobs whose pods it does not let their controllers make yet: their PodGroup waits in a queue.

Facts: docs/facts/gangs.md#jobs-that-wait-in-a-volcano-queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from fixtures.kubernetes.models import Event, Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope

_GROUPS = "scheduling.volcano.sh/podgroups"
_WAITING = "Pending"
_DEFAULT_QUEUE = "default"
_QUOTA = re.compile(r"\bquota", re.IGNORECASE)
_NAME = re.compile(r'"[^"]{0,1000}"')
"""What the API server puts into quotation marks: names, which tenants choose."""

_RETRY = 1200.0
"""Seconds within which a controller asks again for a pod that was refused (docs/facts/pod-lifecycle.md#pods-that-are-never-made)."""


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """The PodGroup of a job: its queue, its phase (empty before a scheduler saw it), and what was said of it, newest first.

    ``held_at``: when its queue was last said to be full, Unix seconds.
    """

    name: str
    queue: str
    phase: str
    said: tuple[str, ...]
    held_at: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the scheduler has looked at it and has not let it in."""
        return self.phase == _WAITING and bool(self.said)


class QueuedJobs:
    """The PodGroups of a snapshot, by namespace and UID of the job that owns them."""

    def __init__(self, scope: Scope) -> None:
        listed = scope.snapshot.listing(_GROUPS).objects
        events = _events(scope.snapshot.listing("events").items) if listed else {}
        self._by_owner: dict[tuple[str, str], Queued] = {}
        self._by_name: dict[tuple[str, str], Queued] = {}
        for group in listed:
            meta = mapping(group, "metadata")
            namespace = text_of(meta.get("namespace"))
            queued = self._by_name[namespace, text_of(meta.get("name"))] = _queued(group, events)
            for owner in mappings(meta.get("ownerReferences")):
                if uid := text_of(owner.get("uid")):
                    self._by_owner[namespace, uid] = queued

    def of(self, job: Json) -> Queued | None:
        """The PodGroup of a job, None where it has none."""
        meta = mapping(job, "metadata")
        return self._by_owner.get((text_of(meta.get("namespace")), text_of(meta.get("uid"))))

    def named(self, namespace: str, name: str) -> Queued | None:
        """The PodGroup of a name, None where there is none."""
        return self._by_name.get((namespace, name))


def names_quota(text: str) -> bool:
    """Whether a text speaks of a quota, and not only of an object that is called so."""
    return bool(_QUOTA.search(_NAME.sub("", text)))


def refused_now(events: Iterable[Event], now: float) -> list[Event]:
    """Warnings that a pod could not be made, newest first; none where the controller has not been refused for a while."""
    found = [event for event in events if event.type != "Normal" and event.reason.startswith("FailedCreate")]
    found.sort(key=lambda event: unix(event.last) or 0.0, reverse=True)
    return found if found and now - (unix(found[0].last) or 0.0) <= _RETRY else []


def _events(events: Iterable[Event]) -> dict[tuple[str, str], list[Event]]:
    """Events about PodGroups by namespace and name. Volcano repeats its word as long as a group waits, so they are there."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.about.kind == "PodGroup" and event.at_home and event.text:
            found.setdefault((event.namespace, event.about.name), []).append(event)
    return found


def _queued(group: Json, events: dict[tuple[str, str], list[Event]]) -> Queued:
    meta, status = mapping(group, "metadata"), mapping(group, "status")
    name = text_of(meta.get("name"))
    about = events.get((text_of(meta.get("namespace")), name), [])
    newest = sorted(about, key=lambda event: unix(event.last) or 0.0, reverse=True)
    conditions = [(text_of(item.get("message")), text_of(item.get("lastTransitionTime"))) for item in mappings(status.get("conditions"))]
    told = [*((event.text, event.last) for event in newest), *conditions[::-1]]
    held = [at for text, when in told if names_quota(text) and (at := unix(when)) is not None]
    return Queued(
        name=name,
        queue=text_of(mapping(group, "spec").get("queue")) or _DEFAULT_QUEUE,
        phase=text_of(status.get("phase")),
        said=tuple(text for text, _ in told if text),
        held_at=max(held, default=None),
    )
