"""DRA-02: pools are complete, their names unique, their nodes there, and a pod of their driver lives on the node. Pure.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#kubelet-plugins.

DRA-04: taints of devices do not stay for ever, no claim gets a tainted device, and pods end that a taint evicts. Pure.

Facts: docs/facts/dra.md#device-taints.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from fixtures.grouping import grouped
from fixtures.kubernetes.models import Pod, Taint
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import Consumer, GivenDevice, HeldClaim, held_claims
from fixtures.model.dra.inventory import DeviceId, DriverInventory, InventoryDevice, TaintRule
from fixtures.model.dra.slices import IN_USE, SLICES, TAINT_RULES, DeviceTaint, DriverKind, Slice, lack_of, wrong_counters
from fixtures.model.facts import reported
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.nodes.holds import is_temporary
from fixtures.model.platform.agents import is_ready
from fixtures.model.platform.kubelet_plugins import DriverPods
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_EXPECTED = "a complete pool, names once, a node that exists, a Ready pod of its driver there"


def check_pools(scope: Scope) -> Iterator[Finding]:
    """One finding per pool of a driver of accelerators, and of other drivers on accelerator nodes; one per node that its driver forgot."""
    pods = DriverPods(scope)
    own = {node.name for node in scope.accelerator_nodes}
    published: dict[str, set[str]] = {}
    for (driver, pool), slices in scope.slices.newest().items():
        nodes = sorted({node for entry in slices for node in (entry.node, *(device.node for device in entry.devices)) if node})
        published.setdefault(driver, set()).update(nodes)
        if scope.kind_of(driver) is DriverKind.ACCELERATOR or own & set(nodes):
            yield _judge(scope, driver, pool, slices, nodes, pods)
    yield from _forgotten(scope, published, pods)


def _judge(scope: Scope, driver: str, pool: str, slices: Sequence[Slice], nodes: Sequence[str], pods: DriverPods) -> Finding:
    node = nodes[0] if len(nodes) == 1 else ""
    name = f"{node} {driver}" if node and pool == node else f"{node} {driver}/{pool}".strip()
    place = Subject("Node" if node else "Pool", name)
    count, wanted, generation = len(slices), max(entry.expected_slices for entry in slices), slices[0].generation
    observed = f"{count} of {wanted} slices of generation {generation}, {sum(len(entry.devices) for entry in slices)} devices"
    about = About(place, f"{SLICES}, pods", _EXPECTED)
    if unread := next((entry.incomplete for entry in slices if entry.incomplete), ""):
        return about.undecided(f"pool {pool} cannot be read whole: {unread}", cause="NotUnderstood", source=SLICES)
    problems = []
    if lack := lack_of(slices):
        problems.append(f"pool {pool} has {lack}: nothing of it is allocated")
    names = Counter(device.name for entry in slices for device in entry.devices)
    if twice := sorted(name for name, times in names.items() if times > 1):
        problems.append(f"pool {pool} has {listed(twice)} more than once: one device is given to several pods")
    wrong = "" if lack else wrong_counters(slices)
    if wrong:
        problems.append(f"pool {pool} has {wrong}: the scheduler takes the whole pool for invalid and allocates nothing of it")
    known = scope.snapshot.node_by_name
    if lost := [node for node in nodes if node not in known]:
        problems.append(f"its node {listed(lost)} does not exist")
    unsure, troubled = "", set[str]()
    for node in (node for node in nodes if node in known):
        if not known[node].ready:
            if not problems:
                return about.not_judged(f"node {node} is NotReady (INV-02), so its driver cannot be judged", source=SLICES)
            continue
        state = pods.state(driver, node)
        if state.problem:
            problems.append(state.problem)
            troubled.add(node)
        unsure = unsure or state.unsure
        observed += f"; {state.observed}" if state.observed else ""
    now = scope.snapshot.taken_at
    changing = {node: doing for node in nodes if node in known and (doing := change_under_way(known[node], scope.policy, now))}
    if problems and not twice and not wrong and not lost and changing and troubled <= changing.keys():
        return about.undecided(f"{listed(problems, 4)}; {listed(changing.values(), 1)}", cause="ChangeUnderWay")
    if problems:
        cause = "PoolInvalid" if wrong and len(problems) == 1 else "PoolNotServed"
        return about.bad(listed(problems, 4), cause=cause, observed=observed)
    if unsure and scope.kind_of(driver) is DriverKind.OTHER:
        return about.not_judged(unsure, source="pods")
    if unsure:
        return about.undecided(unsure, cause="NotUnderstood", source="pods")
    return about.ok(observed)


def _forgotten(scope: Scope, published: dict[str, set[str]], pods: DriverPods) -> Iterator[Finding]:
    """Nodes where a Ready pod of a driver publishes nothing, although the same DaemonSet publishes for that driver on other nodes."""
    for driver, nodes in sorted(published.items()):
        if scope.kind_of(driver) is DriverKind.ACCELERATOR:
            continue  # INV-01
        for node in sorted(pods.nodes_of(driver) - nodes):
            here = scope.snapshot.node_by_name.get(node)
            if here is None or not here.ready or node not in scope.dra_inventory:
                continue
            pod = pods.of(driver, node)
            if pod is not None and is_ready(pod):
                about = About(Subject("Node", f"{node} {driver}"), SLICES, f"a ResourceSlice of {driver}", "no slice")
                others = f"as it does on {listed(in_order(nodes), 3)}"
                message = f"{pod.namespace}/{pod.name} runs there and publishes no slice of {driver}, {others}"
                yield about.bad(message, cause="PoolNotServed")


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
            yield _judge_taints(scope, Subject("Node", f"{node} {item.driver}"), item, given, now)
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


def _judge_taints(scope: Scope, place: Subject, item: DriverInventory, given: _Given, now: float) -> Finding:
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
