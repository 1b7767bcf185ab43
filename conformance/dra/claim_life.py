"""DRA-05: one claim from its template to its release, and the device that its pod has by nvidia-smi or by its render nodes.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#other-drivers.
"""

import re
import time
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from conformance.probes.claim_pods import claims_by_pod, uid_of
from conformance.probes.computing import END_MARKER, HOLD_SCRIPT, VisibleDevices, visible_to
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import ProbeResult, hold_pods, pinned_pod
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import HeldClaim, held_claim, published
from fixtures.model.dra.inventory import DeviceId
from fixtures.model.dra.slices import CLAIMS, SliceDevice
from fixtures.model.placement.free_devices import Place, usable_places, why_unlistable
from fixtures.ownership import owned
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, Outcome
from fixtures.verdict.subjects import NotApplicable

RENDER_SCRIPT = f'echo "## dri"; ls -1 /dev/dri 2>&1; echo "## drm"; ls -l /sys/class/drm 2>&1; echo "{END_MARKER}"; sleep 3600'
"""Prints the render nodes in /dev and to which PCI device each of the machine belongs; keeps the devices until the pod is deleted."""

_NODE = re.compile(r"renderD\d{1,4}\Z")
_LINK = re.compile(r"(?P<node>renderD\d{1,4}) -> \S*/(?P<parent>[^/\s]+)/drm/(?P=node)\s*\Z")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ATTRIBUTES = ("pciBusID", "pciAddress", "pciAddr")


class RenderNodes(msgspec.Struct, frozen=True):
    """Render nodes that a container has, with the PCI address of each."""

    by_name: dict[str, str]

    @property
    def addresses(self) -> set[str]:
        """Their PCI addresses."""
        return set(self.by_name.values())

    @property
    def text(self) -> str:
        """One line of evidence."""
        return ", ".join(f"{name} ({address})" for name, address in sorted(self.by_name.items())) or "no render node"


def pci_address(device: SliceDevice) -> str:
    """The PCI address that a slice has of a device, or empty."""
    found = next((text for name in _ATTRIBUTES if (text := device.attribute(name).lower())), "")
    return found if _ADDRESS.match(found) else ""


def render_nodes(text: str) -> RenderNodes | str:
    """Read the output of :data:`RENDER_SCRIPT`; a clause says why it tells nothing."""
    head, marked, rest = text.replace("\r", "").partition("## drm\n")
    if not marked or not head.startswith("## dri\n") or END_MARKER not in rest.splitlines():
        return "the probe's output is incomplete"
    links = {found["node"]: found["parent"].lower() for line in rest.splitlines() if (found := _LINK.search(line))}
    if not links:
        return "its container cannot see which render node belongs to which device (/sys/class/drm)"
    names = [line.strip() for line in head.splitlines() if _NODE.match(line.strip())]
    if strange := [name for name in names if not _ADDRESS.match(links.get(name, ""))]:
        return f"{strange[0]} of its container is no PCI device of its own (a partition)"
    return RenderNodes({name: links[name] for name in names})


RELEASE_SECONDS = 60.0
"""How long a claim may stay allocated after its pod was deleted; Kubernetes takes about a second."""

_SOURCE = "ResourceClaim, ResourceSlice, nvidia-smi -L in the container"
_EXPECTED = "allocated, reserved for the pod, prepared, the same UUID in slice and container, released"
_NOT_PREPARED = "FailedPrepareDynamicResources"


class ClaimLife(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a probe's claim. ``claim`` is as it was beside its pod; None: none was made.

    ``unlistable`` says why the pod cannot list its devices: then its render nodes are compared. ``unprepared`` is the kubelet's own
    complaint. ``kept``: the claim was still allocated after ``waited`` seconds. ``lingers``: so was its pod.
    """

    ran: ProbeResult
    pod_uid: str
    claim: HeldClaim | None
    unlistable: str = ""
    unprepared: str = ""
    kept: bool = False
    lingers: bool = False
    waited: float = RELEASE_SECONDS


def probe_claims(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """One finding for every accelerator node. Raises :class:`NotApplicable` where nothing can be claimed."""
    places = [place.by_claim for place in usable_places(scope) if place.device_class]
    if not places:
        raise NotApplicable("NoClaimedDevice", "no Ready, schedulable node offers a device to claims")
    devices = published(scope)

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        for place, life in _live(scope, workspace, batch):
            yield place, judge_life(life, devices)

    yield from per_node(scope, in_batches(scope, workspace, choose_places(scope, places), 1, ask), not_claimed)


def not_claimed(place: Place) -> str:
    """Why a place has no claimed device, or empty."""
    return "" if place.device_class else f"{place.resource} comes from a device plugin, not from claims"


def _live(scope: Scope, workspace: Workspace, batch: list[tuple[int, Place]]) -> Iterator[tuple[Place, ClaimLife]]:
    places = {f"dra-05-{number}": place for number, place in batch}
    scripts = {name: RENDER_SCRIPT if why_unlistable(place) else HOLD_SCRIPT for name, place in places.items()}
    pods = [pinned_pod(scope, place.node, name, scripts[name], resources={place.resource: 1}) for name, place in places.items()]
    ran = hold_pods(workspace, pods, END_MARKER, scope.policy.probes.start_seconds)
    namespace, cluster = workspace.namespace(), workspace.cluster
    uids = {name: uid_of(workspace, name) for name in places}
    claims = {pod: held_claim(item) for pod, item in claims_by_pod(workspace).items()}
    unprepared = {name: _unprepared(workspace, uids[name]) if ran[name].trouble else "" for name in places}
    for name, uid in uids.items():
        if uid:
            owned.ask_deletion(cluster, "pods", name, namespace, uid)
    seconds = min(RELEASE_SECONDS, scope.policy.probes.start_seconds)
    kept = _kept(workspace, {claim.uid for claim in claims.values()}, seconds)
    for name, place in places.items():
        claim, uid, why = claims.get(uids[name]), uids[name], why_unlistable(place)
        life = ClaimLife(ran=ran[name], pod_uid=uid, claim=claim, unlistable=why, unprepared=unprepared[name], waited=seconds)
        if claim is not None and claim.uid in kept:
            life = msgspec.structs.replace(life, kept=True, lingers=uid_of(workspace, name) == uid != "")
        yield place, life


def _unprepared(workspace: Workspace, uid: str) -> str:
    """What the kubelet says of a pod's claims that it cannot prepare, or empty."""
    path = workspace.cluster.path("events", workspace.namespace())
    answer = workspace.cluster.request("GET", path, query={"fieldSelector": f"involvedObject.uid={uid}"})
    items = mappings(answer.json().get("items")) if answer.ok else []
    return next((text_of(item.get("message"))[:300] for item in items if item.get("reason") == _NOT_PREPARED), "")


def _kept(workspace: Workspace, uids: set[str], seconds: float) -> set[str]:
    """Which of the claims are still allocated when the time is up."""
    left = set(uids)

    def allocated(claims: Mapping[str, Json]) -> str:
        nonlocal left
        left = {claim.uid for claim in map(held_claim, claims.values()) if claim.given} & uids
        return " ".join(left)

    selector = f"{owned.RUN_LABEL}={workspace.run_id}"
    with Observation(workspace.cluster, CLAIMS, workspace.namespace(), labels=selector) as observation:
        observation.await_shown(time.monotonic() + seconds, allocated)
    return left


def judge_life(life: ClaimLife, devices: Mapping[DeviceId, SliceDevice]) -> Finding:
    """What is wrong first, then what is not known."""
    place, why = life.ran.subject, life.ran.trouble
    names = [device.id for device in life.claim.given] if life.claim is not None else []
    about = About(place, _SOURCE, _EXPECTED, f"{', '.join(map('/'.join, names)) or 'no device'} on node {life.ran.node or 'none'}")
    wrong = partial(about.bad, cause="ClaimNotCarriedOut")
    if not life.pod_uid:
        return about.undecided("another program deleted the pod while it was watched", cause="ProbeDisturbed")
    if life.claim is None:
        return wrong(f"no claim was made of the pod's template: is the resource claim controller running? ({why})")
    if not names:
        return about.undecided(f"its claim got no device, which another pod may have taken meanwhile: {why}", cause="ProbeDisturbed")
    if life.unprepared:
        return wrong(f"the device was allocated, and the kubelet could not prepare it: {life.unprepared}")
    users = [user.uid for user in life.claim.consumers]
    if life.pod_uid not in users:
        return wrong(f"the claim is reserved for {', '.join(users) or 'no pod'}, not for its pod {life.pod_uid}")
    if why:
        return about.undecided(f"the device was allocated, and the pod did not run: {why}", cause="ProbeDidNotRun")
    seen = _compared(life, names, devices)
    if isinstance(seen, Finding) and (seen.outcome is Outcome.BAD or not life.kept):
        return seen
    if life.kept and not life.lingers:
        return wrong(f"its pod is gone, and the claim still holds the device after {life.waited:g} s: no other pod gets it")
    if life.kept:
        return about.undecided("its pod hangs in its deletion, so that its claim was not seen released", cause="PodHangsInDeletion")
    return about.ok(f"{about.observed}, {seen}, released")


def _compared(life: ClaimLife, names: list[DeviceId], devices: Mapping[DeviceId, SliceDevice]) -> Finding | str:
    """The UUID that slice and container agree on; else what is wrong, or why that is not known."""
    if life.unlistable:
        return _compared_by_address(life, names, devices)
    about, sight = About(life.ran.subject, _SOURCE, _EXPECTED), visible_to(life.ran)
    if not isinstance(sight, VisibleDevices):
        return about.undecided(sight, cause="ProbeDidNotRun")
    if missing := [name for name in names if name not in devices or not devices[name].attribute("uuid")]:
        lack = f"the slices that were read have no UUID of {'/'.join(missing[0])}"
        return about.undecided(f"{lack}, so nothing can be compared with {sight.text}")
    if not sight.uuids and (sight.failures or sight.exit_code):
        return about.undecided(f"nvidia-smi does not work in the pod: {sight.text}", cause="ProbeDidNotRun")
    wanted = {devices[name].attribute("uuid") for name in names}
    if wanted != set(sight.uuids):
        message = f"the claim was allocated {', '.join(sorted(wanted))}, and the container {sight.text}: it uses what others may be given"
        return about.bad(message, cause="WrongDeviceGiven", observed=sight.text)
    return f"UUID {', '.join(sorted(wanted))} in slice and container"


def _compared_by_address(life: ClaimLife, names: list[DeviceId], devices: Mapping[DeviceId, SliceDevice]) -> Finding | str:
    """The PCI addresses that slice and container agree on; else what is wrong, or why that is not known."""
    about, unknown = About(life.ran.subject, _SOURCE, _EXPECTED), "allocated and prepared; what the container got is not known"
    wanted = {pci_address(devices[name]) if name in devices else "" for name in names}
    if "" in wanted:
        message = f"{unknown}: {life.unlistable}, and its slice has no PCI address of the device"
        return about.undecided(message, cause="ProbeDidNotRun")
    seen = render_nodes(life.ran.logs.get("probe", ""))
    if not isinstance(seen, RenderNodes):
        return about.undecided(f"{unknown}: {life.unlistable}, and {seen}", cause="ProbeDidNotRun")
    if seen.addresses != wanted:
        has = f"the claim was allocated {', '.join(sorted(wanted))}, and the container has {seen.text}"
        return about.bad(f"{has}: it uses what others may be given", cause="WrongDeviceGiven", observed=seen.text)
    return f"PCI address {', '.join(sorted(wanted))} in slice and container"
