"""The probe of NET-04: on one node per fabric resource, a pod that asks for it and one that does not."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.iso.asking import pinned, run
from conformance.net.advertising import allocatable, fabric_resources
from conformance.net.sight import LOOK, judge_sight
from conformance.scope import Scope
from fixtures.evidence import Finding, Inconclusive, NotApplicable, Subject, undecided
from fixtures.models import Json, Node
from fixtures.probes.workspace import Workspace

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
    """Run the pairs and judge them. Raises :class:`Inconclusive` when no node has a free unit of any resource."""
    offered = places(scope)
    free = {name: nodes[0] for name, nodes in offered.items() if scope.free(nodes[0], name) > 0}
    if not free:
        held = {name: scope.held.get(nodes[0].name, {}).get(name, 0) for name, nodes in offered.items()}
        full = ", ".join(f"pods on {offered[name][0].name} hold {count} {name}" for name, count in held.items())
        raise Inconclusive("NoFreeDevice", f"no node has a free unit of an RDMA resource: {full}")
    for name in offered.keys() - free.keys():
        yield undecided(Subject("resource", name), f"every unit of {name} is held by a pod", "node.status.allocatable")
    for index, (name, node) in enumerate(free.items()):
        asked, unasked = f"net-04-{index}", f"net-04-{index}-unasked"
        pods = [
            attached(pinned(scope, node, asked, LOOK, resources={name: 1}), scope),
            pinned(scope, node, unasked, LOOK),
        ]
        ran = run(workspace, pods, scope.policy.probes.start_seconds)
        yield from judge_sight(ran[asked], ran[unasked], name)
