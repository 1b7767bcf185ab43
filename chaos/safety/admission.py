"""Checks a plan against all gates, with the owner's settings and the present state of the cluster."""

from __future__ import annotations

from chaos.model.engine_record import GateResult
from chaos.model.experiment import Experiment
from chaos.model.levels import Level
from chaos.model.plan import Plan
from chaos.safety import gates
from chaos.safety.gate_input import GateInput, RequestedFault
from chaos.safety.gate_reading import read_cluster_state
from chaos.safety.required_rights import required_rights, restarted_agents
from chaos.safety.settings import Settings
from fixtures.cluster.client import Cluster
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind


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
