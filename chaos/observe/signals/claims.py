"""Signals of dynamic resource allocation: the experiment's claims and the devices that drivers publish."""

from chaos.model.conditions import JsonValue
from chaos.model.plan import canary_namespace
from chaos.observe.signals.pods import canaries
from chaos.observe.view import Reading, Signal, View
from fixtures.kubernetes.models import Json
from fixtures.model.dra.nvidia_driver import (
    DRA_DRIVER,
    allocated_devices,
    claims_of,
    devices_in,
    is_allocated,
    published_devices,
    slices_for,
    users_of,
)
from fixtures.model.dra.slices import CLAIMS, SLICES
from fixtures.model.objects import full_name, is_live, name_of, namespace_of, node_of, phase_of, uid_of


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


SIGNALS: dict[str, Signal] = {
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
}
