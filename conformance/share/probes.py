"""SHARE-03: pods that fill the shared units of a node, and one pod too many."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.asked_nodes import Asked, choose, in_turns, per_node
from conformance.iso.asking import Ran, hold, pinned
from conformance.iso.judging import sight_of
from conformance.iso.sight import END, HOLD, Sight
from conformance.mig.pending import FACTOR, Waited, judge_pending, watch_pending
from conformance.places import Place, listable, places_of
from conformance.scope import Scope
from conformance.share.units import Shared, shared_resources
from fixtures.evidence import Finding, Inconclusive, NotApplicable, Subject, bad, ok, undecided
from fixtures.models import Json, Node
from fixtures.probes.workspace import Workspace

MAX_PODS = 64
"""Most pods that one node is filled with."""

SOURCE = "nvidia-smi -L in the containers"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose free shared units are filled: what it has, how many units are free, and how many other pods hold and may give back."""

    shared: Shared
    devices: int
    factor: int
    free: int
    others: int = 0

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(node=self.shared.node, resource=self.shared.resource, free=self.free, capacity=self.free + self.others, shared=True)

    @property
    def decides(self) -> bool:
        """Whether some device must be seen ``factor`` times when all free units are filled (pigeonhole)."""
        return self.free > self.devices * (self.factor - 1)


def fields(scope: Scope) -> list[Field]:
    """Nodes that can be filled, those that decide first, then the cheapest. Raises :class:`NotApplicable`, :class:`Inconclusive`."""
    found, trouble = [], []
    for place in listable(scope):
        for shared in _shared(scope, place):
            if reason := _unfillable(place, shared):
                trouble.append(f"{place}: {reason}")
            elif shared.devices is not None and shared.factor:
                free, held = place.free, place.capacity - place.free
                found.append(Field(shared=shared, devices=shared.devices, factor=shared.factor, free=free, others=held))
    if not found and not trouble:
        raise NotApplicable("NoSharing", "no Ready, schedulable node shares devices that a pod can list")
    if not found:
        raise Inconclusive("NoFreeDevice", "; ".join(trouble[:5]))
    return sorted(found, key=lambda item: (not item.decides, item.free, item.shared.node.name))


def _shared(scope: Scope, place: Place) -> list[Shared]:
    return [shared for shared in shared_resources(scope, place.node) if shared.resource == place.resource]


def _unfillable(place: Place, shared: Shared) -> str:
    """Why a node cannot be filled, or empty."""
    if shared.devices is None or not shared.factor or shared.factor < 2:
        return "no label says how many devices and replicas"
    if place.free < shared.factor:
        return f"fewer free than the {shared.factor} replicas of one device"
    return f"filling it takes more than {MAX_PODS} pods" if place.free > MAX_PODS else ""


def probe_sharing(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """SHARE-03: fill a node with pods of one shared unit each, then ask for one unit more."""
    able = {(field.place.node.name, field.place.resource): field for field in fields(scope)}

    def ask(turn: list[tuple[int, Place]]) -> Iterator[Asked]:
        yield from _fill(scope, workspace, {number: able[place.node.name, place.resource] for number, place in turn})

    def unfit(place: Place) -> str:
        return "" if _shared(scope, place) else f"its {place.resource} is not shared"

    def obstacle(node: Node) -> str:
        reasons = [reason for place in places_of(scope, node) for shared in _shared(scope, place) if (reason := _unfillable(place, shared))]
        return "; ".join(dict.fromkeys(reasons))

    chosen = choose(scope, [field.place for field in able.values()])
    asked = in_turns(scope, workspace, chosen, max(place.free for place in chosen), ask)
    yield from per_node(scope, asked, unfit, obstacle)


def _fill(scope: Scope, workspace: Workspace, chosen: Mapping[int, Field]) -> Iterator[Asked]:
    """What is found on nodes that are filled at the same time."""
    extras: dict[str, tuple[Field, str]] = {}
    longest = 0.0
    for index, field in chosen.items():
        names = [f"share-03-{index}-{number}" for number in range(field.free)]
        begun = time.monotonic()
        ran = hold(workspace, [_asking(scope, field, name) for name in names], END, scope.policy.probes.start_seconds)
        longest = max(longest, time.monotonic() - begun)
        yield from ((field.place, finding) for finding in judge_filled(field, ran))
        missing = sum(bool(pod.trouble) for pod in ran.values())
        control = f"{missing} of {field.free} pods that fit did not run" if missing else ""
        extra = workspace.start(_asking(scope, field, f"share-03-{index}-extra"))
        extras[extra] = (field, control)
    hopeless = all(control for _, control in extras.values())
    waited = watch_pending(workspace, list(extras), 0.0 if hopeless else max(scope.policy.probes.window_seconds, FACTOR * longest))
    for name, (field, control) in extras.items():
        yield field.place, judge_extra(field, waited[name], control)


def judge_extra(field: Field, waited: Waited, control: str) -> Finding:
    """The pod beyond the units of a node. Bound although others could have given one back meanwhile, it proves nothing."""
    node, resource = field.shared.node.name, field.shared.resource
    if waited.node and field.others > 0:
        text = f"it was bound to {waited.node}, and other pods held {field.others} {resource} there, of which one may have come free"
        return undecided(waited.subject, text, "pod watched")
    return judge_pending(waited, resource, f"all units of {node} are held", control)


def _asking(scope: Scope, field: Field, name: str) -> Json:
    return pinned(scope, field.shared.node, name, HOLD, resources={field.shared.resource: 1})


def judge_filled(field: Field, ran: Mapping[str, Ran]) -> Iterator[Finding]:
    """What the pods that fill a node saw: one device each, and devices seen by as many pods as there are replicas."""
    holders: dict[str, list[str]] = {}
    blind = False
    for name, pod in ran.items():
        sight = sight_of(pod)
        if isinstance(sight, str):
            blind = True
            yield undecided(pod.subject, sight, SOURCE)
        elif len(sight.uuids) != 1:
            finding = _odd(pod, sight, field)
            blind = True
            yield finding
        else:
            holders.setdefault(sight.uuids[0], []).append(name)
    if holders:
        yield _shares(field, holders, blind)


def _odd(pod: Ran, sight: Sight, field: Field) -> Finding:
    if not sight.uuids:
        return undecided(pod.subject, f"nvidia-smi lists no device in the pod: {sight.text}", SOURCE)
    message = f"it asked for one {field.shared.resource} and sees {len(sight.uuids)} devices"
    return bad(pod.subject, sight.text, "one device", SOURCE, message)


def _shares(field: Field, holders: Mapping[str, Sequence[str]], blind: bool) -> Finding:
    place = Subject("Node", f"{field.shared.node.name} {field.shared.resource}")
    counts = Counter({uuid: len(names) for uuid, names in holders.items()})
    pods, (uuid, most) = sum(counts.values()), counts.most_common(1)[0]
    observed = f"{pods} pods on {len(counts)} devices, up to {most} on one ({uuid})"
    expected = f"{field.factor} pods on one UUID, {field.devices} devices"
    if most > field.factor:
        message = f"{uuid} is given to {most} pods and its replicas are {field.factor}: shares are smaller than promised"
        return bad(place, observed, expected, SOURCE, message)
    if len(counts) > field.devices:
        message = f"{pods} pods see {len(counts)} devices on a node that has {field.devices}: replicas are not units of one device"
        return bad(place, observed, expected, SOURCE, message)
    if most == field.factor:
        return ok(place, observed, expected, SOURCE)
    if field.decides and not blind:
        message = f"all free units are held and no device is shared by {field.factor} pods, only by {most}: its replicas are not shared"
        return bad(place, observed, expected, SOURCE, message)
    message = f"{observed}; other pods hold the remaining units, so {field.factor} on one device could not be seen"
    return undecided(place, message, SOURCE)
