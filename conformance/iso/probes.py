"""The probes of ISO: which pods ask, on which nodes, together with their controls."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.iso.asking import hold, pinned, run
from conformance.iso.judging import judge_blind, judge_disjoint, judge_holder, sight_of
from conformance.iso.sight import END, HOLD, LOOK, Sight
from conformance.places import Place, listable, one_per_resource, runtime_classes
from conformance.scope import Scope
from fixtures.evidence import Finding, NotApplicable, Subject, not_judged, undecided
from fixtures.probes.workspace import Workspace

BYPASS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
TOGETHER = 4
"""Pods that run together for ISO-03 at most: two suffice, more find a plugin that repeats itself late."""


def probe_holders(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-01: on one node per resource a pod with two containers, of which one asks for devices."""
    places = one_per_resource(listable(scope))
    asked = {f"iso-01-{index}": (place, 2 if place.free > 1 and not place.shared else 1) for index, place in enumerate(places)}
    pods = [
        pinned(scope, place.node, name, LOOK, resources={place.resource: count}, sibling=LOOK) for name, (place, count) in asked.items()
    ]
    for name, ran in run(workspace, pods, scope.policy.probes.start_seconds).items():
        place, count = asked[name]
        yield judge_holder(ran, count, place.resource)
        yield judge_blind(ran, "sibling", ran.container("sibling"), f"through the other container's {place.resource}")


def probe_bypass(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-02: on each such node a pod that asks for nothing but sets the variable, beside one that asks and must see its device."""
    places: dict[str, Place] = {}
    for place in one_per_resource(listable(scope)):
        places.setdefault(place.node.name, place)
    classes = ["", *(name for name, handler in runtime_classes(scope).items() if handler == "nvidia")]
    for index, place in enumerate(places.values()):
        control = f"iso-02-{index}-control"
        bypass = {f"iso-02-{index}-{position}": name for position, name in enumerate(classes)}
        pods = [pinned(scope, place.node, control, LOOK, resources={place.resource: 1})]
        pods += [pinned(scope, place.node, pod, LOOK, env=BYPASS, runtime_class=name) for pod, name in bypass.items()]
        ran = run(workspace, pods, scope.policy.probes.start_seconds)
        seen = sight_of(ran[control])
        works = isinstance(seen, Sight) and bool(seen.uuids)
        for pod, name in bypass.items():
            subject = Subject("Pod", pod, ran[pod].subject.namespace)
            if not works:
                text = seen.text if isinstance(seen, Sight) else seen
                message = f"PositiveControlFailed: the pod on {place.node.name} that asked for a device sees none either ({text})"
                yield undecided(subject, message, "control pod")
            elif name and ran[pod].trouble:
                yield not_judged(subject, f"no container ran with runtimeClassName {name}: {ran[pod].trouble}", "RuntimeClass")
            else:
                how = "with NVIDIA_VISIBLE_DEVICES=all" + (f" and runtimeClassName {name}" if name else "")
                yield judge_blind(ran[pod], "probe", subject, how)


def probe_disjoint(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-03: pods that run together on one node, each with one exclusive device."""
    places = listable(scope)
    exclusive = [place for place in places if not place.shared]
    if not exclusive:
        raise NotApplicable("SharedDevices", "every device is shared on purpose (replicas), so none is exclusive")
    if all(place.capacity < 2 for place in exclusive):
        raise NotApplicable("SingleDeviceNodes", "no node offers two exclusive devices, so two pods cannot meet on one")
    chosen = one_per_resource([place for place in exclusive if place.capacity > 1], free=2)
    for place in places:
        if place.shared:
            name = f"{place.node.name} {place.resource}"
            yield not_judged(Subject("Node", name), f"{place.resource} is shared here: pods may hold the same device", "node labels")
    for number, place in enumerate(chosen):
        pods = [
            pinned(scope, place.node, f"iso-03-{number}-{index}", HOLD, resources={place.resource: 1})
            for index in range(min(place.free, TOGETHER))
        ]
        yield from judge_disjoint(hold(workspace, pods, END, scope.policy.probes.start_seconds), place.resource)
