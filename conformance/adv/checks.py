"""ADV-01, 02, 03 and 05: that devices are advertised, all of them healthy, as many as there are, and once."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adv.arithmetic import Term, amd_terms, counted_terms, gke_terms, label_terms
from conformance.adv.claimed import Machines, check_count, check_published, check_untainted
from conformance.adv.offered import exempt, same_devices
from conformance.adv.physical import GPU_COUNT, Physical, physical
from conformance.outputs.node_labels import advertisement, expectations, is_vgpu
from conformance.published import SLICES, Published
from conformance.scope import Scope, subject
from fixtures.evidence import Finding, Subject, bad, not_judged, ok, undecided
from fixtures.models import Node

CAPACITY = "node.status.capacity"
_CHANGING = ("pending", "rebooting")


def amounts(resources: dict[str, int]) -> str:
    """``nvidia.com/gpu 8, nvidia.com/mig-1g.5gb 16``, or ``nothing``."""
    return ", ".join(f"{name} {count}" for name, count in sorted(resources.items())) or "nothing"


def part(node: Node, resource: str) -> Subject:
    """One resource of one node."""
    return Subject("Node", f"{node.name} {resource}")


# -- ADV-01 ------------------------------------------------------------------------------------------


def check_advertised(scope: Scope) -> Iterator[Finding]:
    """Per accelerator node: the device resources that its labels predict, or any at all, are greater than zero, or claims find devices."""
    for node in scope.accelerator_nodes:
        publishers = scope.publishers.get(node.name, [])
        plugin = any(scope.device_capacity(node).values())
        yield from (check_published(scope, node, item, plugin=plugin) for item in publishers)
        if plugin or not publishers:
            yield _advertised(scope, node)


def _advertised(scope: Scope, node: Node) -> Finding:
    labels = node.metadata.label
    offered = {name: count for name, count in scope.device_capacity(node).items() if count > 0}
    predicted = [name for name, count in expectations(labels).items() if count > 0]
    missing = [name for name in predicted if not offered.get(name)]
    expected = " and ".join(f"{name} > 0" for name in predicted) or "a device resource > 0"
    if (missing or not offered) and (reason := exempt(scope, node, scope.published.get(node.name, []))):
        return not_judged(subject(node), reason, "node labels, ResourceSlices")
    state = labels.get("nvidia.com/mig.config.state", "")
    if (missing or not offered) and state in _CHANGING:
        return undecided(
            subject(node), f"the MIG manager is changing the node (state {state}), and the plugin is paused meanwhile", CAPACITY
        )
    if not offered:
        invalid = advertisement(labels).gpu.product.mig_invalid
        why = (
            "its devices are cut unevenly and the plugin refuses them"
            if invalid
            else "neither a device plugin nor a DRA driver offers any"
            if scope.publishers
            else "the device plugin has not registered with the kubelet"
        )
        zero = amounts(scope.device_capacity(node))
        message = f"it has accelerators and advertises none: {why}, so no pod that asks for a device can come here"
        return bad(subject(node), zero, expected, CAPACITY, message)
    if missing:
        message = f"its labels promise {', '.join(missing)} and capacity has none of it, so pods that ask for it stay Pending"
        return bad(subject(node), amounts(offered), expected, CAPACITY, message)
    return ok(subject(node), amounts(offered), expected, CAPACITY)


# -- ADV-02 ------------------------------------------------------------------------------------------


def check_allocatable(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node and device resource: all of capacity is allocatable."""
    for node in scope.accelerator_nodes:
        capacity, allocatable = scope.device_capacity(node), scope.device_allocatable(node)
        judged = False
        for resource in sorted({*capacity, *allocatable}):
            have, can = capacity.get(resource, 0), allocatable.get(resource, 0)
            if have == can == 0:
                continue
            judged = True
            observed, expected, source = f"{can} allocatable", f"{have} (capacity)", "node.status.allocatable"
            if can == have:
                yield ok(part(node, resource), observed, expected, source)
            elif can < have:
                message = (
                    f"{have - can} of {have} {resource} are unhealthy: they stay in capacity and no pod gets them until the plugin restarts"
                )
                yield bad(part(node, resource), observed, expected, source, message)
            else:
                message = f"{can} {resource} are allocatable and the node has {have}: pods are bound to devices that are not there"
                yield bad(part(node, resource), observed, expected, source, message)
        publishers = scope.publishers.get(node.name, [])
        yield from (check_untainted(node, item) for item in publishers)
        if not judged and not publishers:
            yield not_judged(subject(node), "it advertises no device resource", CAPACITY)


# -- ADV-03 ------------------------------------------------------------------------------------------


def check_arithmetic(scope: Scope) -> Iterator[Finding]:
    """Per accelerator node and resource: capacity == physical devices × units per device, and the sources of "physical" agree."""
    machines = Machines(scope)
    for node in scope.accelerator_nodes:
        yield from _arithmetic(scope, node, scope.published.get(node.name, []), machines)


def _arithmetic(scope: Scope, node: Node, through_dra: list[Published], machines: Machines) -> Iterator[Finding]:
    labels, capacity = node.metadata.label, scope.device_capacity(node)
    sources = physical(node, scope.policy, through_dra)
    offered = {name: count for name, count in capacity.items() if count > 0}
    if through_dra and offered and _split(node, scope, through_dra, offered):
        yield _split_arithmetic(scope, node, through_dra, offered)
        return
    if through_dra and not offered:
        yield from check_count(scope, node, through_dra, machines)
        return
    if not offered and (reason := exempt(scope, node, through_dra)):
        yield not_judged(subject(node), reason, "node labels, ResourceSlices")
        return
    if is_vgpu(labels):
        yield not_judged(subject(node), "a vGPU guest: its devices are virtual and not counted by label", "node labels")
        return
    terms = terms_of(node, capacity, sources)
    disagreement = _disagreement(node, sources)
    if disagreement is not None:
        yield disagreement
    if not terms and disagreement is None:
        message = "no label, ResourceSlice or policy counts its devices, so there is nothing to compare capacity with"
        yield not_judged(subject(node), message, "node labels, policy advertisement.devicesPerNode")
    for term in terms:
        yield _judge_term(node, term)


def _split_arithmetic(scope: Scope, node: Node, through_dra: list[Published], offered: dict[str, int]) -> Finding:
    """A node whose plugin offers some devices and whose DRA driver the others: together they are all there are."""
    first = physical(node, scope.policy, [])[0]
    plugin, dra = sum(offered.values()), sum(item.whole for item in through_dra)
    observed = f"{plugin} by the plugin + {dra} through DRA"
    if plugin + dra == first.devices:
        return ok(part(node, "devices"), observed, str(first.devices), first.source)
    message = f"plugin and DRA together offer {plugin + dra} of {first.devices} devices: the others take no pods"
    return bad(part(node, "devices"), observed, str(first.devices), first.source, message)


def terms_of(node: Node, capacity: dict[str, int], sources: list[Physical]) -> list[Term]:
    """The arithmetic of a node by the most exact source there is."""
    labels = node.metadata.label
    if terms := gke_terms(labels, capacity):
        return terms
    if any(name.startswith("amd.com/") for name, units in capacity.items() if units):
        return amd_terms(labels, capacity, sources)
    if advertisement(labels).labelled:
        return list(label_terms(labels, capacity))
    return list(counted_terms(capacity, sources))


def _disagreement(node: Node, sources: list[Physical]) -> Finding | None:
    counts = {item.devices for item in sources}
    if len(counts) < 2:
        return None
    observed = ", ".join(f"{item.devices} by {item.source}" for item in sources)
    message = f"its sources count different numbers of devices ({observed}): some are lost or invented"
    return bad(part(node, "devices"), observed, "one number of physical devices", GPU_COUNT, message)


def _judge_term(node: Node, term: Term) -> Finding:
    expected = f"{term.expected} = {term.formula}" if term.expected is not None else term.formula
    if term.agrees:
        return ok(part(node, term.resource), term.shown, expected, term.source)
    if term.problem:
        message = f"it advertises {term.observed} {term.resource}, expected {term.formula}: {term.problem}"
    elif term.expected and term.observed < term.expected:
        message = f"it advertises {term.observed} {term.resource} of {term.expected}: devices that were bought take no pods"
    else:
        message = f"it advertises {term.observed} {term.resource} and has {term.expected}: pods are promised devices that are not there"
    return bad(part(node, term.resource), term.shown, expected, term.source, message)


# -- ADV-05 ------------------------------------------------------------------------------------------


def check_one_route(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node: its devices are offered by the plugin or through DRA, or split between them."""
    scope.snapshot.items(SLICES)  # a list that was refused or not saved must not look like no DRA
    source = f"{CAPACITY}, ResourceSlices"
    for node in scope.accelerator_nodes:
        offered = {name: count for name, count in scope.device_capacity(node).items() if count > 0}
        drivers = scope.published.get(node.name, [])
        shown = ", ".join(f"{item.driver} {len(item.devices)} devices" for item in drivers)
        observed = "; ".join(
            text for text in (f"plugin: {amounts(offered)}" if offered else "", f"DRA: {shown}" if drivers else "") if text
        )
        twice = [(item, name) for item in drivers for name in offered if same_devices(item, name)]
        if not observed:
            yield not_judged(subject(node), "it offers no device by either route", source)
        elif not twice or _split(node, scope, drivers, offered):
            yield ok(subject(node), observed, "each device by one route", source)
        else:
            driver, resource = twice[0]
            message = (
                f"{driver.driver} publishes devices that the plugin also offers as {resource}: "
                "the two do not know of each other and give one device to two pods"
            )
            yield bad(subject(node), observed, "each device by one route", source, message)


def _split(node: Node, scope: Scope, drivers: list[Published], offered: dict[str, int]) -> bool:
    """Whether plugin and DRA together offer no more whole devices than the node's own label or the policy counts."""
    owned = [item.devices for item in physical(node, scope.policy, [])]
    view = advertisement(node.metadata.label)
    if not owned or view.gpu.factor > 1 or any(name.startswith("nvidia.com/mig-") for name in offered):
        return False
    return sum(item.whole for item in drivers) + sum(offered.values()) <= owned[0]
