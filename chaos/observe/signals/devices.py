"""Signals of single devices: which devices the target nodes' kubelets can give out, by the ids in PodResources.

Counts say that one device is out; ids say which. The targeted device is the one that the plan names and its faults act on; the
ids of its replicas begin with its UUID.
"""

from __future__ import annotations

from typing import Any

from chaos.model.allocations import REPLICA
from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import PlanFacts
from chaos.observe.sample import Reading
from chaos.observe.signals.podresources import ids_by_resource, listings
from chaos.observe.view import NoData


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
