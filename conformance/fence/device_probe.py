"""FENCE-06: a pod with toleration, affinity and one device runs on an accelerator node and sees a device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.fence.waiting import disturbed, image_trouble, unschedulable, why_not_running
from conformance.outputs.nvidia_smi import parse_listing
from conformance.outputs.unreadable import Unreadable
from conformance.products import pools, product_label
from conformance.reach import foreign_taints, probe_tolerations
from conformance.scope import Scope
from fixtures.evidence import Finding, Inconclusive, NotApplicable, Subject, bad, not_judged, ok, undecided
from fixtures.models import Node, Pod
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.trouble import ApiTrouble

MAX_POOLS = 8
_SOURCE = "pod status and log"
_EXPECTED = "runs on an accelerator node and sees a device"
_LIST_DEVICES = 'nvidia-smi -L 2>&1 || echo "exit=$?"'


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's question. ``obstacle`` says why it cannot be asked; ``misaimed`` that the policy's labels reach no accelerator node."""

    product: str
    node: Node | None = None
    resource: str = ""
    labels: Mapping[str, str] = {}
    obstacle: str = ""
    misaimed: str = ""
    unoffered: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and what became of its pod at the deadline."""

    plan: Plan
    pod: Pod | None
    log: str = ""
    log_trouble: str = ""


def plans(scope: Scope) -> list[Plan]:
    """One plan per pool. Raises :class:`NotApplicable` without accelerator nodes."""
    if not scope.accelerator_nodes:
        raise NotApplicable("NoAcceleratorNodes", "the cluster has no accelerator node")
    wanted = dict(scope.policy.fence.affinity)
    if wanted and not any(_carries(node, wanted) for node in scope.accelerator_nodes):
        text = ", ".join(f"{key}={value}" for key, value in wanted.items())
        return [Plan(product=product, misaimed=text) for product in pools(scope, scope.accelerator_nodes)][:MAX_POOLS]
    return [_plan(scope, product, nodes, wanted) for product, nodes in pools(scope, scope.accelerator_nodes).items()][:MAX_POOLS]


def _carries(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.metadata.label.get(key) == value for key, value in labels.items())


def _plan(scope: Scope, product: str, nodes: list[Node], wanted: dict[str, str]) -> Plan:
    if not any(count for node in nodes for count in scope.device_allocatable(node).values()):
        return Plan(product=product, unoffered="no node of the pool offers a device resource")
    held = []
    for node in nodes:
        reason = scope.why_not_judged(node) or ", ".join(foreign_taints(scope, node))
        if reason or (wanted and not _carries(node, wanted)):
            held.append(f"{node.name}: {reason or 'without the labels of the policy'}")
            continue
        for resource, count in sorted(scope.device_allocatable(node).items()):
            if scope.free(node, resource) > 0:
                label = product_label(node)
                labels = wanted or ({label[0]: label[1]} if label else {})
                return Plan(product=product, node=node, resource=resource, labels=labels)
            if count:
                held.append(f"{node.name}: {scope.held.get(node.name, {}).get(resource, 0)} of {count} {resource} held")
    return Plan(product=product, obstacle=f"no free device ({'; '.join(held[:6])})")


def pod_of(scope: Scope, plan: Plan, index: int) -> PodShape:
    """The probe pod: one device, the pool's labels as required affinity, the tolerations of its fence."""
    assert plan.node is not None
    probes = scope.policy.probes
    return PodShape(
        name=f"fence-device-{index}",
        image=probes.image,
        script=f'echo "## devices"; {_LIST_DEVICES}' if plan.resource.startswith("nvidia.com/") else 'echo "## placed"',
        resources={plan.resource: 1},
        node_labels=plan.labels,
        node="" if plan.labels else plan.node.name,
        tolerations=[*scope.tolerations_for(plan.node), *probe_tolerations(scope)],
        run_as_user=probes.run_as_user,
        pull_secrets=probes.pull_secrets,
    )


def ask_devices(workspace: Workspace, scope: Scope, asked: Iterable[Plan]) -> list[Seen]:
    """Start a pod for every plan that can be asked, wait for all of them, read their logs.

    Raises :class:`Inconclusive` when a device cannot be had in any pool.
    """
    chosen = list(asked)
    if chosen and all(plan.obstacle for plan in chosen):
        raise Inconclusive("NoFreeDevice", "; ".join(f"{plan.product}: {plan.obstacle}" for plan in chosen))
    deadline = time.monotonic() + scope.policy.probes.start_seconds
    names = {index: workspace.start(probe_pod(pod_of(scope, plan, index))) for index, plan in enumerate(chosen) if plan.node is not None}
    pods: dict[str, Pod] = {}

    def settled(current: list[Pod]) -> bool | None:
        pods.clear()
        pods.update({pod.name: pod for pod in current})
        return True if len(current) == len(names) and all(pod.finished for pod in current) else None

    if names:
        workspace.wait(names.values(), settled, deadline - time.monotonic())
    return [
        _seen(workspace, plan, pods.get(names[index])) if index in names else Seen(plan=plan, pod=None) for index, plan in enumerate(chosen)
    ]


def _seen(workspace: Workspace, plan: Plan, pod: Pod | None) -> Seen:
    if pod is None or pod.status.phase not in ("Running", "Succeeded"):
        return Seen(plan=plan, pod=pod)
    try:
        return Seen(plan=plan, pod=pod, log=workspace.logs(pod.name))
    except ApiTrouble as trouble:
        return Seen(plan=plan, pod=pod, log_trouble=trouble.message)


def judge_devices(scope: Scope, seen: Iterable[Seen]) -> Iterator[Finding]:
    """One finding per pool."""
    accelerators = {node.name for node in scope.accelerator_nodes}
    for item in seen:
        yield _judge(item, accelerators)


def _judge(seen: Seen, accelerators: set[str]) -> Finding:
    plan, pod = seen.plan, seen.pod
    place = Subject("Pool", plan.product)
    if plan.misaimed:
        message = f"workloads are told to select {plan.misaimed} and no accelerator node carries it: they stay Pending"
        return bad(place, "no node with these labels", plan.misaimed, "policy fence.affinity, node labels", message)
    if plan.unoffered:
        return not_judged(place, plan.unoffered, "status.allocatable")
    if plan.obstacle:
        return undecided(place, plan.obstacle, "status.allocatable and requests of bound pods")
    if pod is None or not pod.spec.node_name or pod.status.phase not in ("Running", "Succeeded"):
        return _not_running(place, plan, pod)
    if pod.spec.node_name not in accelerators:
        message = f"a pod with affinity for {plan.product} was placed on {pod.spec.node_name}, which no source calls an accelerator node"
        return bad(place, f"ran on {pod.spec.node_name}", _EXPECTED, _SOURCE, message)
    where = f"{pod.name} ran on {pod.spec.node_name} with 1 {plan.resource}"
    if not plan.resource.startswith("nvidia.com/"):
        return ok(place, where, _EXPECTED, _SOURCE)
    if seen.log_trouble:
        return undecided(place, f"{where}; its log could not be read: {seen.log_trouble}", _SOURCE)
    return _counted(place, where, seen.log)


def _counted(place: Subject, where: str, log: str) -> Finding:
    try:
        listing = parse_listing(log)
    except Unreadable as error:
        return undecided(place, f"{where}; what it saw could not be counted: {error}", _SOURCE)
    if listing.failures and not listing.gpus:
        return undecided(place, f"{where}; what it saw could not be counted: {listing.failures[0]}", _SOURCE)
    count = len(listing.uuids)
    return ok(place, f"{where}; devices seen: {count}", _EXPECTED, _SOURCE)


def _not_running(place: Subject, plan: Plan, pod: Pod | None) -> Finding:
    why = why_not_running(pod)
    said = unschedulable(pod) if pod is not None else None
    if said is not None and plan.resource in said.insufficient:
        return undecided(place, f"the free {plan.resource} was taken by another pod meanwhile: {why}", _SOURCE)
    if image_trouble(pod):
        return undecided(place, f"the probe's image cannot be had (policy probes.image): {why}", _SOURCE)
    if pod is None:
        return undecided(place, "the probe pod was deleted by someone else", _SOURCE)
    if reason := disturbed(pod):
        return undecided(place, f"{pod.name} did not run, and {reason}", _SOURCE)
    message = f"a pod with toleration, affinity and one {plan.resource} does not run on {plan.product}: {why}"
    return bad(place, why, _EXPECTED, _SOURCE, message)
