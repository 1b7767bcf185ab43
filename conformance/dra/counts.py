"""DRA-03, how many: a node publishes as many physical devices as labels, policy and other machines of its kind say. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.devices.node_view import view_of
from conformance.devices.physical import physical_counts
from conformance.devices.products import product_of
from conformance.dynamic_resources.inventory import SLICES, DriverInventory
from conformance.scope.node_changes import change_under_way
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.models import Node
from fixtures.verdict.findings import About, Finding, Subject, not_judged

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_SERVER = "nvidia.com/gpu.machine"
_ANY_SIZE = (
    "n1-*", "custom-*", "Google*", "Standard-PC*", "OpenStack*", "KVM*", "QEMU*", "VMware*", "Virtual-Machine*", "HVM-*", "RHEV*",
    "KubeVirt*", "k3s*", "rke2*", "kind*", "AHV*", "Xen*", "None*",
)  # fmt: skip
"""Kinds of machines (globs) that are given any number of devices."""


class Machines:
    """Published devices of the accelerator nodes by product and kind of machine, which is what one node is compared with."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        for node in scope.accelerator_nodes:
            found = scope.dra_inventory.get(node.name)
            if found and not any(item.incomplete for item in found):
                self._counts.setdefault(self._kind(node), {})[node.name] = sum(item.whole for item in found)
        self._most = {kind: sorted(counts, key=lambda name: (-counts[name], name))[:2] for kind, counts in self._counts.items()}

    def _kind(self, node: Node) -> tuple[str, str]:
        return product_of(self._scope, node), machine_of(node)

    def fullest_other(self, node: Node) -> tuple[str, int] | None:
        """The other node of the kind that publishes most, and how many; None without another."""
        kind = self._kind(node)
        others = [name for name in self._most.get(kind, ()) if name != node.name]
        return (others[0], self._counts[kind][others[0]]) if others else None


def check_count(scope: Scope, node: Node, drivers: list[DriverInventory], machines: Machines) -> Iterator[Finding]:
    """As many physical devices are published as the node has by other sources, else as other machines of its kind publish."""
    subject = Subject("Node", f"{node.name} devices")
    if any(item.incomplete for item in drivers):
        yield not_judged(subject, message="one of its pools is incomplete (DRA-02), so its devices cannot be counted", source=SLICES)
        return
    count = sum(item.whole for item in drivers)
    observed = f"{count} by ResourceSlices of {', '.join(item.driver for item in drivers)}"
    owned = physical_counts(node, view_of(scope, node), scope.policy, drivers, slices=False)
    others = ", ".join(f"{item.devices} by {item.source}" for item in owned)
    fewer = any(item.devices > count for item in owned)
    about = About(subject, SLICES, others, observed)
    if fewer and (doing := change_under_way(node, scope.policy, scope.snapshot.taken_at)):
        yield about.undecided(f"{observed}, and {others}; {doing}", cause="ChangeUnderWay")
    elif any(item.devices != count for item in owned):
        message = f"{observed}, and {others}: devices are lost, or a source is wrong"
        yield about.bad(message, cause="DeviceMissing")
    elif any(item.boot for item in owned):
        yield about.ok()
    else:  # what agents count vanishes from labels and slices alike when a device is lost
        shown = f"{observed}, {others}" if others else observed
        yield _beside_peers(subject, shown, count, machines.fullest_other(node), machine_of(node), agents=bool(owned))


def _beside_peers(subject: Subject, observed: str, count: int, peer: tuple[str, int] | None, machine: str, *, agents: bool) -> Finding:
    about = About(subject, SLICES, observed=observed)
    if peer is None and not agents:
        return about.not_judged("no label, policy or other machine of its kind says how many devices it has")
    if peer is None or count >= peer[1] or (agents and not machine):
        return about.ok(expected=f"at least {peer[1]}, as {peer[0]} publishes" if peer and machine else observed)
    message = f"{observed}, and {peer[1]} by those of {peer[0]}"
    if machine:
        message = f"{message}, which is {machine} too: no pod can use the missing devices"
        return about.bad(message, cause="DeviceMissing", expected=f"{peer[1]}, as {peer[0]} publishes")
    hint = "the machines differ or devices are lost: state advertisement.devicesPerNode in the policy"
    return about.undecided(f"{message}, which has the same product: {hint}", cause="NotUnderstood")


def machine_of(node: Node) -> str:
    """The kind of a machine, where it fixes the number of devices: an instance type, or a server's model. Empty for virtual machines."""
    labels = node.metadata.label
    kind = labels.get(_INSTANCE_TYPE, "") or labels.get(_SERVER, "")
    return "" if matches(kind, _ANY_SIZE) else kind
