"""The inventory of a report: accelerator nodes, who names them, their products and devices."""

from collections.abc import Mapping

from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.devices.held_and_sick import held_units, sick_units
from fixtures.model.devices.offers import without_devices
from fixtures.model.dra.claims import Holder
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.dra.slices import CLAIMS
from fixtures.model.nodes.peers import pool_name
from fixtures.model.nodes.pools import product_of
from fixtures.snapshot.simulated_nodes import is_simulated
from fixtures.verdict.record import DeviceClaim, InventoryRow, PublishedDevice, PublishedSlice
from fixtures.verdict.subjects import Inconclusive, NotApplicable

MAX_DEVICES = 128
"""Most devices of a slice in a report: as many as the API lets a slice have (docs/facts/dra.md#what-the-api-server-refuses)."""

MAX_NAMED = 8
"""Most claims of a device, and pods of a claim, in a report."""


_PodId = tuple[str, str, str]
"""Namespace, name and UID."""


def published_slices(scope: Scope) -> dict[str, list[PublishedSlice]]:
    """Slices of accelerators by node, in the newest generation of their pools, in order of name."""
    pods = _pods(scope)
    published = scope.slices.newest()
    found: dict[str, list[PublishedSlice]] = {}
    for node, drivers in scope.dra_inventory.items():
        devices = {device.id: device for item in drivers for device in item.devices}
        for driver, pool in dict.fromkeys(identity[:2] for identity in devices):
            for entry in published[driver, pool]:
                own = [device for body in entry.devices if (device := devices.get((driver, pool, body.name))) is not None]
                if own:
                    row = PublishedSlice(
                        name=_short(entry.name),
                        driver=_short(driver),
                        pool=_short(pool),
                        generation=entry.generation,
                        devices=[_device(scope, device, pods) for device in own[:MAX_DEVICES]],
                        left_out=max(len(own) - MAX_DEVICES, 0),
                    )
                    found.setdefault(node, []).append(row)
    return found


def device_row(scope: Scope, device: InventoryDevice) -> PublishedDevice:
    """One device with the claims that hold it."""
    return _device(scope, device, _pods(scope))


def _pods(scope: Scope) -> dict[_PodId, Pod] | None:
    """Pods of the snapshot; None where claims were not read."""
    if not scope.snapshot.listing(CLAIMS).known:
        return None
    return {(pod.namespace, pod.name, pod.metadata.uid): pod for pod in scope.snapshot.pods}


def _device(scope: Scope, device: InventoryDevice, pods: Mapping[_PodId, Pod] | None) -> PublishedDevice:
    body = device.body
    holders = scope.claims.holders.get(device.id, ())
    return PublishedDevice(
        name=_short(body.name),
        type=_short(body.type),
        product=_short(device.product),
        uuid=_short(body.attribute("uuid")),
        taint=_short(device.taint),
        claims=None if pods is None else [_claim(scope, holder, pods) for holder in holders[:MAX_NAMED]],
    )


def _claim(scope: Scope, holder: Holder, pods: Mapping[_PodId, Pod]) -> DeviceClaim:
    claim = scope.claims.claim(holder.namespace, holder.name) or {}
    users = [(text_of(item.get("name")), text_of(item.get("uid"))) for item in mappings(mapping(claim.get("status")).get("reservedFor"))]
    known = [pod for name, uid in users if (pod := pods.get((holder.namespace, name, uid))) is not None]
    owner = next((owner for pod in known if (owner := pod.controller) is not None), None)
    return DeviceClaim(
        namespace=_short(holder.namespace),
        name=_short(holder.name),
        used_by=[_short(name) for name, _ in users[:MAX_NAMED]],
        owner=_short(f"{owner.kind}/{owner.name}") if owner is not None else "",
        share=holder.shared,
    )


def _short(text: str) -> str:
    """No longer than names of Kubernetes are: a saved snapshot may hold anything."""
    return text[:253]


def inventory(scope: Scope) -> list[InventoryRow]:
    """A row per accelerator node that the run is about; none where nodes were not read, or where half of what is known of them was not."""
    if not scope.snapshot.listing("nodes").known:
        return []
    rows: list[InventoryRow] = []
    try:
        found, slices = sorted(scope.sources.items()), published_slices(scope)
    except (Inconclusive, NotApplicable):  # requirements say why; the inventory holds nothing that is half known
        return rows
    for name, sources in found:
        if scope.chosen and name not in scope.chosen:
            continue
        node = scope.snapshot.node_by_name.get(name)
        reason = scope.why_not_judged(node) or without_devices(scope, node) if node else "no such node"
        rows.append(
            InventoryRow(
                node=name,
                uid=node.metadata.uid if node else "",
                system_uuid=node.status.node_info.system_uuid if node else "",
                sources=[*(source for source, yes in sources.items() if yes), *scope.accelerators.marks.get(name, ())],
                product=node.metadata.label.get("nvidia.com/gpu.product", "") or product_of(scope, node) if node else "",
                pool=_short(pool_name(scope, node)) if node else "",
                capacity=_capacity(scope, node) if node else {},
                judged=not reason,
                message=reason,
                slices=slices.get(name, []),
                simulated=node is not None and is_simulated(node),
                held=held_units(scope, node) if node else None,
                sick=sick_units(scope, node) if node else None,
            )
        )
    return rows


def _capacity(scope: Scope, node: Node) -> dict[str, str]:
    """Devices by resource name, and by the DRA driver that publishes them."""
    published = {item.driver: str(len(item.devices)) for item in scope.dra_drivers.get(node.name, ())}
    return {**{key: str(count) for key, count in scope.device_capacity(node).items()}, **published}
