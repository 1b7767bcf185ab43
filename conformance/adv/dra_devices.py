"""ADV-01 and ADV-02 for nodes that offer their devices through DRA: a class gives access to them, and no taint keeps them away."""

from __future__ import annotations

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.dra.drivers import IN_USE
from fixtures.model.dra.inventory import DriverInventory, InventoryDevice, TaintRule
from fixtures.model.dra.kinds import CLASSES, SLICES, TAINT_RULES
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.nodes.held_nodes import limit_of
from fixtures.text.ages import so_far
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject


def _part(node: Node, driver: str) -> Subject:
    return Subject("Node", f"{node.name} {driver}")


def check_published(scope: Scope, node: Node, item: DriverInventory, *, plugin: bool) -> Finding:
    """ADV-01: the pools hold a device, and a DeviceClass gives access to it. ``plugin``: the node has a device plugin too."""
    subject, expected = _part(node, item.driver), "devices, selected by a DeviceClass"
    observed = f"{len(item.devices)} devices published"
    about = About(subject, SLICES, expected)
    if item.incomplete:
        return about.not_judged(f"{listed(item.incomplete)}: DRA-02 judges pools")
    if not item.devices:
        message = f"its DRA driver {item.driver} publishes no device for it, so no pod that claims one can run here"
        return about.bad(message, cause="DevicesNotOffered", observed=observed)
    if why := scope.claims.unread(CLASSES):
        return about.undecided(f"{observed}; whether a DeviceClass gives access to them is not known: {why}", source=CLASSES)
    chosen: list[str] = []
    reached: set[str] = set()
    for name, known in sorted(scope.claims.classes.items()):
        devices = {device.physical for device in item.devices if known.selector.chooses(item.driver, device.body) is not False}
        chosen += [name] if devices else []
        reached |= devices
    if not chosen and plugin:
        return about.not_judged("no DeviceClass selects its devices; pods get devices from the node's device plugin", source=CLASSES)
    lost = {
        device.physical: device.id[2]
        for device in item.devices
        if device.physical not in reached and device.body.type != SHAPE_FOR_MACHINES
    }
    if lost or not chosen:
        what = (
            f"no DeviceClass chooses {listed(in_order(lost.values()))}" if chosen else f"no DeviceClass selects a device of {item.driver}"
        )
        message = f"{what}, so no claim can get {'them' if len(lost) > 1 else 'one'}"
        return about.bad(
            message,
            cause="NoClassForDevices",
            observed=f"{observed}, {len(lost)} selected by no DeviceClass",
            source=f"{SLICES}, {CLASSES}",
        )
    return about.ok(f"{observed}, chosen by {listed(chosen)}", source=f"{SLICES}, {CLASSES}")


def check_untainted(scope: Scope, node: Node, item: DriverInventory) -> Finding:
    """ADV-02: no device is kept from claims by a taint.

    Somebody takes some devices out of service by a DeviceTaintRule, as nodes by a cordon: for so long as the policy lets nodes be held,
    that is a change under way. A rule that names neither pool nor device takes them all, and is no repair. What the driver itself says
    of a device is a fault from its first second.
    """
    subject, total = _part(node, item.driver), len(item.devices)
    if not total or item.incomplete:
        return not_judged(subject, message="its pools are incomplete or empty (ADV-01)", source=SLICES)
    in_use = [device for device in item.devices if _is_in_use(device)]
    tainted = [f"{device.id[2]} {device.taint}" for device in item.devices if device.taint and device not in in_use]
    shapes = f", {len(in_use)} of them shapes that nobody can have beside those in use" if in_use else ""
    observed, expected = f"{total - len(tainted)} allocatable{shapes}", f"{total} (published)"
    about = About(subject, SLICES, expected, observed)
    if tainted and (names := _taken_out(scope, item, limit_of(scope))):
        age = max(scope.snapshot.taken_at - (rule.since or 0.0) for rule in names)
        rules = listed(in_order({f"DeviceTaintRule {rule.name}" for rule in names}))
        message = f"{len(tainted)} of {total} devices of {item.driver} are out of service by {rules} {so_far(age, limit_of(scope))}"
        return about.undecided(message, cause="HeldByItsOwner", source=TAINT_RULES)
    if tainted:
        message = (
            f"{len(tainted)} of {total} devices of {item.driver} are tainted or unhealthy ({listed(tainted)}): no claim should get them"
        )
        return about.bad(message, cause="DeviceUnhealthy")
    return about.ok()


def _taken_out(scope: Scope, item: DriverInventory, limit: float) -> list[TaintRule]:
    """The rules that taint devices, where nothing else does and each is young and names some; otherwise none."""
    if any(device.body.tainted for device in item.devices if not _is_in_use(device)):
        return []
    rules = [rule for rule in scope.slices.rules if any(rule.covers(device.id) for device in item.devices if not _is_in_use(device))]
    young = [rule for rule in rules if rule.names_some and rule.since is not None and scope.snapshot.taken_at - rule.since <= limit]
    return young if len(young) == len(rules) else []


def _is_in_use(device: InventoryDevice) -> bool:
    return device.taint.partition(":")[0].partition("=")[0] in IN_USE
