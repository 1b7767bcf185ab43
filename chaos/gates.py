"""Gates: whether an experiment may begin. Pure functions over plan, settings and facts; what is not known is refused.

Each refusal says what was expected. All are told, not the first alone.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable

from chaos.actors import NAMES
from chaos.case import SPREAD_SCOPES, Case, Refusal
from chaos.levels import OPT_IN_LABEL, OPT_IN_LEVEL, TYPED_LEVEL, needs_cordoned
from conformance.allowlist import not_allowed
from fixtures.record import TargetKind


def _allowed(case: Case) -> str:
    plan, facts = case.plan, case.facts
    if not plan.cluster_uid or plan.cluster_uid != facts.cluster_uid:
        return f"the plan is for cluster {plan.cluster_uid or '(unknown)'}, and this is {facts.cluster_uid or '(unknown)'}"
    if facts.ours and plan.target_kind is not TargetKind.LIVE:
        return ""
    return not_allowed(facts.cluster_uid, ", ".join(filter(None, facts.cluster_names)), case.settings.allowed)


def _halted(case: Case) -> str:
    if case.settings.policy.halt:
        return "the policy halts all experiments (chaos.halt)"
    if case.facts.halted is None:
        return "whether the cluster is halted could not be read"
    return f"halted by {case.facts.halted}; lift it with `gpu-conformance chaos halt --off`" if case.facts.halted else ""


def _recovered(case: Case) -> str:
    left = case.facts.open_entries
    if left is None:
        return "earlier runs' ledgers could not be read"
    return f"{left} changes of an earlier run are not known to be undone; first `gpu-conformance chaos recover`" if left else ""


def _level(case: Case) -> str:
    level, most = case.request.level, case.settings.max_level
    if level <= most:
        return ""
    return f"level {level.value} ({level.words}) is above the allowed {most.value}; expected --chaos-max-level {level.value}"


def _fresh(case: Case) -> str:
    return f"the plan expired at {case.plan.expires_at}; expected a new one" if case.plan.expired() else ""


def _same_targets(case: Case) -> str:
    targets, uids = case.plan.targets, case.facts.uids
    if not targets:
        return "the plan has no targets; expected at least one"
    if uids is None:
        return "the targets could not be read again"
    for target in targets:
        current = uids.get(str(target), "")
        if not target.uid or current != target.uid:
            return f"{target} is not the one that was planned: expected uid {target.uid or '(none)'}, found {current or 'none'}"
    return ""


def _radius(case: Case) -> str:
    count, settings = len(case.plan.targets), case.settings.policy
    most = min(case.request.count, settings.max_targets)
    if count > most:
        caps = f"the experiment's radius {case.request.count}, chaos.maxTargets {settings.max_targets}"
        return f"{count} targets; expected {most} at most ({caps})"
    if case.request.scope not in SPREAD_SCOPES:
        return ""
    if case.plan.eligible < count:
        return f"{count} targets of {case.plan.eligible} eligible ones; expected a plan that counts them"
    percent = 100 * count / case.plan.eligible
    if percent > settings.max_percent:
        return f"{count} of {case.plan.eligible} are {percent:.0f} %; expected {settings.max_percent:g} % at most (chaos.maxPercent)"
    return ""


def _protected(case: Case) -> str:
    globs = case.settings.policy.protected_namespaces
    for target in case.plan.targets:
        if target.namespace and any(fnmatch.fnmatchcase(target.namespace, glob) for glob in globs):
            return f"{target} is in a protected namespace; expected none of {', '.join(globs)} (chaos.protectedNamespaces)"
    return ""


def _untouched(case: Case) -> str:
    name = case.plan.untouched
    if not name:
        return "no GPU node is left untouched; expected one" if case.request.takes_capacity else ""
    if name in case.plan.nodes:
        return f"node {name} is both a target and the one that is left untouched"
    if case.facts.nodes is None:
        return "nodes could not be read"
    node = case.facts.nodes.get(name)
    if node is None or not node.gpu or not node.healthy or node.cordoned:
        return f"node {name}, which is to be left untouched, is no healthy, schedulable GPU node; expected one besides the targets"
    return ""


def _target_nodes(case: Case) -> str:
    """Nodes of targets: no control plane unless named, nobody at work on them, opted in where the level asks for it."""
    if case.facts.nodes is None:
        return "nodes could not be read"
    key, value = OPT_IN_LABEL
    for name in case.plan.nodes:
        node = case.facts.nodes.get(name)
        if node is None:
            return f"node {name} is gone"
        if node.control_plane and name not in case.settings.named_nodes:
            return f"node {name} is of the control plane; expected it to be named (--chaos-target {name})"
        if case.request.level >= OPT_IN_LEVEL and case.plan.target_kind is TargetKind.LIVE and not node.opted_in:
            return f"node {name} has not opted in; expected its label {key}={value} for level {case.request.level.value}"
        if case.request.level < TYPED_LEVEL and node.cordoned:
            return f"node {name} is cordoned: somebody is at work on it; expected a schedulable one"
        if case.request.idle and case.request.level < TYPED_LEVEL and node.busy:  # planned as idle, and not any more
            return f"node {name} has pods with devices ({', '.join(node.busy[:3])}); expected none but the experiment's own"
    return ""


def _destructive(case: Case) -> str:
    """Level 4: the cluster's name typed for this run, and a node that somebody has cordoned and emptied."""
    if case.request.level < TYPED_LEVEL:
        return ""
    names = {name for name in (case.facts.cluster_uid, *case.facts.cluster_names) if name}
    if case.settings.confirmed not in names:
        return f"level 4 needs the cluster's name, typed; expected --chaos-confirm with one of {', '.join(sorted(names)) or '(none)'}"
    if not needs_cordoned(case.request.level, case.plan.target_kind, cordons=case.request.cordons):
        return ""
    if case.facts.nodes is None:
        return "nodes could not be read"
    for name in case.plan.nodes:
        node = case.facts.nodes.get(name)
        if node is None or not node.cordoned:
            return f"node {name} is in service; expected it cordoned for level 4"
        if node.busy:
            return f"node {name} has pods with devices ({', '.join(node.busy[:3])}); expected it idle for level 4"
    return ""


def _alone(case: Case) -> str:
    """A reset of one GPU: what NVLink joins to it would be reset with it, so nothing else will do than to know that there is none."""
    if not case.request.resets:
        return ""
    if case.facts.nodes is None:
        return "nodes could not be read"
    for name in case.plan.nodes:
        node = case.facts.nodes.get(name)
        why = node.joined if node else "it is gone"
        if why:
            return f"no GPU of node {name} may be reset alone: {why}; expected GPUs that the vendor resets one by one"
    return ""


def _steady(case: Case) -> str:
    if case.facts.steady is None:
        return "the steady state was not judged"
    return f"the steady state is not green: {case.facts.steady}" if case.facts.steady else ""


def _rights(case: Case) -> str:
    if case.facts.denied is None:
        return "the API server did not say which rights there are"
    if not case.facts.denied:
        return ""
    return f"missing rights: {'; '.join(case.facts.denied)}; expected those of deploy/clusterrole-chaos.yaml, to act and to undo alike"


def _remediation(case: Case) -> str:
    if case.facts.actors is None:
        return "whether anybody repairs nodes by itself could not be found out"
    known = {*case.settings.policy.remediation, *case.request.expects}
    if unknown := known - set(NAMES):
        return f"remediation {', '.join(sorted(unknown))} is not known; expected some of {', '.join(NAMES)}"
    met = [actor for actor in case.facts.actors if actor.name not in known]
    if not met:
        return ""
    told = "; ".join(f"{actor.words} (seen: {actor.seen})" for actor in met)
    return f"{told}; expected {', '.join(actor.name for actor in met)} in the policy's chaos.remediation, or the nodes opted out"


def _budgets(case: Case) -> str:
    if case.facts.budgets is None:
        return "PodDisruptionBudgets could not be read"
    return f"no disruption is allowed by {', '.join(case.facts.budgets)}; expected one that may be spent" if case.facts.budgets else ""


EARLIER = "earlier run"

GATES: tuple[tuple[str, Callable[[Case], str]], ...] = (
    ("allow-list", _allowed),
    ("halt", _halted),
    (EARLIER, _recovered),
    ("level", _level),
    ("expiry", _fresh),
    ("targets", _same_targets),
    ("radius", _radius),
    ("protected namespaces", _protected),
    ("untouched node", _untouched),
    ("target nodes", _target_nodes),
    ("destructive", _destructive),
    ("reset alone", _alone),
    ("rights", _rights),
    ("remediation", _remediation),
    ("disruption budgets", _budgets),
    ("steady state", _steady),
)
"""Every gate, in the order in which refusals are told."""


def check(case: Case) -> list[Refusal]:
    """The gates that are closed; none means go. A gate that cannot be judged because of an error of its own is closed."""
    refusals = []
    for name, gate in GATES:
        try:
            message = gate(case)
        except Exception as error:  # fail closed: no mistake in a gate may open it
            message = f"could not be judged ({type(error).__name__}: {error})"
        if message:
            refusals.append(Refusal(name, message))
    return refusals
