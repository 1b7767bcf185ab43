"""Selectors: how an experiment chooses its targets, by the name under ``target.select``, from the cluster at planning time.

A node is a target if it is healthy and in service, or, for what is destructive, healthy and taken out of service by an administrator.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from chaos.ledger.undos.objects import OPERAND_KINDS
from chaos.model.plan import Device, PlanFacts, Target
from chaos.observe.signals.agents import POLICIES
from chaos.observe.view import NoData, View
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.dra.nvidia_driver import RESOURCE, allocated_devices, claims_of, published_devices
from fixtures.model.dra.slices import CLAIMS
from fixtures.model.nodes.holds import Kind
from fixtures.model.nodes.untyped_nodes import cordon, work_of
from fixtures.model.nodes.work import NodeWork, Why
from fixtures.model.objects import (
    amounts_of,
    controller_of,
    device_amounts,
    grace_of,
    is_live,
    is_ready,
    is_unschedulable,
    labels_of,
    machine_of,
    name_of,
    namespace_of,
    node_of,
    number_of,
    owners_of,
    replicas_of,
    taints_of,
    text_of,
    uid_of,
    uses_claims,
)
from fixtures.model.platform.components import DEPLOYMENTS
from fixtures.model.platform.installed import REPLICA_SETS, Components, InstalledComponent, on_node, pods_of
from fixtures.model.platform.name_servers import KUBE_SYSTEM, NAME_SERVER, makes_name_servers
from fixtures.model.platform.namespaces import operators_of
from fixtures.text.sentences import in_order


class NoPlan(Exception):
    """No plan can be made. ``code`` is a reason in CamelCase, the message one clause."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotApplicable(NoPlan):
    """The experiment has no object here."""


class PlanRefused(NoPlan):
    """The experiment has an object here, but may not be done on it now."""


class TargetUnclear(PlanRefused):
    """It is unclear which object the experiment would touch, or what the cluster has, so nothing is judged and nothing is touched."""


class Also(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the second experiment of a pair acts on, on the same node: ``select`` and ``component`` as in :class:`TargetQuery`."""

    select: str
    component: str = ""


class TargetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``target`` block of an experiment.

    ``component``: whose pod; ``free``: devices that must be free on the node; ``count``: how many nodes; ``idle``: no pod but the
    experiment's own may hold a device there; ``shared``: whether devices are replicated (None: both will do); ``kind``: resource key of
    an operand; ``labels``: label keys that the node must carry; ``also``: what the second experiment of a pair acts on.
    """

    select: str
    component: str = ""
    free: int = 0
    count: int = 1
    idle: bool = False
    shared: bool | None = None
    mig: bool | None = None
    kind: str = ""
    labels: tuple[str, ...] = ()
    also: Also | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a selector chose. ``eligible``: how many there were to choose from; ``nodes``: nodes that must not be the untouched one."""

    targets: tuple[Target, ...]
    eligible: int
    nodes: tuple[str, ...] = ()

    def beside(self, other: "Choice") -> "Choice":
        """Both, an object of both once. They are a share of what the one with the fewest nodes or agents' pods had to choose from."""
        found = {str(target): target for target in self.targets}
        for target in other.targets:
            known = found.get(str(target))
            facts = {**target.facts, **(known.facts if known else {})}
            found[str(target)] = msgspec.structs.replace(known or target, facts=facts)
        nodes = tuple(dict.fromkeys([*self.nodes, *other.nodes]))
        eligible = min((one.eligible for one in (self, other) if one.nodes), default=self.eligible)
        return Choice(targets=tuple(found.values()), eligible=eligible, nodes=nodes)


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
        found = device_amounts(node, field, self.facts.is_device)
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
        return [pod for pod in self.alive_on(node) if uses_claims(pod)]

    def alive_on(self, node: Json) -> list[Json]:
        """Pods on a node that have not ended. All pods are gone through once: clusters have thousands of nodes."""
        if not self.by_node:
            for pod in self.view.select("pods"):
                if is_live(pod):
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
            "system_uuid": machine_of(node),
            "unschedulable": is_unschedulable(node),
            "taints": taints_of(node),
            **(facts or {}),
        }
        return Target(kind="nodes", name=name_of(node), uid=uid_of(node), node=name_of(node), facts=about)

    def known_devices(self, node: str) -> tuple[Device, ...]:
        """GPUs of a node, as its telemetry names them."""
        return self.facts.devices.get(node, ())


Selector = Callable[[PlanningView], Choice]
"""Chooses targets. Raises :class:`NotApplicable` or :class:`PlanRefused`; an empty choice is none."""


class ClaimPlanningView(PlanningView, kw_only=True):
    """A :class:`PlanningView` whose devices are those of ResourceSlices and whose holders are pods with claims."""

    def devices(self, node: Json, field: str) -> dict[str, int]:
        """Devices published for a node; ``allocatable`` are those without a taint."""
        found = [
            one for one in published_devices(self.view).values() if one.node == name_of(node) and (field == "capacity" or not one.tainted)
        ]
        return {RESOURCE: len(found)} if found else {}

    def held(self, pod: Json) -> int:
        """Devices that the pod's claims hold."""
        return sum(len(allocated_devices(claim)) for claim in claims_of(pod, self.view.select(CLAIMS)))

    def free(self, node: Json) -> int:
        """Devices of a node that no claim holds, in use or not."""
        taken = {device for claim in self.view.select(CLAIMS) for device in allocated_devices(claim)}
        published = published_devices(self.view).items()
        return sum(one.node == name_of(node) and not one.tainted and key not in taken for key, one in published)


def _component(planning: PlanningView) -> InstalledComponent:
    """The component whose pod is wanted. Raises :class:`NotApplicable`."""
    name = planning.wanted.component
    found = planning.components.get(name)
    if found is None:
        raise NotApplicable("ComponentAbsent", planning.components.absent.get(name, f"no {name}"))
    return found


def choose_controller(planning: PlanningView) -> Choice:
    """The first ready pod of a controller, by name."""
    found = _component(planning)
    pods = sorted((pod for pod in pods_of(planning.view, found) if is_ready(pod)), key=name_of)
    if not pods:
        raise PlanRefused("NoReadyPod", f"no pod of {found} is ready")
    workload = planning.view.find(found.key, found.name, found.namespace)
    about = {
        "owner_kind": found.key,
        "owner": found.name,
        "owner_uid": found.uid,
        "replicas": replicas_of(workload),
        "on": node_of(pods[0]),
    }
    target = Target(kind="pods", name=name_of(pods[0]), namespace=namespace_of(pods[0]), uid=uid_of(pods[0]), facts=about)
    return Choice(targets=(target,), eligible=len(pods))


def choose_name_server(planning: PlanningView) -> Choice:
    """The first ready pod of the cluster's name servers: of the one Deployment in kube-system whose pods are labelled as such."""
    found = [item for item in planning.view.select(DEPLOYMENTS, KUBE_SYSTEM) if makes_name_servers(item)]
    if not found:
        raise NotApplicable("NoNameServer", f"no Deployment in {KUBE_SYSTEM} has pods with the label {'='.join(NAME_SERVER)}")
    if len(found) > 1:
        names = ", ".join(sorted(map(name_of, found)))
        raise TargetUnclear("ComponentUnclear", f"Deployments {names} in {KUBE_SYSTEM} could all be the cluster's name servers")
    workload = found[0]
    makers = {uid_of(item) for item in planning.view.select(REPLICA_SETS, KUBE_SYSTEM) if controller_of(item) == uid_of(workload)}
    pods = [pod for pod in planning.view.select("pods", KUBE_SYSTEM) if controller_of(pod) in makers - {""} and is_ready(pod)]
    if not pods:
        raise PlanRefused("NoReadyPod", f"no pod of Deployment {KUBE_SYSTEM}/{name_of(workload)} is ready")
    pod = min(pods, key=name_of)
    about = {"owner_kind": DEPLOYMENTS, "owner": name_of(workload), "owner_uid": uid_of(workload), "replicas": replicas_of(workload)}
    return Choice(
        targets=(Target(kind="pods", name=name_of(pod), namespace=KUBE_SYSTEM, uid=uid_of(pod), facts=about),), eligible=len(pods)
    )


def choose_operand(planning: PlanningView) -> Choice:
    """An object that a ClusterPolicy owns, where its operator runs: a Service or a ConfigMap, the first by kind and name.

    Whoever may write an object can name the policy's UID as its owner: the namespace says whose it is.
    """
    operators = operators_of(("ClusterPolicy", item) for item in planning.view.select(POLICIES))
    homes = {operator.uid: operator.homes for operator in operators if operator.uid}
    if not homes:
        raise NotApplicable("NoClusterPolicy", "there is no ClusterPolicy whose operands could be deleted")
    kinds = (planning.wanted.kind,) if planning.wanted.kind else OPERAND_KINDS
    found = [
        (key, item)
        for key in kinds
        for item in sorted(planning.view.select(key), key=name_of)
        if any(
            namespace_of(item) in homes.get(text_of(owner.get("uid")), {}) and owner.get("controller") is True for owner in owners_of(item)
        )
    ]
    if not found:
        raise NotApplicable("NoOperand", f"no {' or '.join(kinds)} is owned by a ClusterPolicy")
    key, item = found[0]
    target = Target(kind=key, name=name_of(item), namespace=namespace_of(item), uid=uid_of(item))
    return Choice(targets=(target,), eligible=len(found))


def choose_node(planning: PlanningView) -> Choice:
    """Healthy GPU nodes that offer what the experiment asks for; those with most free devices."""
    candidates, count = _candidates(planning), planning.wanted.count
    if len(candidates) < count:
        raise PlanRefused("TooFewNodes", f"{count} GPU nodes are needed, and {len(candidates)} can be targets")
    return Choice(
        targets=tuple(planning.node_target(node, _devices_of(planning, node)) for node in candidates[:count]),
        eligible=len(planning.comparable_nodes()),
        nodes=tuple(map(name_of, candidates[:count])),
    )


def choose_daemon_pod(planning: PlanningView) -> Choice:
    """The pod of an agent on one healthy GPU node, and the node as what the fault shows on."""
    found = _component(planning)
    pods: dict[str, Json] = {}
    for pod in pods_of(planning.view, found):
        if is_ready(pod) and node_of(pod):
            pods[node_of(pod)] = pod
    candidates = [node for node in _candidates(planning) if name_of(node) in pods]
    if not candidates:
        raise PlanRefused("NoReadyPod", f"no healthy GPU node has a ready pod of {found}")
    node = candidates[0]
    pod, found = pods[name_of(node)], on_node(planning.view, found, name_of(node))
    return Choice(targets=(_pod_target(pod, found.key, found.name),), eligible=len(pods), nodes=(name_of(node),))


def choose_gpu(planning: PlanningView) -> Choice:
    """One device of a healthy GPU node, by what the node's exporter shows of it: the last one, which is given out last."""
    candidates = [node for node in _candidates(planning) if planning.known_devices(name_of(node))]
    if not candidates:
        raise NotApplicable("DevicesUnknown", "no exporter reports the UUIDs of devices of a healthy node, so no device can be named")
    node = candidates[0]
    every = sum(len(planning.known_devices(name_of(other))) for other in planning.comparable_nodes())
    return Choice(targets=(planning.node_target(node, _devices_of(planning, node)),), eligible=every, nodes=(name_of(node),))


def _devices_of(planning: PlanningView, node: Json) -> dict[str, Any]:
    """The device that a fault would hit: the node's last one, which is given out last. Empty when nothing tells its devices."""
    devices = sorted(planning.known_devices(name_of(node)), key=lambda device: device.index)
    if not devices:
        return {}
    chosen = devices[-1]
    units = sum(planning.devices(node, "capacity").values())
    return {"uuid": chosen.uuid, "index": chosen.index, "pci": chosen.pci, "units": units // len(devices), "gpus": len(devices)}


def _candidates(planning: PlanningView) -> list[Json]:
    """GPU nodes that may be the target and have what the target block asks for. Raises when there is none, with the reasons."""
    planning.require_name()
    nodes = planning.gpu_nodes()
    if not nodes:
        raise NotApplicable("NoGpuNode", "no node has devices in its capacity")
    fitting, reasons = [], []
    for node in planning.eligible():
        reason = _unfit(planning, node)
        if planning.named and name_of(node) != planning.named:
            continue
        if reason:
            reasons.append(reason)
        else:
            fitting.append(node)
    if not fitting:
        reasons += [reason for node in nodes if (reason := planning.target_obstacle(node))]
        kind = NotApplicable if reasons and all(reason.startswith("~") for reason in reasons) else PlanRefused
        shown = "; ".join(dict.fromkeys(reason.removeprefix("~") for reason in reasons[:5])) or "none is healthy"
        raise kind("NoFittingNode", f"no GPU node can be the target: {shown}")
    return fitting


def _unfit(planning: PlanningView, node: Json) -> str:
    """Why a healthy node will not do. What it will never be begins with ``~``."""
    wanted, name = planning.wanted, name_of(node)
    shared, mig = is_shared(node), is_mig(node)
    if wanted.shared is not None and wanted.shared != shared:
        return f"~{name} {'shares' if shared else 'does not share'} its devices"
    if wanted.mig is not None and wanted.mig != mig:
        return f"~{name} is {'in' if mig else 'not in'} MIG"
    missing = [key for key in wanted.labels if key not in labels_of(node)]
    if missing:
        return f"~{name} has no label {missing[0]}"
    if planning.free(node) < wanted.free:
        return f"{name} has {planning.free(node)} free devices, {wanted.free} are needed"
    if wanted.idle and planning.busy(node):
        return f"{name} has pods that hold devices"
    return ""


def is_shared(node: Json) -> bool:
    """Whether devices of a node are given to several pods (GFD's replicas above 1, docs/facts/labels.md#discovery-labels)."""
    labels = labels_of(node)
    return any(key.endswith(".replicas") and number_of(value) > 1 for key, value in labels.items() if key.startswith("nvidia.com/"))


def is_mig(node: Json) -> bool:
    """Whether a node offers MIG devices, under their own names (mixed) or as whole ones (single)."""
    sliced = any(name.startswith("nvidia.com/mig-") and number_of(count) for name, count in amounts_of(node, "capacity").items())
    return sliced or "-MIG-" in labels_of(node).get("nvidia.com/gpu.product", "")


def _pod_target(pod: Json, owner_key: str, owner: str) -> Target:
    return Target(
        kind="pods",
        name=name_of(pod),
        namespace=namespace_of(pod),
        uid=uid_of(pod),
        node=node_of(pod),
        facts={"owner_kind": owner_key, "owner": owner, "grace": grace_of(pod)},
    )


def choose(planning: PlanningView) -> Choice:
    """What an experiment acts on, and what the second one of a pair acts on, on the same node. Raises as selectors do."""
    choice, also = SELECTORS[planning.wanted.select](planning), planning.wanted.also
    if also is None:
        return choice
    wanted = msgspec.structs.replace(planning.wanted, select=also.select, component=also.component, also=None)
    there = msgspec.structs.replace(planning, wanted=wanted, named=next(iter(choice.nodes), planning.named))
    return choice.beside(SELECTORS[also.select](there))


SELECTORS: dict[str, Selector] = {
    "daemon-pod": choose_daemon_pod,
    "controller-pod": choose_controller,
    "operand": choose_operand,
    "name-server": choose_name_server,
    "node": choose_node,
    "gpu": choose_gpu,
}
"""``daemon-pod``: an agent's pod on one node; ``controller-pod``: a controller's pod; ``operand``: an object that a ClusterPolicy
owns; ``name-server``: a pod of the cluster's name servers; ``node``: one GPU node; ``gpu``: one device of one node."""
