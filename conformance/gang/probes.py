"""The probes of GANG: a gang that fits (02), one that does not (03), two that compete (04)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from conformance.gang.adapters import Adapter, Gang, Guarantee, chosen
from conformance.gang.adapters.base import await_gone, delete_pods, start_pod
from conformance.gang.judging import Attempt, Competition, judge_competition, judge_fit, judge_misfit
from conformance.gang.plan import Plan, gang_of, make_plan
from conformance.gang.watching import BoundWatch, is_bound
from conformance.scope import Scope
from fixtures.evidence import Finding, Inconclusive, NotApplicable, Subject, not_judged, undecided
from fixtures.probes.workspace import Workspace

Probe = Callable[[Scope, Workspace, Adapter, Plan], Iterator[Finding]]
CONTROL_FACTOR = 5.0
"""An absence is watched at least so many times as long as the positive control took."""


def for_each_adapter(scope: Scope, workspace: Workspace, probe: Probe) -> Iterator[Finding]:
    """Run a probe with every installed gang scheduler that the policy does not leave out; trouble with one leaves the others judged."""
    installed = [adapter for adapter in chosen(scope) if adapter.detect(scope).installed]
    if not installed:
        raise NotApplicable("NoGangScheduler", "no gang scheduler that the suite knows is installed (volcano, kueue, native)")
    plan = make_plan(scope)
    for adapter in installed:
        try:
            yield from probe(scope, workspace, adapter, plan)
        except Inconclusive as error:
            yield undecided(Subject("GangScheduler", adapter.name), f"{error.code}: {error.message}"[:600], "probe")
        finally:
            adapter.teardown(workspace)
            workspace.clear()


# -- GANG-02 -------------------------------------------------------------------------------------------


def probe_fit(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Iterator[Finding]:
    """GANG-02: a gang of as many pods as fit. When it does not start, the same pods without a gang say whether they could have."""
    adapter.setup(scope, workspace, plan.resource, plan.slots * plan.unit)
    gang = gang_of(scope, plan, f"gang-02-{adapter.name}", plan.slots)
    attempt = _attempt(scope, workspace, adapter, gang)
    adapter.release(workspace, gang)
    control = None
    if not attempt.whole:
        control = _without_gang(scope, workspace, gang_of(scope, plan, f"gang-02-{adapter.name}-plain", plan.slots), plan.slots)
    yield judge_fit(Subject("GangScheduler", adapter.name), plan, attempt, control)


def _attempt(scope: Scope, workspace: Workspace, adapter: Adapter, gang: Gang) -> Attempt:
    """Submit a gang and watch it: up to the start deadline for its first bind, then for the rest."""
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), [gang])
        began = time.monotonic()
        adapter.submit(workspace, gang)
        if bound.until(scope.policy.probes.start_seconds, lambda counts: counts[0] > 0):
            bound.until(_rest_seconds(scope), lambda counts: counts[0] == gang.size)
        return Attempt(
            size=gang.size,
            bound=bound.now[0],
            most=bound.most[0],
            seconds=time.monotonic() - began,
            spread=bound.spread(),
            trace=bound.text,
        )


def _rest_seconds(scope: Scope) -> float:
    """How long the rest of a gang may take after its first bind. All of it is bound in one go: this is patience, not need."""
    return min(scope.policy.probes.start_seconds, CONTROL_FACTOR * scope.policy.probes.window_seconds)


def _without_gang(scope: Scope, workspace: Workspace, gang: Gang, expected: int) -> Attempt:
    """The same pods by the default scheduler, each for itself: watched until ``expected`` are bound, then removed."""
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), [gang])
        began = time.monotonic()
        uids = {str(meta["name"]): str(meta["uid"]) for pod in gang.pods for meta in (start_pod(workspace, pod)["metadata"],)}
        bound.until(scope.policy.probes.start_seconds, lambda counts: counts[0] >= expected)
        attempt = Attempt(
            size=gang.size, bound=bound.now[0], most=bound.most[0], seconds=time.monotonic() - began, spread=None, trace=bound.text
        )
        waiting = {name: uid for name, uid in uids.items() if not is_bound(observation.objects.get(f"{workspace.namespace()}/{name}", {}))}
    delete_pods(workspace, waiting)  # first, or they would take the room that the others leave
    delete_pods(workspace, {name: uid for name, uid in uids.items() if name not in waiting})
    if not await_gone(workspace, "pods", gang.names, time.monotonic() + scope.policy.probes.start_seconds):
        raise Inconclusive("PodsStay", f"pods {gang.name}-* of this run did not go away, so their devices are not free")
    return attempt


# -- GANG-03 -------------------------------------------------------------------------------------------


def probe_misfit(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Iterator[Finding]:
    """GANG-03: a gang one pod larger than what fits binds nothing, with its three controls, by what the scheduler promises."""
    guarantee, promise = adapter.guarantee(scope)
    by_nodes = guarantee is Guarantee.PLACEMENT
    size = plan.slots + 1
    adapter.setup(scope, workspace, plan.resource, plan.unit * (size if by_nodes else plan.slots))
    name = f"gang-03-{adapter.name}"

    alone = gang_of(scope, plan, f"{name}-alone", 1)
    single = _attempt(scope, workspace, adapter, alone)
    adapter.release(workspace, alone)
    if not single.whole:
        raise Inconclusive("PositiveControlFailed", f"one pod alone of the same shape was not bound ({single.trace}); {plan}")

    plain = _without_gang(scope, workspace, gang_of(scope, plan, f"{name}-plain", size), plan.slots)
    if plain.bound != plan.slots:
        message = (
            f"without the gang {plain.bound} of {size} pods were bound, not the {plan.slots} that fit, so the gang would prove nothing"
        )
        raise Inconclusive("PositiveControlFailed", message)

    window = max(scope.policy.probes.window_seconds, CONTROL_FACTOR * single.seconds)
    misfit = _watch_misfit(workspace, adapter, gang_of(scope, plan, name, size), window)

    lowered = gang_of(scope, plan, name, plan.slots)
    fit = _attempt(scope, workspace, adapter, lowered)
    adapter.release(workspace, lowered)
    what = "nodes" if by_nodes else "quota"
    yield judge_misfit(Subject("GangScheduler", f"{adapter.name} {what}"), plan, misfit, fit, window, promise)
    if not by_nodes:
        message = f"pod-level all-or-nothing is not promised, so a gang within the quota and beyond the nodes is not judged: {promise}"
        yield not_judged(Subject("GangScheduler", f"{adapter.name} nodes"), message, "guarantee of the adapter")


def _watch_misfit(workspace: Workspace, adapter: Adapter, gang: Gang, window: float) -> Attempt:
    """Watch for the whole window; after a first bind go on, to tell a part of the gang from all of it."""
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), [gang])
        began = time.monotonic()
        adapter.submit(workspace, gang)
        if bound.until(window, lambda counts: counts[0] > 0):
            bound.until(window, lambda counts: counts[0] == gang.size)
        attempt = Attempt(
            size=gang.size,
            bound=bound.now[0],
            most=bound.most[0],
            seconds=time.monotonic() - began,
            spread=None,
            trace=bound.text,
            missing=bound.missing,
        )
    adapter.release(workspace, gang)
    return attempt


# -- GANG-04 -------------------------------------------------------------------------------------------


def probe_competition(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Iterator[Finding]:
    """GANG-04: two gangs that each need all that fits, created pod by pod in turn; the one that starts is removed for the other."""
    probes = scope.policy.probes
    adapter.setup(scope, workspace, plan.resource, plan.slots * plan.unit)
    pair = [gang_of(scope, plan, f"gang-04-{adapter.name}-{letter}", plan.slots) for letter in "ab"]
    size = plan.slots
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), pair)
        adapter.submit(workspace, *pair)
        started = bound.until(probes.start_seconds, lambda counts: max(counts) > 0)
        started = bound.until(_rest_seconds(scope), lambda counts: size in counts) if started else False
        first = bound.now
        followed = False
        if started:
            winner = first.index(size)
            adapter.release(workspace, pair[winner])
            followed = bound.until(probes.start_seconds, lambda counts: counts[1 - winner] == size)
        seen = Competition(size=size, first=(first[0], first[1]), started=started, followed=followed, trace=bound.text)
    control = None
    if not any(first) or (started and not followed):
        for gang in pair:
            adapter.release(workspace, gang)
        control = _without_gang(scope, workspace, gang_of(scope, plan, f"gang-04-{adapter.name}-plain", size), size)
    yield judge_competition(Subject("GangScheduler", adapter.name), plan, seen, control)
