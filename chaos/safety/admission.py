"""Checks a plan against all gates: reads what they ask about just before the act, and which rights the plan takes.

What cannot be read stays unknown, which closes its gate.
"""

import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from chaos.cluster import injector, namespaces
from chaos.cluster.requests import Reviewer, read
from chaos.ledger import authentic
from chaos.ledger.bounds import WORKLOAD_KINDS
from chaos.ledger.undos.agents import SLICES
from chaos.model.experiment import OPT_IN_LABEL, Experiment, Level
from chaos.model.plan import Plan, PlanFacts, Target, canary_namespace
from chaos.model.records import GateResult, LedgerError
from chaos.observe.view import View
from chaos.safety import gates
from chaos.safety.gates import ClusterState, GateInput, NodeState, RequestedFault, Settings
from chaos.safety.lease import read_lease
from fixtures.cluster.access import Right
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import Json
from fixtures.model import objects
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.devices.reset_alone import reset_obstacles
from fixtures.model.dra.slices import TAINT_RULES
from fixtures.model.nodes.untyped_nodes import work_of
from fixtures.model.nodes.work import Why, is_fence_key
from fixtures.model.platform.components import DAEMON_SETS
from fixtures.model.platform.installed import DETECTORS, InstalledComponent, pods_of
from fixtures.model.platform.remediators import find_remediators
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import VERBS as PROOF_VERBS
from fixtures.policy.allowlist import cluster_uid
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind

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
    controllers: Sequence[InstalledComponent] = (),
    ours: bool,
    steady: str | None,
) -> ClusterState:
    """The facts about a plan. ``devices`` are device resource names, ``fences`` keys of taints, both globs.

    ``rights`` are all that acting and undoing takes.

    ``agents`` are those whose pods on the plan's nodes will be ended, ``controllers`` those that will lose all pods, wherever they are:
    a budget of theirs counts as one of a target.
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
        uids=_known(lambda: {str(item): objects.uid_of(read(cluster, item.kind, item.name, item.namespace)) for item in plan.targets}),
        nodes=None if nodes is None or pods is None else _known(lambda: node_states(nodes, pods, devices, fences, own=own)),
        steady=steady,
        denied=_known(lambda: tuple(map(str, Reviewer(cluster).denied(rights)))),
        remediators=None if nodes is None or workloads is None else _known(lambda: find_remediators(workloads, nodes, plan.nodes)),
        budgets=None if pods is None else _known(lambda: _spent_budgets(cluster, plan, pods, agents, controllers)),
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
        if _holds(pod, devices) and objects.namespace_of(pod) not in own:
            holding.setdefault(objects.node_of(pod), []).append(objects.full_name(pod))

    def names_device(name: str) -> bool:
        return _is_device(name, devices)

    found, nodes = {}, list(nodes)
    obstacles = reset_obstacles(nodes)
    works = work_of(nodes, lambda key: is_fence_key(key, fences, names_device), names_device)
    for node in nodes:
        name, labels = str(node["metadata"]["name"]), objects.labels_of(node)
        cordoned = objects.is_unschedulable(node)
        obstacle = works[name].besides(*([Why.CORDONED] if cordoned else []))
        found[name] = NodeState(
            uid=objects.uid_of(node),
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
    capacity = objects.amounts_of(node, "capacity")
    return any(quantity.as_int(str(amount)) for name, amount in capacity.items() if _is_device(name, devices))


def _is_device(name: str, devices: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in devices)


def _holds(pod: Json, devices: Sequence[str]) -> bool:
    return objects.is_live(pod) and (objects.uses_claims(pod) or bool(requested_devices(pod, lambda name: _is_device(name, devices))))


def _spent_budgets(
    cluster: Cluster, plan: Plan, pods: Sequence[Json], agents: Sequence[InstalledComponent], controllers: Sequence[InstalledComponent]
) -> tuple[str, ...]:
    """Budgets that allow fewer disruptions than pods of theirs will be ended. An empty selector selects all, as the API has it.

    A workload that is scaled counts by the one pod that is the target: a budget does not hold back its owner.
    """
    targets = {target.uid for target in plan.targets if target.kind == "pods"}
    theirs = {(agent.uid, agent.namespace) for agent in agents if agent.uid}
    targets |= {objects.uid_of(pod) for controller in controllers for pod in pods_of(View.of(cluster), controller)}
    ended = [
        pod for pod in pods if objects.node_of(pod) in plan.nodes and (objects.controller_of(pod), objects.namespace_of(pod)) in theirs
    ]
    hit = [*ended, *(pod for pod in pods if objects.uid_of(pod) in targets and pod not in ended)]
    if not hit:
        return ()
    found = []
    for budget in cluster.each("policy/poddisruptionbudgets"):
        counts, ours = objects.budget_of(budget), sum(objects.protects(budget, pod) for pod in hit)
        if ours and (counts.spent or counts.allowed < ours):
            found.append(objects.full_name(budget))
    return tuple(found)


def _known(ask: Callable[[], T]) -> T | None:
    """The answer, or None when there is none, or one of a shape that the API does not have: its gate stays closed."""
    try:
        return ask()
    except (ApiTrouble, LedgerError, objects.NotListed, ValueError, AttributeError, LookupError, TypeError):
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


KEEPING = (
    *(f"{verb} {PRIORITY_CLASSES}" for verb in PROOF_VERBS),
    *(f"{verb} configmaps in {namespaces.SHARED}" for verb in ("get", "create", "patch", "delete")),
    *(f"{verb} coordination.k8s.io/leases in {namespaces.SHARED}" for verb in ("get", "create", "patch")),
)
"""Rights that the ledger, the Lease and the run's proof need."""


_ENDING_ALL = ("kill_controller_at_work",)
"""Activities that end all pods of the component that they name."""
_ENDING = ("restart_agent", "kill_at_work", *_ENDING_ALL)
"""Activities that end pods of the component that they name."""


_ACTS = {
    "pods.replaced": ("pods", "delete"),
    "node.labels": ("nodes", "patch"),
    "node.unschedulable": ("nodes", "patch"),
    "node.exists": ("nodes", "delete"),
    "object.present": ("", "delete"),
    "workload.replicas": ("", "patch"),
}
"""The verb of each fault by the name of its undo, and its kind (empty: the kinds of the targets). Rights to undo are asked for
again by every fault, when its arguments are known."""


def required_rights(experiment: Experiment, plan: Plan) -> list[Right]:
    """Every right that the gate asks the API server for."""
    return [Right.parse(text) for text in dict.fromkeys([*READS, *KEEPING, *_acting(experiment, plan)])]


def _acting(experiment: Experiment, plan: Plan) -> Iterator[str]:
    for verb, target in writes(experiment, plan):
        yield f"{verb} {target.kind}" + (f" in {target.namespace}" if target.namespace else "")
    yield from workload_rights(experiment, plan)
    if "taint_device" in experiment.functions:
        yield from (f"{verb} {TAINT_RULES}" for verb in ("list", "create", "delete"))
    if "drain" in experiment.functions:
        yield f"create pods/eviction in {canary_namespace(plan)}"
    components = PlanFacts.of(plan).components
    yield from (f"delete pods in {found.namespace}" for found in ended_components(experiment, plan))
    for undo in experiment.extension.undo:
        match undo:
            case name if name.startswith("host."):
                yield from ("get namespaces", "create namespaces", *(f"{right} in {plan.namespace}" for right in injector.RIGHTS))
            case "object.absent":
                yield from (f"{verb} pods in {plan.namespace}" for verb in ("create", "delete"))
            case "node.cleared":
                yield from ("patch nodes", "patch nodes/status")
            case "slices.published":
                yield f"delete {SLICES}"
                yield from (f"delete pods in {target.namespace}" for target in plan.targets if target.kind == "pods")
            case "breaker.closed":
                yield from (f"patch configmaps in {found.namespace}" for name, found in components.items() if name == "remediation")
            case "workload.env":
                yield f"patch {DAEMON_SETS}"


def ended_components(experiment: Experiment, plan: Plan, functions: Collection[str] = _ENDING) -> list[InstalledComponent]:
    """Components whose pods the experiment ends, beside its targets: those that it calls by name, and who has to forget the fault."""
    ended = {given.get("component", "device-plugin") for name, given in experiment.calls if name in functions}
    if "agent.restarted" in experiment.extension.undo and functions is _ENDING:
        ended.update(DETECTORS)
    return [found for name, found in PlanFacts.of(plan).components.items() if name in ended]


def writes(experiment: Experiment, plan: Plan) -> Iterator[tuple[str, Target]]:
    """Verb and target of every write to a target that the experiment's faults are."""
    for undo in experiment.extension.undo:
        kind, verb = _ACTS.get(undo, ("", ""))
        for target in plan.targets:
            if undo == "workload.replicas" and target.facts.get("owner_kind"):
                yield verb, _owner(target)
            elif verb and kind in ("", target.kind):
                yield verb, target


def _owner(pod: Target) -> Target:
    """The workload that a planned pod belongs to: it is scaled, not the pod."""
    facts = pod.facts
    return Target(kind=str(facts["owner_kind"]), name=str(facts["owner"]), namespace=pod.namespace, uid=str(facts["owner_uid"]))


def workload_rights(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """Creating and deleting the workload, its namespace and, unless the policy names one, its PriorityClass."""
    kinds = [kind for function in sorted(experiment.functions & WORKLOAD_KINDS.keys()) for kind in WORKLOAD_KINDS[function]]
    if not kinds:
        return
    cluster_wide = ("namespaces",) if PlanFacts.of(plan).priority_class else ("namespaces", PRIORITY_CLASSES)
    yield from (f"{right} in {canary_namespace(plan)}" for right in namespaces.RIGHTS)
    for verb in ("create", "delete"):
        yield from (f"{verb} {kind}" for kind in cluster_wide)
        yield from (f"{verb} {kind} in {canary_namespace(plan)}" for kind in dict.fromkeys(kinds))


def gate_results(
    cluster: Cluster, policy: Policy, settings: Settings, experiment: Experiment, plan: Plan, *, ours: bool, steady: str | None
) -> list[GateResult]:
    """Every gate's answer. ``steady`` is what is wrong with the steady state, None when nobody has looked."""
    extension = experiment.extension
    state = read_cluster_state(
        cluster,
        plan,
        devices=policy.accelerators.resources,
        fences=policy.fence.taint_keys,
        rights=required_rights(experiment, plan),
        agents=ended_components(experiment, plan),
        controllers=ended_components(experiment, plan, _ENDING_ALL),
        ours=ours,
        steady=steady,
    )
    request = RequestedFault(
        level=Level(extension.level),
        scope=extension.radius.scope,
        count=extension.radius.count,
        takes_capacity=extension.takes_capacity,
        expects=extension.expects,
        cordons=extension.cordons,
        idle=extension.target.get("idle") is True,
        resets=bool({"reset_gpu", *(["reset_in_use"] if plan.target_kind is TargetKind.LIVE else [])} & set(experiment.functions)),
    )
    refused = {
        str(one.gate): one.message for one in gates.closed_gates(GateInput(plan=plan, request=request, settings=settings, state=state))
    }
    notes = {gates.EARLIER: "; ".join(state.forged)}
    return [GateResult(name=name, ok=name not in refused, message=refused.get(name) or notes.get(name, "")) for name, _ in gates.GATES]
