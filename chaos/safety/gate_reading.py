"""Reads from the cluster what the gates ask about, just before the act. What cannot be read stays unknown, which closes its gate."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from chaos.cluster import namespaces
from chaos.cluster.requests import Reviewer, Right, read
from chaos.ledger import authentic
from chaos.model.experiment import OPT_IN_LABEL
from chaos.model.plan import Plan, canary_namespace
from chaos.model.records import LedgerError
from chaos.safety.gate_input import ClusterState, NodeState
from chaos.safety.lease import read_lease
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.devices.reset_alone import reset_obstacles
from fixtures.model.nodes.untyped_nodes import work_of
from fixtures.model.nodes.work import Why, is_fence_key
from fixtures.model.objects import (
    Budget,
    amounts_of,
    budget_of,
    controller_of,
    full_name,
    is_live,
    is_unschedulable,
    labels_of,
    namespace_of,
    node_of,
    protects,
    uid_of,
    uses_claims,
)
from fixtures.model.platform.installed import InstalledComponent
from fixtures.model.platform.remediators import find_remediators
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.policy.allowlist import cluster_uid

T = TypeVar("T")
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_PRESENT = "nvidia.com/gpu.present"


def read_cluster_state(
    cluster: Cluster,
    plan: Plan,
    *,
    devices: Sequence[str],
    fences: Sequence[str] = (),
    rights: Iterable[Right],
    agents: Sequence[InstalledComponent] = (),
    ours: bool,
    steady: str | None,
) -> ClusterState:
    """The facts about a plan. ``devices`` are device resource names, ``fences`` keys of taints, both globs.

    ``rights`` are all that acting and undoing takes.

    ``agents`` are those whose pods on the plan's nodes will be ended: a budget of theirs counts as one of a target.
    ``steady`` is what is wrong with the steady state, empty when nothing is and None when nobody has looked.
    """
    nodes = _known(lambda: list(cluster.each("nodes")))
    pods = _known(lambda: list(cluster.each("pods")))
    workloads = _known(lambda: [*cluster.each("apps/deployments"), *cluster.each("apps/daemonsets")])
    lease = _known(lambda: (read_lease(cluster),))
    ledgers = _known(lambda: authentic.read_ledgers(cluster))
    own = (plan.namespace, canary_namespace(plan))
    return ClusterState(
        cluster_uid=_known(lambda: cluster_uid(cluster)) or "",
        cluster_names=tuple(filter(None, (cluster.context,))),
        ours=ours,
        uids=_known(lambda: {str(item): uid_of(read(cluster, item.kind, item.name, item.namespace)) for item in plan.targets}),
        nodes=None if nodes is None or pods is None else _known(lambda: node_states(nodes, pods, devices, fences, own=own)),
        steady=steady,
        denied=_known(lambda: tuple(map(str, Reviewer(cluster).denied(rights)))),
        remediators=None if nodes is None or workloads is None else _known(lambda: find_remediators(workloads, nodes, plan.nodes)),
        budgets=None if pods is None else _known(lambda: _spent_budgets(cluster, plan, pods, agents)),
        open_entries=None if ledgers is None else sum(ledgers.earlier(plan.run_id).values()),
        forged=() if ledgers is None else ledgers.forged,
        halted=None if lease is None else lease[0].halted if lease[0] else "",
    )


def node_states(
    nodes: Iterable[Json], pods: Sequence[Json], devices: Sequence[str], fences: Sequence[str] = (), *, own: Collection[str] = ()
) -> dict[str, NodeState]:
    """What the gates ask about each node, by name. Pods in the namespaces ``own`` are the run's: a label says so of any pod."""
    holding: dict[str, list[str]] = {}
    for pod in pods:
        if _holds(pod, devices) and namespace_of(pod) not in own:
            holding.setdefault(node_of(pod), []).append(full_name(pod))

    def names_device(name: str) -> bool:
        return _is_device(name, devices)

    found, nodes = {}, list(nodes)
    obstacles = reset_obstacles(nodes)
    works = work_of(nodes, lambda key: is_fence_key(key, fences, names_device), names_device)
    for node in nodes:
        name, labels = str(node["metadata"]["name"]), labels_of(node)
        cordoned = is_unschedulable(node)
        obstacle = works[name].besides(*([Why.CORDONED] if cordoned else []))
        found[name] = NodeState(
            uid=uid_of(node),
            gpu=_has_devices(node, devices) or labels.get(_PRESENT) == "true",  # DRA drivers advertise no capacity on the node
            obstacle=str(obstacle or ""),
            cordoned=cordoned,
            control_plane=any(key in labels for key in _CONTROL_PLANE),
            opted_in=labels.get(OPT_IN_LABEL[0]) == OPT_IN_LABEL[1],
            busy=tuple(holding.get(name, ())),
            reset_obstacle=obstacles[name],
        )
    return found


def _has_devices(node: Json, devices: Sequence[str]) -> bool:
    capacity = amounts_of(node, "capacity")
    return any(quantity.as_int(str(amount)) for name, amount in capacity.items() if _is_device(name, devices))


def _is_device(name: str, devices: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in devices)


def _holds(pod: Json, devices: Sequence[str]) -> bool:
    return is_live(pod) and (uses_claims(pod) or bool(requested_devices(pod, lambda name: _is_device(name, devices))))


def _spent_budgets(cluster: Cluster, plan: Plan, pods: Sequence[Json], agents: Sequence[InstalledComponent]) -> tuple[str, ...]:
    """Budgets that allow no disruption of a pod that will be ended. An empty selector selects all, as the API has it."""
    targets = {target.uid for target in plan.targets if target.kind == "pods"}
    hit = [pod for pod in pods if uid_of(pod) in targets or any(_on(plan, pod, agent) for agent in agents)]
    if not hit:
        return ()
    return tuple(
        full_name(budget)
        for budget in cluster.each("policy/poddisruptionbudgets")
        if _is_spent(budget_of(budget)) and any(protects(budget, pod) for pod in hit)
    )


def _is_spent(budget: Budget) -> bool:
    """Whether a budget does not say, of its present form, that a disruption is allowed: an eviction is refused until it was counted."""
    return budget.allowed < 1 or not budget.current


def _on(plan: Plan, pod: Json, agent: InstalledComponent) -> bool:
    """Whether a pod on one of the plan's nodes is an agent's."""
    return controller_of(pod) == agent.uid != "" and namespace_of(pod) == agent.namespace and node_of(pod) in plan.nodes


def _known(ask: Callable[[], T]) -> T | None:
    """The answer, or None when there is none, or one of a shape that the API does not have: its gate stays closed."""
    try:
        return ask()
    except (ApiTrouble, LedgerError, ValueError, AttributeError, LookupError, TypeError):
        return None


READS = (
    "get namespaces",
    "list namespaces",
    "list nodes",
    "list pods",
    "list apps/deployments",
    "list apps/daemonsets",
    "list policy/poddisruptionbudgets",
    f"list configmaps in {namespaces.SHARED}",
    f"list {PRIORITY_CLASSES}",
    f"get coordination.k8s.io/leases in {namespaces.SHARED}",
    f"list coordination.k8s.io/leases in {namespaces.SHARED}",
)
"""Rights that finding out takes. An object is absent only if a list says so as well (:mod:`fixtures.cluster.confirmed`)."""
