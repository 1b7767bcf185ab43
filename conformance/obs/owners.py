"""Who holds each device of a node: by the exporter's labels, the kubelet's word in pod statuses, claims, and the pods themselves. Pure.

Facts: docs/facts/telemetry.md#owners, docs/facts/telemetry.md#shared-devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.obs.flaws import Flaw
from conformance.obs.page import Page, Part
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope, requested_amounts
from fixtures.model.devices.given import given_by_kubelet
from fixtures.text.sentences import in_order, listed

Name = tuple[str, str]
"""Namespace and name of a pod."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod of a node holds. ``count`` is 0 for a pod without devices, ``devices`` are UUIDs that anybody but the exporter names.

    ``said_by`` is who names them. ``runs``: the exporter has to name it by now. ``quarrel``: two of the others differ, as a clause.
    """

    count: int = 0
    containers: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    said_by: str = ""
    runs: bool = False
    quarrel: str = ""


def held_on(
    scope: Scope,
    node: Node,
    pods: Iterable[Pod],
    sights: Mapping[Name, Iterable[str]] | None = None,
    listings: Mapping[Name, set[str]] | None = None,
) -> dict[Name, Held]:
    """What each pod of a node holds, pods that have ended left out.

    ``sights`` are UUIDs that pods of this run list themselves, ``listings`` those that kubelets list for pods (PodResources).
    """
    claimed = _by_claim(scope, node)
    found: dict[Name, Held] = {}
    for pod in pods:
        if pod.finished or pod.spec.node_name != node.name:
            continue
        name = (pod.namespace, pod.name)
        amounts = {key: units for key, units in scope.devices_of(pod.spec).items() if units}
        by_status, by_claim = given_by_kubelet(pod, scope.is_device), claimed.get((pod.namespace, pod.name, pod.metadata.uid), set())
        by_sight = set((sights or {}).get(name, ()))
        named = {
            "the pod itself": by_sight,
            "the kubelet (PodResources)": (listings or {}).get(name, set()),
            "the kubelet (pod.status)": by_status,
            "its claim": by_claim,
        }
        said = {who: names for who, names in named.items() if names}
        found[name] = Held(
            count=max(sum(amounts.values()), len(by_claim)),
            containers=_containers(scope, pod),
            devices=frozenset(next(iter(said.values()), ())),
            said_by=next(iter(said), ""),
            quarrel=_quarrel(said),
            runs=pod.status.phase == "Running" and not pod.metadata.deletion_timestamp,
        )
    return found


def _quarrel(said: Mapping[str, set[str]]) -> str:
    if all(names == next(iter(said.values())) for names in said.values()):
        return ""
    return " and ".join(f"{who} says {listed(in_order(names))}" for who, names in said.items())


def _containers(scope: Scope, pod: Pod) -> frozenset[str]:
    every = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    by_resource = {one.name for one in every if requested_amounts(one, scope.is_device)}
    return frozenset(by_resource | {one.name for one in every if one.resources.claims})


def _by_claim(scope: Scope, node: Node) -> dict[tuple[str, str, str], set[str]]:
    """UUIDs of whole devices by the pods (namespace, name, UID) that their claims are reserved for."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for device in (device for item in scope.dra_inventory.get(node.name, ()) for device in item.devices):
        uuid = device.body.attribute("uuid")
        for holder in scope.claims.holders.get(device.id, ()) if uuid else ():
            claim = scope.claims.claim(holder.namespace, holder.name) or {}
            for user in mappings(mapping(claim.get("status")).get("reservedFor")):
                found.setdefault((holder.namespace, text_of(user.get("name")), text_of(user.get("uid"))), set()).add(uuid)
    return found


def parts_of(page: Page) -> list[Part]:
    """The rows that owners are named on: MIG instances, and devices without any."""
    return [part for rows in page.devices.values() for part in ([row for row in rows if row.instance] or rows)]


def owner_flaws(page: Page, held: Mapping[Name, Held], *, shared: bool) -> list[Flaw]:
    """Where the exporter's labels disagree with who holds the devices of a node. ``shared``: one device may have many owners."""
    return [*_wrong(page, held, shared=shared), *([] if shared else _unnamed(page, held))]


def _wrong(page: Page, held: Mapping[Name, Held], *, shared: bool) -> Iterator[Flaw]:
    for part in parts_of(page):
        if len(part.owners) > 1 and not shared:
            yield Flaw("OwnerWrong", f"{part} is given to {listed(part.owners)} at once")
        for owner in part.owners:
            known = held.get((owner.namespace, owner.pod))
            if known is None:
                yield Flaw("OwnerStale", f"{part} is given to {owner}, and no such pod is on the node")
            elif not (known.count or known.containers):
                yield Flaw("OwnerWrong", f"{part} is given to {owner}, which asks for no device")
            elif owner.container and known.containers and owner.container not in known.containers:
                yield Flaw("OwnerWrong", f"{part} is given to {owner}: that container asks for no device")
            elif not part.instance and known.devices and part.uuid not in known.devices and not shared:
                yield Flaw("OwnerWrong", f"{part} is given to {owner}, which holds {listed(in_order(known.devices))} by {known.said_by}")


def _unnamed(page: Page, held: Mapping[Name, Held]) -> Iterator[Flaw]:
    for (namespace, name), known in sorted(held.items()):
        if known.quarrel:
            yield Flaw("OwnerWrong", f"of {namespace}/{name} {known.quarrel}")
        mine = [part for part in parts_of(page) if any((one.namespace, one.pod) == (namespace, name) for one in part.owners)]
        if known.runs and len(mine) < known.count:
            named = {part.uuid for part in mine}
            which = listed(in_order(known.devices - named)) if known.devices else f"{known.count - len(mine)} of its {known.count} devices"
            yield Flaw(
                "OwnerNotNamed", f"no series names {namespace}/{name} for {which}, which it holds by {known.said_by or 'its requests'}"
            )
        if not all(one.container and one.namespace for part in mine for one in part.owners if one.pod == name):
            yield Flaw("OwnerNotNamed", f"series of {listed(mine)} name the pod {name} and lack its namespace or container")


class Row(msgspec.Struct, frozen=True):
    """One device or MIG instance: who holds it by the exporter, and by others, with who says so; "-" for nobody."""

    device: str
    exporter: str
    others: str


def owner_rows(held: Mapping[Name, Held], page: Page) -> list[Row]:
    """A row for each device or instance on a page."""
    by_device: dict[str, list[str]] = {}
    for (namespace, name), known in sorted(held.items()):
        for uuid in known.devices:
            by_device.setdefault(uuid, []).append(f"{namespace}/{name} ({known.said_by})")
    rows = []
    for part in parts_of(page):
        asking = [one for one in part.owners if (mine := held.get((one.namespace, one.pod))) and mine.count and not mine.devices]
        named = by_device.get(part.uuid, []) if not part.instance else []
        named = named or [f"{one.namespace}/{one.pod} (its requests)" for one in asking]
        rows.append(Row(str(part), listed(part.owners) or "-", listed(named) or "-"))
    return rows
