"""DRA-04: taints of devices do not stay for ever, and no claim is given a device after it was tainted. Pure.

Facts: docs/facts/dra.md#device-taints.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from conformance.dra.claim_objects import allocated_at, device_of, name_of
from conformance.dynamic_resources.claims import results_of
from conformance.dynamic_resources.inventory import TAINT_RULES, DeviceId, DriverInventory, InventoryDevice, TaintRule
from conformance.node_states.ages import duration, moment, said
from conformance.node_states.holds import is_temporary
from conformance.outputs.resource_slice import DeviceTaint
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json, Taint, Toleration
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.probes.claims import CLAIMS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, advised, bad, ok, undecided

_SKEW_SECONDS = 60.0
"""How far clocks of a driver and of the scheduler may be apart."""

_SOURCE = "taints of devices in ResourceSlices, DeviceTaintRules, ResourceClaims"


class HeldTaint(msgspec.Struct, frozen=True, kw_only=True):
    """One hard taint of one device. ``owner`` set it; ``meant``: a rule whose words tell of no fault, such as a reservation."""

    device: InventoryDevice
    taint: DeviceTaint
    since: float | None
    owner: str
    meant: bool = False

    def __str__(self) -> str:
        return f"{self.device.id[2]} has {said(str(self.taint), 120)}, set by {self.owner}"


def check_taints(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per node and DRA driver, and one per DeviceTaintRule that says no devices."""
    given: dict[DeviceId, list[tuple[Json, Json]]] = {}
    for claim in scope.snapshot.listing(CLAIMS).objects:
        for result in results_of(claim):
            given.setdefault(device_of(result), []).append((claim, result))
    for node, drivers in sorted(scope.dra_inventory.items()):
        for item in drivers:
            yield _judge(scope, Subject("Node", f"{node} {item.driver}"), item, given, now)
    for rule in scope.snapshot.listing(TAINT_RULES).objects:
        if "deviceSelector" not in mapping(rule.get("spec")) and mapping(rule.get("spec"), "taint").get("effect") != "None":
            yield _without_selector(rule)


def _without_selector(rule: Json) -> Finding:
    message = (
        "it has no deviceSelector: by its documentation it taints nothing, and schedulers of Kubernetes 1.37.0 keep every device of the "
        "cluster from new claims"
    )
    name = text_of(mapping(rule.get("metadata")).get("name"))
    expected = "a deviceSelector"
    return advised(Subject("DeviceTaintRule", name), observed="no deviceSelector", expected=expected, source=TAINT_RULES, message=message)


def _judge(scope: Scope, place: Subject, item: DriverInventory, given: dict[DeviceId, list[tuple[Json, Json]]], now: float) -> Finding:
    limit = scope.policy.nodes.held_hours * 3600
    held = [one for device in item.devices for one in _taints_of(device, scope.slices.rules)]
    expected = f"no device tainted for more than {scope.policy.nodes.held_hours:g} hours (policy nodes.heldHours), none given to new claims"
    observed = listed([_aged(one, now) for one in held], 4) or f"no taint on {len(item.devices)} devices"
    passing = [one for one in held if not one.meant]
    wrong = [text for one in held for text in _given_after(one, given.get(one.device.id, ()))]
    stale = [_aged(one, now) for one in passing if one.since is not None and now - one.since > limit]
    ageless = [str(one) for one in passing if one.since is None]
    if wrong or stale:
        whats = [*wrong, *stale]
        tail = "" if not stale else "; nobody took it back, so no claim gets the device although nothing says that it is being repaired"
        return bad(place, observed=observed, expected=expected, source=_SOURCE, message=f"{listed(whats, 4)}{tail}")
    if ageless:
        return undecided(place, message=f"{listed(ageless, 4)}, and nothing says since when", source=_SOURCE)
    return ok(place, observed=observed, expected=expected, source=_SOURCE)


def _taints_of(device: InventoryDevice, rules: list[TaintRule]) -> Iterator[HeldTaint]:
    driver = device.id[0]
    for taint in device.body.taints:
        if taint.hard:
            yield HeldTaint(device=device, taint=taint, since=moment(taint.added), owner=f"the driver {said(driver, 80)}")
    for rule in rules:
        if rule.covers(device.id):
            by = f", written by {said(rule.manager, 80)}" if rule.manager else ""
            as_node = Taint(key=rule.taint.key, value=rule.taint.value, effect=rule.taint.effect)
            yield HeldTaint(
                device=device,
                taint=rule.taint,
                since=moment(rule.taint.added) or moment(rule.created),
                owner=f"DeviceTaintRule {said(rule.name, 80)}{by}",
                meant=not is_temporary(as_node) and not is_temporary(Taint(key=rule.name)),
            )


def _aged(one: HeldTaint, now: float) -> str:
    return f"{one} {duration(now - one.since)} ago" if one.since is not None else str(one)


def _given_after(one: HeldTaint, holders: list[tuple[Json, Json]] | tuple[()]) -> Iterator[str]:
    """Claims that were given a device after it was tainted, and do not tolerate it."""
    for claim, result in holders:
        at, _ = allocated_at(claim)
        if at is None or one.since is None or at <= one.since + _SKEW_SECONDS or _tolerates(result, one.taint):
            continue
        late = duration(at - one.since)
        yield f"claim {name_of(claim)} was given {one.device.id[2]} {late} after it got the taint {said(str(one.taint), 120)}"


def _tolerates(result: Json, taint: DeviceTaint) -> bool:
    as_node = Taint(key=taint.key, value=taint.value, effect=taint.effect)
    for item in mappings(result.get("tolerations")):
        key, operator, value, effect = (text_of(item.get(name)) for name in ("key", "operator", "value", "effect"))
        toleration = Toleration(key=key, operator=operator, value=value, effect=effect)
        if toleration.tolerates(as_node):
            return True
    return False
