"""Checks a plan against all gates, with the owner's settings, the rights that it takes, and the present state of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.cluster import injector, namespaces
from chaos.cluster.requests import Right
from chaos.ledger.bounds import WORKLOAD_KINDS
from chaos.ledger.undos.agents import SLICES
from chaos.model.experiment import Experiment, Level
from chaos.model.plan import Plan, PlanFacts, Target, canary_namespace
from chaos.model.records import GateResult
from chaos.safety import gates
from chaos.safety.gate_input import GateInput, RequestedFault, Settings
from chaos.safety.gate_reading import READS, read_cluster_state
from fixtures.cluster.client import Cluster
from fixtures.model.dra.slices import TAINT_RULES
from fixtures.model.platform.components import DAEMON_SETS
from fixtures.model.platform.installed import DETECTORS, InstalledComponent
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import VERBS as PROOF_VERBS
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind

KEEPING = (
    *(f"{verb} {PRIORITY_CLASSES}" for verb in PROOF_VERBS),
    *(f"{verb} configmaps in {namespaces.SHARED}" for verb in ("get", "create", "patch", "delete")),
    *(f"{verb} coordination.k8s.io/leases in {namespaces.SHARED}" for verb in ("get", "create", "patch")),
)
"""Rights that the ledger, the Lease and the run's proof need."""


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
    inside = {found.namespace for found in restarted_agents(experiment, plan)}
    for undo in experiment.extension.undo:
        match undo:
            case "host.kubelet" | "host.nvml-mock" | "host.persistence" | "host.reset" | "host.device":
                yield from ("get namespaces", "create namespaces", *(f"{right} in {plan.namespace}" for right in injector.RIGHTS))
            case "object.absent":
                yield from (f"{verb} pods in {plan.namespace}" for verb in ("create", "delete"))
            case "agent.restarted":
                yield from (f"delete pods in {namespace}" for namespace in sorted(inside))
            case "node.cleared":
                yield from ("patch nodes", "patch nodes/status")
            case "slices.published":
                yield f"delete {SLICES}"
                yield from (f"delete pods in {target.namespace}" for target in plan.targets if target.kind == "pods")
            case "workload.env":
                yield f"patch {DAEMON_SETS}"


def restarted_agents(experiment: Experiment, plan: Plan) -> list[InstalledComponent]:
    """Agents whose pods on the plan's nodes are ended, so that they forget the fault."""
    if "agent.restarted" not in experiment.extension.undo:
        return []
    return [found for name, found in PlanFacts.of(plan).components.items() if name in DETECTORS]


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
        agents=restarted_agents(experiment, plan),
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
