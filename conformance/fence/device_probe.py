"""FENCE-06: a pod with toleration, affinity and one device runs on an accelerator node and sees a device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nvidia_smi import parse_listing
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import disturbance, image_trouble, unschedulable, why_not_running
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Node, Pod
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.availability import probe_tolerations
from fixtures.model.nodes.products import product_label, product_of
from fixtures.model.placement.free_devices import NVIDIA_DRIVER, VENDOR, Place, usable_places
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, bad, ok, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "pod status and log"
_EXPECTED = "runs on an accelerator node and sees a device"
_LIST_DEVICES = 'nvidia-smi -L 2>&1 || echo "exit=$?"'


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One node's question: by which labels workloads select its product, and the resource that is asked."""

    product: str
    node: Node
    resource: str
    driver: str = ""  # of devices that are claimed
    labels: Mapping[str, str] = {}

    @property
    def listed(self) -> bool:
        """Whether the pod can list its device."""
        return self.driver == NVIDIA_DRIVER if self.driver else self.resource.startswith(VENDOR)


class PodOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and what became of its pod at the deadline."""

    plan: Plan
    pod: Pod | None
    log: str = ""
    log_trouble: str = ""


def probe_devices(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """FENCE-06: one finding for every accelerator node.

    Raises :class:`NotApplicable` without accelerator nodes, :class:`Inconclusive` without a free device.
    """
    if not scope.accelerator_nodes:
        raise NotApplicable("NoAcceleratorNodes", "the cluster has no accelerator node")
    wanted = scope.policy.fence.affinity
    if wanted and not any(_carries(node, wanted) for node in scope.accelerator_nodes):
        yield from (_misaimed(node, wanted) for node in scope.accelerator_nodes)
        return

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        plans = {number: plan_of(scope, place) for number, place in batch}
        places = dict(batch)
        for number, outcome in ask_devices(workspace, scope, plans).items():
            yield places[number], judge_device(scope, outcome)

    places = [place for place in usable_places(scope) if _carries(place.node, wanted)]
    asked = in_batches(scope, workspace, choose_places(scope, places), 1, ask) if places else ()
    yield from per_node(scope, asked, obstacle=lambda node: "" if _carries(node, wanted) else "without the labels of fence.affinity")


def _carries(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.metadata.label.get(key) == value for key, value in labels.items())


def _misaimed(node: Node, wanted: Mapping[str, str]) -> Finding:
    text = ", ".join(f"{key}={value}" for key, value in wanted.items())
    message = f"workloads are told to select {text} and no accelerator node carries it: they stay Pending"
    return bad(
        subject(node),
        cause="AffinityLabelsMissing",
        observed="without these labels",
        expected=text,
        source="policy fence.affinity, node labels",
        message=message,
    )


def plan_of(scope: Scope, place: Place) -> Plan:
    """How to ask for a device of a place: by the policy's labels, else by the product's."""
    label = product_label(place.node)
    labels = scope.policy.fence.affinity or ({label[0]: label[1]} if label else {})
    return Plan(product=product_of(scope, place.node), node=place.node, resource=place.resource, driver=place.driver, labels=labels)


def pod_of(scope: Scope, plan: Plan, index: int) -> PodShape:
    """The probe pod: one device, the product's labels as required affinity beside the node, the tolerations of its fence."""
    probes = scope.policy.probes
    return PodShape(
        name=f"fence-device-{index}",
        image=probes.image_for([plan.resource]),
        script=f'echo "## devices"; {_LIST_DEVICES}' if plan.listed else 'echo "## placed"',
        resources={plan.resource: 1},
        node_labels=plan.labels,
        node=plan.node.name,
        tolerations=[*scope.tolerations_for(plan.node), *probe_tolerations(scope)],
        run_as_user=probes.run_as_user,
        pull_secrets=probes.pull_secrets,
    )


def ask_devices(workspace: Workspace, scope: Scope, plans: Mapping[int, Plan]) -> dict[int, PodOutcome]:
    """Start a pod for every plan, wait for all of them, read their logs."""
    deadline = time.monotonic() + scope.policy.probes.start_seconds
    names = {number: workspace.start(probe_pod(pod_of(scope, plan, number))) for number, plan in plans.items()}
    pods: dict[str, Pod] = {}

    def settled(current: list[Pod]) -> bool | None:
        pods.clear()
        pods.update({pod.name: pod for pod in current})
        return True if len(current) == len(names) and all(pod.finished for pod in current) else None

    workspace.wait(names.values(), settled, deadline - time.monotonic())
    return {number: _outcome(workspace, plan, pods.get(names[number])) for number, plan in plans.items()}


def _outcome(workspace: Workspace, plan: Plan, pod: Pod | None) -> PodOutcome:
    if pod is None or pod.status.phase not in ("Running", "Succeeded"):
        return PodOutcome(plan=plan, pod=pod)
    try:
        return PodOutcome(plan=plan, pod=pod, log=workspace.logs(pod.name))
    except ApiTrouble as trouble:
        return PodOutcome(plan=plan, pod=pod, log_trouble=trouble.message)


def judge_device(scope: Scope, outcome: PodOutcome) -> Finding:
    """What became of one plan."""
    plan, pod = outcome.plan, outcome.pod
    place = subject(plan.node)
    if pod is None or not pod.spec.node_name or pod.status.phase not in ("Running", "Succeeded"):
        return _not_running(place, plan, pod)
    about = About(place, _SOURCE, _EXPECTED)
    if pod.spec.node_name not in {node.name for node in scope.accelerator_nodes}:
        message = f"a pod with affinity for {plan.product} was placed on {pod.spec.node_name}, which no source calls an accelerator node"
        return about.bad(message, cause="PlacedElsewhere", observed=f"ran on {pod.spec.node_name}")
    where = f"{pod.name} ran on {pod.spec.node_name} with 1 {plan.resource}"
    if not plan.listed:
        return about.ok(where)
    if outcome.log_trouble:
        return about.undecided(f"{where}; its log could not be read: {outcome.log_trouble}", cause="ApiTrouble")
    return _counted(place, where, outcome.log)


def _counted(place: Subject, where: str, log: str) -> Finding:
    try:
        listing = parse_listing(log)
    except Unreadable as error:
        return undecided(place, message=f"{where}; what it saw could not be counted: {error}", source=_SOURCE)
    if listing.failures and not listing.gpus:
        return undecided(place, message=f"{where}; what it saw could not be counted: {listing.failures[0]}", source=_SOURCE)
    count = len(listing.uuids)
    return ok(place, observed=f"{where}; devices seen: {count}", expected=_EXPECTED, source=_SOURCE)


def _not_running(place: Subject, plan: Plan, pod: Pod | None) -> Finding:
    why = why_not_running(pod)
    said = unschedulable(pod) if pod is not None else None
    about = About(place, _SOURCE)
    if said is not None and plan.resource in said.insufficient:
        return about.undecided(f"the free {plan.resource} was taken by another pod meanwhile: {why}", cause="NoFreeDevice")
    if image_trouble(pod):
        return about.undecided(f"the probe's image cannot be pulled (policy probes.image): {why}", cause="ProbeDidNotRun")
    if pod is None:
        return about.undecided("another program deleted the probe pod", cause="ProbeDisturbed")
    if reason := disturbance(pod):
        return about.undecided(f"{pod.name} did not run, and {reason}", cause="ProbeDidNotRun")
    message = f"a pod with toleration, affinity and one {plan.resource} does not run on {plan.product}: {why}"
    return about.bad(message, cause="DevicePodDoesNotStart", observed=why, expected=_EXPECTED)
