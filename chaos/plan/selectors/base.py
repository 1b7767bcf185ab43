"""Base of the selectors: the cluster at planning time, and which of its GPU nodes are healthy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from chaos.cluster.node_work import cordon, is_unschedulable, work_of
from chaos.model.plan import Target
from chaos.model.plan_facts import Device, PlanFacts
from chaos.observe.components import Components
from chaos.observe.device_requests import requested_devices
from chaos.observe.view import NoData, View, dig, labels_of, name_of, node_of, number_of, phase_of, uid_of
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.cordons import Kind
from fixtures.model.nodes.work import NodeWork, Why
from fixtures.text.sentences import in_order


class NotApplicable(Exception):
    """The experiment has no object here. ``code`` is a reason in CamelCase, the message one clause."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class PlanRefused(Exception):
    """The experiment has an object here, but may not be done on it now. ``code`` as in :class:`NotApplicable`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TargetUnclear(PlanRefused):
    """It is unclear which object the experiment would touch, or what the cluster has, so nothing is judged and nothing is touched."""


class TargetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``target`` block of an experiment. ``component``: whose pod; ``free``: devices that must be free on the node;

    ``idle``: no pod but the experiment's own may hold a device there; ``shared``: whether devices are replicated (None: both will
    do); ``kind``: resource key of an operand; ``labels``: label keys that the node must carry.
    """

    select: str
    component: str = ""
    free: int = 0
    idle: bool = False
    shared: bool | None = None
    mig: bool | None = None
    kind: str = ""
    labels: tuple[str, ...] = ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a selector chose. ``eligible``: how many there were to choose from; ``nodes``: nodes that must not be the untouched one."""

    targets: tuple[Target, ...]
    eligible: int
    nodes: tuple[str, ...] = ()


class PlanningView(msgspec.Struct, kw_only=True):
    """The cluster at planning: lists, components, facts. ``named`` is the node that the user asked for.

    ``cordoned``: targets are nodes that an administrator has cordoned and emptied, and no others.
    """

    view: View
    components: Components
    facts: PlanFacts
    wanted: TargetQuery
    named: str = ""
    cordoned: bool = False
    by_node: dict[str, list[Json]] = {}
    works: dict[str, NodeWork] = {}

    def gpu_nodes(self) -> list[Json]:
        """Nodes that have devices in their capacity."""
        return [node for node in self.view.select("nodes") if self.devices(node, "capacity")]

    def devices(self, node: Json, field: str) -> dict[str, int]:
        """Device counts of a node's capacity or allocatable, those above 0."""
        found = {name: number_of(value) for name, value in dig(node, "status", field).items() if self.facts.is_device(name)}
        return {name: count for name, count in found.items() if count > 0}

    def work(self, node: Json) -> NodeWork:
        """Whether a GPU node may work, by the model of nodes. Raises :class:`NoData` when a node cannot be read."""
        if not self.works:
            try:
                self.works |= work_of(self.gpu_nodes(), self.facts.is_fence)
            except msgspec.ValidationError as error:
                raise NoData(f"nodes cannot be read: {error}") from error
        return self.works[name_of(node)]

    def obstacle(self, node: Json, *but: Why) -> str:
        """Why a GPU node may not work, other than for the reasons in ``but``; empty when it may."""
        if found := self.work(node).besides(*but):
            return f"{name_of(node)}: {found}"
        if self.devices(node, "allocatable") != self.devices(node, "capacity"):
            return f"{name_of(node)} has devices that are not allocatable"
        return ""

    def target_obstacle(self, node: Json) -> str:
        """Why a GPU node may not be the target, whatever it offers; empty when it may."""
        if not self.cordoned:
            return self.obstacle(node)
        name = name_of(node)
        found = cordon(node)
        if found is None:
            return f"{name} is in service, and has to be cordoned by an administrator"
        if found.kind in (Kind.REMEDIATION, Kind.SUITE):
            return f"{name} was cordoned by {found.kind}, and not by an administrator"
        if found.doubt:
            return f"whether an administrator cordoned {name} is not known: {found.doubt}"
        return self.obstacle(node, Why.CORDONED) or (f"{name} has pods that hold devices" if self.busy(node) else "")

    def healthy(self) -> list[Json]:
        """Healthy GPU nodes, most free devices first, then by name."""
        return self._sorted(node for node in self.gpu_nodes() if not self.obstacle(node))

    def eligible(self) -> list[Json]:
        """GPU nodes that may be the target, in the same order."""
        return self._sorted(node for node in self.gpu_nodes() if not self.target_obstacle(node))

    def comparable_nodes(self) -> list[Json]:
        """What a target is a share of: healthy nodes, and those that may be the target although they are out of service."""
        return [node for node in self.gpu_nodes() if not self.obstacle(node) or not self.target_obstacle(node)]

    def _sorted(self, nodes: Iterable[Json]) -> list[Json]:
        return sorted(nodes, key=lambda node: (-self.free(node), name_of(node)))

    def busy(self, node: Json) -> bool:
        """Whether pods hold devices of the node."""
        return bool(self.holders(node) or self.claimants(node))

    def holders(self, node: Json) -> list[Json]:
        """Pods that hold devices of a node."""
        return [pod for pod in self.alive_on(node) if self.held(pod)]

    def claimants(self, node: Json) -> list[Json]:
        """Pods on a node that use ResourceClaims, of whatever devices: they are in the capacity of no device plugin."""
        return [pod for pod in self.alive_on(node) if dig(pod, "spec").get("resourceClaims")]

    def alive_on(self, node: Json) -> list[Json]:
        """Pods on a node that have not ended. All pods are gone through once: clusters have thousands of nodes."""
        if not self.by_node:
            for pod in self.view.select("pods"):
                if phase_of(pod) not in ("Succeeded", "Failed"):
                    self.by_node.setdefault(node_of(pod), []).append(pod)
        return self.by_node.get(name_of(node), [])

    def held(self, pod: Json) -> int:
        """Devices that a pod asks for."""
        return sum(requested_devices(pod, self.facts.is_device).values())

    def free(self, node: Json) -> int:
        """Devices of a node that no pod holds."""
        return sum(self.devices(node, "allocatable").values()) - sum(self.held(pod) for pod in self.holders(node))

    def require_name(self) -> None:
        """Raises :class:`PlanRefused` when the user named a node that may not be the target."""
        if not self.named:
            return
        nodes = {name_of(node): node for node in self.view.select("nodes")}
        if self.named not in nodes:
            raise PlanRefused("NoSuchNode", f"--chaos-target {self.named}: there is no such node; GPU nodes are {self._names()}")
        if not self.devices(nodes[self.named], "capacity"):
            raise PlanRefused("NoGpuNode", f"--chaos-target {self.named}: it has no devices; GPU nodes are {self._names()}")
        if reason := self.target_obstacle(nodes[self.named]):
            raise PlanRefused("UnhealthyTarget", f"--chaos-target {self.named}: {reason}")

    def _names(self) -> str:
        return ", ".join(in_order(name_of(node) for node in self.gpu_nodes())) or "none"

    def node_target(self, node: Json, facts: dict[str, Any] | None = None) -> Target:
        """A node as a target."""
        about = {
            "labels": labels_of(node),
            "system_uuid": str(dig(node, "status", "nodeInfo").get("systemUUID") or ""),
            "unschedulable": is_unschedulable(node),
            "taints": list(dig(node, "spec").get("taints") or []),
            **(facts or {}),
        }
        return Target(kind="nodes", name=name_of(node), uid=uid_of(node), node=name_of(node), facts=about)

    def known_devices(self, node: str) -> tuple[Device, ...]:
        """GPUs of a node, as its telemetry names them."""
        return self.facts.devices.get(node, ())


class Selector(Protocol):
    """Chooses targets. Raises :class:`NotApplicable` or :class:`PlanRefused`; an empty choice is none."""

    def __call__(self, planning: PlanningView) -> Choice:
        """The choice."""
        ...
