"""Signals of gangs and queues: how many members are bound, and whether a queue's use is what it admitted."""

import time
from collections import Counter

from chaos.model.conditions import JsonValue
from chaos.model.plan import GANG_LABEL, canary_namespace
from chaos.observe.view import Reading, Signal, View
from fixtures.kubernetes.models import Json
from fixtures.model.objects import (
    annotations_of,
    changed_at,
    condition,
    is_live,
    labels_of,
    name_of,
    node_of,
    number_of,
    phase_of,
    uid_of,
)
from fixtures.model.queues.kueue import reserved_by, used_of

SIZE_ANNOTATION = "gpu-conformance.io/gang-size"
"""On every member of a canary gang: how many there are."""

DEFAULT_STALE = 60.0
"""KAI's staleness grace, the longest of the known defaults (docs/facts/gangs.md#kai-and-coscheduling)."""

WORKLOADS = "kueue.x-k8s.io/workloads"
CLUSTER_QUEUES = "kueue.x-k8s.io/clusterqueues"


def whole(reading: Reading) -> list[str]:
    """Names of gangs whose members all run, sorted."""
    return sorted(name for name, pods in members(reading).items() if sum(phase_of(pod) == "Running" for pod in pods) >= size_of(pods) > 0)


def partial(reading: Reading) -> list[str]:
    """Names of gangs of which some members are bound and some are not, sorted."""
    return sorted(name for name, pods in members(reading).items() if 0 < _held(pods) < size_of(pods))


def partial_seconds(reading: Reading) -> float:
    """How long the longest gang has been bound in part, without a break."""
    since: dict[str, float] = reading.memory.setdefault("gangs.partial", {})
    now = time.monotonic()
    names = set(partial(reading))
    for name in set(since) - names:
        del since[name]
    for name in names:
        since.setdefault(name, now)
    return round(max((now - start for start in since.values()), default=0.0), 2)


def members(reading: Reading) -> dict[str, list[Json]]:
    """Pods of each of the experiment's gangs."""
    found: dict[str, list[Json]] = {}
    for pod in View.at(reading).select("pods", canary_namespace(reading.plan)):
        name = labels_of(pod).get(GANG_LABEL)
        if name:
            found.setdefault(name, []).append(pod)
    return dict(sorted(found.items()))


def size_of(pods: list[Json]) -> int:
    """Members that a gang needs: what its pods say, at least what there is of them."""
    return max((number_of(annotations_of(pod).get(SIZE_ANNOTATION)) for pod in pods), default=0)


def restarted(reading: Reading) -> JsonValue:
    """Names of gangs that were whole, and are whole again with none of the members they had then; sorted."""
    first: dict[str, set[str]] = reading.memory.setdefault("gangs.first", {})
    found = []
    for name, pods in members(reading).items():
        running = {uid_of(pod) for pod in pods if phase_of(pod) == "Running" and is_live(pod)}
        if len(running) < size_of(pods):
            continue
        if not running & first.setdefault(name, running):
            found.append(name)
    return sorted(found)


def admissions(reading: Reading) -> JsonValue:
    """How often Workloads of the experiment became Admitted, counted by the times their conditions changed."""
    seen: set[tuple[str, str]] = reading.memory.setdefault("queue.admissions", set())
    seen |= {(uid_of(item), changed_at(item, "Admitted")) for item in _workloads(reading) if condition(item, "Admitted") == "True"}
    return len(seen)


def usage_agrees(reading: Reading) -> JsonValue:
    """Whether the experiment's ClusterQueue uses what its admitted Workloads reserve, no more and no less; false without one."""
    queue = next((item for item in View.at(reading).select(CLUSTER_QUEUES) if labels_of(item).get(GANG_LABEL) == reading.plan.run_id), None)
    if queue is None:
        return False
    uses, reserves = used_of(queue), Counter[str]()
    for item in _workloads(reading):
        if condition(item, "Admitted") == "True":
            reserves.update(reserved_by(item))
    return all(uses.get(name, 0) == reserves[name] for name in {*uses, *reserves} if "/" in name)


def _workloads(reading: Reading) -> list[Json]:
    return View.at(reading).select(WORKLOADS, canary_namespace(reading.plan))


def _held(pods: list[Json]) -> int:
    return sum(bool(node_of(pod)) and is_live(pod) for pod in pods)


SIGNALS: dict[str, Signal] = {
    # ``{gang: bound members}`` of the experiment's gangs; ended members are no longer bound.
    "gangs.bound": lambda reading: {
        name: sum(bool(node_of(pod)) and is_live(pod) for pod in pods) for name, pods in members(reading).items()
    },
    # How many live members are bound in all gangs together: who still holds devices.
    "gangs.held": lambda reading: sum(_held(pods) for pods in members(reading).values()),
    # ``{gang: members it needs}``.
    "gangs.sizes": lambda reading: {name: size_of(pods) for name, pods in members(reading).items()},
    "gangs.whole": whole,
    # How many gangs run whole.
    "gangs.whole.count": lambda reading: len(whole(reading)),
    "gangs.partial": partial,
    "gangs.partial.seconds": partial_seconds,
    # Whether a gang has been bound in part for longer than the experiment's duration ``stale``.
    "gangs.partial.overdue": lambda reading: partial_seconds(reading) > reading.plan.seconds.get("stale", DEFAULT_STALE),
    "gangs.restarted": restarted,
    # UIDs of all live members, sorted.
    "gangs.members": lambda reading: sorted(uid_of(pod) for pods in members(reading).values() for pod in pods if is_live(pod)),
    # ``{workload: admitted or not}`` of the experiment's Workloads.
    "queue.admitted": lambda reading: {name_of(item): condition(item, "Admitted") == "True" for item in _workloads(reading)},
    "queue.admissions": admissions,
    "queue.usage.agrees": usage_agrees,
}
