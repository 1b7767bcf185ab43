"""The probe of NET-04: on one node of every product and fabric resource, a pod that asks for it and one that does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.net.advertising import allocatable, fabric_resources, offering_nodes
from conformance.net.visible_fabric import LIST_SCRIPT, judge_visible_fabric
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, kept_away, left_out, one_per_node
from conformance.probes.running import pinned_pod, run_pods
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.node_view import view_of
from fixtures.model.placement.free_devices import Place
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable

NETWORKS = "k8s.v1.cni.cncf.io/networks"


def places(scope: Scope) -> dict[str, list[Node]]:
    """Usable nodes per fabric resource, most free first.

    Raises :class:`NotApplicable` when no node offers any, and :class:`Inconclusive` when those that do cannot be used.
    """
    offering = {name: [node for node in scope.snapshot.nodes if allocatable(node, name) > 0] for name in fabric_resources(scope)}
    if not any(offering.values()):
        raise NotApplicable("NoRdmaNodes", "no node offers an RDMA resource")
    found = {}
    for name, nodes in offering.items():
        if usable := [node for node in nodes if scope.why_not_judged(node) == ""]:
            found[name] = sorted(usable, key=lambda node: (-scope.free(node, name), node.name))
    if not found:
        raise Inconclusive("NoUsableNode", "every node that offers an RDMA resource is cordoned or NotReady")
    return found


def attached(pod: Json, scope: Scope) -> Json:
    """The pod with the networks that the policy attaches RDMA pods to."""
    if scope.policy.network.attachments:
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), NETWORKS: scope.policy.network.attachments}
    return pod


def probe_devices(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """NET-04: one finding for every node that offers an RDMA resource. Raises :class:`Inconclusive` when no unit of any is free."""

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        pods = [
            attached(pinned_pod(scope, place.node, f"net-04-{number}", LIST_SCRIPT, resources={place.resource: 1}), scope)
            for number, place in batch
        ]
        pods += [pinned_pod(scope, place.node, f"net-04-{number}-unasked", LIST_SCRIPT) for number, place in batch]
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        for number, place in batch:
            findings = judge_visible_fabric(ran[f"net-04-{number}"], ran[f"net-04-{number}-unasked"], place.resource)
            yield from ((place, finding) for finding in findings)

    offered = [_place(scope, node, name) for name, nodes in places(scope).items() for node in nodes]
    chosen = choose_places(scope, sorted(offered, key=lambda place: -place.free))
    yield from one_per_node(
        in_batches(scope, workspace, chosen, 2, ask), offering_nodes(scope), lambda node, reached: _left(scope, node, reached)
    )


def _place(scope: Scope, node: Node, name: str) -> Place:
    free, capacity = max(scope.free(node, name), 0), allocatable(node, name)
    return Place(node=node, view=view_of(scope, node), resource=name, free=free, capacity=capacity, shared=False)


def _left(scope: Scope, node: Node, reached: Mapping[tuple[str, ...], str]) -> Finding:
    """A node that offers RDMA resources and was not asked."""
    own = [_place(scope, node, name) for name in fabric_resources(scope) if allocatable(node, name) > 0]
    full = "" if any(place.free for place in own) else f"pods hold every unit of {', '.join(place.resource for place in own)}"
    return left_out(
        scope, node, kept_away(scope, node) or full, {reached[place.device_type] for place in own if place.device_type in reached}
    )
