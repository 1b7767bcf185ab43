"""What is known of one device: which driver publishes it, who holds it, and what keeps it from claims.

The API server knows devices by the ResourceSlices of DRA drivers, and by what kubelets write of pods. Device plugins publish counts.
"""

from collections.abc import Iterator
from functools import partial

from conformance.known.answers import Known, gathered
from conformance.known.inventory import device_row
from conformance.known.node import claim_words, placed_since, work_of
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.devices.shares import given_by_kubelet
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.facts import UNKNOWN, Fact, Since
from fixtures.model.placement.claimable import free_devices
from fixtures.text.sentences import listed
from fixtures.verdict.record import DeviceClaim, PublishedDevice


def uuids_by_claim(scope: Scope, pod: Pod) -> dict[str, str]:
    """Devices that claims of a pod hold, by UUID or else by driver, pool and name, each with the claim."""
    found: dict[str, str] = {}
    for device in (device for drivers in scope.dra_inventory.values() for item in drivers for device in item.devices):
        for holder in scope.claims.holders.get(device.id, ()):
            claim = scope.claims.claim(holder.namespace, holder.name)
            users = mappings(mapping(claim, "status").get("reservedFor"))
            if holder.namespace == pod.namespace and any(text_of(user.get("uid")) == pod.metadata.uid for user in users):
                found[device.body.attribute("uuid") or "/".join(device.id)] = f"ResourceClaim {holder}"
    return found


def names_of_devices(scope: Scope) -> dict[str, tuple[str, InventoryDevice]]:
    """Devices of DRA drivers with their nodes, by everything that they may be called: UUID, ``driver/pool/name``, ``node/index``."""
    found: dict[str, tuple[str, InventoryDevice]] = {}
    for node, drivers in scope.dra_inventory.items():
        for device in (device for item in drivers for device in item.devices):
            index = device.body.attribute("index") or device.body.name.removeprefix("gpu-")
            for name in (device.body.attribute("uuid"), "/".join(device.id), f"{node}/{device.body.name}", f"{node}/{index}"):
                found.setdefault(name, (node, device))
    found.pop("", None)
    return found


def kubelets_devices(scope: Scope) -> dict[str, list[Pod]]:
    """Pods by the UUIDs of devices that their kubelets say they gave them."""
    found: dict[str, list[Pod]] = {}
    for pods in scope.snapshot.pods_by_node.values():
        for pod in pods:
            for uuid in given_by_kubelet(pod, scope.is_device):
                found.setdefault(uuid, []).append(pod)
    return found


def known_device(scope: Scope, node: str, device: InventoryDevice) -> Known:
    """Everything that is known of a device of a ResourceSlice."""
    row = device_row(scope, device)
    facts, unread = gathered(
        partial(_itself, node, device), partial(_taints, scope, device), partial(_holders, scope, row), partial(_node, scope, node)
    )
    name = row.uuid or "/".join(device.id)
    where = f"{name} ({row.name} of {node})"
    words = listed((claim_words(claim) for claim in row.claims or ()), 3)
    taint = f"; it is tainted: {device.taint}" if device.taint else ""
    if row.claims is None:
        state, answer = "not known", f"who holds {where} is not known: {scope.claims.unread('resource.k8s.io/resourceclaims')}{taint}"
    elif row.claims:
        state, answer = "held", f"{where} is held: {words}{taint}"
    elif any(other.id == device.id for item in scope.dra_inventory[node] for other in free_devices(scope, item)):
        state, answer = "free", f"{where} is held by no claim"
    else:
        why = device.taint or ("claims hold other parts or shapes of it" if device.offered else "its pool is not complete")
        state, answer = "not offered", f"{where} is held by no claim, and no claim gets it: {why}"
    ill = next((fact.value for fact in facts if fact.about == "node"), "")
    answer += f"; {node}: {ill}" if ill else ""
    return Known(kind="Device", name=name, state=state, answer=answer, facts=facts, unread=unread)


def known_by_kubelet(uuid: str, pods: list[Pod]) -> Known:
    """What is known of a device that only kubelets name."""
    source = "status.containerStatuses[].allocatedResourcesStatus"
    facts = tuple(
        Fact(about="holders", name=f"{pod.namespace}/{pod.name}", value=f"on {pod.spec.node_name}", source=source) for pod in pods
    )
    holders = listed((f"{pod.namespace}/{pod.name} on {pod.spec.node_name}" for pod in pods), 3)
    return Known(kind="Device", name=uuid, state="held", answer=f"{uuid} is held by {holders}, says the kubelet", facts=facts)


def _itself(node: str, device: InventoryDevice) -> Iterator[Fact]:
    body, (driver, pool, name) = device.body, device.id
    values = {"node": node, "driver": driver, "pool": pool, "name": name, "product": device.product, "PCI address": body.pci_address}
    values |= {key: body.attribute(key) for key in ("uuid", "type", "parentUUID", "profile", "index")}
    for key, value in values.items():
        if value:
            yield Fact(about="device", name=key, value=value, source="ResourceSlice spec.devices")


def _taints(scope: Scope, device: InventoryDevice) -> Iterator[Fact]:
    for taint in device.body.taints:
        at = moment(taint.added)
        since = Since(latest=at, source="timeAdded") if at is not None else UNKNOWN
        value = f"{taint}" + ("" if taint.hard else ": keeps no claim away")
        yield Fact(about="taints", name="by its driver", value=value, source="ResourceSlice spec.devices[].taints", since=since)
    for rule in scope.slices.rules:
        if rule.covers(device.id):
            since = Since(latest=rule.since, source="timeAdded or creation of the rule")
            source = f"DeviceTaintRule {rule.name}"
            yield Fact(about="taints", name="by a rule", value=str(rule.taint), source=source, since=since, owner=rule.manager)
    if device.taint and not device.body.taints and device.taint == device.body.tainted:
        yield Fact(about="taints", name="by its driver", value=device.taint, source="ResourceSlice spec.devices[].attributes")


def _holders(scope: Scope, row: PublishedDevice) -> Iterator[Fact]:
    for claim in row.claims or ():
        body = scope.claims.claim(claim.namespace, claim.name)
        at = moment(mapping(body, "status", "allocation").get("allocationTimestamp"))
        since = Since(latest=at, source="status.allocation.allocationTimestamp") if at is not None else _bound(scope, claim)
        owner = f", of {claim.owner}" if claim.owner else ""
        yield Fact(
            about="holders",
            name=f"{claim.namespace}/{claim.name}",
            value=f"{claim_words(claim)}{owner}",
            source="ResourceClaim status.allocation, status.reservedFor",
            since=since,
        )


def _bound(scope: Scope, claim: DeviceClaim) -> Since:
    """When the first of a claim's pods was bound to its node: kubelets prepare no claim before."""
    times = [placed_since(pod) for pod in scope.snapshot.pods if pod.namespace == claim.namespace and pod.name in claim.used_by]
    known = [one for one in times if one.latest is not None]
    return min(known, key=lambda one: one.latest or 0.0, default=UNKNOWN)


def _node(scope: Scope, name: str) -> Iterator[Fact]:
    """What speaks against its node."""
    if (node := scope.snapshot.node_by_name.get(name)) is None:
        yield Fact(about="node", name=name, value="no such node", source="ResourceSlice spec.nodeName")
        return
    for one in work_of(scope, node).obstacles:
        yield Fact(about="node", name=name, value=one.text, source=one.source, since=one.since, owner=one.owner)
