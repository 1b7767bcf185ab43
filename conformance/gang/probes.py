"""The probes of GANG: a gang that fits (02), one that does not (03), two that compete (04).

Bound pods of gangs are counted after every event, by ``spec.nodeName``: conditions and phases go stale. A scheduler that knows no claims
binds pods without the devices that they claim. Facts: docs/facts/gangs.md#claims-of-gangs, docs/facts/dra.md#extended-resources-by-claim.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from conformance.causes import cause_of
from conformance.gang.adapters import Adapter, Gang, Guarantee, chosen
from conformance.gang.adapters.base import await_gone, delete_pods
from conformance.gang.judging import Attempt, Competition, judge_competition, judge_fit, judge_misfit
from conformance.gang.plan import Plan, gang_of, make_plan
from conformance.probes.running import absence_seconds
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import HeldClaim, claims_of, held_claim
from fixtures.model.dra.slices import CLAIMS
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

Probe = Callable[[Scope, Workspace, Adapter, Plan], Iterator[Finding]]
REST_FACTOR = 5.0


def for_each_adapter(scope: Scope, workspace: Workspace, probe: Probe) -> Iterator[Finding]:
    """Run a probe with every installed gang scheduler that the policy selects; if one fails, the others are judged all the same."""
    installed, plan = _installed(scope), plan_of_run(scope, workspace)
    for adapter in installed:
        try:
            yield from probe(scope, workspace, adapter, plan)
        except Inconclusive as error:
            yield gave_up(adapter.name, error)
        finally:
            adapter.teardown(workspace)
            workspace.clear()


def _installed(scope: Scope) -> list[Adapter]:
    """The installed gang schedulers that the policy selects. Raises :class:`NotApplicable` where there is none."""
    installed = [adapter for adapter in chosen(scope) if adapter.detect(scope).installed]
    if not installed:
        raise NotApplicable(
            "NoGangScheduler", "no gang scheduler that the suite can probe is installed (volcano, kueue, native, kai, coscheduling)"
        )
    return installed


def plan_of_run(scope: Scope, workspace: Workspace) -> Plan:
    """The plan, which takes all that is free: what earlier probes could not remove may hold some of it. Raises as ``make_plan`` does."""
    plan = make_plan(scope)
    if left := workspace.pods_left():
        raise Inconclusive("PodsStay", f"{len(left)} pods or claims of this run did not go away and may hold devices: {left[0]}")
    return plan


def gave_up(name: str, error: Inconclusive) -> Finding:
    """The finding about a gang scheduler whose probe could not be ended."""
    about = About(Subject("GangScheduler", name), "probe")
    return about.undecided(f"{error.code}: {error.message}"[:600], cause=cause_of(error.code))


# -- GANG-02 -------------------------------------------------------------------------------------------


def probe_fit(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Iterator[Finding]:
    """GANG-02: a gang of as many pods as fit. When it does not start, the same pods without a gang say whether they could have."""
    adapter.setup(scope, workspace, plan.resource, plan.slots * plan.unit, plan.nodes)
    gang = gang_of(scope, plan, f"gang-02-{adapter.name}", plan.slots)
    attempt = _attempt(scope, workspace, adapter, gang)
    if plan.by_dra and not attempt.bound:
        _alone(scope, workspace, adapter, plan, f"{adapter.name}-one")  # the scheduler may know no claims
    control = None if attempt.whole else _without_gang(scope, workspace, plan, f"gang-02-{adapter.name}-plain", plan.slots)
    yield judge_fit(Subject("GangScheduler", adapter.name), plan, attempt, control)


def _attempt(scope: Scope, workspace: Workspace, adapter: Adapter, gang: Gang) -> Attempt:
    """Submit a gang, watch it, up to the start deadline for its first bind and then for the rest, and remove it."""
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), [gang])
        adapter.submit(workspace, gang)
        if bound.until(scope.policy.probes.start_seconds, lambda counts: counts[0] > 0):
            bound.until(_rest_seconds(scope), lambda counts: counts[0] == gang.size)
        attempt = bound.attempt()  # before claims are listed, which takes time of its own
        lacking = without_devices(bound.bound(), claims_there(workspace)) if gang.by_dra else ()
        attempt = msgspec.structs.replace(attempt, without_devices=tuple(lacking))
    adapter.release(workspace, gang)
    return attempt


def _alone(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan, name: str) -> Attempt:
    """One pod alone of the gang's shape. Raises :class:`Inconclusive` where the scheduler does not serve its claim."""
    single = _attempt(scope, workspace, adapter, gang_of(scope, plan, name, 1))
    if plan.by_dra and (not single.whole or single.without_devices):
        outcome = "was bound without devices" if single.without_devices else f"was not bound ({single.trace})"
        message = f"{adapter.name} gives no devices to one pod alone, which {outcome}: does it serve claims? {plan}"
        raise Inconclusive("ClaimsNotServed", message)
    return single


def _rest_seconds(scope: Scope) -> float:
    """How long the rest of a gang may take after its first bind. All of it is bound in one go: this is patience, not need."""
    return min(scope.policy.probes.start_seconds, REST_FACTOR * scope.policy.probes.window_seconds)


def _without_gang(scope: Scope, workspace: Workspace, plan: Plan, name: str, size: int) -> Attempt:
    """The same pods by the default scheduler, each for itself: watched until as many as fit are bound, then removed."""
    gang = gang_of(scope, plan, name, size)
    with workspace.observe() as observation:
        bound = BoundWatch(observation, workspace.namespace(), [gang])
        uids = {str(meta["name"]): str(meta["uid"]) for pod in gang.pods for meta in (workspace.create_pod(pod)["metadata"],)}
        bound.until(scope.policy.probes.start_seconds, lambda counts: counts[0] >= plan.slots)
        attempt, placed = bound.attempt(), {decode_pod(pod).name for pod in bound.bound()}
    delete_pods(workspace, {name: uid for name, uid in uids.items() if name not in placed})  # first, or they would take the others' room
    delete_pods(workspace, {name: uid for name, uid in uids.items() if name in placed})
    if not await_gone(workspace, "pods", gang.names, time.monotonic() + scope.policy.probes.start_seconds):
        raise Inconclusive("PodsStay", f"pods {gang.name}-* of this run did not go away, so their devices are not free")
    return attempt


# -- GANG-03 -------------------------------------------------------------------------------------------


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that does not fit, after its controls. ``promise``: what its scheduler promises about it, and why."""

    adapter: Adapter
    gang: Gang
    by_nodes: bool
    promise: str
    window: float

    @property
    def subject(self) -> Subject:
        """The subject of its finding: what the gang does not fit into."""
        return Subject("GangScheduler", f"{self.adapter.name} {'nodes' if self.by_nodes else 'quota'}")


def probe_misfits(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """GANG-03: a gang one pod larger than what fits binds nothing, with its three controls, by what each scheduler promises.

    The absence is watched for all schedulers at once: what must bind nothing takes nothing from the others.
    """
    installed, plan = _installed(scope), plan_of_run(scope, workspace)
    asked: list[Misfit] = []
    try:
        for adapter in installed:
            try:
                asked.append(_misfit(scope, workspace, adapter, plan))
            except Inconclusive as error:
                yield gave_up(adapter.name, error)
        for misfit, seen in zip(asked, _watch_misfits(workspace, asked), strict=True) if asked else ():
            try:
                if isinstance(seen, Inconclusive):
                    raise seen
                yield from _judge_misfit(scope, workspace, plan, misfit, seen)
            except Inconclusive as error:
                yield gave_up(misfit.adapter.name, error)
    finally:
        for adapter in installed:
            adapter.teardown(workspace)
        workspace.clear()


def _misfit(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Misfit:
    """The queues, and the controls that come first: one pod alone is bound, and without a gang as many as fit."""
    guarantee, promise = adapter.guarantee(scope, plan.nodes, claims=plan.by_dra)
    by_nodes = guarantee is Guarantee.PLACEMENT
    size = plan.slots + 1
    adapter.setup(scope, workspace, plan.resource, plan.unit * (size if by_nodes else plan.slots), plan.nodes)
    name = f"gang-03-{adapter.name}"
    single = _alone(scope, workspace, adapter, plan, f"{name}-alone")
    if not single.whole:
        raise Inconclusive("PositiveControlFailed", f"one pod alone of the same shape was not bound ({single.trace}); {plan}")
    plain = _without_gang(scope, workspace, plan, f"{name}-plain", size)
    if plain.bound != plan.slots:
        bound = f"{plain.bound} of {size} pods were bound, not the {plan.slots} that fit"
        message = f"without the gang {bound}, so the gang would prove nothing"
        raise Inconclusive("PositiveControlFailed", message)
    window = absence_seconds(scope, single.seconds)
    return Misfit(adapter=adapter, gang=gang_of(scope, plan, name, size), by_nodes=by_nodes, promise=promise, window=window)


def _judge_misfit(scope: Scope, workspace: Workspace, plan: Plan, misfit: Misfit, seen: Attempt) -> Iterator[Finding]:
    """The finding, with the last control, the same gang of a size that fits."""

    def control() -> Attempt:
        return _attempt(scope, workspace, misfit.adapter, gang_of(scope, plan, misfit.gang.name, plan.slots))

    yield judge_misfit(misfit.subject, plan, seen, control, misfit.window, misfit.promise)
    if not misfit.by_nodes:
        asked = "so a gang that fits the quota and not the nodes is not judged"
        message = f"all-or-nothing placement is not promised, {asked}: {misfit.promise}"
        yield not_judged(Subject("GangScheduler", f"{misfit.adapter.name} nodes"), message=message, source="guarantee of the adapter")


def _watch_misfits(workspace: Workspace, misfits: Sequence[Misfit]) -> list[Attempt | Inconclusive]:
    """Watch all gangs for the longest of their windows; then go on while one is bound in part, to tell that from all of it.

    A gang that could not be submitted has the reason in its place, and so has one that does not go away, unless pods of it were bound.
    """
    window = max(misfit.window for misfit in misfits)
    with workspace.observe() as observation:
        watches = [BoundWatch(observation, workspace.namespace(), [misfit.gang]) for misfit in misfits]
        refused: dict[str, Inconclusive] = {}
        for misfit in misfits:
            try:
                misfit.adapter.submit(workspace, misfit.gang)
            except Inconclusive as error:
                refused[misfit.adapter.name] = error
        for none_is_fine in (False, True):  # until all are whole; then until none is bound in part
            for objects in observation.until(time.monotonic() + window):
                counts = [(watch.see(objects)[0], misfit.gang.size) for watch, misfit in zip(watches, misfits, strict=True)]
                if all(count == size or (none_is_fine and not count) for count, size in counts):
                    break
        seen = [refused.get(misfit.adapter.name) or watch.attempt() for watch, misfit in zip(watches, misfits, strict=True)]
    for number, misfit in enumerate(misfits):
        try:
            misfit.adapter.release(workspace, misfit.gang)
        except Inconclusive as error:
            found = seen[number]
            seen[number] = found if isinstance(found, Inconclusive) or found.most else error
    return seen


# -- GANG-04 -------------------------------------------------------------------------------------------


def probe_competition(scope: Scope, workspace: Workspace, adapter: Adapter, plan: Plan) -> Iterator[Finding]:
    """GANG-04: two gangs that each need all that fits, created pod by pod in turn; the one that starts is removed for the other."""
    probes = scope.policy.probes
    adapter.setup(scope, workspace, plan.resource, plan.slots * plan.unit, plan.nodes)
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
        if plan.by_dra and not any(first):
            _alone(scope, workspace, adapter, plan, f"{adapter.name}-one")
        control = _without_gang(scope, workspace, plan, f"gang-04-{adapter.name}-plain", size)
    yield judge_competition(Subject("GangScheduler", adapter.name), plan, seen, control)


def claims_there(workspace: Workspace) -> dict[str, HeldClaim]:
    """ResourceClaims of the run's namespace, by name. Raises :class:`ApiTrouble`."""
    return {claim.place.name: claim for claim in map(held_claim, workspace.cluster.each(CLAIMS, workspace.namespace()))}


def without_devices(pods: Iterable[Json], claims: Mapping[str, HeldClaim]) -> list[str]:
    """Names of bound pods that lack a claim which is allocated and reserved for them."""

    def served(pod: Pod) -> bool:
        found = [claims.get(name) for name in claims_of(pod)]
        own = pod.metadata.uid
        return bool(found) and all(one and one.allocated and any(user.uid == own for user in one.consumers) for one in found)

    return sorted(pod.name for pod in map(decode_pod, pods) if not served(pod))


Counts = tuple[int, ...]
MAX_STEPS_SHOWN = 12


class BoundWatch:
    """Counts of bound members per gang, over time. One observation serves a whole probe, so that no bind is missed between steps."""

    def __init__(self, observation: Observation, namespace: str, gangs: Sequence[Gang]) -> None:
        self._observation = observation
        self._gangs = gangs
        self._members = [{f"{namespace}/{name}" for name in gang.names} for gang in gangs]
        self._began = time.monotonic()
        self.history: list[tuple[float, Counts]] = []
        self.most: Counts = (0,) * len(gangs)

    def until(self, seconds: float, stop: Callable[[Counts], bool]) -> bool:
        """Watch until ``stop`` says yes to the counts; False when ``seconds`` passed. Every change is remembered."""
        return any(stop(self.see(objects)) for objects in self._observation.until(time.monotonic() + seconds))

    def see(self, objects: Mapping[str, Json]) -> Counts:
        """Count the members among objects of the observation."""
        counts = tuple(sum(is_bound(objects[key]) for key in members & objects.keys()) for members in self._members)
        if not self.history or self.history[-1][1] != counts:
            self.history.append((time.monotonic() - self._began, counts))
        self.most = tuple(max(pair) for pair in zip(self.most, counts, strict=True))
        return counts

    @property
    def now(self) -> Counts:
        """The counts as of the last event."""
        return self.see(self._observation.objects)

    def bound(self) -> list[Json]:
        """The pods of the gangs that are bound as of the last event."""
        objects = self._observation.objects
        return [pod for members in self._members for key in sorted(members & objects.keys()) if is_bound(pod := objects[key])]

    def attempt(self) -> Attempt:
        """What became of the one gang that is watched, as of the last event. Members that are missing may have been bound in a gap."""
        objects, (members,), (gang,) = self._observation.objects, self._members, self._gangs
        conditions = [decode_pod(objects[key]).condition("PodScheduled") for key in members & objects.keys()]
        times = [unix(one.last_transition_time) if one is not None and one.status == "True" else None for one in conditions]
        known = [moment for moment in times if moment is not None]
        return Attempt(
            size=gang.size,
            bound=self.now[0],
            most=self.most[0],
            seconds=time.monotonic() - self._began,
            spread=max(known) - min(known) if known and len(known) == len(times) else None,
            trace=self.text,
            missing=len(members - objects.keys()),
        )

    @property
    def text(self) -> str:
        """Counts over time: ``0 s: 0+0, 0.2 s: 2+0``."""
        shown = self.history[:MAX_STEPS_SHOWN]
        steps = ", ".join(f"{seconds:.1f} s: {'+'.join(str(count) for count in counts)}" for seconds, counts in shown)
        return steps + (" …" if len(self.history) > len(shown) else "")


def is_bound(pod: Json) -> bool:
    """Whether a pod of a watch has its node."""
    return bool(decode_pod(pod).node_name)
