"""DRA-04: taints of devices do not stay for ever, no claim gets a tainted device, and pods end that a taint evicts. Pure.

Facts: docs/facts/dra.md#device-taints.
"""

from collections.abc import Iterator, Sequence

import msgspec

from fixtures.grouping import grouped
from fixtures.kubernetes.models import Pod, Taint
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import Consumer, GivenDevice, HeldClaim, held_claims
from fixtures.model.dra.inventory import DeviceId, DriverInventory, InventoryDevice, TaintRule
from fixtures.model.dra.slices import IN_USE, TAINT_RULES, DeviceTaint
from fixtures.model.facts import reported
from fixtures.model.nodes.holds import is_temporary
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_SKEW_SECONDS = 60.0
"""How far clocks of a driver and of the scheduler may be apart."""

_SOURCE = "taints of devices in ResourceSlices, DeviceTaintRules, ResourceClaims"

_Given = dict[DeviceId, list[tuple[HeldClaim, GivenDevice]]]
"""Claims by the device that they were given."""


class HeldTaint(msgspec.Struct, frozen=True, kw_only=True):
    """One hard taint of one device. ``owner`` set it; ``meant``: a rule whose words tell of no fault, such as a reservation."""

    device: InventoryDevice
    taint: DeviceTaint
    since: float | None
    owner: str
    meant: bool = False

    def __str__(self) -> str:
        return f"{self.device.id[2]} has {reported(str(self.taint), 120)}, set by {self.owner}"


def check_taints(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per node and DRA driver, and one per DeviceTaintRule that says no devices, or all there are."""
    given = grouped((device.id, (claim, device)) for claim in held_claims(scope) for device in claim.given)
    for node, drivers in sorted(scope.dra_inventory.items()):
        for item in drivers:
            yield _judge(scope, Subject("Node", f"{node} {item.driver}"), item, given, now)
    yield from (_for_all(rule) for rule in scope.slices.rules if rule.covers_all)
    yield from map(_without_selector, scope.slices.rules_without_selector)


def _without_selector(name: str) -> Finding:
    about = About(Subject("DeviceTaintRule", name), TAINT_RULES, "a deviceSelector", "no deviceSelector")
    effect = "it taints nothing by its documentation, and schedulers of Kubernetes 1.37.0 keep every device of the cluster from new claims"
    return about.advised(f"it has no deviceSelector: {effect}", cause="TaintRuleTooWide")


def _for_all(rule: TaintRule) -> Finding:
    what = "every pod that uses a device of any driver is evicted" if rule.taint.effect == "NoExecute" else "no claim gets a device"
    message = f"its deviceSelector names no driver, pool or device, so {what}, in all namespaces: was one device meant?"
    expected = "a deviceSelector that names a driver, a pool or a device"
    about = About(Subject("DeviceTaintRule", rule.name), TAINT_RULES, expected, f"{rule.taint} on every device")
    return about.advised(message, cause="TaintRuleTooWide")


def _judge(scope: Scope, place: Subject, item: DriverInventory, given: _Given, now: float) -> Finding:
    limit = scope.policy.nodes.held_hours * 3600
    held = [one for device in item.devices for one in _taints_of(device, scope.slices.rules)]
    expected = f"no device tainted for more than {scope.policy.nodes.held_hours:g} hours (policy nodes.heldHours), none given to new claims"
    observed = listed([_aged(one, now) for one in held], 4) or f"no taint on {len(item.devices)} devices"
    passing = [one for one in held if not one.meant]
    wrong = [text for one in held for text in _given_after(one, given.get(one.device.id, ()))]
    stale = [_aged(one, now) for one in passing if one.since is not None and now - one.since > limit]
    ageless = [str(one) for one in passing if one.since is None]
    wrong += [text for one in held for text in _not_evicted(scope, one, given.get(one.device.id, ()), now)]
    about = About(place, _SOURCE, expected, observed)
    if wrong or stale:
        tail = "; it was not removed, so no claim gets the device, and nothing says that it is being repaired" if stale else ""
        return about.bad(f"{listed([*wrong, *stale], 4)}{tail}", cause="DeviceTaintStale")
    if ageless:
        return about.undecided(f"{listed(ageless, 4)}, and nothing says since when", cause="AgeUnknown")
    return about.ok()


def _taints_of(device: InventoryDevice, rules: list[TaintRule]) -> Iterator[HeldTaint]:
    driver = device.id[0]
    for taint in device.body.taints:
        if taint.hard:
            owner = f"the driver {reported(driver, 80)}"
            yield HeldTaint(device=device, taint=taint, since=moment(taint.added), owner=owner, meant=taint.key in IN_USE)
    for rule in rules:
        if rule.covers(device.id):
            by = f", written by {reported(rule.manager, 80)}" if rule.manager else ""
            meant = not is_temporary(rule.taint.as_node) and not is_temporary(Taint(key=rule.name))
            owner = f"DeviceTaintRule {reported(rule.name, 80)}{by}"
            yield HeldTaint(device=device, taint=rule.taint, since=rule.since, owner=owner, meant=meant)


def _aged(one: HeldTaint, now: float) -> str:
    return f"{one} {duration(now - one.since)} ago" if one.since is not None else str(one)


def _given_after(one: HeldTaint, holders: Sequence[tuple[HeldClaim, GivenDevice]]) -> Iterator[str]:
    """Claims that were given a device after it was tainted, and do not tolerate it."""
    for claim, given in holders:
        at = claim.allocated_at
        if at is None or one.since is None or at <= one.since + _SKEW_SECONDS or _tolerates(given, one.taint):
            continue
        late = duration(at - one.since)
        yield f"claim {claim.name} was given {one.device.id[2]} {late} after it got the taint {reported(str(one.taint), 120)}"


def _not_evicted(scope: Scope, one: HeldTaint, holders: Sequence[tuple[HeldClaim, GivenDevice]], now: float) -> Iterator[str]:
    """Pods that go on using a device which has had a NoExecute taint for longer than pods may take to end."""
    limit = scope.policy.requests.end_minutes * 60
    if one.taint.effect != "NoExecute" or one.since is None or now - one.since < limit:
        return
    pods = {(pod.namespace, pod.name): pod for pod in scope.snapshot.listing("pods").items}
    for claim, given in holders:
        if _tolerates(given, one.taint):
            continue
        for consumer in claim.consumers:
            pod = pods.get((claim.place.namespace, consumer.name))
            if pod is not None and _goes_on(pod, consumer, now - limit):
                who, age = f"pod {pod.namespace}/{pod.name}", duration(now - one.since)
                yield f"{who} goes on using {one.device.id[2]} {age} after it got the taint {reported(str(one.taint), 120)}"


def _goes_on(pod: Pod, consumer: Consumer, before: float) -> bool:
    """Whether the pod of a reservation has run since some moment, and is not being ended."""
    begun = moment(pod.start_time)
    same = not pod.metadata.uid or consumer.uid in ("", pod.metadata.uid)
    return same and not pod.finished and not pod.metadata.deletion_timestamp and begun is not None and begun < before


def _tolerates(given: GivenDevice, taint: DeviceTaint) -> bool:
    return any(toleration.tolerates(taint.as_node) for toleration in given.tolerated)
