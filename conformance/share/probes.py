"""SHARE-03: pods take all shared units of a node, and one more pod must stay Pending. SHARE-04: a pod gets no two units."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from conformance.probes.claim_pods import CANNOT_ALLOCATE
from conformance.probes.computing import END_MARKER, HOLD_SCRIPT, STAY, computing, listed_to, listing_pod
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import (
    PendingPod,
    ProbeResult,
    absence_seconds,
    hold_pods,
    judge_pending,
    pinned_pod,
    run_pods,
    watch_pending,
)
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import Place, listable_places, places_of
from fixtures.model.placement.shared_devices import Shared, claimed_shares, shared_resources
from fixtures.model.platform.plugin_settings import settings_of
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, Outcome, undecided
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

MAX_PODS = 64
"""Most pods that one node is filled with."""

SOURCE = "nvidia-smi -L in the containers"


class FillableNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose free shared units are filled: what it has, how many units are free, and how many other pods hold and may give back."""

    offered: Place
    shared: Shared
    devices: int
    factor: int
    free: int
    others: int = 0

    @property
    def place(self) -> Place:
        """Where it is."""
        return msgspec.structs.replace(self.offered, free=self.free, capacity=self.free + self.others, shared=True)

    @property
    def decides(self) -> bool:
        """Whether some device must be seen ``factor`` times when all free units are filled (pigeonhole)."""
        return self.free > self.devices * (self.factor - 1)


def fillable_nodes(scope: Scope) -> list[FillableNode]:
    """Nodes that can be filled, those that decide first, then the cheapest. Raises :class:`NotApplicable`, :class:`Inconclusive`."""
    found, trouble = [], []
    for place in listable_places(scope):
        for shared in _shared(scope, place):
            free, held = _units(scope, place, shared)
            if reason := _unfillable(place, shared, free):
                trouble.append(f"{place}: {reason}")
            elif shared.devices is not None and shared.factor:
                found.append(
                    FillableNode(offered=place, shared=shared, devices=shared.devices, factor=shared.factor, free=free, others=held)
                )
    if not found and not trouble:
        raise NotApplicable("NoSharing", "no Ready, schedulable node shares devices that a pod can list")
    if not found:
        raise Inconclusive("NoFreeDevice", "; ".join(trouble[:5]))
    return sorted(found, key=lambda item: (not item.decides, item.free, item.shared.node.name))


def _shared(scope: Scope, place: Place) -> list[Shared]:
    """How the devices of a place are shared; nothing where they are not."""
    if place.device_class:
        shares = claimed_shares(scope, place)
        source = shares.unknown or "capacity of devices in ResourceSlices"
        devices, factor = (None, None) if shares.unknown else (len(place.devices), shares.factor)
        shared = Shared(node=place.node, resource=place.resource, devices=devices, factor=factor, strategy="", labels=None, source=source)
        return [shared] if place.shared else []
    return [shared for shared in shared_resources(scope, place.node) if shared.resource == place.resource]


def _units(scope: Scope, place: Place, shared: Shared) -> tuple[int, int]:
    """Units that are free, and that others hold."""
    if not place.device_class:
        return place.free, place.capacity - place.free
    free = claimed_shares(scope, place).free
    return free, max((shared.units or 0) - free, 0)


def _unfillable(place: Place, shared: Shared, free: int) -> str:
    """Why a node cannot be filled, or empty."""
    if shared.devices is None or not shared.factor:
        return shared.source if place.device_class else "no label says how many devices and replicas"
    if shared.factor < 2:
        return "a claim that names no amount takes a whole device" if place.device_class else "its replicas are fewer than two"
    if free < shared.factor:
        return f"fewer free than the {shared.factor} replicas of one device"
    return f"filling it takes more than {MAX_PODS} pods" if free > MAX_PODS else ""


def probe_sharing(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """SHARE-03: fill a node with pods of one shared unit each, then ask for one unit more."""
    able = {(target.place.node.name, target.place.resource): target for target in fillable_nodes(scope)}

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        yield from _fill(scope, workspace, {number: able[place.node.name, place.resource] for number, place in batch})

    def unfit(place: Place) -> str:
        return "" if _shared(scope, place) else f"its {place.resource} is not shared"

    def obstacle(node: Node) -> str:
        reasons = [
            reason
            for place in places_of(scope, node)
            for shared in _shared(scope, place)
            if (reason := _unfillable(place, shared, _units(scope, place, shared)[0]))
        ]
        return "; ".join(dict.fromkeys(reasons))

    chosen = choose_places(scope, [target.place for target in able.values()])
    asked = in_batches(scope, workspace, chosen, max(place.free for place in chosen), ask)
    yield from per_node(scope, asked, unfit, obstacle)


def _fill(scope: Scope, workspace: Workspace, chosen: Mapping[int, FillableNode]) -> Iterator[PlaceFinding]:
    """What is found on nodes that are filled at the same time."""
    extras: dict[str, tuple[FillableNode, str]] = {}
    longest = 0.0
    for index, target in chosen.items():
        names = [f"share-03-{index}-{number}" for number in range(target.free)]
        begun = time.monotonic()
        computing_pod = listing_pod(scope, target.shared.node, names[0], resources={target.shared.resource: 1}, then=STAY)
        pods = [computing_pod, *(_unit_pod(scope, target, name) for name in names[1:])]
        ran = hold_pods(workspace, pods, END_MARKER, scope.policy.probes.start_seconds)
        longest = max(longest, time.monotonic() - begun)
        yield from ((target.place, finding) for finding in judge_filled(target, ran))
        missing = sum(bool(pod.trouble) for pod in ran.values())
        control = f"{missing} of {target.free} pods that fit did not run" if missing else ""
        extra = workspace.start(_unit_pod(scope, target, f"share-03-{index}-extra"))
        extras[extra] = (target, control)
    hopeless = all(control for _, control in extras.values())
    waited = watch_pending(workspace, list(extras), 0.0 if hopeless else absence_seconds(scope, longest))
    for name, (target, control) in extras.items():
        yield target.place, judge_extra(target, waited[name], control)


def judge_extra(target: FillableNode, waited: PendingPod, control: str) -> Finding:
    """The pod beyond the units of a node. Bound although others could have given one back meanwhile, it proves nothing."""
    node, resource = target.shared.node.name, target.shared.resource
    if waited.node and target.others > 0:
        text = f"it was bound to {waited.node}, and other pods held {target.others} {resource} there, and one of these may have come free"
        return undecided(waited.subject, cause="NoFreeDevice", message=text, source="pod watched")
    words = CANNOT_ALLOCATE if target.offered.device_class else ""
    return judge_pending(waited, resource, f"all units of {node} are held", control, words=words)


def _unit_pod(scope: Scope, target: FillableNode, name: str) -> Json:
    return pinned_pod(scope, target.shared.node, name, HOLD_SCRIPT, resources={target.shared.resource: 1})


def judge_filled(target: FillableNode, ran: Mapping[str, ProbeResult]) -> Iterator[Finding]:
    """What the pods that fill a node saw: one device each, and devices seen by as many pods as there are replicas."""
    holders: Counter[str] = Counter()
    blind = False
    for pod in ran.values():
        sight, about = listed_to(pod), About(pod.subject, SOURCE, "one device")
        blind |= isinstance(sight, str) or len(sight.uuids) > 1
        if isinstance(sight, str):
            yield about.undecided(sight, cause="ProbeDidNotRun")
        elif len(sight.uuids) > 1:
            message = f"it asked for one {target.shared.resource} and sees {len(sight.uuids)} devices"
            yield about.bad(message, cause="SharesNotAsPromised", observed=sight.text)
        else:
            holders[sight.uuids[0]] += 1
            found = computing(about.ok(sight.text), sight, shared=True)
            if found.outcome is Outcome.BAD:
                yield found
    if holders:
        yield _shares(target, holders, blind)


def _shares(target: FillableNode, counts: Counter[str], blind: bool) -> Finding:
    """``counts``: by how many pods each device was seen."""
    place = Subject("Node", f"{target.shared.node.name} {target.shared.resource}")
    pods, (uuid, most) = sum(counts.values()), counts.most_common(1)[0]
    observed = f"{pods} pods on {len(counts)} devices, up to {most} on one ({uuid})"
    expected = f"{target.factor} pods on one UUID, {target.devices} devices"
    about = About(place, SOURCE, expected, observed)
    if most > target.factor:
        message = f"{uuid} is given to {most} pods and its replicas are {target.factor}: shares are smaller than promised"
        return about.bad(message, cause="SharesNotAsPromised")
    if len(counts) > target.devices:
        message = f"{pods} pods see {len(counts)} devices on a node that has {target.devices}: the replicas do not share devices"
        return about.bad(message, cause="SharesNotAsPromised")
    if most == target.factor:
        return about.ok()
    if target.decides and not blind:
        message = f"all free units are held and no device is shared by {target.factor} pods, only by {most}: its replicas are not shared"
        return about.bad(message, cause="SharesNotAsPromised")
    message = f"{observed}; other pods hold the remaining units, so {target.factor} on one device could not be seen"
    return about.undecided(message, cause="NoFreeDevice")


# -- SHARE-04 ----------------------------------------------------------------------------------------

_TOO_MANY = "maximum request size"
"""Words of the plugin when it refuses several units (docs/facts/device-plugin.md#configuration)."""


def probe_several(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """SHARE-04: ask for two units in one pod where the plugin's configuration refuses that, and for one beside it."""

    def unfit(place: Place) -> str:
        settings = settings_of(scope, place.node) if not place.device_class and _shared(scope, place) else None
        return "" if settings is not None and settings.one_each else "no configuration that is known has failRequestsGreaterThanOne"

    able = [place for place in listable_places(scope) if not unfit(place)]
    if not able:
        raise NotApplicable("NotConfigured", "no plugin's configuration that is known refuses requests for several shared units")

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        pods = [
            pinned_pod(scope, place.node, f"share-04-{number}-{units}", "true", resources={place.resource: units})
            for number, place in batch
            for units in (1, 2)
        ]
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        for number, place in batch:
            yield place, judge_several(place, ran[f"share-04-{number}-1"], ran[f"share-04-{number}-2"])

    yield from per_node(scope, in_batches(scope, workspace, choose_places(scope, able, free=3), 2, ask), unfit)


def judge_several(place: Place, one: ProbeResult, two: ProbeResult) -> Finding:
    """``one`` and ``two``: the pods that asked for so many units."""
    place_, expected = Subject("Node", f"{place.node.name} {place.resource}"), f"two units refused: {_TOO_MANY} for shared resources is 1"
    about = About(place_, "status of the pods", expected)
    if not two.trouble:
        message = "a pod got two shared units: it pays for two and has no more of a device than a pod with one"
        return about.bad(message, cause="SeveralSharesGranted", observed=f"two units ran on {two.node}")
    if one.trouble:
        return about.undecided(f"a pod with one unit did not run: {one.trouble}", cause="PositiveControlFailed")
    if _TOO_MANY not in two.trouble:
        return about.undecided(f"two units were not given for another reason: {two.trouble[:300]}", cause="RefusedForAnotherReason")
    return about.ok(two.trouble[:200])
