"""FENCE-05: a pod that asks for nothing and tolerates nothing, aimed at accelerator nodes, beside the same pod with the toleration."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from conformance.asked_nodes import kept_away, late, left_out, turns
from conformance.fence.checks import hard_taints
from conformance.fence.waiting import ran, unschedulable, why_not_running
from conformance.outputs.events import ReasonKind
from conformance.products import pools, product_of
from conformance.reach import foreign_taints, probe_tolerations
from conformance.scope import Scope, subject
from fixtures.evidence import Finding, Inconclusive, NotApplicable, bad, ok, undecided
from fixtures.models import Json, Node, Pod, Toleration
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace, decode_pod
from fixtures.trouble import ApiTrouble
from fixtures.watch import Observation

MAX_OPEN = 12
"""Nodes that look open and are probed beside one of each pool."""

CONTROL_FACTOR = 5
"""The absence is watched at least this many times as long as its control took to run."""

_EXPECTED = "Pending: PodScheduled=False, Unschedulable, untolerated taint"
_SOURCE = "pod status, watched"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one node's pair. Pods are the last states watched, None when a pod is gone. Seconds are monotonic."""

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
    reachable = [node for node in scope.usable_nodes if not foreign_taints(scope, node)]
    if not reachable:
        raise Inconclusive("NoUsableNode", "every accelerator node is cordoned, NotReady or tainted away")
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
        for turn in turns(scope, workspace, nodes, 2):
            attempts += ask_fence(workspace, scope, turn)
    except (ApiTrouble, Inconclusive):
        yield from judge_fence(attempts)  # what was found before the trouble stays found
        raise
    asked = {attempt.node.name: product_of(scope, attempt.node) for attempt in attempts}
    missed = {node.name for node in nodes} - asked.keys()
    for node in scope.accelerator_nodes:
        if node.name in missed:
            yield undecided(subject(node), late(scope), "time")
        elif node.name not in asked:
            product = product_of(scope, node)
            yield left_out(scope, node, kept_away(scope, node), [name for name, of in asked.items() if of == product])
    yield from judge_fence(attempts)


def pair(scope: Scope, node: Node, index: int) -> tuple[Json, Json]:
    """The control and the victim for a node: alike but for the toleration of its fence."""
    probes = scope.policy.probes
    taints = scope.fence_taints(node)
    further = [item for item in probe_tolerations(scope) if not any(item.tolerates(taint) for taint in taints)]

    def shaped(name: str, tolerations: Sequence[Toleration]) -> Json:
        return probe_pod(
            PodShape(
                name=f"{name}-{index}",
                image=probes.cpu_image,
                script="echo placed",
                node=node.name,
                tolerations=tolerations,
                run_as_user=probes.run_as_user,
                pull_secrets=probes.pull_secrets,
            )
        )

    return shaped("fence-control", [*scope.tolerations_for(node), *further]), shaped("fence-victim", further)


def ask_fence(workspace: Workspace, scope: Scope, nodes: Sequence[tuple[int, Node]]) -> list[Attempt]:
    """Start both pods of every node and watch them until the controls ran and the window is over."""
    probes = scope.policy.probes
    begun = time.monotonic()
    names = []
    for index, node in nodes:
        control, victim = pair(scope, node, index)
        names.append((workspace.start(control), workspace.start(victim)))
    took: dict[str, float] = {}
    with workspace.observe() as observation:
        for pods in _states(observation, begun + probes.start_seconds):
            took |= {name: time.monotonic() - begun for name, _ in names if name not in took and ran(pods.get(name))}
            if all(name in took or _hopeless(pods.get(name)) for name, _ in names):
                break
        settled = time.monotonic()
        window = max(probes.window_seconds, CONTROL_FACTOR * max(took.values(), default=0.0))
        for pods in _states(observation, settled + window):
            if all((pod := pods.get(name)) is not None and pod.spec.node_name for _, name in names):
                break
        last = _decoded(observation.objects)
    watched = time.monotonic() - begun
    return [
        Attempt(
            node=node, control=last.get(control), victim=last.get(victim), watched_seconds=watched, control_seconds=took.get(control, 0.0)
        )
        for (_, node), (control, victim) in zip(nodes, names, strict=True)
    ]


def _hopeless(pod: Pod | None) -> bool:
    return pod is not None and pod.status.phase == "Failed"


def _states(observation: Observation, deadline: float) -> Iterator[Mapping[str, Pod]]:
    for objects in observation.until(deadline):
        yield _decoded(objects)


def _decoded(objects: Mapping[str, Json]) -> dict[str, Pod]:
    return {key.rpartition("/")[2]: decode_pod(obj) for key, obj in objects.items()}


def judge_fence(attempts: Iterable[Attempt]) -> Iterator[Finding]:
    """One finding per node. Raises :class:`Inconclusive` after them when a control did not run: then Pending proves nothing there."""
    failed: list[str] = []
    for attempt in attempts:
        node, victim = attempt.node, attempt.victim
        place = subject(node)
        if victim is not None and victim.spec.node_name:
            where = f"bound to {victim.spec.node_name}"
            message = "a pod that asks for no device and tolerates no taint was placed on it: any workload can take its CPU and memory"
            yield bad(place, where, _EXPECTED, _SOURCE, message)
        elif not ran(attempt.control):
            failed.append(node.name)
            yield undecided(place, f"the control with the toleration did not run: {why_not_running(attempt.control)}", _SOURCE)
        elif victim is None:
            yield undecided(place, "the probe pod was deleted by someone else while it was watched", _SOURCE)
        else:
            yield _pending(attempt, victim)
    if failed:
        raise Inconclusive("PositiveControlFailed", f"the control with the toleration did not run on {', '.join(failed)}")


def _pending(attempt: Attempt, victim: Pod) -> Finding:
    place = subject(attempt.node)
    condition = victim.condition("PodScheduled")
    said = unschedulable(victim)
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return undecided(place, f"the pod is not placed, but no scheduler calls it unschedulable: {why_not_running(victim)}", _SOURCE)
    if said is None or not said.about(ReasonKind.TAINT):
        return undecided(place, f"the pod is not placed for another reason than a taint: {condition.message[:300]}", _SOURCE)
    seconds = f"{attempt.watched_seconds:.1f} s watched; the control ran after {attempt.control_seconds:.1f} s"
    return ok(place, f"Pending, {'; '.join(reason.text for reason in said.about(ReasonKind.TAINT))} ({seconds})", _EXPECTED, _SOURCE)
