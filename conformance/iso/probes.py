"""The probes of ISO: which pods run on which nodes, with their positive controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.iso.judging import judge_computing, judge_disjoint, judge_holder, judge_sample, judge_unasked
from conformance.probes.computing import (
    END_MARKER,
    HOLD_SCRIPT,
    LIMITS_OF_ALL,
    LIST_SCRIPT,
    SECONDS_PER_DEVICE,
    VisibleDevices,
    brings_library,
    image_of,
    is_slice,
    listing_pod,
    sample_pod,
    visible_to,
    why_uncomputed,
)
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import ProbeResult, hold_pods, pinned_pod, run_pods
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import Place, listable_places, runtime_classes, usable_places, why_unlistable
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, not_judged, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

BYPASS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
TOGETHER = 4
"""Pods that run together for ISO-03 at most: two suffice, more find a plugin that repeats itself late."""

Batch = list[tuple[int, Place]]
"""Places that are asked at the same time, with their numbers."""


def probe_holders(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-01: a pod with two containers, of which one asks for devices."""

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        asked = {f"iso-01-{number}": (place, 2 if place.free > 1 and not place.shared else 1) for number, place in batch}
        pods = [
            listing_pod(scope, place.node, name, resources={place.resource: count}, sibling=LIST_SCRIPT)
            for name, (place, count) in asked.items()
        ]
        for name, ran in run_pods(workspace, pods, scope.policy.probes.start_seconds).items():
            place, count = asked[name]
            yield place, judge_holder(ran, count, place.resource, shared=place.shared)
            yield (
                place,
                judge_unasked(
                    ran, "sibling", ran.container("sibling"), f"through the other container's {place.resource}", "DevicesOpenToOthers"
                ),
            )

    places = choose_places(scope, listable_places(scope))
    yield from per_node(scope, in_batches(scope, workspace, places, 1, ask), why_unlistable)


def probe_computing(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-05: a pod with all free devices of a place computes on each of them; without an image of the suite, a sample on one."""
    probes, reason = scope.policy.probes, why_uncomputed(scope)
    places = [place for place in usable_places(scope) if not reason(place)]
    if not places:
        listable_places(scope)  # says that there are none, or none of a vendor that this can ask
        raise NotApplicable("NoComputeImage", "the policy names no image that computes (probes.suiteImage, probes.sampleImage)")

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        asked = {f"iso-05-{number}": (place, _units(place) if image_of(scope, place) else 1) for number, place in batch}
        pods = [_computing_pod(scope, name, place, count) for name, (place, count) in asked.items()]
        seconds = probes.start_seconds + SECONDS_PER_DEVICE * max(count for _, count in asked.values())
        for name, ran in run_pods(workspace, pods, seconds).items():
            place, count = asked[name]
            if not image_of(scope, place):
                yield place, judge_sample(ran, place.resource, shared=place.shared)
            else:
                yield place, judge_computing(ran, count, place.resource, shared=place.shared, mounted=not brings_library(place))

    yield from per_node(scope, in_batches(scope, workspace, choose_places(scope, places), 1, ask), reason)


def _computing_pod(scope: Scope, name: str, place: Place, count: int) -> Json:
    image = image_of(scope, place)
    if not image:
        return sample_pod(scope, place.node, name, place.resource)
    return listing_pod(scope, place.node, name, resources={place.resource: count}, limits=LIMITS_OF_ALL, image=image)


def _units(place: Place) -> int:
    """How many devices a pod computes on: all that are free, and one where they are shared or slices."""
    return 1 if place.shared or is_slice(place) else place.free


def probe_bypass(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-02: a pod that asks for nothing but sets the variable, beside one on the same node that asks and must see its device."""
    classes = ["", *(name for name, handler in runtime_classes(scope).items() if handler == "nvidia")]

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        pods = [
            pinned_pod(scope, place.node, f"iso-02-{number}-control", LIST_SCRIPT, resources={place.resource: 1}) for number, place in batch
        ]
        pods += [
            pinned_pod(scope, place.node, f"iso-02-{number}-{position}", LIST_SCRIPT, env=BYPASS, runtime_class=name)
            for number, place in batch
            for position, name in enumerate(classes)
        ]
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        for number, place in batch:
            for position, name in enumerate(classes):
                yield place, _bypassed(ran, f"iso-02-{number}-control", f"iso-02-{number}-{position}", name, place)

    by_node: dict[str, Place] = {}
    for place in choose_places(scope, listable_places(scope)):
        by_node.setdefault(place.node.name, place)
    asked = in_batches(scope, workspace, list(by_node.values()), 1 + len(classes), ask)
    yield from per_node(scope, asked, why_unlistable)


def _bypassed(ran: Mapping[str, ProbeResult], control: str, pod: str, runtime_class: str, place: Place) -> Finding:
    """What a pod saw that asked for nothing, beside its control."""
    subject = Subject("Pod", pod, ran[pod].subject.namespace)
    seen = visible_to(ran[control])
    if not (isinstance(seen, VisibleDevices) and seen.uuids):
        text = seen.text if isinstance(seen, VisibleDevices) else seen
        message = f"the pod on {place.node.name} that asked for a device sees none either ({text})"
        return undecided(subject, cause="PositiveControlFailed", message=message, source="control pod")
    if runtime_class and ran[pod].trouble:
        return not_judged(
            subject,
            message=f"no container ran with runtimeClassName {runtime_class}: {ran[pod].trouble}",
            source="RuntimeClass",
        )
    how = "with NVIDIA_VISIBLE_DEVICES=all" + (f" and runtimeClassName {runtime_class}" if runtime_class else "")
    return judge_unasked(ran[pod], "probe", subject, how, "VariableHonoured")


def probe_disjoint(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-03: pods that run together on one node, each with one exclusive device."""
    exclusive = [place for place in listable_places(scope) if not place.shared]
    if not exclusive:
        raise NotApplicable("SharedDevices", "every device is shared on purpose (replicas), so none is exclusive")
    if all(place.capacity < 2 for place in exclusive):
        raise NotApplicable("SingleDeviceNodes", "no node offers two exclusive devices, so two pods cannot meet on one")

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        names = {f"iso-03-{number}-{index}": place for number, place in batch for index in range(min(place.free, TOGETHER))}
        pods = [pinned_pod(scope, place.node, name, HOLD_SCRIPT, resources={place.resource: 1}) for name, place in names.items()]
        ran = hold_pods(workspace, pods, END_MARKER, scope.policy.probes.start_seconds)
        for _, place in batch:
            met = {name: ran[name] for name, where in names.items() if where is place}
            yield from ((place, finding) for finding in judge_disjoint(met, place.resource))

    chosen = choose_places(scope, [place for place in exclusive if place.capacity > 1], free=2)
    yield from per_node(scope, in_batches(scope, workspace, chosen, TOGETHER, ask), _cannot_meet)


def _cannot_meet(place: Place) -> str:
    """Why two pods cannot meet on exclusive devices of a place, or empty."""
    if place.shared:
        return f"{place.resource} is shared here: pods may hold the same device"
    return why_unlistable(place) or ("" if place.capacity > 1 else f"it offers one {place.resource}: two pods cannot meet")
