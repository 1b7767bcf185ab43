"""ADV-01 to 03 of nodes that offer their devices through DRA: published whole, free of taints, as many as there are."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adv.physical import physical
from conformance.products import product_of
from conformance.published import CLASSES, SLICES, Published, twice
from conformance.scope import Scope, matches
from fixtures.evidence import Finding, Subject, bad, not_judged, ok, undecided
from fixtures.models import Node
from fixtures.text import listed

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_SERVER = "nvidia.com/gpu.machine"
_ANY_SIZE = (
    "n1-*", "custom-*", "Google*", "Standard-PC*", "OpenStack*", "KVM*", "QEMU*", "VMware*", "Virtual-Machine*", "HVM-*", "RHEV*",
    "KubeVirt*", "k3s*", "rke2*", "kind*", "AHV*", "Xen*", "None*",
)  # fmt: skip
"""Kinds of machines (globs) that are given any number of devices."""


def _part(node: Node, driver: str) -> Subject:
    return Subject("Node", f"{node.name} {driver}")


def check_published(scope: Scope, node: Node, item: Published, *, plugin: bool) -> Finding:
    """ADV-01: the pools are complete, hold a device, and a DeviceClass gives access to it. ``plugin``: the node has a device plugin too."""
    subject, expected = _part(node, item.driver), "devices in complete pools, chosen by a DeviceClass"
    observed = f"{len(item.devices)} devices published"
    if item.incomplete:
        message = f"{listed(item.incomplete)}: the scheduler allocates nothing of a pool that is not whole, so these devices take no pods"
        return bad(subject, f"{observed}; {listed(item.incomplete)}", expected, SLICES, message)
    if not item.devices:
        message = f"its DRA driver {item.driver} publishes no device for it, so no pod that claims one can come here"
        return bad(subject, observed, expected, SLICES, message)
    if why := scope.claims.unread(CLASSES):
        return undecided(subject, f"{observed}; whether a DeviceClass gives access to them is not known: {why}", CLASSES)
    chosen: list[str] = []
    reached: set[str] = set()
    for name, known in sorted(scope.claims.classes.items()):
        devices = {device.physical for device in item.devices if known.selects(item.driver, device.body) is not False}
        chosen += [name] if devices else []
        reached |= devices
    if not chosen and plugin:
        return not_judged(subject, "no DeviceClass chooses its devices; the node's device plugin offers what pods get", CLASSES)
    lost = {device.physical: device.id[2] for device in item.devices if device.physical not in reached and device.body.type != "vfio"}
    if lost or not chosen:
        what = f"no DeviceClass chooses {listed(sorted(lost.values()))}" if chosen else f"no DeviceClass chooses a device of {item.driver}"
        message = f"{what}, so no claim can get {'them' if len(lost) > 1 else 'one'}"
        return bad(subject, f"{observed}, {len(lost)} chosen by no DeviceClass", expected, f"{SLICES}, {CLASSES}", message)
    return ok(subject, f"{observed}, chosen by {listed(chosen)}", expected, f"{SLICES}, {CLASSES}")


def check_untainted(node: Node, item: Published) -> Finding:
    """ADV-02: no device is kept from claims by a taint."""
    subject, total = _part(node, item.driver), len(item.devices)
    if not total or item.incomplete:
        return not_judged(subject, "its pools are not whole or empty (ADV-01)", SLICES)
    tainted = [f"{device.id[2]} {device.taint}" for device in item.devices if device.taint]
    observed, expected = f"{total - len(tainted)} allocatable", f"{total} (published)"
    if tainted:
        message = (
            f"{len(tainted)} of {total} devices of {item.driver} are tainted or ill ({listed(tainted)}): new claims should not get them"
        )
        return bad(subject, observed, expected, SLICES, message)
    return ok(subject, observed, expected, SLICES)


class Machines:
    """Published devices of the accelerator nodes by product and kind of machine, which is what one node is compared with."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        for node in scope.accelerator_nodes:
            found = scope.published.get(node.name)
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


def check_count(scope: Scope, node: Node, drivers: list[Published], machines: Machines) -> Iterator[Finding]:
    """ADV-03: as many physical devices are published as the node has by other sources, else as other machines of its kind publish."""
    subject = Subject("Node", f"{node.name} devices")
    for item in drivers:
        if doubled := twice(item):
            message = f"{item.driver} publishes {listed(doubled)}: one device is given to several pods"
            yield bad(_part(node, item.driver), listed(doubled), "each device once", SLICES, message)
    if any(item.incomplete for item in drivers):
        yield not_judged(subject, "a pool of it is not whole (ADV-01), so its devices cannot be counted", SLICES)
        return
    count = sum(item.whole for item in drivers)
    observed = f"{count} by ResourceSlices of {', '.join(item.driver for item in drivers)}"
    owned = physical(node, scope.policy, drivers, slices=False)
    others = ", ".join(f"{item.devices} by {item.source}" for item in owned)
    if any(item.devices != count for item in owned):
        message = f"{observed}, and {others}: some devices are lost or invented"
        yield bad(subject, observed, others, SLICES, message)
    elif any(item.boot for item in owned):
        yield ok(subject, observed, others, SLICES)
    else:  # what agents count vanishes from labels and slices alike when a device is lost
        shown = f"{observed}, {others}" if others else observed
        yield _beside_peers(subject, shown, count, machines.fullest_other(node), machine_of(node), agents=bool(owned))


def _beside_peers(subject: Subject, observed: str, count: int, peer: tuple[str, int] | None, machine: str, *, agents: bool) -> Finding:
    if peer is None and not agents:
        return not_judged(subject, "no label, policy or other machine of its kind says how many devices it has", SLICES)
    if peer is None or count >= peer[1] or (agents and not machine):
        return ok(subject, observed, f"at least {peer[1]}, as {peer[0]} publishes" if peer and machine else observed, SLICES)
    message = f"{observed}, and {peer[1]} by those of {peer[0]}"
    if machine:
        message = f"{message}, which is {machine} too: devices that were bought take no pods"
        return bad(subject, observed, f"{peer[1]}, as {peer[0]} publishes", SLICES, message)
    hint = "the machines differ or devices are lost: state advertisement.devicesPerNode in the policy"
    return undecided(subject, f"{message}, which has the same product: {hint}", SLICES)


def machine_of(node: Node) -> str:
    """The kind of a machine, where it fixes the number of devices: an instance type, or a server's model. Empty for virtual machines."""
    labels = node.metadata.label
    kind = labels.get(_INSTANCE_TYPE, "") or labels.get(_SERVER, "")
    return "" if matches(kind, _ANY_SIZE) else kind
