"""The kubelet's PodResources of the target nodes, as reader pods of the experiment print it: one JSON document a line.

PodResources is a socket of the node. The last line of a reader's log is what the kubelet lists now: while it is no listing, and
once it is no longer followed by newer ones, nobody knows.

Signals of single devices rest on it. Counts say that one device is out; ids say which. The targeted device is the one that the plan
names and its faults act on; the ids of its replicas begin with its UUID.
"""

from __future__ import annotations

import time
from typing import Any

from chaos.model.allocations import REPLICA
from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import CANARY_LABEL, PlanFacts
from chaos.observe.sample import Reading
from chaos.observe.view import NoData, View, dig, labels_of, name_of, namespace_of, node_of, phase_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.pod_resources import PROGRAM, Granted, PodResources
from fixtures.text import json_text
from fixtures.text.json_text import NotJson

READER = "reader"
"""Role of the reader pod, in the run's own namespace."""

_SILENCE = 5.0


def listings(reading: Reading) -> dict[str, PodResources] | None:
    """What each node's kubelet lists, by node; None before the experiment has started a reader: nobody has asked yet.

    Raises :class:`NoData` once a reader that was seen is gone, does not run, says something else, or nothing new.
    """
    pods = View.at(reading).select("pods", reading.plan.namespace)
    readers = {node_of(pod): pod for pod in pods if labels_of(pod).get(CANARY_LABEL) == READER and node_of(pod)}
    known: set[str] = reading.memory.setdefault("podresources.nodes", set())
    known |= {node for node, pod in readers.items() if phase_of(pod) == "Running"}
    if not known:
        return None
    return {node: _listing(reading, node, readers.get(node)) for node in sorted(known)}


def ids_by_resource(granted: list[Granted]) -> dict[str, list[str]]:
    """The ids of a list, by resource."""
    found: dict[str, list[str]] = {}
    for one in granted:
        found.setdefault(one.resource, []).extend(one.ids)
    return found


def _listing(reading: Reading, node: str, reader: Json | None) -> PodResources:
    if reader is None:
        raise NoData(f"the reader of the PodResources of {node} is gone")
    name = name_of(reader)
    if phase_of(reader) != "Running" or dig(reader, "metadata").get("deletionTimestamp"):
        raise NoData(f"{name}, which reads the PodResources of {node}, no longer runs (phase {phase_of(reader) or 'unknown'})")
    lines = View.at(reading).log_tail(namespace_of(reader), name, 2, stamped=True).strip().splitlines()
    if not lines:
        raise NoData(f"{name} has not listed anything yet")
    stamp, _, line = lines[-1].partition(" ")
    _must_be_new(reading, reader, stamp)
    try:
        found: PodResources = json_text.decode(line, PodResources)
        return found
    except NotJson as error:
        raise NoData(f"{name}: {line[:300] if line.startswith(PROGRAM) else error}") from None


def _must_be_new(reading: Reading, reader: Json, stamp: str) -> None:
    """Raises :class:`NoData` when the last line is the same for too long: by our clock, because the node's may differ."""
    seen: dict[str, tuple[str, float]] = reading.memory.setdefault("podresources.last", {})
    now = time.monotonic()
    if uid_of(reader) not in seen or seen[uid_of(reader)][0] != stamp:
        seen[uid_of(reader)] = (stamp, now)
    silent = now - seen[uid_of(reader)][1]
    if silent > reading.plan.seconds.get("gap", _SILENCE):
        raise NoData(f"{name_of(reader)} has listed nothing new for {silent:.0f} s")


def of_target(reading: Reading) -> JsonValue:
    """Ids of the targeted device that pods can be given, sorted; null before anybody has asked.

    Raises :class:`NoData` when none of its ids was ever offered: that they are gone would mean nothing.
    """
    offered = _offered(reading)
    if offered is None:
        return None
    own = [id_ for id_ in offered if _is_target(reading, id_)]
    known: set[str] = reading.memory.setdefault("devices.target", set())
    known.update(own)
    if not known:
        raise NoData(f"no id of {_uuid(reading)} was ever offered, among {len(offered)} ids of the target nodes")
    return list(own)


def of_others(reading: Reading) -> JsonValue:
    """Ids of every other device of the target nodes that pods can be given, sorted; null before anybody has asked."""
    offered = _offered(reading)
    return None if offered is None else [id_ for id_ in offered if not _is_target(reading, id_)]


def _offered(reading: Reading) -> list[str] | None:
    listed, facts = listings(reading), PlanFacts.of(reading.plan)
    if listed is None:
        return None
    found: list[str] = []
    for node, listing in listed.items():
        if listing.allocatable is None:
            raise NoData(f"the reader on {node} does not tell the ids of allocatable devices")
        offered = ids_by_resource(listing.allocatable)
        found += [id_ for resource, ids in offered.items() if facts.is_device(resource) for id_ in ids]
    return sorted(found)


def _is_target(reading: Reading, id_: str) -> bool:
    return id_.partition(REPLICA)[0] == _uuid(reading)


def _uuid(reading: Reading) -> str:
    target = next((target for target in reading.plan.targets if target.facts.get("uuid")), None)
    if target is None:
        raise NoData("the plan names no device")
    return str(target.facts["uuid"])


SIGNALS: dict[str, Any] = {"devices.target": of_target, "devices.others": of_others}
