"""Other people's pods that were seen running: what became of each since, and whether the cluster did it or its owner can have. Pure.

An exit code says nothing of the cause: a program that lost its device ends with 1, 137 or 139, and so does one with a mistake of its own.
Facts: docs/facts/pod-lifecycle.md#who-ended-a-pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from chaos.observe.view import dig, full_name, items_of, number_of, phase_of, restarts_of, text_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import moment

BY_CLUSTER = frozenset({"TerminationByKubelet", "DeletionByTaintManager", "DeletionByDeviceTaintManager", "DeletionByPodGC"})
"""Reasons of the condition DisruptionTarget. Whoever may create pods or evictions can cause the others: preemption and eviction."""

REFUSED = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "SMTAlignmentError"})
NODE_ENDED = frozenset({"Preempting", "Terminated", "NodeShutdown", "Shutdown", "NodeLost"})
CONTAINER_LOST = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a pod that its node refused, of one that its node ended, and of a container that its node lost."""

NODE_PRESSURE = "The node "
"""How the message of a pod begins that was evicted for its node's sake. A pod beyond a limit of its own is Evicted too."""

CRASH_LOOP_SECONDS = 600.0
"""So long a container must run before the kubelet takes its next end for a first one."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod ended, or one of its containers did. ``by_cluster``: nobody who only runs pods can cause it."""

    by_cluster: bool
    text: str


DONE, DELETED, GONE = (Ending(by_cluster=False, text=text) for text in ("Succeeded", "deleted", "gone"))


class FirstSight(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a pod when it was first seen running. ``ended``: containers that had ended for good.

    ``looping``: one was started again not long ago, so that its next end is no news.
    """

    restarts: dict[str, int]
    ended: frozenset[str]
    unhealthy: frozenset[str]
    looping: bool

    @classmethod
    def of(cls, pod: Json, now: float) -> FirstSight:
        """What its status says at a time in Unix seconds."""
        statuses = _statuses(pod)
        return cls(
            restarts={name: number_of(status.get("restartCount")) for name, status in statuses.items()},
            ended=frozenset(name for name, status in statuses.items() if dig(status, "state", "terminated")),
            unhealthy=frozenset(device for status in statuses.values() for device in _unhealthy(status)),
            looping=any(_looping(status, now) for status in statuses.values()),
        )


def ending_of(pod: Json, first: FirstSight) -> Ending | None:
    """How the pod ended since it was first seen running; None while it has not. One that is deleted ends, whatever its containers say."""
    going = bool(dig(pod, "metadata").get("deletionTimestamp"))
    ended = phase_of(pod) in ("Succeeded", "Failed")
    disrupted = _disruption(pod) if going or ended else ""
    if disrupted:
        return Ending(by_cluster=disrupted in BY_CLUSTER, text=disrupted)
    if phase_of(pod) == "Failed" and (told := refusal_of(pod) or _reason(pod)):
        return told
    if going:
        return DELETED
    found = [one for name, status in _statuses(pod).items() if (one := _container(name, status, first))]
    if not found and ended:
        return DONE if phase_of(pod) == "Succeeded" else Ending(by_cluster=False, text="Failed")
    return next((one for one in found if one.by_cluster), found[0] if found else None)


def refusal_of(pod: Json) -> Ending | None:
    """How the pod's node refused it; None where it did not."""
    reason = text_of(dig(pod, "status").get("reason"))
    refused = phase_of(pod) == "Failed" and (reason in REFUSED or reason.startswith("OutOf"))
    return Ending(by_cluster=True, text=reason) if refused else None


def _reason(pod: Json) -> Ending | None:
    """What a failed pod's own reason says. One that is not known here is not understood."""
    status = dig(pod, "status")
    reason = text_of(status.get("reason"))
    pressed = reason == "Evicted" and text_of(status.get("message")).startswith(NODE_PRESSURE)
    return Ending(by_cluster=pressed or reason in NODE_ENDED, text=reason) if reason else None


def _disruption(pod: Json) -> str:
    """The reason of a condition DisruptionTarget that is True; empty without one."""
    conditions = items_of(dig(pod, "status").get("conditions"))
    found = [item for item in conditions if item.get("type") == "DisruptionTarget" and item.get("status") == "True"]
    return text_of(found[0].get("reason")) or "DisruptionTarget" if found else ""


def _container(name: str, status: Json, first: FirstSight) -> Ending | None:
    """How a container ended: it was started again, or it ended with an error and stays so."""
    now, before = dig(status, "state", "terminated"), dig(status, "lastState", "terminated")
    again = number_of(status.get("restartCount")) > first.restarts.get(name, 0)
    last = now or before
    if not again and (name in first.ended or not now or now.get("exitCode") == 0):
        return None
    if lost := sorted(set(_unhealthy(status)) - first.unhealthy):
        return Ending(by_cluster=True, text=f"{name} ended with {lost[0]} Unhealthy")
    reason, code = text_of(last.get("reason")), last.get("exitCode")
    text = f"{name}: {reason or 'started again'}" + (f", exit code {code}" if isinstance(code, int) else "")
    return Ending(by_cluster=reason in CONTAINER_LOST, text=text)


def _looping(status: Json, now: float) -> bool:
    """Whether a container that was started again has not run for long since. Where no time says so, it has."""
    if not number_of(status.get("restartCount")):
        return False
    if not dig(status, "state", "running"):
        return True
    since = moment(dig(status, "state", "running").get("startedAt"))
    return since is not None and now - since < CRASH_LOOP_SECONDS


def _unhealthy(status: Json) -> list[str]:
    """Devices of a container that its kubelet calls Unhealthy (KEP-4680)."""
    found = [item for resource in items_of(status.get("allocatedResourcesStatus")) for item in items_of(resource.get("resources"))]
    return [text_of(item.get("resourceID")) for item in found if item.get("health") == "Unhealthy"]


def _statuses(pod: Json) -> dict[str, Json]:
    return {text_of(status.get("name")): status for status in items_of(dig(pod, "status").get("containerStatuses"))}


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
                if uid not in self.known and phase_of(pod) == "Running" and not dig(pod, "metadata").get("deletionTimestamp"):
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
    gone = " terminating" if dig(pod, "metadata").get("deletionTimestamp") else ""
    return f"{uid_of(pod)} {restarts_of(pod)} {phase_of(pod)}{gone}"


def listed(found: Iterable[str]) -> list[str]:
    """The first of some texts in order, and how many more there are."""
    ordered = sorted(text[:200] for text in found)
    return [*ordered[:MOST], *([f"and {len(ordered) - MOST} more"] if len(ordered) > MOST else [])]
