"""The two-node run: nodes of one kind that it can go to, and its result, which NET-05 to NET-07 judge.

Facts: docs/facts/resources.md#resource-names, docs/facts/nccl.md#one-rank-per-device.
"""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from conformance.net.bisecting import Found
from conformance.outputs import nccl_lines, nccl_tests
from conformance.outputs.nccl_lines import NcclLog
from conformance.outputs.nccl_tests import NcclTests
from conformance.probes.node_sampling import kept_away
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import whole
from fixtures.model.devices.fabric import allocatable, fabric_resources, kind_of
from fixtures.text.sentences import natural
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

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
                kind = (device, *kind_of(node))
                reachable = not kept_away(scope, node) and (not fabric or scope.free(node, fabric) > 0)
                units = max(scope.free(node, device), 0) if reachable else 0
                free.setdefault(kind, {}).setdefault(fabric, []).append((units, node))
    plans, held = [], []
    for kind, by_fabric in free.items():
        asked = {fabric: nodes for fabric, nodes in by_fabric.items() if any(scope.is_asked(node) for _, node in nodes)}
        able = [(fabric, nodes) for fabric, nodes in asked.items() if len(nodes) >= count]
        found = [plan for fabric, nodes in able if (plan := _plan(scope, kind[0], fabric, nodes, count))]
        if found:
            plans.append(max(found, key=lambda plan: plan.per_node))
        elif able:
            held.append(", ".join(f"{node.name} ({kept_away(scope, node) or f'{units} free'})" for units, node in able[0][1][:8]))
    if not plans and not held:
        raise NotApplicable("TooFewRdmaNodes", f"no {count} nodes of one kind offer whole devices and an RDMA resource")
    if not plans:
        raise Inconclusive("NoFreeDevice", f"the run needs free devices on {count} nodes of one kind; there are {', '.join(held)}")
    return sorted(plans, key=lambda plan: -plan.per_node), held


def _plan(scope: Scope, device: str, fabric: str, nodes: list[tuple[int, Node]], count: int) -> Plan | None:
    """The nodes with the most free devices of one kind; None when one of them has none.

    One node that the run is about comes first, and its neighbours are others where there are enough.
    """
    ordered = sorted(nodes, key=lambda pair: (-pair[0], natural(pair[1].name)))
    if scope.chosen:
        first = next(pair for pair in ordered if scope.is_asked(pair[1]))
        ordered = [first, *sorted((pair for pair in ordered if pair is not first), key=lambda pair: scope.is_asked(pair[1]))]
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


NOT_RUNNABLE = frozenset({126, 127})
"""Exit codes of a shell that could not start the command (POSIX): the image lacks it."""


class RankPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the run. ``state`` is one line on where it is; ``exit_code`` is None while it has not ended."""

    name: str
    node: str
    state: str
    exit_code: int | None = None
    log: str = ""


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """What further runs found of a run that went wrong. ``nodes`` were compared, ``found`` is by their names.

    ``adapter`` is slow by itself, between ``ends``; empty where none is or none was asked.
    """

    nodes: tuple[str, ...]
    found: Found
    adapter: str = ""
    ends: tuple[str, ...] = ()


class FabricRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A run over the fabric. ``pods`` are in order of node rank; ``finished`` is False when the deadline came first.

    ``product`` and ``machine`` (a cloud's type) are those of its nodes, empty where they are not known.
    """

    namespace: str
    pods: tuple[RankPod, ...]
    per_node: int
    device: str
    fabric: str
    seconds: float
    finished: bool = True
    product: str = ""
    machine: str = ""
    located: Located | None = None

    @property
    def ranks(self) -> int:
        """Ranks that were asked for."""
        return len(self.pods) * self.per_node

    @property
    def text(self) -> str:
        """All logs, node rank 0 first."""
        return "\n".join(pod.log for pod in self.pods)

    @cached_property
    def log(self) -> NcclLog:
        """What NCCL printed. Raises ``Unreadable`` where it printed nothing."""
        return nccl_lines.parse(self.text)

    @cached_property
    def table(self) -> NcclTests:
        """What the all-reduce printed. Raises ``Unreadable`` where it printed nothing."""
        return nccl_tests.parse(self.text)

    @property
    def subject(self) -> Subject:
        """The subject of findings about the run as a whole."""
        return Subject("NCCL run", " + ".join(pod.name for pod in self.pods), self.namespace)

    def part(self, kind: str, name: str) -> Subject:
        """The subject of a finding about a part of the run."""
        return Subject(kind, name, self.namespace)

    def placement(self, log: NcclLog) -> Mapping[int, str]:
        """Node of each rank: by the host that its lines name (a pod of the run), else by order, as torchrun numbers ranks."""
        node_of = {pod.name: pod.node for pod in self.pods}
        placed = {pod * self.per_node + local: self.pods[pod].node for pod in range(len(self.pods)) for local in range(self.per_node)}
        for rank, host in log.placement.items():
            if host in node_of:
                placed[rank] = node_of[host]
        return placed

    def unable(self) -> RankPod | None:
        """A pod whose image could not even start the command, or None."""
        return next((pod for pod in self.pods if pod.exit_code in NOT_RUNNABLE), None)

    def outcome(self) -> str:
        """One sentence on how the run ended."""
        states = "; ".join(f"{pod.name} on {pod.node}: {pod.state}" for pod in self.pods)
        return states if self.finished else f"not finished within {self.seconds:g} s: {states}"
