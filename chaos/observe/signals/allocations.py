"""Signals of allocations: which pods hold which devices on the target nodes, by requests, PodResources and what workers see."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import msgspec

from chaos.model.allocations import Allocations, PodDevices
from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import CANARY_LABEL, PlanFacts
from chaos.observe.dra_inventory import CLAIMS, RESOURCE, PublishedDevice, allocated_devices, claims_of, published_devices, requested_count
from chaos.observe.sample import Reading
from chaos.observe.signals.podresources import Listing, identity, ids_by_resource, listings
from chaos.observe.signals.pods import WORKER, holding, uuids_in
from chaos.observe.view import (
    NoData,
    View,
    dig,
    full_name,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    number_of,
    phase_of,
    requested_devices,
    uid_of,
)
from fixtures.kubernetes.models import Json

KNOWN_SECONDS = 2.0
"""How long a pod must have been seen running before it is compared: its status and the reader's line are not of one moment."""


def allocations(reading: Reading) -> JsonValue:
    """:class:`chaos.model.allocations.Allocations` of the target nodes; null before anybody has asked. Raises :class:`NoData`."""
    if PlanFacts.of(reading.plan).device_class:
        return msgspec.to_builtins(_claimed(reading))
    listed = listings(reading)
    if listed is None:
        return None
    return msgspec.to_builtins(_listed(reading, listed))


def _listed(reading: Reading, listed: dict[str, Listing]) -> Allocations:
    """As kubelets list it. Where a reader tells no allocatable ids, ``counted`` has the number that the node's status tells."""
    view, facts = View.at(reading), PlanFacts.of(reading.plan)
    held = {identity(entry): entry for listing in listed.values() for entry in listing.pods}
    pods = {}
    for pod in _settled(reading):
        if node_of(pod) not in listed:
            continue
        entry = held.get(uid_of(pod)) or held.get(f"{namespace_of(pod)}/{name_of(pod)}")
        given = [granted for container in entry.containers for granted in container.devices] if entry else []
        pods[uid_of(pod)] = PodDevices(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested=requested_devices(pod, facts.is_device),
            ids={resource: ids for resource, ids in ids_by_resource(given).items() if facts.is_device(resource)},
            seen=_seen(view, pod),
        )
    inventory, counted = {}, {}
    for node, listing in listed.items():
        if listing.allocatable is None:
            counted[node] = _counted(view, node, facts)
        else:
            offered = ids_by_resource(listing.allocatable)
            inventory[node] = {resource: sorted(ids) for resource, ids in offered.items() if facts.is_device(resource)}
    return Allocations(pods=pods, inventory=inventory, counted=counted)


def _counted(view: View, name: str, facts: PlanFacts) -> dict[str, int]:
    node = view.find("nodes", name)
    if node is None:
        raise NoData(f"node {name} is not there")
    offered = dig(node, "status", "allocatable").items()
    return {resource: number_of(value) for resource, value in sorted(offered) if facts.is_device(resource)}


def _claimed(reading: Reading) -> Allocations:
    """As claims are allocated: the API holds the books, no reader is needed. ``inventory`` is what slices publish for the targets."""
    view, plan = View.at(reading), reading.plan
    known, claims = published_devices(view), view.select(CLAIMS)
    told: dict[tuple[str, str, str], PublishedDevice] = reading.memory.setdefault("allocations.devices", {})
    told.update(known)  # a claim outlives the slice that told its devices' identities
    pods, users = {}, Counter(uid_of(claim) for pod in _settled(reading) for claim in claims_of(pod, claims))
    for pod in _settled(reading):
        own = claims_of(pod, claims)
        pods[uid_of(pod)] = PodDevices(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested={_claim_name(claim): requested_count(claim) for claim in own},
            ids={_claim_name(claim): [_id(told, one) for one in allocated_devices(claim)] for claim in own},
            seen=_seen(view, pod),
        )
    inventory: dict[str, dict[str, list[str]]] = {}
    for one in known.values():
        if one.node in plan.nodes:
            inventory.setdefault(one.node, {}).setdefault(RESOURCE, []).append(one.id)
    shared = sorted(f"{RESOURCE}:{full_name(claim)}" for claim in claims if users[uid_of(claim)] > 1)
    return Allocations(pods=pods, inventory=inventory, shared=shared)


def _id(known: dict[tuple[str, str, str], PublishedDevice], key: tuple[str, str, str]) -> str:
    """What containers call a device. Raises :class:`NoData` when no slice has published it: then nobody tells."""
    if key not in known:
        raise NoData(f"no ResourceSlice publishes {'/'.join(key)}")
    return known[key].id


def _claim_name(claim: Json) -> str:
    """Every claim by itself: only one that several pods share may have its devices in several pods."""
    return f"{RESOURCE}:{full_name(claim)}"


def _settled(reading: Reading) -> list[Json]:
    """Pods that have been running for a while and are not going away."""
    first: dict[str, float] = reading.memory.setdefault("allocations.first", {})
    now = time.monotonic()
    settled = []
    for pod in holding(reading):
        if phase_of(pod) != "Running" or dig(pod, "metadata").get("deletionTimestamp"):
            continue
        if now - first.setdefault(uid_of(pod), now) >= KNOWN_SECONDS:
            settled.append(pod)
    return settled


def _seen(view: View, pod: Json) -> list[str] | None:
    if labels_of(pod).get(CANARY_LABEL) != WORKER:
        return None
    try:
        return uuids_in(view.log_tail(namespace_of(pod), name_of(pod), 40)) or None
    except NoData:
        return None


SIGNALS: dict[str, Any] = {"allocations": allocations}
