"""Other people's pods that were seen running: what became of each since, and whether the cluster did it or its owner can have. Pure.

An exit code says nothing of the cause: a program that lost its device ends with 1, 137 or 139, and so does one with a mistake of its own.
Facts: docs/facts/pod-lifecycle.md#who-ended-a-pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from fixtures.kubernetes.models import Json
from fixtures.model.objects import (
    full_name,
    is_going,
    phase_of,
    restarts_of,
    uid_of,
)
from fixtures.model.pod_endings import DELETED, GONE, Ending, FirstSight, ending_of

MOST = 500
"""Pods that a signal lists by name. A sample has room for no more."""


class WatchedPod(msgspec.Struct, kw_only=True):
    """A pod, as it was when it was first seen running. ``ending`` stays: a pod that is gone by now ended as it was seen to.

    ``failed``: its phase was Failed then.
    """

    name: str
    first: FirstSight
    state: str
    ending: Ending | None = None
    failed: bool = False

    @property
    def damaged(self) -> bool:
        """Whether the cluster ended it."""
        return self.ending is not None and self.ending.by_cluster

    @property
    def undecided(self) -> bool:
        """Whether it ended, and nothing tells who caused that. A pod that ends again and again tells nothing."""
        return self.ending is not None and not self.ending.by_cluster and not self.first.looping


class WatchedPods:
    """Pods by UID, each from when it was first seen running.

    ``owned``: all pods are this run's, so that nobody else deletes one. ``ignored`` are endings that mean nothing by themselves.
    """

    def __init__(self, *, owned: bool, ignored: Collection[Ending] = ()) -> None:
        self.known: dict[str, WatchedPod] = {}
        self._owned = owned
        self._ignored = ignored
        self._looked = False

    def look(self, pods: Iterable[Json], at: float, *, newcomers: bool) -> None:
        """Take in what pods say at a time in Unix seconds. ``newcomers``: whether those are watched that were not there at first."""
        now = {uid_of(pod): pod for pod in pods}
        for uid, watched in self.known.items():
            self._learn(watched, now.get(uid))
        if newcomers or not self._looked:
            for uid, pod in now.items():
                if uid not in self.known and phase_of(pod) == "Running" and not is_going(pod):
                    self.known[uid] = WatchedPod(name=full_name(pod), first=FirstSight.of(pod, at), state=state_of(pod))
        self._looked = True

    def _learn(self, watched: WatchedPod, pod: Json | None) -> None:
        """Take in how a pod ended. Once it has ended by itself, it may be deleted: only what the cluster did is news then."""
        ending = ending_of(pod, watched.first) if pod is not None else GONE
        if ending in (DELETED, GONE) and self._owned and watched.ending is None:
            ending = Ending(by_cluster=True, text=GONE.text)
        if ending is not None and (watched.ending is None or (ending.by_cluster and not watched.damaged)):
            watched.ending, watched.failed = ending, pod is not None and phase_of(pod) == "Failed"

    def damaged(self) -> list[str]:
        """Pods that the cluster ended, each with how; sorted."""
        return listed(f"{one.name} {one.ending.text}" for one in self.known.values() if one.ending and one.damaged)

    def undecided(self) -> list[str]:
        """Pods that ended, and nothing tells who caused that, each with how; sorted."""
        found = [one for one in self.known.values() if one.undecided and one.ending not in self._ignored]
        return listed(f"{one.name} {one.ending.text}" for one in found if one.ending)

    def failed(self) -> set[str]:
        """Pods whose phase was Failed when the cluster had ended them, each with how."""
        return {f"{one.name} {one.ending.text}" for one in self.known.values() if one.ending and one.damaged and one.failed}

    def states(self) -> dict[str, str]:
        """Every pod by name, as it was at first unless the cluster ended it. A pod that took the name of another does not hide that."""
        found: dict[str, str] = {}
        for one in self.known.values():
            if one.ending and one.damaged:
                found[one.name] = f"{one.state} {one.ending.text}"
            else:
                found.setdefault(one.name, one.state)
        return found

    def endings(self) -> dict[str, str]:
        """Every pod by name whose end tells something, with how it ended; nothing for one that has not."""
        found: dict[str, str] = {}
        for one in self.known.values():
            if one.damaged or not one.first.looping:
                found[one.name] = found.get(one.name) or (one.ending.text if one.ending else "")
        return found


def state_of(pod: Json) -> str:
    """``uid restarts phase``, and whether it is being deleted."""
    gone = " terminating" if is_going(pod) else ""
    return f"{uid_of(pod)} {restarts_of(pod)} {phase_of(pod)}{gone}"


def listed(found: Iterable[str]) -> list[str]:
    """The first of some texts in order, and how many more there are."""
    ordered = sorted(text[:200] for text in found)
    return [*ordered[:MOST], *([f"and {len(ordered) - MOST} more"] if len(ordered) > MOST else [])]
