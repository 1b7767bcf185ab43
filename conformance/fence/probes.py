"""The probes of FENCE.

FENCE-05: a pod without device and toleration must stay off accelerator nodes, while the same pod with the toleration runs. FENCE-06: a
pod with toleration, affinity and one device runs on an accelerator node and sees a device.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from conformance.fence.checks import hard_taints, unfenced_box
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.events import ReasonKind
from conformance.outputs.nvidia_smi import parse_listing
from conformance.probes.node_sampling import PlaceFinding, batches, choose_places, in_batches, kept_away, left_out, not_reached, per_node
from conformance.probes.running import absence_seconds, unschedulable
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node, Pod, Toleration
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_state import disturbance, image_trouble, why_not_running
from fixtures.model.devices.offers import foreign_taints, probe_tolerations
from fixtures.model.nodes.pools import pools, product_label, product_of
from fixtures.model.placement.affinity import fence_taints, fence_tolerations
from fixtures.model.placement.free_devices import Place, usable_places, why_unlistable
from fixtures.probes.pods import PodShape, WatchedPods, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable

MAX_OPEN = 12
"""Nodes that look open and are probed beside one of each pool."""

_EXPECTED = "Pending: PodScheduled=False, Unschedulable, untolerated taint"
_SOURCE = "pod status, watched"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one node's pair. Pods are the last states watched, None when a pod is gone. Seconds are monotonic.

    A fence is a matter of the scheduler's: the control proves what it has to when it is bound. Its image need not be pulled.
    """

    node: Node
    control: Pod | None
    victim: Pod | None
    watched_seconds: float
    control_seconds: float = 0.0


def targets(scope: Scope) -> list[Node]:
    """Nodes to probe: of each pool the one whose fence is weakest, then others without a hard fence; all with ``probes.everyNode``.

    Raises :class:`NotApplicable` without accelerator nodes, :class:`Inconclusive` when none of them takes pods.
    """
    if not scope.accelerator_nodes:
        raise NotApplicable("NoAcceleratorNodes", "the cluster has no accelerator node")
    if unfenced_box(scope):
        raise NotApplicable("SingleNode", unfenced_box(scope))
    reachable = [node for node in scope.usable_nodes if not foreign_taints(scope, node)]
    if not reachable:
        raise Inconclusive("NoUsableNode", "every accelerator node is cordoned, NotReady or has a taint that probes do not tolerate")
    by_fence = [sorted(nodes, key=lambda node: (len(hard_taints(scope, node)), node.name)) for nodes in pools(scope, reachable).values()]
    chosen = [nodes[0] for nodes in by_fence]
    others = [node for nodes in by_fence for node in nodes[1:]]
    if scope.policy.probes.every_node:
        return [*chosen, *others]
    return [*chosen, *[node for node in others if not hard_taints(scope, node)][:MAX_OPEN]]


def probe_fence(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """FENCE-05: one finding for every accelerator node, those included that were not asked."""
    nodes, attempts = targets(scope), list[Attempt]()
    try:
        for batch in batches(scope, workspace, nodes, 2):
            attempts += ask_fence(workspace, scope, batch)
    except (ApiTrouble, Inconclusive):
        yield from judge_fence(attempts)  # what was found before the trouble stays found
        raise
    asked = {attempt.node.name: product_of(scope, attempt.node) for attempt in attempts}
    missed = {node.name for node in nodes} - asked.keys()
    for node in scope.accelerator_nodes:
        if node.name in missed:
            yield not_reached(scope, node)
        elif node.name not in asked:
            product = product_of(scope, node)
            yield left_out(scope, node, kept_away(scope, node), [name for name, of in asked.items() if of == product])
    yield from judge_fence(attempts)


def pair(scope: Scope, node: Node, index: int) -> tuple[Json, Json]:
    """The control and the victim for a node: the same pod with and without the toleration of its fence taint."""
    taints = fence_taints(scope, node)
    further = [item for item in probe_tolerations(scope) if not any(item.tolerates(taint) for taint in taints)]

    def shaped(name: str, tolerations: Sequence[Toleration]) -> Json:
        return probe_pod(_shape(scope, node, f"{name}-{index}", scope.policy.probes.cpu_image, "echo placed", tolerations))

    return shaped("fence-control", [*fence_tolerations(scope, node), *further]), shaped("fence-victim", further)


def _shape(scope: Scope, node: Node, name: str, image: str, script: str, tolerations: Sequence[Toleration]) -> PodShape:
    probes = scope.policy.probes
    user, secrets = probes.run_as_user, probes.pull_secrets
    return PodShape(name=name, image=image, script=script, node=node.name, tolerations=tolerations, run_as_user=user, pull_secrets=secrets)


def ask_fence(workspace: Workspace, scope: Scope, nodes: Sequence[tuple[int, Node]]) -> list[Attempt]:
    """Start both pods of every node and watch them until the controls are bound and the window is over."""
    begun, names = time.monotonic(), []
    for index, node in nodes:
        control, victim = pair(scope, node, index)
        names.append((workspace.start(control), workspace.start(victim)))
    took: dict[str, float] = {}
    watched, pods = WatchedPods(), dict[str, Pod]()
    with workspace.observe() as observation:

        def states(deadline: float) -> Iterator[None]:
            for objects in observation.until(deadline):
                pods.clear()
                pods.update((key.rpartition("/")[2], pod) for key, pod in watched.among(objects, objects).items())
                yield

        for _ in states(begun + scope.policy.probes.start_seconds):
            took |= {name: time.monotonic() - begun for name, _ in names if name not in took and _placed(pods.get(name))}
            if len(took) == len(names):
                break
        window = absence_seconds(scope, max(took.values(), default=0.0))
        for _ in states(time.monotonic() + window):
            if all(_placed(pods.get(name)) for _, name in names):
                break
    seconds = time.monotonic() - begun
    return [
        Attempt(node=node, control=pods.get(one), victim=pods.get(other), watched_seconds=seconds, control_seconds=took.get(one, 0.0))
        for (_, node), (one, other) in zip(nodes, names, strict=True)
    ]


def _placed(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.node_name)


def judge_fence(attempts: Iterable[Attempt]) -> Iterator[Finding]:
    """One finding per node. Raises :class:`Inconclusive` after them when a control was not placed: then Pending proves nothing there."""
    failed: list[str] = []
    for attempt in attempts:
        node, victim, control = attempt.node, attempt.victim, attempt.control
        about = About(subject(node), _SOURCE, _EXPECTED)
        if victim is not None and victim.node_name:
            message = "a pod that asks for no device and tolerates no taint was placed on it: any workload can take its CPU and memory"
            yield about.bad(message, cause="FenceDoesNotHold", observed=f"bound to {victim.node_name}")
        elif control is None or not control.node_name or control.phase == "Failed":
            failed.append(node.name)
            message = f"the control with the toleration was not placed: {why_not_running(control)}"
            yield about.undecided(message, cause="PositiveControlFailed")
        elif victim is None:
            yield about.undecided("another program deleted the probe pod while it was watched", cause="ProbeDisturbed")
        else:
            yield _pending(about, attempt, victim)
    if failed:
        raise Inconclusive("PositiveControlFailed", f"the control with the toleration was not placed on {', '.join(failed)}")


def _pending(about: About, attempt: Attempt, victim: Pod) -> Finding:
    condition, verdict = victim.condition("PodScheduled"), unschedulable(victim)
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        message = f"the pod is not placed, but no scheduler calls it unschedulable: {why_not_running(victim)}"
        return about.undecided(message, cause="ProbeDidNotRun")
    if verdict is None or not verdict.about(ReasonKind.TAINT):
        return about.undecided(f"the pod is not placed for another reason than a taint: {condition.message[:300]}", cause="ProbeDidNotRun")
    seconds = f"{attempt.watched_seconds:.1f} s watched; the control was bound after {attempt.control_seconds:.1f} s"
    return about.ok(f"Pending, {'; '.join(reason.text for reason in verdict.about(ReasonKind.TAINT))} ({seconds})")


_OF_RUN = "pod status and log"
_RUNS = "runs on an accelerator node and sees a device"
_RAN = ("Running", "Succeeded")
_LIST_DEVICES = 'nvidia-smi -L 2>&1 || echo "exit=$?"'


class PodOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A place, and what became of the pod that asked for one of its devices at the deadline."""

    place: Place
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
        text = ", ".join(f"{key}={value}" for key, value in wanted.items())
        message = f"workloads are told to select {text} and no accelerator node carries it: they stay Pending"
        for node in scope.accelerator_nodes:
            about = About(subject(node), "policy fence.affinity, node labels", text, "without these labels")
            yield about.bad(message, cause="AffinityLabelsMissing")
        return

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        for outcome in ask_devices(workspace, scope, batch):
            yield outcome.place, judge_device(scope, outcome)

    places = [place for place in usable_places(scope) if _carries(place.node, wanted)]
    asked = in_batches(scope, workspace, choose_places(scope, places), 1, ask) if places else ()
    yield from per_node(scope, asked, obstacle=lambda node: "" if _carries(node, wanted) else "without the labels of fence.affinity")


def _carries(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.metadata.label.get(key) == value for key, value in labels.items())


def pod_of(scope: Scope, place: Place, index: int) -> Json:
    """The probe pod: one device, the tolerations of its fence, and as affinity beside the node the policy's labels or the product's."""
    label, image = product_label(place.node), scope.policy.probes.image_for([place.resource])
    labels = scope.policy.fence.affinity or ({label[0]: label[1]} if label else {})
    script = 'echo "## placed"' if why_unlistable(place) else f'echo "## devices"; {_LIST_DEVICES}'
    tolerations = [*fence_tolerations(scope, place.node), *probe_tolerations(scope)]
    shape = _shape(scope, place.node, f"fence-device-{index}", image, script, tolerations)
    return probe_pod(msgspec.structs.replace(shape, resources={place.resource: 1}, node_labels=labels))


def ask_devices(workspace: Workspace, scope: Scope, places: Iterable[tuple[int, Place]]) -> list[PodOutcome]:
    """Start a pod for every place, wait for all of them, read their logs."""
    deadline = time.monotonic() + scope.policy.probes.start_seconds
    started = [(workspace.start(pod_of(scope, place, number)), place) for number, place in places]
    pods: dict[str, Pod] = {}

    def settled(current: list[Pod]) -> bool | None:
        pods.clear()
        pods.update({pod.name: pod for pod in current})
        return True if len(current) == len(started) and all(pod.finished for pod in current) else None

    workspace.wait([name for name, _ in started], settled, deadline - time.monotonic())
    return [_outcome(workspace, place, pods.get(name)) for name, place in started]


def _outcome(workspace: Workspace, place: Place, pod: Pod | None) -> PodOutcome:
    if pod is None or pod.phase not in _RAN:
        return PodOutcome(place=place, pod=pod)
    try:
        return PodOutcome(place=place, pod=pod, log=workspace.logs(pod.name))
    except ApiTrouble as trouble:
        return PodOutcome(place=place, pod=pod, log_trouble=trouble.message)


def judge_device(scope: Scope, outcome: PodOutcome) -> Finding:
    """What became of the pod of one place."""
    place, pod = outcome.place, outcome.pod
    about, product = About(subject(place.node), _OF_RUN, _RUNS), product_of(scope, place.node)
    if pod is None or not pod.node_name or pod.phase not in _RAN:
        return _not_running(about, place.resource, product, pod)
    if pod.node_name not in {node.name for node in scope.accelerator_nodes}:
        message = f"a pod with affinity for {product} was placed on {pod.node_name}, which no source calls an accelerator node"
        return about.bad(message, cause="PlacedElsewhere", observed=f"ran on {pod.node_name}")
    where = f"{pod.name} ran on {pod.node_name} with 1 {place.resource}"
    if why_unlistable(place):
        return about.ok(where)
    if outcome.log_trouble:
        return about.undecided(f"{where}; its log could not be read: {outcome.log_trouble}", cause="ApiTrouble")
    try:
        listing = parse_listing(outcome.log)
    except Unreadable as error:
        return about.undecided(f"{where}; what it saw could not be counted: {error}")
    if listing.failures and not listing.gpus:
        return about.undecided(f"{where}; what it saw could not be counted: {listing.failures[0]}")
    return about.ok(f"{where}; devices seen: {len(listing.uuids)}")


def _not_running(about: About, resource: str, product: str, pod: Pod | None) -> Finding:
    why = why_not_running(pod)
    verdict = unschedulable(pod) if pod is not None else None
    if verdict is not None and resource in verdict.insufficient:
        return about.undecided(f"the free {resource} was taken by another pod meanwhile: {why}", cause="NoFreeDevice")
    if image_trouble(pod):
        return about.undecided(f"the probe's image cannot be pulled (policy probes.image): {why}", cause="ProbeDidNotRun")
    if pod is None:
        return about.undecided("another program deleted the probe pod", cause="ProbeDisturbed")
    if reason := disturbance(pod):
        return about.undecided(f"{pod.name} did not run, and {reason}", cause="ProbeDidNotRun")
    message = f"a pod with toleration, affinity and one {resource} does not run on {product}: {why}"
    return about.bad(message, cause="DevicePodDoesNotStart", observed=why)
