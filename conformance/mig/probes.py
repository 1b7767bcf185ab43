"""MIG-07: pods ask for slices, and what they see is compared with what they asked for."""

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.probes.claim_pods import CANNOT_ALLOCATE, selecting_pod
from conformance.probes.computing import END_MARKER, HOLD_SCRIPT, STAY, computing, listing_of, listing_pod, listing_run, visible_to
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import FACTOR, ProbeResult, hold_pods, judge_pending, pinned_pod, watch_pending
from fixtures.grouping import grouped
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.mig_nodes import MigNode, mig_nodes
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.placement.free_devices import NVIDIA_DRIVER, Place, places_of
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_ATTRIBUTE = f'device.attributes["{NVIDIA_DRIVER}"].profile'


def offered(scope: Scope, node: Node) -> list[Place]:
    """Places of a node; those of claimed MIG devices are split by profile, which stands in ``product``."""
    return [part for place in places_of(scope, node) for part in _by_profile(scope, place)]


def profile_selector(profile: str) -> str:
    """The CEL expression that chooses MIG devices of a profile."""
    return f'{_ATTRIBUTE} == "{profile}"'


def is_made_on_demand(place: Place) -> bool:
    """Whether a claim makes the MIG device that it gets, so that profiles compete for one GPU (shared counters)."""
    return any(device.body.counters for device in place.devices)


def _by_profile(scope: Scope, place: Place) -> Iterator[Place]:
    profiles = set(map(_profile, place.devices))
    if place.driver != NVIDIA_DRIVER or not profiles or "" in profiles:
        yield place
        return
    for profile in sorted(profiles):
        devices = tuple(device for device in place.devices if _profile(device) == profile)
        taken = sum(device.id in scope.claims.holders and not device.body.shareable for device in devices)
        free = max(min(len(devices) - taken, place.free), 0)
        yield msgspec.structs.replace(place.by_claim, product=profile, devices=devices, capacity=len(devices), free=free)


def _profile(device: InventoryDevice) -> str:
    return device.body.attribute("profile") if device.body.type == "mig" else ""


SOURCE = "nvidia-smi -L in the container"
_ABSENT = "no node offers this profile"
_COMMON = ("1g.5gb", "1g.10gb", "1g.12gb", "1g.18gb", "1g.24gb", "2g.20gb", "3g.40gb", "7g.80gb")


def _key(place: Place) -> tuple[str, str, str]:
    """What tells slices from others: a plugin's by their resource, claimed ones by their profile."""
    return place.node.name, place.resource, place.product if place.device_class else ""


def slices(scope: Scope) -> list[Place]:
    """Slices on usable nodes, most free first, with their profile as ``product``.

    What is no profile of the node's product is MIG-02's and MIG-03's finding and not asked for.
    """
    usable = {node.name for node in scope.usable_nodes}
    found = [place for place in _every_slice(scope) if place.node.name in usable]
    return sorted(found, key=lambda place: (-place.free, place.node.name, place.resource, place.product))


def _every_slice(scope: Scope) -> Iterator[Place]:
    for item in mig_nodes(scope):
        yield from _of_plugin(scope, item)
    for node in scope.accelerator_nodes:
        for place in offered(scope, node):
            if place.product and place.devices and all(_profile(device) == place.product for device in place.devices):
                yield place


def _of_plugin(scope: Scope, item: MigNode) -> Iterator[Place]:
    """Slices that a device plugin offers."""
    entries = [entry for entry in item.view.mig if entry.count] if item.strategy == "mixed" else []
    pairs = [(entry, entry.profile) for entry in entries]
    if item.strategy == "single" and item.view.gpu.product.mig_profile:
        pairs = [(item.view.gpu, item.view.gpu.product.mig_profile)]
    for entry, profile in pairs:
        if item.allocatable.get(entry.advertised_as) and mig_geometry.max_instances(item.model, profile) != 0:
            yield Place(
                node=item.node,
                view=item.view,
                resource=entry.advertised_as,
                free=max(scope.free(item.node, entry.advertised_as), 0),
                capacity=item.allocatable[entry.advertised_as],
                shared=entry.factor > 1,
                product=profile,
            )


def chosen(scope: Scope) -> list[Place]:
    """The slices to ask: of each sort one, or all. Raises :class:`NotApplicable` without any, :class:`Inconclusive` without free ones."""
    if not (found := slices(scope)):
        raise NotApplicable("NoMigDevice", "no Ready, schedulable node offers MIG devices")
    return choose_places(scope, found)


def absent_profile(scope: Scope, nodes: Sequence[MigNode], node: Node) -> str:
    """A profile that a device of this product could have and that no node of the cluster offers, to plugins or to claims."""
    offered_here = {name for other in scope.snapshot.nodes for name in other.capacity}
    claimed = {_profile(device) for items in scope.dra_inventory.values() for item in items for device in item.devices}
    model = next((item.model for item in nodes if item.node.name == node.name), "")
    geometry = mig_geometry.geometry_of(model)
    profiles = [*(geometry.maxima if geometry else ()), *_COMMON]
    return next(str(name) for name in profiles if mig_geometry.resource_name(name) not in offered_here and name not in claimed)


def probe_slices(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """MIG-07: two pods per profile on one node, one slice each, and one pod that asks for a profile that no node offers."""
    nodes = list(mig_nodes(scope))
    known, places = set(map(_key, _every_slice(scope))), chosen(scope)

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        yield from _slice(scope, workspace, dict(batch), nodes)

    def unfit(place: Place) -> str:
        return "" if _key(place) in known else f"its {place.resource} is no MIG device"

    pods = scope.policy.probes.at_once if any(map(is_made_on_demand, places)) else 2  # profiles that compete are asked one by one
    yield from per_node(scope, in_batches(scope, workspace, places, pods, ask), unfit, offered=offered)


def _slice(scope: Scope, workspace: Workspace, places: Mapping[int, Place], nodes: Sequence[MigNode]) -> Iterator[PlaceFinding]:
    """What is found on slices that are asked at the same time; the profile that no node offers is asked in the first batch."""
    probes = scope.policy.probes
    asked = {f"mig-07-{index}-{number}": place for index, place in places.items() for number in range(min(place.free, 2))}
    first = places.get(0)
    absent = absent_profile(scope, nodes, first.node) if first else ""
    begun = time.monotonic()
    if first:
        workspace.start(_pod(scope, workspace, first, "mig-07-absent", absent, mig_geometry.resource_name(absent)))
    pods = [_pod(scope, workspace, place, name, place.product, place.resource) for name, place in asked.items()]
    ran = hold_pods(workspace, pods, END_MARKER, probes.start_seconds)
    took = time.monotonic() - begun
    yield from zip(asked.values(), judge_slices(asked, ran), strict=True)
    if first is None:
        return
    works = any(ran[name].trouble == "" for name in asked if asked[name].node.name == first.node.name)
    control = "" if works else f"no pod that asked for an offered slice ran on {first.node.name}"
    waited = watch_pending(workspace, ["mig-07-absent"], max(probes.window_seconds, FACTOR * took) if works else 0.0)["mig-07-absent"]
    resource = f"a {absent} of {first.device_class}" if first.device_class else mig_geometry.resource_name(absent)
    yield first, judge_pending(waited, resource, _ABSENT, control, words=CANNOT_ALLOCATE if first.device_class else "")


def _pod(scope: Scope, workspace: Workspace, place: Place, name: str, profile: str, resource: str) -> Json:
    """A pod that asks for one slice in the way in which the node offers slices: a claim by profile, a plugin by resource.

    With strategy single the profile is that of a resource of another name.
    """
    first = name.endswith("-0")  # one pod of each place computes
    if place.device_class:
        run = listing_run(scope, then=STAY) if first else HOLD_SCRIPT
        return selecting_pod(scope, workspace, place, name, run, [profile_selector(profile)])
    if first:
        return listing_pod(scope, place.node, name, resources={resource: 1}, then=STAY)
    return pinned_pod(scope, place.node, name, HOLD_SCRIPT, resources={resource: 1})


def judge_slices(asked: Mapping[str, Place], ran: Mapping[str, ProbeResult]) -> Iterator[Finding]:
    """One finding per pod: exactly one MIG device, of the profile asked for, that no other pod sees."""
    seen = {name: listing_of(ran[name]) for name in asked}
    listings = ((name, listing) for name, listing in seen.items() if not isinstance(listing, str))
    holders = grouped((uuid, name) for name, listing in listings for uuid in set(listing.uuids))
    for name, place in asked.items():
        listing = seen[name]
        about = About(
            ran[name].subject, SOURCE, f"one MIG device {place.product} on {place.node.name}{'' if place.shared else ', its own'}"
        )
        if isinstance(listing, str):
            yield about.undecided(listing, cause="ProbeDidNotRun")
            continue
        devices = [device for gpu in listing.gpus for device in gpu.mig]
        whole = [gpu.uuid for gpu in listing.gpus if not gpu.mig]
        shown = ", ".join([*(f"{device.profile} {device.uuid}" for device in devices), *(f"whole {uuid}" for uuid in whole)])
        others = sorted({other for device in devices for other in holders[device.uuid] if other != name})
        about = msgspec.structs.replace(about, observed=shown)
        if len(devices) != 1 or whole:
            count = f"{len(devices)} MIG devices" + (f" and {len(whole)} whole ones" if whole else "")
            message = f"it asked for one {place.resource} and sees {count}: slices do not isolate here"
            yield about.bad(message, cause="SlicesNotIsolated")
        elif devices[0].profile != place.product:
            message = f"it asked for one {place.resource} and got a {devices[0].profile}: memory and compute are not those it was sized for"
            yield about.bad(message, cause="WrongSliceGiven")
        elif others and not place.shared:
            message = f"{devices[0].uuid} is also seen by {', '.join(others)}: one slice was given to two pods"
            yield about.bad(message, cause="SlicesNotIsolated")
        else:
            yield computing(about.ok(), visible_to(ran[name]), shared=place.shared)
