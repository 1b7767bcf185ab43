"""How large a gang may be to fit on the free devices, with as few pods as possible."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from conformance.gang.adapters.base import GANG_LABEL, Gang
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.offers import foreign_taints
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.model.placement.free_devices import Place, usable_places
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.text.sentences import listed
from fixtures.verdict.subjects import Inconclusive, NotApplicable

HOSTNAME = "kubernetes.io/hostname"
SCRIPT = "sleep 3600"
_MORE = {"cpu": "50m", "memory": "128Mi"}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes a probe confines itself to. ``unit``: devices per pod; ``slots``: how many such pods fit there, node by node."""

    nodes: tuple[Node, ...]
    resource: str
    unit: int
    slots: int
    way: str = ""
    by_dra: bool = False

    def __str__(self) -> str:
        names = ", ".join(node.name for node in self.nodes)
        return f"{self.slots} pods of {self.unit} {self.resource} fit on {names}" + (f"; asked by {self.way}" if self.way else "")


def make_plan(scope: Scope) -> Plan:
    """The nodes and the size of pods to ask with: pods of a whole node on two nodes, else pods of half a node's free devices on one.

    Raises:
        NotApplicable: no device, or shared ones only, whose replicas are no capacity of their own.
        Inconclusive: too little is free for a gang of two.
    """
    found = usable_places(scope)
    if not found:
        raise NotApplicable("NoUsableDevice", "no Ready, schedulable node offers a device")
    exclusive = [place for place in found if not place.shared and not foreign_taints(scope, place.node)]
    if not exclusive:
        if any(not place.shared for place in found):
            raise Inconclusive("NoFreeDevice", f"taints keep probes from every node with whole devices: {listed(found)}")
        raise NotApplicable("SharedDevices", "all devices are shared (replicas), so a gang cannot be measured against whole devices")
    plans = sorted(_candidates(exclusive), key=lambda plan: (-len(plan.nodes), -plan.unit, plan.resource))
    if not plans:
        held = ", ".join(str(place) for place in exclusive[:6])
        raise Inconclusive("NoFreeDevice", f"a gang of two pods needs two free devices on one node, or two nodes with one: {held}")
    return plans[0]


def _candidates(places: list[Place]) -> Iterator[Plan]:
    for resource in sorted({place.resource for place in places}):
        free = [place for place in places if place.resource == resource and place.free > 0]
        for first, second in pairwise(free):  # most free first
            if first.free < 2 * second.free:
                nodes = (first.node, second.node)
                yield Plan(nodes=nodes, resource=resource, unit=second.free, slots=2, way=first.way, by_dra=bool(first.device_class))
                break
        if free and free[0].free > 1:
            unit, by_dra = free[0].free // 2, bool(free[0].device_class)
            slots = free[0].free // unit
            yield Plan(nodes=(free[0].node,), resource=resource, unit=unit, slots=slots, way=free[0].way, by_dra=by_dra)


def gang_of(scope: Scope, plan: Plan, name: str, size: int, *, gates: Sequence[str] = (), unlike: bool = False) -> Gang:
    """A gang of plain pods, confined to the plan's nodes. Adapters add their marks. ``unlike``: the last asks for more memory."""
    limits = [_MORE if unlike and index == size - 1 else {} for index in range(size)]
    pods = tuple(_pod(scope, plan, name, index, gates, more) for index, more in enumerate(limits))
    return Gang(name=name, pods=pods, by_dra=plan.by_dra)


def _pod(scope: Scope, plan: Plan, gang: str, index: int, gates: Sequence[str], limits: Mapping[str, str]) -> Json:
    probes = scope.policy.probes
    tolerations = {str(toleration): toleration for node in plan.nodes for toleration in fence_tolerations(scope, node)}
    single = plan.nodes[0].name if len(plan.nodes) == 1 else ""
    return probe_pod(
        PodShape(
            name=f"{gang}-{index}",
            image=probes.image_for([plan.resource]),
            script=SCRIPT,
            resources={plan.resource: plan.unit},
            node=single,
            nodes=() if single else [node.metadata.label.get(HOSTNAME, node.name) for node in plan.nodes],
            tolerations=[*tolerations.values(), *probes.tolerations],
            run_as_user=probes.run_as_user,
            labels={GANG_LABEL: gang},
            gates=gates,
            limits=limits,
            pull_secrets=probes.pull_secrets,
        )
    )
