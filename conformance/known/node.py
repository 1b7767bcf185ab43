"""What is known of one node: whether it may take work and what speaks against it, its devices and who holds them, its agents."""

from collections.abc import Iterator
from functools import partial

from conformance.known.answers import Known, gathered
from conformance.known.inventory import published_slices
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import CLAIMS, SLICES
from fixtures.model.facts import UNKNOWN, Fact, Since
from fixtures.model.nodes.changes import joining, rebooting
from fixtures.model.nodes.facts import facts_of_node
from fixtures.model.nodes.pools import pools, product_label, product_of
from fixtures.model.nodes.work import NodeWork, Obstacle, Why, work_by_node
from fixtures.model.placement.claimable import free_devices
from fixtures.model.platform.agents import agents, is_ready
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.sentences import duration, listed
from fixtures.verdict.record import DeviceClaim

_KEEPS_PODS_AWAY = (Why.NOT_READY, Why.DELETED, Why.CORDONED, Why.TAINTED, Why.UNEXPLAINED)
_WORKS_ON = (Why.UNSURE, Why.NOTICE, Why.DEVICES)
"""What does not stop a node: a fault that is not sure, an end that is announced, a device less."""

_BY_CLAIM = "devices by claim"

MOST_ROWS = 64
"""Pods, and devices, of a node that have a row of their own."""


def work_of(scope: Scope, node: Node, fields: object = None) -> NodeWork:
    """What speaks against a node, seen beside the nodes of its product."""
    pool = pools(scope, scope.snapshot.nodes)[product_of(scope, node)]
    named = {node.name: fields}
    return work_by_node(pool, is_fence=scope.is_fence_key, is_device=scope.is_device, fields=named)[node.name]


def known_node(scope: Scope, node: Node, fields: FieldsByNode) -> Known:
    """Everything that is known of a node. ``fields`` are managedFields, where they were read."""
    own = fields.get(node.name)
    work = work_of(scope, node, own)
    virtual = scope.virtual(node)
    facts, unread = gathered(
        partial(facts_of_node, work, own, scope.is_fence_key),
        partial(_place, scope, node),
        partial(_resources, scope, node),
        partial(_published, scope, node),
        partial(_pods, scope, node),
        partial(_agents, scope, node),
    )
    state, answer = _answer(scope, work, virtual)
    return Known(kind="Node", name=node.name, state=state, answer=answer, facts=facts, unread=unread)


def _answer(scope: Scope, work: NodeWork, virtual: str) -> tuple[str, str]:
    name, now = work.node.name, scope.snapshot.taken_at
    against = [one for one in work.obstacles if one.why not in _WORKS_ON]
    words = listed((_clause(one, now) for one in against or work.obstacles), 3)
    also = f"; it is a {virtual}" if virtual else ""
    if not against:
        but = f", but it {words}" if words else ""
        return "may take work", f"{name} may take work{but}{also}{_free(scope, work.node)}"
    places = not any(one.why in _KEEPS_PODS_AWAY for one in against)
    return "may not take work", f"{name} may not take work: {words}{also}" + ("; schedulers still place pods on it" if places else "")


def _free(scope: Scope, node: Node) -> str:
    """``; free: 5 of 8 nvidia.com/gpu``, or empty where there are no devices or it is not known who holds them."""
    words = []
    if scope.snapshot.listing("pods").known:
        words += [f"{scope.free(node, name)} of {count} {name}" for name, count in scope.device_capacity(node).items() if count]
    if not scope.claims.unread(CLAIMS):
        words += [
            f"{len(free_devices(scope, item))} of {len(item.devices)} {item.driver}" for item in scope.dra_inventory.get(node.name, ())
        ]
    return f"; free: {listed(words)}" if words else ""


def _clause(one: Obstacle, now: float) -> str:
    """``cordoned by alice for 3 h (spec.unschedulable, timeAdded of the taint)``."""
    age = one.since.age(now)
    by = f" by {one.owner}" if one.owner and one.owner not in one.text else ""
    since = f" for {duration(age)}" if age is not None else ""
    source = f"{one.source}, {one.since.source}" if one.since.source and one.since.source != one.source else one.source
    return f"{one.text}{by}{since} ({source})"


def _place(scope: Scope, node: Node) -> Iterator[Fact]:
    """What is under way on it, and what machine it is: its product and the nodes of the same."""
    policy, now = scope.policy, scope.snapshot.taken_at
    if young := joining(node, policy, now) or rebooting(node, policy, now):
        yield Fact(about="node", name="under way", value=young, source="metadata.creationTimestamp, status.conditions[Ready]")
    if node.name not in scope.sources:
        yield Fact(about="devices", name="accelerators", value="nothing names any", source="capacity, labels, ResourceSlices, policy")
        return
    own, label = product_of(scope, node), product_label(node)
    source = f"metadata.labels[{label[0]}]" if label else "ResourceSlices, status.capacity"
    alike = [one.name for one in pools(scope, scope.snapshot.nodes)[own] if one.name != node.name]
    yield Fact(about="devices", name="product", value=own, source=source)
    yield Fact(
        about="devices", name="other nodes of the product", value=f"{len(alike)}: {listed(alike)}" if alike else "none", source=source
    )


def _resources(scope: Scope, node: Node) -> Iterator[Fact]:
    """A row for each device resource: what it has, gives, and what pods hold by their requests, where pods were read."""
    given = scope.device_allocatable(node)
    source = "status.capacity, status.allocatable, requests of pods"
    for name, count in scope.device_capacity(node).items():
        held = "held: not known"
        if scope.snapshot.listing("pods").known:
            held = f"{scope.held.get(node.name, {}).get(name, 0)} held, {scope.free(node, name)} free"
        yield Fact(about="devices", name=name, value=f"{count} capacity, {given.get(name, 0)} allocatable, {held}", source=source)


def _published(scope: Scope, node: Node) -> Iterator[Fact]:
    """A row for each DRA pool, and for each of its devices that a claim holds or a taint keeps from claims."""
    scope.snapshot.items(SLICES)  # raises where they were not read
    unread = scope.claims.unread(CLAIMS)
    for item in scope.dra_drivers.get(node.name, ()):
        held = f"not known ({unread})" if unread else str(sum(device.id in scope.claims.holders for device in item.devices))
        tainted = sum(bool(device.taint) for device in item.devices)
        lacks = "".join(f"; {lack}" for lack in item.incomplete)
        value = f"{len(item.devices)} devices, held by claims: {held}, tainted: {tainted}{lacks}"
        yield Fact(about="devices", name=item.driver, value=value, source="ResourceSlices, ResourceClaims")
    for one in published_slices(scope).get(node.name, ()):
        shown = [device for device in one.devices if device.taint or device.claims][:MOST_ROWS]
        for device in shown:
            words = [*(claim_words(claim) for claim in device.claims or ()), *([f"tainted: {device.taint}"] if device.taint else [])]
            name = f"{device.name} {device.uuid}".strip()
            yield Fact(about="devices", name=name, value=listed(words), source=f"ResourceSlice {one.name}, ResourceClaims")


def claim_words(claim: DeviceClaim) -> str:
    """``claim team-a/gpu for pod train-0``."""
    users = f" for pod {listed(claim.used_by, 3)}" if claim.used_by else ", reserved for no pod"
    return f"{'a share by ' if claim.share else ''}claim {claim.namespace}/{claim.name}{users}"


def _pods(scope: Scope, node: Node) -> Iterator[Fact]:
    """A row for each pod that holds devices there, most first."""
    asked = [(pod, _amounts(scope, pod)) for pod in scope.snapshot.pods_by_node.get(node.name, ())]
    holding = sorted(((pod, amounts) for pod, amounts in asked if amounts), key=lambda item: (item[0].namespace, item[0].name))
    for pod, amounts in holding[:MOST_ROWS]:
        name = f"{pod.namespace}/{pod.name}"
        leaving = ", being deleted" if pod.metadata.deletion_timestamp else ""
        value, source = f"holds {amounts}{leaving}", "spec.resourceClaims" if amounts == _BY_CLAIM else "spec.containers[].resources"
        yield Fact(about="pods", name=name, value=value, source=source, since=placed_since(pod))
    if (more := len(holding) - MOST_ROWS) > 0:
        yield Fact(about="pods", name="more", value=f"{more} more pods hold devices", source="spec.nodeName")


def _amounts(scope: Scope, pod: Pod) -> str:
    """Devices that a pod holds, in words; empty for one without."""
    amounts = {name: count for name, count in scope.devices_of(pod.spec).items() if count}
    if amounts:
        return ", ".join(f"{count} {name}" for name, count in sorted(amounts.items()))
    return _BY_CLAIM if scope.held_demand_of(pod).devices else ""


def placed_since(pod: Pod) -> Since:
    """When a pod was bound to its node."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "True" and (at := moment(scheduled.last_transition_time)) is not None:
        return Since(latest=at, source="condition PodScheduled")
    started = moment(pod.status.start_time)
    return Since(latest=started, source="status.startTime") if started is not None else UNKNOWN


def _agents(scope: Scope, node: Node) -> Iterator[Fact]:
    """A row for each agent of the stack that must run there."""
    for agent in agents(scope):
        if node.name not in {one.name for one in agent.accelerator_nodes}:
            continue
        pod, since = agent.pods.get(node.name), UNKNOWN
        value = "no pod on this node"
        if pod is not None:
            ready = pod.condition("Ready")
            value = f"pod {pod.name} is {'Ready' if is_ready(pod) else 'not Ready'}"
            since = Since(latest=moment(ready.last_transition_time), source="condition Ready") if ready else UNKNOWN
        yield Fact(about="agents", name=agent.daemonset.name, value=value, source=f"DaemonSet of {agent.daemonset.namespace}", since=since)
