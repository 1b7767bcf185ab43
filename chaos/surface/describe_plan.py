"""What an experiment would do, in words and API calls, for ``chaos plan``."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.engine.campaign import CampaignSetup, plan_now
from chaos.model.experiment import Experiment
from chaos.model.levels import Level
from chaos.model.plan import Plan
from chaos.plan.planning import NotApplicable, PlanRefused
from chaos.plan.selectors import TargetUnclear
from chaos.safety.admission import gate_results
from chaos.safety.required_rights import writes
from fixtures.cluster.client import Cluster

_METHODS = {"delete": "DELETE", "patch": "PATCH", "create": "POST"}


def describe_plan(setup: CampaignSetup, experiment: Experiment) -> tuple[list[str], bool]:
    """The lines, and whether it could be carried out as things are now. Reads only. Raises ApiTrouble."""
    level = Level(experiment.extension.level)
    lines = [f"{experiment.id} {experiment.title} (level {level.value}: {level.words})"]
    try:
        plan = plan_now(setup, experiment)
    except NotApplicable as error:
        return [*lines, f"  not applicable: {error.code}: {error.message}"], False
    except TargetUnclear as error:
        return [*lines, f"  undecided: {error.code}: {error.message}"], False
    except PlanRefused as error:
        return [*lines, f"  refused: {error.code}: {error.message}"], False
    lines += list(_lines(setup.cluster, experiment, plan))
    gates = gate_results(setup.cluster, setup.policy, setup.settings, experiment, plan, ours=setup.ours, steady="")
    refused = [f"  refused: {gate.name}: {gate.message}" for gate in gates if not gate.ok]
    return [*lines, *refused], not refused


def _lines(cluster: Cluster, experiment: Experiment, plan: Plan) -> Iterator[str]:
    for target in plan.targets:
        yield f"  target: {target} (uid {target.uid})" + (f" on {target.node}" if target.node not in ("", target.name) else "")
    share = 100 * len(plan.targets) / plan.eligible if plan.eligible else 100.0
    yield f"  share: {len(plan.targets)} of {plan.eligible} eligible ({share:.0f} %); left untouched: {plan.untouched or 'none'}"
    for action in plan.actions:
        yield f"  does: {action}"
    for verb, target in writes(experiment, plan):
        yield f"  calls: {_METHODS.get(verb, verb)} {cluster.path(target.kind, target.namespace, target.name)}"
    if any(name.startswith("host.") for name in plan.undo):
        yield f"  calls: POST {cluster.path('pods', plan.namespace)} (an injector pod on {', '.join(plan.nodes)})"
    yield f"  undo: {', '.join(plan.undo) or 'nothing is changed'}"
    shown = ("outage", "recovery", "settle", "deadline")
    yield "  seconds: " + ", ".join(f"{name} {plan.seconds[name]:g}" for name in shown if name in plan.seconds)
