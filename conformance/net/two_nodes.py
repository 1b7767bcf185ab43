"""Where the two-node run can go: nodes of one kind with free devices and a free unit of one fabric resource."""

from __future__ import annotations

import msgspec

from conformance.net.advertising import KIND_LABELS, allocatable, fabric_resources
from conformance.probes.node_sampling import kept_away
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, whole
from fixtures.text.sentences import natural
from fixtures.verdict.subjects import Inconclusive, NotApplicable

WITHOUT_RESOURCE = frozenset({"MNNVL", "TCPX_GPUDIRECT"})
"""Transports that need no fabric resource in the pod."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of the run, devices per node, and the fabric resource (empty where the transport needs none).

    ``others`` are further nodes of the kind with as much free: they show which node of a slow run is the slow one.
    """

    nodes: tuple[Node, ...]
    device: str
    per_node: int
    fabric: str = ""
    others: tuple[Node, ...] = ()

    @property
    def ranks(self) -> int:
        """Ranks of the run."""
        return len(self.nodes) * self.per_node


def exclusive(node: Node, resource: str) -> bool:
    """Whether a unit is a whole device of its own: NCCL refuses two ranks on one device, and MIG instances.

    Facts: docs/facts/resources.md#resource-names, docs/facts/nccl.md#one-rank-per-device.
    """
    if resource.endswith(".shared") or "/mig-" in resource:
        return False
    return whole(node.metadata.label.get("nvidia.com/gpu.replicas", "1")) <= 1


def make_plan(scope: Scope) -> Plan:
    """The plan of the kind of machine that gives the most ranks (:func:`make_plans`)."""
    return make_plans(scope)[0][0]


def make_plans(scope: Scope) -> tuple[list[Plan], list[str]]:
    """A plan for every kind of machine, most ranks first; and for every kind of which too little is free, what holds it.

    Raises :class:`NotApplicable` when there are not enough RDMA nodes of one kind at all, and :class:`Inconclusive`
    when there are and all are cordoned, NotReady, tainted away or taken.
    """
    count = scope.policy.network.nodes
    if count < 2:
        raise NotApplicable("OneNode", f"network.nodes is {count}: nothing travels between nodes")
    fabrics = _fabrics(scope)
    free: dict[tuple[str, ...], dict[str, list[tuple[int, Node]]]] = {}
    for node in scope.accelerator_nodes:
        for device, capacity in scope.device_allocatable(node).items():
            for fabric in fabrics:
                if capacity < 1 or not exclusive(node, device) or (fabric and allocatable(node, fabric) < 1):
                    continue
                kind = (device, *(node.metadata.label.get(label, "") for label in KIND_LABELS))
                reachable = not kept_away(scope, node) and (not fabric or scope.free(node, fabric) > 0)
                units = max(scope.free(node, device), 0) if reachable else 0
                free.setdefault(kind, {}).setdefault(fabric, []).append((units, node))
    plans, held = [], []
    for kind, by_fabric in free.items():
        able = [(fabric, nodes) for fabric, nodes in by_fabric.items() if len(nodes) >= count]
        found = [plan for fabric, nodes in able if (plan := _plan(kind[0], fabric, nodes, count))]
        if found:
            plans.append(max(found, key=lambda plan: plan.per_node))
        elif able:
            held.append(", ".join(f"{node.name} ({kept_away(scope, node) or f'{units} free'})" for units, node in able[0][1][:8]))
    if not plans and not held:
        raise NotApplicable("TooFewRdmaNodes", f"no {count} nodes of one kind offer whole devices and an RDMA resource")
    if not plans:
        raise Inconclusive("NoFreeDevice", f"the run needs free devices on {count} nodes of one kind; there are {', '.join(held)}")
    return sorted(plans, key=lambda plan: -plan.per_node), held


def _plan(device: str, fabric: str, nodes: list[tuple[int, Node]], count: int) -> Plan | None:
    """The nodes with the most free devices of one kind; None when one of them has none."""
    ordered = sorted(nodes, key=lambda pair: (-pair[0], natural(pair[1].name)))
    units = ordered[count - 1][0]
    if units < 1:
        return None
    able = tuple(node for free, node in ordered if free >= units)
    return Plan(nodes=able[:count], device=device, fabric=fabric, per_node=units, others=able[count:])


def _fabrics(scope: Scope) -> list[str]:
    names = [name for name in fabric_resources(scope) if any(allocatable(node, name) > 0 for node in scope.accelerator_nodes)]
    if not names and WITHOUT_RESOURCE & set(scope.policy.network.accepted):
        return [""]
    if not names:
        raise NotApplicable("NoRdmaNodes", "no accelerator node offers an RDMA resource")
    return names
