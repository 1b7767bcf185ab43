"""Who holds which devices on the target nodes: pods' requests, the kubelet's PodResources, and what workers see inside.

PodResources is a socket of the node. A reader pod of the experiment prints what it lists, one JSON document a line; the last line
of its log is read. Before there is a reader nobody is known to hold anything.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import msgspec

from chaos.allocation import Allocations, Holding
from chaos.conditions import JsonValue
from chaos.facts import CANARY_LABEL, Facts
from chaos.published import CLAIMS, RESOURCE, Device, allocated, asked, claims_of, devices
from chaos.sampling.sample import Reading
from chaos.sampling.signals.pods import WORKER, holding, uuids_in
from chaos.sampling.signals.view import NoData, View, asks, dig, full_name, labels_of, name_of, namespace_of, node_of, phase_of, uid_of
from fixtures.models import Json

READER = "reader"
"""Role of the reader pod, in the run's own namespace."""

KNOWN_SECONDS = 2.0
"""How long a pod must have been seen running before it is compared: its status and the reader's line are not of one moment."""


class Granted(msgspec.Struct):
    """Ids of one resource that a container holds."""

    resource: str = ""
    ids: list[str] = []


class Container(msgspec.Struct):
    """One container of the listing."""

    name: str = ""
    devices: list[Granted] = []


class Listed(msgspec.Struct):
    """One pod of the listing."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    containers: list[Container] = []


class Listing(msgspec.Struct):
    """What the kubelet's PodResources lists, as the reader prints it."""

    pods: list[Listed] = []


def allocations(reading: Reading) -> JsonValue:
    """:class:`chaos.allocation.Allocations` of the target nodes. Raises :class:`NoData` while a reader is there and silent."""
    view, plan = View.at(reading), reading.plan
    if Facts.of(plan).device_class:
        return msgspec.to_builtins(_claimed(reading))
    readers = [
        pod for pod in view.select("pods", plan.namespace) if labels_of(pod).get(CANARY_LABEL) == READER and phase_of(pod) == "Running"
    ]
    if not readers:
        return msgspec.to_builtins(Allocations())
    listed: dict[str, dict[str, list[str]]] = {}
    for pod in readers:
        for entry in _listing(view, pod).pods:
            listed[_identity(entry)] = _ids(entry)
    facts = Facts.of(plan)
    found = {}
    for pod in _settled(reading):
        ids = listed.get(uid_of(pod)) or listed.get(f"{namespace_of(pod)}/{name_of(pod)}") or {}
        found[uid_of(pod)] = Holding(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested=asks(pod, facts.is_device),
            ids={resource: held for resource, held in ids.items() if facts.is_device(resource)},
            seen=_seen(view, pod),
        )
    return msgspec.to_builtins(Allocations(pods=found))


def _claimed(reading: Reading) -> Allocations:
    """As claims are allocated: the API holds the books, no reader is needed. ``inventory`` is what slices publish for the targets."""
    view, plan = View.at(reading), reading.plan
    known, claims = devices(view), view.select(CLAIMS)
    pods, users = {}, Counter(uid_of(claim) for pod in _settled(reading) for claim in claims_of(pod, claims))
    for pod in _settled(reading):
        own = claims_of(pod, claims)
        pods[uid_of(pod)] = Holding(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested={_claim_name(claim): asked(claim) for claim in own},
            ids={_claim_name(claim): [_id(known, one) for one in allocated(claim)] for claim in own},
            seen=_seen(view, pod),
        )
    inventory: dict[str, dict[str, list[str]]] = {}
    for one in known.values():
        if one.node in plan.nodes:
            inventory.setdefault(one.node, {}).setdefault(RESOURCE, []).append(one.id)
    shared = sorted(f"{RESOURCE}:{full_name(claim)}" for claim in claims if users[uid_of(claim)] > 1)
    return Allocations(pods=pods, inventory=inventory, shared=shared)


def _id(known: dict[tuple[str, str, str], Device], key: tuple[str, str, str]) -> str:
    """What containers call a device. Raises :class:`NoData` while no slice publishes it: then nobody tells."""
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


def _listing(view: View, reader: Json) -> Listing:
    lines = view.log_tail(namespace_of(reader), name_of(reader), 2).strip().splitlines()
    if not lines:
        raise NoData(f"{name_of(reader)} has not listed anything yet")
    try:
        return msgspec.json.decode(lines[-1], type=Listing)
    except msgspec.MsgspecError as error:
        raise NoData(f"{name_of(reader)}: {error}") from None


def _identity(entry: Listed) -> str:
    return entry.uid or f"{entry.namespace}/{entry.name}"


def _ids(entry: Listed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for container in entry.containers:
        for granted in container.devices:
            found.setdefault(granted.resource, []).extend(granted.ids)
    return found


def _seen(view: View, pod: Json) -> list[str] | None:
    if labels_of(pod).get(CANARY_LABEL) != WORKER:
        return None
    try:
        return uuids_in(view.log_tail(namespace_of(pod), name_of(pod), 40)) or None
    except NoData:
        return None


SIGNALS: dict[str, Any] = {"allocations": allocations}
