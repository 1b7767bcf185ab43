"""UPG-02: no PodDisruptionBudget keeps an accelerator node from being drained."""

from collections import Counter
from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.model.cluster import Scope
from fixtures.model.demand.budgets import Guard, guards
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "poddisruptionbudgets, pods"
_EXPECTED = "a budget that allows an eviction while all its pods are healthy, and one budget per pod"


def check_drains(scope: Scope) -> Iterator[Finding]:
    """One finding per budget that guards a pod on an accelerator node."""
    found = list(guards(scope))
    if not found:
        raise NotApplicable("NoBudget", "no PodDisruptionBudget guards a pod on an accelerator node")
    shared = Counter((pod.namespace, pod.name) for one in found for pod in one.pods)
    for one in found:
        yield _judge(scope, one, [pod.name for pod in one.pods if shared[pod.namespace, pod.name] > 1])


def _judge(scope: Scope, one: Guard, twice: list[str]) -> Finding:
    nodes = listed(one.nodes, 3)
    about = About(Subject("PodDisruptionBudget", one.name, one.namespace), _SOURCE, _EXPECTED, observed=f"{one.rule}, pods on {nodes}")
    if one.mover:
        return about.not_judged(f"the controller of {one.mover} moves the pod or removes the budget when the node is drained")
    if twice:
        message = f"{listed(twice, 2)} has a second budget: the API server evicts no pod with two, and {nodes} cannot be drained"
        return about.bad(message, cause="TwoBudgets")
    if one.never:
        message = f"{one.rule} never allows an eviction: a drain of {nodes} waits for ever, and so does each upgrade"
        return about.bad(message, cause="BudgetBlocksDrain")
    if not one.counts.current or one.counts.counted is None:
        return about.undecided("its status is not of its last change: the controller of budgets may be away")
    if one.counts.allowed < 1 and not one.always:
        state = f"it allows no eviction: {one.counts.healthy} pods are healthy of {one.counts.desired} that must be"
        limit = scope.policy.operators.rollout_minutes * 60
        late = overdue(about, one.since, scope.snapshot.taken_at, limit, state, cause="BudgetNotMet", quiet=True)
        if isinstance(late, Finding):
            return late
        return about.advised(f"{state}: a drain of {nodes} waits until they are, and evicts none of them", cause="BudgetNotMet")
    return about.ok()
