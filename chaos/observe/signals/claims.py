"""Signals of dynamic resource allocation: the experiment's claims and the devices that drivers publish."""

from __future__ import annotations

import json

from chaos.model.conditions import JsonValue
from chaos.model.plan import canary_namespace
from chaos.observe.devices import DRA_DRIVER, allocated_devices, claims_of, published_devices
from chaos.observe.signals.pods import canaries, live
from chaos.observe.view import Reading, View, dig, full_name, items_of, name_of, namespace_of, node_of, phase_of, text_of, uid_of
from fixtures.model.dra.slices import CLAIMS, SLICES


def allocations(reading: Reading) -> JsonValue:
    """``{claim: allocated devices}`` of the experiment's claims, as ``driver/pool/device``."""
    found = {}
    for claim in View.at(reading).select(CLAIMS, canary_namespace(reading.plan)):
        results = items_of(dig(claim, "status", "allocation", "devices").get("results"))
        found[name_of(claim)] = sorted("/".join(text_of(item.get(key)) for key in ("driver", "pool", "device")) for item in results)
    return found


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
                users[full_name(claim)] = [text_of(user.get("uid")) for user in items_of(dig(claim, "status").get("reservedFor"))]
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
    running = {uid_of(pod) for pod in View.at(reading).pods_on(reading.plan.nodes) if live(pod)}
    differing = {name for name, (devices, _) in known.items() if found.get(name) != devices}
    taken = {name for name in differing if running.intersection(known[name][1])}
    certain = taken & reading.memory.get("claims.taken", set())
    reading.memory["claims.taken"] = taken
    return {name: known[name][0] for name in differing - certain}


def devices(reading: Reading) -> JsonValue:
    """Devices that ResourceSlices publish for the target nodes, with their taints, sorted."""
    found = []
    for item in View.at(reading).select(SLICES):
        spec = dig(item, "spec")
        if text_of(spec.get("nodeName")) in reading.plan.nodes:
            found += [
                f"{text_of(device.get('name'))} {json.dumps(device.get('taints') or [], sort_keys=True)}"
                for device in items_of(spec.get("devices"))
            ]
    return sorted(found)


def waiting(reading: Reading) -> JsonValue:
    """Names of the experiment's pods that are bound, may use claims that were allocated, and have not started: nobody prepares these."""
    view = View.at(reading)
    claims = [claim for claim in view.select(CLAIMS, canary_namespace(reading.plan)) if dig(claim, "status", "allocation")]
    bound = [pod for pod in canaries(reading) if node_of(pod) and phase_of(pod) == "Pending"]
    return sorted(name_of(pod) for pod in bound if claims_of(pod, claims))


def moved(reading: Reading) -> JsonValue:
    """Names of the experiment's claims that were given other devices than they were seen with before; sorted."""
    first: dict[str, list[str]] = reading.memory.setdefault("claims.first", {})
    found = set()
    for claim in View.at(reading).select(CLAIMS, canary_namespace(reading.plan)):
        given = sorted("/".join(one) for one in allocated_devices(claim))
        if given and first.setdefault(uid_of(claim), given) != given:
            found.add(name_of(claim))
    return sorted(found)


def released(reading: Reading) -> JsonValue:
    """Names of the experiment's claims that hold nothing and that nobody may use, sorted."""
    states = [(name_of(claim), dig(claim, "status")) for claim in View.at(reading).select(CLAIMS, canary_namespace(reading.plan))]
    return sorted(name for name, status in states if not status.get("allocation") and not status.get("reservedFor"))


def tainted(reading: Reading) -> JsonValue:
    """Devices of the target nodes that are tainted, by their slice or by a DeviceTaintRule, as ``pool/device``, sorted."""
    known = published_devices(View.at(reading))
    return sorted(f"{one.pool}/{one.name}" for one in known.values() if one.node in reading.plan.nodes and one.tainted)


def slice_uids(reading: Reading) -> JsonValue:
    """UIDs of the GPU driver's ResourceSlices for the target nodes, sorted: others once they were published anew."""
    specs = [(uid_of(item), dig(item, "spec")) for item in View.at(reading).select(SLICES)]
    ours = [(uid, spec) for uid, spec in specs if text_of(spec.get("driver")) == DRA_DRIVER]
    return sorted(uid for uid, spec in ours if text_of(spec.get("nodeName")) in reading.plan.nodes)


SIGNALS = {
    "claims.allocated": allocations,
    "claims.held": held,
    "claims.waiting": waiting,
    "claims.moved": moved,
    "claims.released": released,
    "slices.devices": devices,
    "devices.tainted": tainted,
    "slices.uids": slice_uids,
}
