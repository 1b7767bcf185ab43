"""ADV-01 to 03 for nodes that offer their devices through DRA: complete pools, no taints, the right number."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.devices.physical import physical_counts
from conformance.devices.products import product_of
from conformance.dynamic_resources.inventory import CLASSES, SLICES, DriverInventory, published_twice
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.models import Node
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok, undecided

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_SERVER = "nvidia.com/gpu.machine"
_ANY_SIZE = (
    "n1-*", "custom-*", "Google*", "Standard-PC*", "OpenStack*", "KVM*", "QEMU*", "VMware*", "Virtual-Machine*", "HVM-*", "RHEV*",
    "KubeVirt*", "k3s*", "rke2*", "kind*", "AHV*", "Xen*", "None*",
)  # fmt: skip
"""Kinds of machines (globs) that are given any number of devices."""


def _part(node: Node, driver: str) -> Subject:
    return Subject("Node", f"{node.name} {driver}")


def check_published(scope: Scope, node: Node, item: DriverInventory, *, plugin: bool) -> Finding:
    """ADV-01: the pools are complete, hold a device, and a DeviceClass gives access to it. ``plugin``: the node has a device plugin too."""
    subject, expected = _part(node, item.driver), "devices in complete pools, selected by a DeviceClass"
    observed = f"{len(item.devices)} devices published"
    if item.incomplete:
        message = f"{listed(item.incomplete)}: the scheduler allocates nothing from an incomplete pool, so no pod gets these devices"
        return bad(
            subject,
            observed=f"{observed}; {listed(item.incomplete)}",
            expected=expected,
            source=SLICES,
            message=message,
        )
    if not item.devices:
        message = f"its DRA driver {item.driver} publishes no device for it, so no pod that claims one can run here"
        return bad(subject, observed=observed, expected=expected, source=SLICES, message=message)
    if why := scope.claims.unread(CLASSES):
        return undecided(
            subject,
            message=f"{observed}; whether a DeviceClass gives access to them is not known: {why}",
            source=CLASSES,
        )
    chosen: list[str] = []
    reached: set[str] = set()
    for name, known in sorted(scope.claims.classes.items()):
        devices = {device.physical for device in item.devices if known.selects(item.driver, device.body) is not False}
        chosen += [name] if devices else []
        reached |= devices
    if not chosen and plugin:
        return not_judged(
            subject,
            message="no DeviceClass selects its devices; pods get devices from the node's device plugin",
            source=CLASSES,
        )
    lost = {device.physical: device.id[2] for device in item.devices if device.physical not in reached and device.body.type != "vfio"}
    if lost or not chosen:
        what = f"no DeviceClass chooses {listed(sorted(lost.values()))}" if chosen else f"no DeviceClass selects a device of {item.driver}"
        message = f"{what}, so no claim can get {'them' if len(lost) > 1 else 'one'}"
        return bad(
            subject,
            observed=f"{observed}, {len(lost)} selected by no DeviceClass",
            expected=expected,
            source=f"{SLICES}, {CLASSES}",
            message=message,
        )
    return ok(
        subject,
        observed=f"{observed}, chosen by {listed(chosen)}",
        expected=expected,
        source=f"{SLICES}, {CLASSES}",
    )


def check_untainted(node: Node, item: DriverInventory) -> Finding:
    """ADV-02: no device is kept from claims by a taint."""
    subject, total = _part(node, item.driver), len(item.devices)
    if not total or item.incomplete:
        return not_judged(subject, message="its pools are incomplete or empty (ADV-01)", source=SLICES)
    tainted = [f"{device.id[2]} {device.taint}" for device in item.devices if device.taint]
    observed, expected = f"{total - len(tainted)} allocatable", f"{total} (published)"
    if tainted:
        message = (
            f"{len(tainted)} of {total} devices of {item.driver} are tainted or unhealthy ({listed(tainted)}): no claim should get them"
        )
        return bad(subject, observed=observed, expected=expected, source=SLICES, message=message)
    return ok(subject, observed=observed, expected=expected, source=SLICES)


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
    """ADV-03: as many physical devices are published as the node has by other sources, else as other machines of its kind publish."""
    subject = Subject("Node", f"{node.name} devices")
    for item in drivers:
        if doubled := published_twice(item):
            message = f"{item.driver} publishes {listed(doubled)}: one device is given to several pods"
            yield bad(
                _part(node, item.driver),
                observed=listed(doubled),
                expected="each device once",
                source=SLICES,
                message=message,
            )
    if any(item.incomplete for item in drivers):
        yield not_judged(
            subject,
            message="one of its pools is incomplete (ADV-01), so its devices cannot be counted",
            source=SLICES,
        )
        return
    count = sum(item.whole for item in drivers)
    observed = f"{count} by ResourceSlices of {', '.join(item.driver for item in drivers)}"
    owned = physical_counts(node, scope.policy, drivers, slices=False)
    others = ", ".join(f"{item.devices} by {item.source}" for item in owned)
    if any(item.devices != count for item in owned):
        message = f"{observed}, and {others}: devices are lost, or a source is wrong"
        yield bad(subject, observed=observed, expected=others, source=SLICES, message=message)
    elif any(item.boot for item in owned):
        yield ok(subject, observed=observed, expected=others, source=SLICES)
    else:  # what agents count vanishes from labels and slices alike when a device is lost
        shown = f"{observed}, {others}" if others else observed
        yield _beside_peers(subject, shown, count, machines.fullest_other(node), machine_of(node), agents=bool(owned))


def _beside_peers(subject: Subject, observed: str, count: int, peer: tuple[str, int] | None, machine: str, *, agents: bool) -> Finding:
    if peer is None and not agents:
        return not_judged(
            subject,
            message="no label, policy or other machine of its kind says how many devices it has",
            source=SLICES,
        )
    if peer is None or count >= peer[1] or (agents and not machine):
        return ok(
            subject,
            observed=observed,
            expected=f"at least {peer[1]}, as {peer[0]} publishes" if peer and machine else observed,
            source=SLICES,
        )
    message = f"{observed}, and {peer[1]} by those of {peer[0]}"
    if machine:
        message = f"{message}, which is {machine} too: no pod can use the missing devices"
        return bad(
            subject,
            observed=observed,
            expected=f"{peer[1]}, as {peer[0]} publishes",
            source=SLICES,
            message=message,
        )
    hint = "the machines differ or devices are lost: state advertisement.devicesPerNode in the policy"
    return undecided(subject, message=f"{message}, which has the same product: {hint}", source=SLICES)


def machine_of(node: Node) -> str:
    """The kind of a machine, where it fixes the number of devices: an instance type, or a server's model. Empty for virtual machines."""
    labels = node.metadata.label
    kind = labels.get(_INSTANCE_TYPE, "") or labels.get(_SERVER, "")
    return "" if matches(kind, _ANY_SIZE) else kind
