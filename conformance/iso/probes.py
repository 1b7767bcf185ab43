"""The probes of ISO: which pods run on which nodes, with their positive controls."""

from collections.abc import Iterator, Mapping
from functools import partial

from conformance.iso.release import Computing
from conformance.probes.computing import (
    COMPUTES,
    LIMITS_OF_ALL,
    LIST_SCRIPT,
    NO_LIBRARY,
    SECONDS_PER_DEVICE,
    SOURCE,
    brings_library,
    computing,
    fault_of,
    faulty,
    has_library,
    image_of,
    listing_pod,
    read_holders,
    sample_fault,
    sample_pod,
    start_holders,
    visible_to,
    why_uncomputed,
    words_of,
)
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import ProbeResult, pinned_pod, run_pods
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import Place, is_slice, listable_places, runtime_classes, usable_places, why_unlistable
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
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
            how = f"through the other container's {place.resource}"
            yield place, judge_unasked(ran, "sibling", ran.container("sibling"), how, "DevicesOpenToOthers")

    places = choose_places(scope, listable_places(scope))
    yield from per_node(scope, in_batches(scope, workspace, places, 1, ask), why_unlistable)


def probe_computing(scope: Scope, workspace: Workspace, computing: Computing) -> Iterator[Finding]:
    """ISO-05: a pod with all free devices of a place computes on each of them; without an image of the suite, a sample on one."""
    probes, reason = scope.policy.probes, partial(why_uncomputed, scope)
    places = [place for place in usable_places(scope) if not reason(place)]
    if not places:
        listable_places(scope)  # says that there are none, or none of a vendor that this can ask
        raise NotApplicable("NoComputeImage", "the policy names no image that computes (probes.suiteImage, probes.sampleImage)")

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        asked = {f"iso-05-{number}": (place, _units(place) if image_of(scope, place) else 1) for number, place in batch}
        keys = {name: (place.node.name, place.resource) for name, (place, _) in asked.items()}
        known = {name: computing.ran[key] for name, key in keys.items() if key in computing.ran}
        pods = [_computing_pod(scope, name, place, count) for name, (place, count) in asked.items() if name not in known]
        seconds = probes.start_seconds + SECONDS_PER_DEVICE * max(count for _, count in asked.values())
        for name, ran in {**known, **run_pods(workspace, pods, seconds)}.items():
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
        held = start_holders(scope, workspace, {f"iso-02-{number}-control": place for number, place in batch})
        pods = [
            pinned_pod(scope, place.node, f"iso-02-{number}-{position}", LIST_SCRIPT, env=BYPASS, runtime_class=of)
            for number, place in batch
            for position, of in enumerate(classes)
        ]
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        controls = read_holders(scope, workspace, held)
        for number, place in batch:
            for position, of in enumerate(classes):
                yield place, _bypassed(controls[f"iso-02-{number}-control"], ran[f"iso-02-{number}-{position}"], of, place)

    by_node: dict[str, Place] = {}
    for place in choose_places(scope, listable_places(scope)):
        by_node.setdefault(place.node.name, place)
    asked = in_batches(scope, workspace, list(by_node.values()), 1 + len(classes), ask)
    yield from per_node(scope, asked, why_unlistable)


def _bypassed(control: ProbeResult, ran: ProbeResult, runtime_class: str, place: Place) -> Finding:
    """What a pod saw that asked for nothing, beside its control."""
    seen, about = visible_to(control), About(ran.subject)
    if isinstance(seen, str) or not seen.uuids:
        text = seen if isinstance(seen, str) else seen.text
        message = f"the pod on {place.node.name} that asked for a device sees none either ({text})"
        return about.undecided(message, cause="PositiveControlFailed", source="control pod")
    if runtime_class and ran.trouble:
        return about.not_judged(f"no container ran with runtimeClassName {runtime_class}: {ran.trouble}", source="RuntimeClass")
    how = "with NVIDIA_VISIBLE_DEVICES=all" + (f" and runtimeClassName {runtime_class}" if runtime_class else "")
    return judge_unasked(ran, "probe", ran.subject, how, "VariableHonoured")


def probe_disjoint(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """ISO-03: pods that run together on one node, each with one exclusive device."""
    exclusive = [place for place in listable_places(scope) if not place.shared]
    if not exclusive:
        raise NotApplicable("SharedDevices", "every device is shared on purpose (replicas), so none is exclusive")
    if all(place.capacity < 2 for place in exclusive):
        raise NotApplicable("SingleDeviceNodes", "no node offers two exclusive devices, so two pods cannot meet on one")

    def ask(batch: Batch) -> Iterator[PlaceFinding]:
        names = {f"iso-03-{number}-{index}": place for number, place in batch for index in range(min(place.free, TOGETHER))}
        ran = read_holders(scope, workspace, start_holders(scope, workspace, names))
        for _, place in batch:
            met = {name: ran[name] for name, where in names.items() if where is place and name in ran}
            yield from ((place, finding) for finding in judge_disjoint(met, place.resource))

    chosen = choose_places(scope, [place for place in exclusive if place.capacity > 1], free=2)
    yield from per_node(scope, in_batches(scope, workspace, chosen, TOGETHER, ask), _cannot_meet)


def _cannot_meet(place: Place) -> str:
    """Why two pods cannot meet on exclusive devices of a place, or empty."""
    if place.shared:
        return f"{place.resource} is shared here: pods may hold the same device"
    return why_unlistable(place) or ("" if place.capacity > 1 else f"it offers one {place.resource}: two pods cannot meet")


def judge_holder(ran: ProbeResult, asked: int, resource: str, *, shared: bool = False) -> Finding:
    """ISO-01, first half: the container that asked for ``asked`` devices sees exactly so many, and they compute."""
    sight = visible_to(ran)
    if isinstance(sight, str):
        return About(ran.container("probe"), SOURCE).undecided(sight, cause="ProbeDidNotRun")
    expected, observed = f"exactly {asked} device{'s' if asked > 1 else ''} of {resource}", f"{sight.text} on node {ran.node}"
    about, seen = About(ran.container("probe"), SOURCE, expected, observed), len(set(sight.uuids))
    if not sight.uuids and (sight.failures or sight.exit_code):
        return about.undecided(f"nvidia-smi does not work in the pod, so its devices cannot be counted: {observed}")
    if seen != asked or seen != len(sight.uuids):
        more = "devices of others are open to it" if seen > asked else "it was given less than it pays for"
        cause = "DevicesOpenToOthers" if seen > asked else "FewerDevicesThanAsked"
        return about.bad(f"it asked for {asked} of {resource} and sees {seen}: {more}", cause=cause)
    return computing(about.ok(), sight, shared=shared)


def judge_unasked(ran: ProbeResult, container: str, subject: Subject, how: str, cause: str) -> Finding:
    """A container that asked for nothing sees nothing. ``how`` says what could have let it in, as a clause; ``cause`` is its code."""
    sight = visible_to(ran, container)
    if isinstance(sight, str):
        return About(subject, SOURCE).undecided(sight, cause="ProbeDidNotRun")
    about = About(subject, SOURCE, "no device and no device file", f"{sight.text} on node {ran.node}")
    if sight.sees_nothing:
        return about.ok()
    what = f"{len(sight.uuids)} device(s)" if sight.uuids else f"/dev/{sight.device_files[0]}"
    return about.bad(f"it asked for no device and reaches {what} {how}, which the device plugin does not count", cause=cause)


def judge_disjoint(ran: Mapping[str, ProbeResult], resource: str) -> Iterator[Finding]:
    """ISO-03: pods that ran together, each asking one exclusive device, hold devices that no other holds."""
    sights = {name: visible_to(pod) for name, pod in ran.items()}
    holders: dict[str, list[str]] = {}
    for name, sight in sights.items():
        for uuid in () if isinstance(sight, str) else set(sight.uuids):
            holders.setdefault(uuid, []).append(name)
    for name, sight in sights.items():
        about = About(ran[name].subject, SOURCE, "a device that no other pod of the node holds")
        if isinstance(sight, str):
            yield about.undecided(sight, cause="ProbeDidNotRun")
            continue
        observed = f"{sight.text} on node {ran[name].node}"
        if not sight.uuids:
            yield about.undecided(f"it holds one {resource} and lists none, so there is nothing to compare: {sight.text}")
        elif doubled := next((uuid for uuid in sight.uuids if len(holders[uuid]) > 1), ""):
            others = ", ".join(other for other in holders[doubled] if other != name)
            message = f"{doubled} is also held by {others}, so an exclusive {resource} is shared and jobs starve each other"
            yield about.bad(message, cause="DeviceGivenTwice", observed=observed)
        elif len(sights) < 2:
            yield about.undecided("it ran alone, so there was nothing to compare")
        else:
            yield about.ok(observed)


def judge_computing(ran: ProbeResult, count: int, resource: str, *, shared: bool = False, mounted: bool = True) -> Finding:
    """ISO-05: every device that a pod was given computes, by the compute check.

    Unless the runtime has ``mounted`` the library, it comes with the image, as the check does: one without them shows nothing.
    """
    about = About(ran.subject, "gpu-conformance compute in the container", f"{count} of {resource} given, and each {COMPUTES}")
    if not mounted and not ran.trouble and not has_library(ran):
        return about.not_judged(NO_LIBRARY)
    sight = visible_to(ran)
    if isinstance(sight, str) or sight.computed is None:
        return about.undecided(sight if isinstance(sight, str) else "the compute check did not run", cause="ProbeDidNotRun")
    if (fault := fault_of(sight.computed, sight, shared=shared)) is not None:
        return faulty(about, fault)
    if (found := len(sight.computed.devices)) < count:
        message = f"it was given {count} of {resource}, and programs find {found} devices to compute on"
        return about.bad(message, cause="DeviceDoesNotCompute", observed=f"{words_of(sight.computed)}; {sight.text}")
    return about.ok(f"{words_of(sight.computed)} on node {ran.node}")


def judge_sample(ran: ProbeResult, resource: str, *, shared: bool = False) -> Finding:
    """ISO-05 without an image of the suite: CUDA's sample adds two vectors on the device."""
    about = About(ran.subject, "log of CUDA's sample vectorAdd", f"one {resource} given, which {COMPUTES}")
    fault = sample_fault(ran, shared=shared)
    return about.ok(f"Test PASSED on node {ran.node}") if fault is None else faulty(about, fault)
