"""The probes of ISO: which pods ask, on which nodes, together with their controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.asked_nodes import Asked, choose, in_turns, per_node
from conformance.iso.asking import Ran, hold, pinned, run
from conformance.iso.judging import judge_blind, judge_disjoint, judge_holder, sight_of
from conformance.iso.sight import END, HOLD, LOOK, Sight
from conformance.places import Place, listable, runtime_classes, unlistable
from conformance.scope import Scope
from fixtures.evidence import Finding, NotApplicable, Subject, not_judged, undecided
from fixtures.probes.workspace import Workspace

BYPASS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
TOGETHER = 4
"""Pods that run together for ISO-03 at most: two suffice, more find a plugin that repeats itself late."""

Turn = list[tuple[int, Place]]
"""Places that are asked at the same time, with their numbers."""


def probe_holders(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-01: a pod with two containers, of which one asks for devices."""

    def ask(turn: Turn) -> Iterator[Asked]:
        asked = {f"iso-01-{number}": (place, 2 if place.free > 1 and not place.shared else 1) for number, place in turn}
        pods = [
            pinned(scope, place.node, name, LOOK, resources={place.resource: count}, sibling=LOOK) for name, (place, count) in asked.items()
        ]
        for name, ran in run(workspace, pods, scope.policy.probes.start_seconds).items():
            place, count = asked[name]
            yield place, judge_holder(ran, count, place.resource)
            yield place, judge_blind(ran, "sibling", ran.container("sibling"), f"through the other container's {place.resource}")

    places = choose(scope, listable(scope))
    yield from per_node(scope, in_turns(scope, workspace, places, 1, ask), unlistable)


def probe_bypass(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-02: a pod that asks for nothing but sets the variable, beside one on the same node that asks and must see its device."""
    classes = ["", *(name for name, handler in runtime_classes(scope).items() if handler == "nvidia")]

    def ask(turn: Turn) -> Iterator[Asked]:
        pods = [pinned(scope, place.node, f"iso-02-{number}-control", LOOK, resources={place.resource: 1}) for number, place in turn]
        pods += [
            pinned(scope, place.node, f"iso-02-{number}-{position}", LOOK, env=BYPASS, runtime_class=name)
            for number, place in turn
            for position, name in enumerate(classes)
        ]
        ran = run(workspace, pods, scope.policy.probes.start_seconds)
        for number, place in turn:
            for position, name in enumerate(classes):
                yield place, _bypassed(ran, f"iso-02-{number}-control", f"iso-02-{number}-{position}", name, place)

    by_node: dict[str, Place] = {}
    for place in choose(scope, listable(scope)):
        by_node.setdefault(place.node.name, place)
    asked = in_turns(scope, workspace, list(by_node.values()), 1 + len(classes), ask)
    yield from per_node(scope, asked, unlistable)


def _bypassed(ran: Mapping[str, Ran], control: str, pod: str, runtime_class: str, place: Place) -> Finding:
    """What a pod saw that asked for nothing, beside its control."""
    subject = Subject("Pod", pod, ran[pod].subject.namespace)
    seen = sight_of(ran[control])
    if not (isinstance(seen, Sight) and seen.uuids):
        text = seen.text if isinstance(seen, Sight) else seen
        message = f"PositiveControlFailed: the pod on {place.node.name} that asked for a device sees none either ({text})"
        return undecided(subject, message, "control pod")
    if runtime_class and ran[pod].trouble:
        return not_judged(subject, f"no container ran with runtimeClassName {runtime_class}: {ran[pod].trouble}", "RuntimeClass")
    how = "with NVIDIA_VISIBLE_DEVICES=all" + (f" and runtimeClassName {runtime_class}" if runtime_class else "")
    return judge_blind(ran[pod], "probe", subject, how)


def probe_disjoint(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-03: pods that run together on one node, each with one exclusive device."""
    exclusive = [place for place in listable(scope) if not place.shared]
    if not exclusive:
        raise NotApplicable("SharedDevices", "every device is shared on purpose (replicas), so none is exclusive")
    if all(place.capacity < 2 for place in exclusive):
        raise NotApplicable("SingleDeviceNodes", "no node offers two exclusive devices, so two pods cannot meet on one")

    def ask(turn: Turn) -> Iterator[Asked]:
        names = {f"iso-03-{number}-{index}": place for number, place in turn for index in range(min(place.free, TOGETHER))}
        pods = [pinned(scope, place.node, name, HOLD, resources={place.resource: 1}) for name, place in names.items()]
        ran = hold(workspace, pods, END, scope.policy.probes.start_seconds)
        for _, place in turn:
            met = {name: ran[name] for name, where in names.items() if where is place}
            yield from ((place, finding) for finding in judge_disjoint(met, place.resource))

    chosen = choose(scope, [place for place in exclusive if place.capacity > 1], free=2)
    yield from per_node(scope, in_turns(scope, workspace, chosen, TOGETHER, ask), _cannot_meet)


def _cannot_meet(place: Place) -> str:
    """Why two pods cannot meet on exclusive devices of a place, or empty."""
    if place.shared:
        return f"{place.resource} is shared here: pods may hold the same device"
    return unlistable(place) or ("" if place.capacity > 1 else f"it offers one {place.resource}: two pods cannot meet")
