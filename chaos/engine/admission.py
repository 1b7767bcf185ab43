"""Asks the gates about a plan: what the experiment wants, what the owner allows, what the cluster is like just now."""

from __future__ import annotations

from collections.abc import Iterator

from chaos import gates, injector, namespaces, preparing
from chaos.artefacts import GateResult
from chaos.case import Case, Request
from chaos.components import DAEMON_SETS, DETECTORS, Found
from chaos.experiment import Experiment
from chaos.facts import Facts, canary_namespace
from chaos.gathering import READS, gather
from chaos.levels import Level
from chaos.rights import Right
from chaos.settings import Settings
from chaos.target import Plan, Target
from conformance.policy import Policy
from fixtures.cluster import Cluster
from fixtures.ownership import PRIORITY_CLASSES
from fixtures.proof import VERBS as PROOF_VERBS

KEEPING = (
    *(f"{verb} {PRIORITY_CLASSES}" for verb in PROOF_VERBS),
    *(f"{verb} configmaps in {namespaces.SHARED}" for verb in ("get", "create", "patch", "delete")),
    *(f"{verb} coordination.k8s.io/leases in {namespaces.SHARED}" for verb in ("get", "create", "patch")),
)
"""Rights that ledger and Lease take, and the proof of the run, which vouches for them."""

_ACTS = {
    "pods.replaced": ("pods", "delete"),
    "node.labels": ("nodes", "patch"),
    "node.annotations": ("nodes", "patch"),
    "node.unschedulable": ("nodes", "patch"),
    "node.taints": ("nodes", "patch"),
    "node.exists": ("nodes", "delete"),
    "object.present": ("", "delete"),
    "workload.replicas": ("", "patch"),
}
"""The verb of each fault by the name of its undo, and its kind (empty: the kinds of the targets). Rights to undo are asked for
again by every fault, when its arguments are known."""


def admitted(
    cluster: Cluster, policy: Policy, settings: Settings, experiment: Experiment, plan: Plan, *, ours: bool, steady: str | None
) -> list[GateResult]:
    """Every gate's answer. ``steady`` is what is wrong with the steady state, None when nobody has looked."""
    extension = experiment.extension
    facts = gather(
        cluster,
        plan,
        devices=policy.accelerators.resources,
        rights=asked(experiment, plan),
        agents=restarted(experiment, plan),
        ours=ours,
        steady=steady,
    )
    request = Request(
        level=Level(extension.level),
        scope=extension.radius.scope,
        count=extension.radius.count,
        takes_capacity=extension.takes_capacity,
        expects=extension.expects,
        cordons=extension.cordons,
        idle=extension.target.get("idle") is True,
        resets="reset_gpu" in experiment.functions,
    )
    refused = {str(one.gate): one.message for one in gates.check(Case(plan=plan, request=request, settings=settings, facts=facts))}
    told = {gates.EARLIER: "; ".join(facts.forged)}
    return [GateResult(name=name, ok=name not in refused, message=refused.get(name) or told.get(name, "")) for name, _ in gates.GATES]


def asked(experiment: Experiment, plan: Plan) -> list[Right]:
    """Every right that the gate asks the API server for."""
    return [Right.parse(text) for text in dict.fromkeys([*READS, *KEEPING, *_acting(experiment, plan)])]


def _acting(experiment: Experiment, plan: Plan) -> Iterator[str]:
    for verb, target in calls(experiment, plan):
        yield f"{verb} {target.kind}" + (f" in {target.namespace}" if target.namespace else "")
    yield from preparing.rights(experiment, plan)
    if "drain" in experiment.functions:
        yield f"create pods/eviction in {canary_namespace(plan)}"
    inside = {found.namespace for found in restarted(experiment, plan)}
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
            case "workload.env":
                yield f"patch {DAEMON_SETS}"


def restarted(experiment: Experiment, plan: Plan) -> list[Found]:
    """Agents whose pods on the plan's nodes are ended, so that they forget the fault."""
    if "agent.restarted" not in experiment.extension.undo:
        return []
    return [found for name, found in Facts.of(plan).components.items() if name in DETECTORS]


def calls(experiment: Experiment, plan: Plan) -> Iterator[tuple[str, Target]]:
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
