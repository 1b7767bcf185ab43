"""MIG-07: pods ask for slices, and what they see is compared with what they asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nvidia_smi import parse_listing
from conformance.probes.claim_pods import CANNOT_ALLOCATE, selecting_pod
from conformance.probes.computing import END_MARKER, HOLD_SCRIPT, STAY, computing, listing_pod, listing_run, visible_to
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import FACTOR, ProbeResult, hold_pods, judge_pending, pinned_pod, watch_pending
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.mig_nodes import MigNode, mig_nodes
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.placement.free_devices import NVIDIA_DRIVER, Place, places_of
from fixtures.nodeprobe.smi_xml import Listing
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, undecided
from fixtures.verdict.subjects import NotApplicable

_ATTRIBUTE = f'device.attributes["{NVIDIA_DRIVER}"].profile'


def offered(scope: Scope, node: Node) -> list[Place]:
    """Places of a node; those of claimed MIG devices are split by profile, which stands in ``product``."""
    return [part for place in places_of(scope, node) for part in (_by_profile(scope, place) or [place])]


def is_claimed_slice(place: Place) -> bool:
    """Whether a place is one of claimed MIG devices of one profile."""
    return bool(place.devices) and all(_profile(device) == place.product for device in place.devices)


def profile_selector(profile: str) -> str:
    """The CEL expression that chooses MIG devices of a profile."""
    return f'{_ATTRIBUTE} == "{profile}"'


def is_made_on_demand(place: Place) -> bool:
    """Whether a claim makes the MIG device that it gets, so that profiles compete for one GPU (shared counters)."""
    return any(device.body.counters for device in place.devices)


def published_profiles(scope: Scope) -> set[str]:
    """Profiles of all MIG devices that are offered to claims."""
    return {profile for items in scope.dra_inventory.values() for item in items for device in item.devices if (profile := _profile(device))}


def _by_profile(scope: Scope, place: Place) -> list[Place]:
    if place.driver != NVIDIA_DRIVER or not place.devices or not all(map(_profile, place.devices)):
        return []
    return list(_split(scope, place.by_claim))


def _split(scope: Scope, place: Place) -> Iterator[Place]:
    for profile in sorted({_profile(device) for device in place.devices}):
        devices = tuple(device for device in place.devices if _profile(device) == profile)
        taken = sum(device.id in scope.claims.holders and not device.body.shareable for device in devices)
        free = max(min(len(devices) - taken, place.free), 0)
        yield msgspec.structs.replace(place, product=profile, devices=devices, capacity=len(devices), free=free)


def _profile(device: InventoryDevice) -> str:
    return device.body.attribute("profile") if device.body.type == "mig" else ""


SOURCE = "nvidia-smi -L in the container"
_NOBODY = "no node offers this profile"
_COMMON = ("1g.5gb", "1g.10gb", "1g.12gb", "1g.18gb", "1g.24gb", "2g.20gb", "3g.40gb", "7g.80gb")


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """Free slices of one profile on one node, and the resource they are asked by. ``shared``: several pods may hold one."""

    place: Place
    profile: str

    @property
    def node(self) -> Node:
        """Where they are."""
        return self.place.node

    @property
    def resource(self) -> str:
        """What a pod asks for."""
        return self.place.resource

    @property
    def free(self) -> int:
        """How many a pod can have."""
        return self.place.free

    @property
    def shared(self) -> bool:
        """Whether several pods may hold one."""
        return self.place.shared

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return _key(self.place)


def _key(place: Place) -> tuple[str, str, str]:
    return place.node.name, place.resource, place.product


def slots(scope: Scope) -> list[Slot]:
    """Slices on usable nodes, most free first. What is no profile of the product is MIG-02's and MIG-03's finding and not asked for."""
    usable = {node.name for node in scope.usable_nodes}
    found = [slot for slot in _every_slot(scope) if slot.node.name in usable]
    return sorted(found, key=lambda slot: (-slot.free, slot.node.name, slot.resource, slot.profile))


def _every_slot(scope: Scope) -> Iterator[Slot]:
    for item in mig_nodes(scope):
        yield from _slots_of(scope, item)
    for node in scope.accelerator_nodes:
        for place in filter(is_claimed_slice, offered(scope, node)):
            yield Slot(place=place, profile=place.product)


def _slots_of(scope: Scope, item: MigNode) -> Iterator[Slot]:
    """Slices that a device plugin offers."""
    entries = [entry for entry in item.view.mig if entry.count] if item.strategy == "mixed" else []
    pairs = [(entry, entry.profile) for entry in entries]
    if item.strategy == "single" and item.view.gpu.product.mig_profile:
        pairs = [(item.view.gpu, item.view.gpu.product.mig_profile)]
    for entry, profile in pairs:
        if item.allocatable.get(entry.advertised_as) and mig_geometry.max_instances(item.model, profile) != 0:
            place = Place(
                node=item.node,
                view=item.view,
                resource=entry.advertised_as,
                free=max(scope.free(item.node, entry.advertised_as), 0),
                capacity=item.allocatable[entry.advertised_as],
                shared=entry.factor > 1,
            )
            yield Slot(place=place, profile=profile)


def chosen(scope: Scope) -> list[Slot]:
    """The slots to ask: of each sort one, or all. Raises :class:`NotApplicable` without slices, :class:`Inconclusive` without free ones."""
    found = slots(scope)
    if not found:
        raise NotApplicable("NoMigDevice", "no Ready, schedulable node offers MIG devices")
    by_place = {slot.key: slot for slot in found}
    return [by_place[_key(place)] for place in choose_places(scope, [slot.place for slot in found])]


def absent_profile(scope: Scope, nodes: Sequence[MigNode], node: Node) -> str:
    """A profile that a device of this product could have and that no node of the cluster offers, to plugins or to claims."""
    offered_here = {name for other in scope.snapshot.nodes for name in other.capacity}
    claimed = published_profiles(scope)
    model = next((item.model for item in nodes if item.node.name == node.name), "")
    geometry = mig_geometry.geometry_of(model)
    profiles = [*(geometry.maxima if geometry else ()), *_COMMON]
    return next(str(name) for name in profiles if mig_geometry.resource_name(name) not in offered_here and name not in claimed)


def probe_slices(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """MIG-07: two pods per profile on one node, one slice each, and one pod that asks for a profile nobody offers."""
    nodes = list(mig_nodes(scope))
    known = {slot.key for slot in _every_slot(scope)}
    able = {slot.key: slot for slot in chosen(scope)}

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        yield from _slice(scope, workspace, {number: able[_key(place)] for number, place in batch}, nodes)

    def unfit(place: Place) -> str:
        return "" if _key(place) in known else f"its {place.resource} is no MIG device"

    places = [slot.place for slot in able.values()]
    pods = scope.policy.probes.at_once if any(map(is_made_on_demand, places)) else 2  # profiles that compete are asked one by one
    yield from per_node(scope, in_batches(scope, workspace, places, pods, ask), unfit, offered=offered)


def _slice(scope: Scope, workspace: Workspace, places: Mapping[int, Slot], nodes: Sequence[MigNode]) -> Iterator[PlaceFinding]:
    """What is found on slots that are asked at the same time; the profile that nobody offers is asked in the first batch."""
    probes = scope.policy.probes
    asked = {f"mig-07-{index}-{number}": slot for index, slot in places.items() for number in range(min(slot.free, 2))}
    first = next((slot for index, slot in places.items() if index == 0), None)
    absent = absent_profile(scope, nodes, first.node) if first else ""
    begun = time.monotonic()
    if first:
        workspace.start(_pod(scope, workspace, first, "mig-07-absent", absent, mig_geometry.resource_name(absent)))
    pods = [_pod(scope, workspace, slot, name, slot.profile, slot.resource) for name, slot in asked.items()]
    ran = hold_pods(workspace, pods, END_MARKER, probes.start_seconds)
    took = time.monotonic() - begun
    seen = {name: listing_of(ran[name]) for name in asked}
    yield from zip((slot.place for slot in asked.values()), judge_slices(asked, ran, seen), strict=True)
    if first is None:
        return
    works = any(ran[name].trouble == "" for name in asked if asked[name].node.name == first.node.name)
    control = "" if works else f"no pod that asked for an offered slice ran on {first.node.name}"
    waited = watch_pending(workspace, ["mig-07-absent"], max(probes.window_seconds, FACTOR * took) if works else 0.0)["mig-07-absent"]
    if first.place.device_class:
        finding = judge_pending(waited, f"a {absent} of {first.place.device_class}", _NOBODY, control, words=CANNOT_ALLOCATE)
    else:
        finding = judge_pending(waited, mig_geometry.resource_name(absent), _NOBODY, control)
    yield first.place, finding


def _pod(scope: Scope, workspace: Workspace, slot: Slot, name: str, profile: str, resource: str) -> Json:
    """A pod that asks for one slice in the way in which the slot's node offers slices: a claim by profile, a plugin by resource.

    With strategy single the profile is that of a resource of another name.
    """
    first = name.endswith("-0")  # one pod of each slot computes
    if slot.place.device_class:
        run = listing_run(scope, then=STAY) if first else HOLD_SCRIPT
        return selecting_pod(scope, workspace, slot.place, name, run, [profile_selector(profile)])
    if first:
        return listing_pod(scope, slot.node, name, resources={resource: 1}, then=STAY)
    return pinned_pod(scope, slot.node, name, HOLD_SCRIPT, resources={resource: 1})


def listing_of(ran: ProbeResult) -> Listing | str:
    """What nvidia-smi listed in the probe's container, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    lines = ran.logs.get("probe", "").replace("\r", "").split("\n")
    if "## smi" not in lines:
        return "the probe's output has no section of nvidia-smi"
    start = lines.index("## smi") + 1
    end = next((index for index in range(start, len(lines)) if lines[index].startswith("## ")), len(lines))
    try:
        return parse_listing("\n".join(lines[start:end]))
    except Unreadable as error:
        return f"nvidia-smi -L could not be read: {error}"


def judge_slices(asked: Mapping[str, Slot], ran: Mapping[str, ProbeResult], seen: Mapping[str, Listing | str]) -> Iterator[Finding]:
    """One finding per pod: exactly one MIG device, of the profile asked for, that no other pod sees."""
    holders: dict[str, list[str]] = {}
    for name, listing in seen.items():
        for uuid in set(listing.uuids) if isinstance(listing, Listing) else ():
            holders.setdefault(uuid, []).append(name)
    for name, slot in asked.items():
        listing, subject = seen[name], ran[name].subject
        expected = f"one MIG device {slot.profile} on {slot.node.name}" + ("" if slot.shared else ", its own")
        if isinstance(listing, str):
            yield undecided(subject, cause="ProbeDidNotRun", message=listing, source=SOURCE)
            continue
        if not listing.gpus and listing.failures:
            yield undecided(
                subject, cause="ProbeDidNotRun", message=f"nvidia-smi does not work in the pod: {listing.failures[0]}", source=SOURCE
            )
            continue
        devices = [device for gpu in listing.gpus for device in gpu.mig]
        whole = [gpu.uuid for gpu in listing.gpus if not gpu.mig]
        shown = ", ".join([f"{device.profile} {device.uuid}" for device in devices] + [f"whole {uuid}" for uuid in whole]) or "no device"
        others = sorted({other for device in devices for other in holders[device.uuid] if other != name})
        about = About(subject, SOURCE, expected, shown)
        if len(devices) != 1 or whole:
            count = f"{len(devices)} MIG devices" + (f" and {len(whole)} whole ones" if whole else "")
            message = f"it asked for one {slot.resource} and sees {count}: slices do not isolate here"
            yield about.bad(message, cause="SlicesNotIsolated")
        elif devices[0].profile != slot.profile:
            message = f"it asked for one {slot.resource} and got a {devices[0].profile}: memory and compute are not those it was sized for"
            yield about.bad(message, cause="WrongSliceGiven")
        elif others and not slot.shared:
            message = f"{devices[0].uuid} is also seen by {', '.join(others)}: one slice was given to two pods"
            yield about.bad(message, cause="SlicesNotIsolated")
        else:
            good, sight = about.ok(), visible_to(ran[name])
            yield good if isinstance(sight, str) else computing(good, sight, shared=slot.shared)
