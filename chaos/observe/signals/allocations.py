"""Signals of allocations: which pods hold which devices on the target nodes, by requests, PodResources and what workers see.

PodResources is a socket of the node, and reader pods of the experiment print what it lists, one JSON document a line. The last line of a
reader's log is what the kubelet lists now: while it is no listing, and once it is no longer followed by newer ones, nobody knows.

Signals of single devices rest on it. Counts say that one device is out; ids say which. The targeted device is the one that the plan
names and its faults act on; the ids of its replicas begin with its UUID. Where devices are claimed (dynamic resource allocation), signals
of the experiment's claims and of the devices that drivers publish are here too.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from chaos.model.allocations import REPLICA, Allocations, PodDevices
from chaos.model.conditions import JsonValue
from chaos.model.plan import CANARY_LABEL, PlanFacts, canary_namespace
from chaos.observe.signals.pace import uuids_in
from chaos.observe.signals.pods import WORKER, canaries, holding
from chaos.observe.view import NoData, Reading, View, target_gpu
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.pod_resources import PROGRAM, Granted, PodResources
from fixtures.model.demand.pod_devices import running_devices
from fixtures.model.dra.nvidia_driver import (
    DRA_DRIVER,
    RESOURCE,
    PublishedDevice,
    allocated_devices,
    claims_of,
    devices_in,
    is_allocated,
    published_devices,
    requested_count,
    slices_for,
    users_of,
)
from fixtures.model.dra.slices import CLAIMS, SLICES
from fixtures.model.objects import device_amounts, full_name, is_going, is_live, labels_of, name_of, namespace_of, node_of, phase_of, uid_of
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
    if phase_of(reader) != "Running" or is_going(reader):
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
        raise NoData(f"no id of {target_gpu(reading).facts['uuid']} was ever offered, among {len(offered)} ids of the target nodes")
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
    return bool(id_.partition(REPLICA)[0] == target_gpu(reading).facts["uuid"])


KNOWN_SECONDS = 2.0
"""How long a pod must have been seen as it is before it is compared: its status and what tells its devices are not of one moment."""


def allocations(reading: Reading) -> JsonValue:
    """:class:`chaos.model.allocations.Allocations` of the target nodes; null before anybody has asked. Raises :class:`NoData`."""
    if PlanFacts.of(reading.plan).device_class:
        return msgspec.to_builtins(_claimed(reading))
    listed = listings(reading)
    if listed is None:
        return None
    return msgspec.to_builtins(_listed(reading, listed))


def _listed(reading: Reading, listed: dict[str, PodResources]) -> Allocations:
    """As kubelets list it. Where a reader tells no allocatable ids, ``counted`` has the number that the node's status tells."""
    view, facts = View.at(reading), PlanFacts.of(reading.plan)
    entries = {(entry.namespace, entry.name): entry for listing in listed.values() for entry in listing.pods}

    def given(pod: Json) -> dict[str, list[str]]:
        entry = entries.get((namespace_of(pod), name_of(pod)))
        granted = [one for container in entry.containers for one in container.devices] if entry else []
        return {resource: ids for resource, ids in ids_by_resource(granted).items() if facts.is_device(resource)}

    pods = {
        uid_of(pod): PodDevices(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested=running_devices(pod, facts.is_device),
            ids=given(pod),
            seen=_seen(view, pod),
        )
        for pod in _settled(reading, lambda pod: sum(map(len, given(pod).values())))
        if node_of(pod) in listed
    }
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
    return device_amounts(node, "allocatable", facts.is_device)


def _claimed(reading: Reading) -> Allocations:
    """As claims are allocated: the API holds the books, no reader is needed. ``inventory`` is what slices publish for the targets."""
    view, plan = View.at(reading), reading.plan
    known, claims = published_devices(view), view.select(CLAIMS)
    stated: dict[tuple[str, str, str], PublishedDevice] = reading.memory.setdefault("allocations.devices", {})
    stated.update(known)  # a claim outlives the slice that told its devices' identities
    settled = _settled(reading, lambda pod: sum(len(allocated_devices(claim)) for claim in claims_of(pod, claims)))
    pods, users = {}, Counter(uid_of(claim) for pod in settled for claim in claims_of(pod, claims))
    for pod in settled:
        own = claims_of(pod, claims)
        pods[uid_of(pod)] = PodDevices(
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node_of(pod),
            requested={_claim_name(claim): requested_count(claim) for claim in own},
            ids={_claim_name(claim): [_id(stated, one) for one in allocated_devices(claim)] for claim in own},
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


def _settled(reading: Reading, held: Callable[[Json], int]) -> list[Json]:
    """Pods that have been running for a while, are not going away, and have not just come to hold fewer devices than before.

    ``held``: how many a pod holds. What a sample looks at is read one after the other: a pod that ends in between still runs in the
    list of pods, and holds nothing any more in what is read next.
    """
    first: dict[str, float] = reading.memory.setdefault("allocations.first", {})
    fewer: dict[str, float] = reading.memory.setdefault("allocations.fewer", {})
    most: dict[str, int] = reading.memory.setdefault("allocations.most", {})
    now = time.monotonic()
    settled = []
    for pod in holding(reading):
        if phase_of(pod) != "Running" or is_going(pod):
            continue
        uid, count = uid_of(pod), held(pod)
        most[uid] = max(count, most.get(uid, 0))
        since = first.setdefault(uid, now)
        if count < most[uid]:
            since = max(since, fewer.setdefault(uid, now))
        else:
            fewer.pop(uid, None)
        if now - since >= KNOWN_SECONDS:
            settled.append(pod)
    return settled


def _seen(view: View, pod: Json) -> list[str] | None:
    if labels_of(pod).get(CANARY_LABEL) != WORKER:
        return None
    try:
        return uuids_in(view.log_tail(namespace_of(pod), name_of(pod), 40)) or None
    except NoData:
        return None


def held(reading: Reading) -> JsonValue:
    """``{namespace/claim: allocated devices}`` of every claim that holds devices of the target nodes, as ``pool/device``.

    A stranger's claim is kept once the pods that used it have ended: nobody took its devices from it (``pods.ended`` tells their end).
    """
    view = View.at(reading)
    here = {key for key, device in published_devices(view).items() if device.node in reading.plan.nodes}
    pools = {pool for _, pool, _ in here} | set(reading.plan.nodes)  # drivers name a node's pool after it: claims outlive slices
    found, users = dict[str, list[str]](), dict[str, list[str]]()
    for claim in view.select(CLAIMS):
        if own := sorted(f"{pool}/{device}" for _, pool, device in allocated_devices(claim) if pool in pools):
            found[full_name(claim)] = own
            if namespace_of(claim) not in (reading.plan.namespace, canary_namespace(reading.plan)):
                users[full_name(claim)] = users_of(claim)
    return {**found, **_given_back(reading, found, users)}


def _given_back(reading: Reading, found: dict[str, list[str]], users: dict[str, list[str]]) -> dict[str, list[str]]:
    """Strangers' claims that hold something else or nothing since the pods that used them have ended, with what they held then.

    Pods may have been read before claims were: what looks taken away counts once the next reading shows it too.
    """
    known: dict[str, tuple[list[str], list[str]]] = reading.memory.setdefault("claims.strangers", {})
    for name in users:
        devices, pods = known.get(name, (found[name], []))
        if devices == found[name]:
            known[name] = (devices, users[name] or pods)
    running = {uid_of(pod) for pod in View.at(reading).pods_on(reading.plan.nodes) if is_live(pod)}
    differing = {name for name, (devices, _) in known.items() if found.get(name) != devices}
    taken = {name for name in differing if running.intersection(known[name][1])}
    certain = taken & reading.memory.get("claims.taken", set())
    reading.memory["claims.taken"] = taken
    return {name: known[name][0] for name in differing - certain}


def devices(reading: Reading) -> JsonValue:
    """Devices that ResourceSlices publish for the target nodes, with their taints, sorted."""
    slices = slices_for(View.at(reading).select(SLICES), reading.plan.nodes)
    return sorted(device for item in slices for device in devices_in(item))


def waiting(reading: Reading) -> JsonValue:
    """Names of the experiment's pods that are bound, may use claims that were allocated, and have not started: nobody prepares these."""
    claims = [claim for claim in _own(reading) if is_allocated(claim)]
    bound = [pod for pod in canaries(reading) if node_of(pod) and phase_of(pod) == "Pending"]
    return sorted(name_of(pod) for pod in bound if claims_of(pod, claims))


def moved(reading: Reading) -> JsonValue:
    """Names of the experiment's claims that were given other devices than they were seen with before; sorted."""
    first: dict[str, list[str]] = reading.memory.setdefault("claims.first", {})
    found = set()
    for claim in _own(reading):
        given = sorted("/".join(one) for one in allocated_devices(claim))
        if given and first.setdefault(uid_of(claim), given) != given:
            found.add(name_of(claim))
    return sorted(found)


def tainted(reading: Reading) -> JsonValue:
    """Devices of the target nodes that are tainted, by their slice or by a DeviceTaintRule, as ``pool/device``, sorted."""
    known = published_devices(View.at(reading))
    return sorted(f"{one.pool}/{one.name}" for one in known.values() if one.node in reading.plan.nodes and one.tainted)


def _own(reading: Reading) -> list[Json]:
    return View.at(reading).select(CLAIMS, canary_namespace(reading.plan))


SIGNALS: dict[str, Any] = {
    # ``{claim: allocated devices}`` of the experiment's claims, as ``driver/pool/device``.
    "claims.allocated": lambda reading: {
        name_of(claim): sorted(map("/".join, allocated_devices(claim, admin=True))) for claim in _own(reading)
    },
    "claims.held": held,
    "claims.waiting": waiting,
    "claims.moved": moved,
    # Names of the experiment's claims that hold nothing and that nobody may use, sorted.
    "claims.released": lambda reading: sorted(name_of(claim) for claim in _own(reading) if not is_allocated(claim) and not users_of(claim)),
    "slices.devices": devices,
    "devices.tainted": tainted,
    # UIDs of the GPU driver's ResourceSlices for the target nodes, sorted: others once they were published anew.
    "slices.uids": lambda reading: sorted(map(uid_of, slices_for(View.at(reading).select(SLICES), reading.plan.nodes, DRA_DRIVER))),
    "allocations": allocations,
    "devices.target": of_target,
    "devices.others": of_others,
}
