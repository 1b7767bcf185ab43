"""Whether a pod fits onto a node, by this suite's own arithmetic: labels, taints, what bound pods leave of every resource, free devices.

What only a scheduler can tell is named and never guessed: other pods' places, volumes, host ports
(docs/facts/scheduling-messages.md#what-a-scheduler-weighs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction

from conformance.devices.claim_fit import ClaimedDevices, FreeDevice, chosen, free_on
from conformance.scope.node_changes import change_under_way
from conformance.scope.scope import Scope
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Container, Node, Pod, PodSpec
from fixtures.kubernetes.quantity import QuantityError
from fixtures.kubernetes.times import newest
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.model.demand.pod_amounts import add, of_pod, units, written
from fixtures.model.nodes.holds import HARD
from fixtures.model.placement.affinity import Choice
from fixtures.model.placement.tolerations import Tolerated
from fixtures.text.sentences import listed

Amounts = dict[str, Fraction]

_POD_LEVEL = ("cpu", "memory")


def requests_of(spec: PodSpec) -> Amounts:
    """What the scheduler counts for a pod: containers and sidecars together, or the peak of its init containers, and its overhead."""
    total = of_pod(spec, _amounts)
    if spec.resources is not None:  # amounts of the pod as a whole stand for those of its containers
        whole = {**(spec.resources.limits or {}), **(spec.resources.requests or {})}
        total |= {name: _parsed(value) for name, value in whole.items() if name in _POD_LEVEL or name.startswith("hugepages-")}
    add(total, {name: _parsed(value) for name, value in (spec.overhead or {}).items()})
    return {name: amount for name, amount in total.items() if amount}


def _amounts(container: Container) -> Amounts:
    asked = written(container.resources.requests, container.resources.limits).items()
    return {name: Fraction(units(value)) if "/" in name else _parsed(value) for name, value in asked}


def _parsed(value: str | int | float) -> Fraction:
    try:
        return quantity.parse(value)
    except QuantityError:
        return Fraction(0)


_NOTHING_CLAIMED = ClaimedDevices()


class Room:
    """What is left of a node. ``free_since``: when something last made room there, as far as the cluster still shows it."""

    def __init__(self, node: Node, pods: Iterable[Pod], free_since: float | None) -> None:
        self.node = node
        self.free_since = free_since
        self._left: Amounts = {name: _parsed(value) for name, value in node.status.allocatable.items()}
        self._left.setdefault("pods", Fraction(110))
        for pod in pods:
            self.take(requests_of(pod.spec))
        self.devices: list[FreeDevice] = []

    def left(self, resource: str) -> int:
        """Whole units of a resource that are left."""
        return int(max(self._left.get(resource, Fraction(0)), Fraction(0)))

    def holds(self, wanted: Amounts) -> bool:
        """Whether a pod with these requests fits beside what is there."""
        return self._left["pods"] >= 1 and all(self._left.get(name, Fraction(0)) >= amount for name, amount in wanted.items())

    def take(self, wanted: Amounts) -> None:
        """Place a pod with these requests."""
        self._change(wanted, -1)

    def give_back(self, wanted: Amounts) -> None:
        """Undo :meth:`take`."""
        self._change(wanted, 1)

    def _change(self, wanted: Amounts, sign: int) -> None:
        self._left["pods"] += sign
        for name, amount in wanted.items():
            self._left[name] = self._left.get(name, Fraction(0)) + sign * amount


class FreeCapacity:
    """Room on the usable accelerator nodes of a scope that nothing is being done to, computed when it is first asked for."""

    def __init__(self, scope: Scope, now: float) -> None:
        self.scope = scope
        self.now = now
        self._made: dict[str, Room] = {}
        self._candidates: dict[frozenset[tuple[str, int]], list[Node]] = {}
        self._nodes = [node for node in scope.usable_nodes if not change_under_way(node, scope.policy, now)]
        self._ended: dict[str, list[Pod]] = {}
        for pod in scope.snapshot.pods:
            if pod.finished and pod.spec.node_name:
                self._ended.setdefault(pod.spec.node_name, []).append(pod)

    def admitting(self, spec: PodSpec, by_dra: Collection[str] = ()) -> Iterator[Room]:
        """Room on nodes that a pod's selector, affinity and tolerations let it onto, in order of name.

        ``by_dra`` are extended resources that no node has of its own.
        """
        wanted = frozenset((name, count) for name, count in self.scope.devices_of(spec).items() if count > 0 and name not in by_dra)
        if wanted not in self._candidates:  # of a thousand full nodes none is looked at twice
            free = self.scope.free
            self._candidates[wanted] = [node for node in self._nodes if all(free(node, name) >= count for name, count in wanted)]
        choice, tolerated = Choice(spec), Tolerated(spec.tolerations)
        for node in self._candidates[wanted]:
            if choice.admits(node) and tolerated.lets_onto(node):
                yield self._room(node)

    def reserve(self, name: str, spec: PodSpec) -> None:
        """Keep room on a node for a pod that the scheduler has chosen it for."""
        for node in self._nodes:
            if node.name == name:
                self._room(node).take(requests_of(spec))

    def place(self, spec: PodSpec, claimed: ClaimedDevices = _NOTHING_CLAIMED) -> Room | None:
        """Put a pod where it fits, and say where; None where it fits nowhere. ``claimed`` is what it asks for by DRA."""
        return next(iter(self.place_all([(spec, claimed)])), None)

    def fit(self, pods: Sequence[tuple[PodSpec, ClaimedDevices]]) -> bool:
        """Whether :meth:`place_all` would put all of some pods somewhere."""
        return bool(self.place_all(pods, stay=False))

    def place_all(self, pods: Sequence[tuple[PodSpec, ClaimedDevices]], *, stay: bool = True) -> list[Room]:
        """Put all of some pods, or none: the places of all, in order, or nothing. Without ``stay`` they leave again."""
        done: list[tuple[Room, Amounts, list[FreeDevice]]] = []  # with the devices that were free before
        for spec, claimed in pods:
            wanted = {name: amount for name, amount in requests_of(spec).items() if name not in claimed.resources}
            for room in self.admitting(spec, claimed.resources):
                devices = chosen(self.scope, room.devices, claimed.requests) if claimed.requests else []
                if devices is not None and room.holds(wanted):
                    done.append((room, wanted, room.devices))
                    room.take(wanted)
                    room.devices = [item for item in room.devices if item not in devices]
                    break
            else:
                break
        whole = len(done) == len(pods)
        for room, wanted, devices in reversed(done) if not (whole and stay) else ():
            room.give_back(wanted)
            room.devices = devices
        return [room for room, *_ in done] if whole else []

    def refusals(self, nodes: Iterable[Node], spec: PodSpec, claimed: ClaimedDevices = _NOTHING_CLAIMED) -> Iterator[tuple[Node, str]]:
        """Why :meth:`place` would not put a pod onto each node, as a clause in the same words for like nodes; empty where it would.

        Other pods' places, volumes and host ports are not weighed (:func:`constraints_not_modelled`).
        """
        choice, tolerated = Choice(spec), Tolerated(spec.tolerations)
        wanted = {name: amount for name, amount in requests_of(spec).items() if name not in claimed.resources}
        for node in nodes:
            away = self.scope.why_not_judged(node) or change_under_way(node, self.scope.policy, self.now)
            yield node, away or _unmet(spec, choice, tolerated, node) or self._short(node, wanted, claimed)

    def _short(self, node: Node, wanted: Amounts, claimed: ClaimedDevices) -> str:
        """What of a pod's amounts a node has not free, as a clause, or empty."""
        room = self._room(node)
        if not room.left("pods"):
            return "no more pods fit onto it"
        if short := [name for name, amount in wanted.items() if not room.holds({name: amount})]:
            return f"too little is free of {listed(sorted(short), 3)}"
        if claimed.requests and chosen(self.scope, room.devices, claimed.requests) is None:
            return "fewer devices are free than its claims ask for"
        return ""

    def _room(self, node: Node) -> Room:
        if node.name not in self._made:
            bound = self.scope.snapshot.pods_by_node.get(node.name, ())
            self._made[node.name] = Room(node, bound, self._free_since(node))
            self._made[node.name].devices = free_on(self.scope, node)
        return self._made[node.name]

    def _free_since(self, node: Node) -> float | None:
        """The newest end of a pod there, and of the node itself. A pod that was deleted leaves no trace."""
        ended = [moment for pod in self._ended.get(node.name, ()) for moment in ended_at(pod)]
        ready = node.condition("Ready")
        return newest([*ended, node.metadata.creation_timestamp, ready.last_transition_time if ready else None])


def _unmet(spec: PodSpec, choice: Choice, tolerated: Tolerated, node: Node) -> str:
    """Which words of a pod keep it from a node, as a clause, or empty."""
    if not choice.admits(node):
        unmet = [f"{key}={value}" for key, value in (spec.node_selector or {}).items() if node.metadata.label.get(key) != value]
        return f"its nodeSelector wants {listed(unmet, 3)}" if unmet else "its required node affinity excludes it"
    hard = [taint for taint in node.spec.taints if taint.effect in HARD and not tolerated.matches(taint)]
    return f"it does not tolerate the taint {listed(hard, 2)}" if hard else ""


def ended_at(pod: Pod) -> list[str]:
    """Times at which containers of a pod ended."""
    every = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    return [text for status in every if (text := text_of(mapping(mapping(status.state).get("terminated")).get("finishedAt")))]


def constraints_not_modelled(spec: PodSpec) -> list[str]:
    """What a pod asks for that this arithmetic does not weigh, in words."""
    affinity = mapping(spec.affinity)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found = [f"required {name}" for name in ("podAffinity", "podAntiAffinity") if sequence(mapping(affinity.get(name)).get(required))]
    if any(item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for item in mappings(spec.topology_spread_constraints)):
        found.append("topology spread constraints")
    if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in mappings(spec.volumes)):
        found.append("persistent volumes")
    if any(mapping(port).get("hostPort") for container in spec.every_container() for port in container.ports or ()):
        found.append("host ports")
    return found
