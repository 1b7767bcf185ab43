"""DRA-06: two exclusive claims are given two devices, and a claim whose selector chooses no device is given none.

Only allocations are compared: what containers see of them is DRA-05's and ISO-03's. Facts: docs/facts/dra.md#claims.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.dra.claim_life import not_claimed
from conformance.probes.claim_pods import CANNOT_ALLOCATE, await_allocated, selecting_pod, uid_of
from conformance.probes.computing import HOLD_SCRIPT
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import absence_seconds, await_running, judge_pending, watch_pending
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import held_claim, published
from fixtures.model.dra.inventory import DeviceId
from fixtures.model.dra.slices import SliceDevice
from fixtures.model.placement.free_devices import Place, usable_places
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, Outcome
from fixtures.verdict.subjects import NotApplicable, Subject

NO_DRIVER = "no-such-driver.gpu-conformance.example"
"""A name that no driver has: a claim that asks for its devices must stay unallocated."""

_SOURCE = "ResourceClaim.status.allocation of both claims"
_EXPECTED = "a device that the other claim was not given"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the claim of a probe's pod was given. ``trouble`` says how the pod fared if it was given nothing."""

    pod: Subject
    devices: tuple[DeviceId, ...] = ()
    shares: bool = False  # a share of a device, which other claims may have shares of
    trouble: str = ""


def probe_exclusive(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """One finding for every accelerator node. Raises :class:`NotApplicable` where nothing can be claimed by one claim at a time."""
    claimed = [place.by_claim for place in usable_places(scope) if place.device_class]
    if not claimed:
        raise NotApplicable("NoClaimedDevice", "no Ready, schedulable node offers a device to claims")
    exclusive = [place for place in claimed if not place.shared]
    if not exclusive:
        raise NotApplicable("SharedDevices", "every device may be given to several claims at a time, so none is exclusive")
    devices = published(scope)

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        yield from _ask(scope, workspace, batch, devices)

    pairs, alone = [place for place in exclusive if place.capacity > 1], [place for place in exclusive if place.capacity == 1]
    chosen = [*(choose_places(scope, pairs, free=2) if pairs else ()), *(choose_places(scope, alone) if alone else ())]
    yield from per_node(scope, in_batches(scope, workspace, chosen, 3, ask), _no_question)


def _no_question(place: Place) -> str:
    if why := not_claimed(place):
        return why
    return f"devices of {place.device_class} may be given to several claims at a time" if place.shared else ""


def _ask(
    scope: Scope, workspace: Workspace, batch: list[tuple[int, Place]], devices: Mapping[DeviceId, SliceDevice]
) -> Iterator[PlaceFinding]:
    """Two pods whose claims select the driver that is there. Where they were given different devices, one that nothing can meet."""

    def start(place: Place, name: str, driver: str) -> str:
        return workspace.start(selecting_pod(scope, workspace, place, name, HOLD_SCRIPT, [f'device.driver == "{driver}"']))

    begun, seconds = time.monotonic(), scope.policy.probes.start_seconds
    pairs = {n: [start(place, f"dra-06-{n}-{index}", place.driver) for index in range(min(place.capacity, 2))] for n, place in batch}
    uids = {name: uid_of(workspace, name) for names in pairs.values() for name in names}
    claims = await_allocated(workspace, uids.values(), seconds)
    judged = {n: list(_judge(workspace, place.node, [(name, claims.get(uids[name])) for name in pairs[n]], devices)) for n, place in batch}
    yield from ((place, finding) for n, place in batch for finding in judged[n])

    whole = [(n, place) for n, place in batch if all(finding.outcome is Outcome.OK for finding in judged[n])]
    ran = await_running(workspace, [name for n, _ in whole for name in pairs[n]], max(seconds - (time.monotonic() - begun), 1.0))
    waiting: dict[str, tuple[Place, str, str]] = {}
    for n, place in whole:
        works = any(not ran[name].trouble for name in pairs[n])
        control = "" if works else f"no pod whose claim can be met ran on {place.node.name}: {ran[pairs[n][0]].trouble}"
        impossible = start(place, f"dra-06-{n}-impossible", NO_DRIVER)
        waiting[impossible] = (place, "no device meets the selector of its claim", control)
        if len(pairs[n]) < 2:
            waiting[start(place, f"dra-06-{n}-second", place.driver)] = (place, "another claim holds the node's only device", control)
    hopeless = all(control for _, _, control in waiting.values())
    watched = watch_pending(workspace, list(waiting), 0.0 if hopeless else absence_seconds(scope, time.monotonic() - begun))
    for name, (place, why, control) in waiting.items():
        yield place, judge_pending(watched[name], f"a device of {place.device_class}", why, control, words=CANNOT_ALLOCATE)


def _judge(
    workspace: Workspace, node: Node, pair: Sequence[tuple[str, Json | None]], devices: Mapping[DeviceId, SliceDevice]
) -> Iterator[Finding]:
    given = []
    for name, claim in pair:
        found, place = held_claim(claim or {}).given, Subject("Pod", name, workspace.namespace(), node.name)
        trouble = "" if found else await_running(workspace, [name], 0.0)[name].trouble
        shares = any(one.share for one in found)
        given.append(Given(pod=place, devices=tuple(one.id for one in found), shares=shares, trouble=trouble))
    yield from judge_pair(given, devices)


def judge_pair(pair: Sequence[Given], devices: Mapping[DeviceId, SliceDevice]) -> Iterator[Finding]:
    """Whether claims for one device each were given different ones. Where there is one claim, that it was given one."""
    for one in pair:
        others = [other for other in pair if other is not one]
        observed = ", ".join("/".join(device) for device in one.devices)
        about = About(one.pod, _SOURCE, observed=observed)
        if not one.devices:
            message = f"its claim got no device, which another pod may have taken meanwhile: {one.trouble or 'not allocated'}"
            yield about.undecided(message, cause="ProbeDisturbed")
        elif len(one.devices) > 1:
            message = f"its claim asks for one device and was given {len(one.devices)}: no other claim gets the rest"
            yield about.bad(message, cause="DeviceInTwoClaims", expected="one device")
        elif one.shares:
            yield about.not_judged("it was given a share of a device that several claims may have")
        elif twice := next((other for other in others if _identities(one, devices) & _identities(other, devices)), None):
            message = f"the claim of {twice.pod.name} was given the same device: each pod believes that it has it alone"
            yield about.bad(message, cause="DeviceInTwoClaims", expected=_EXPECTED)
        else:
            yield about.ok(expected=_EXPECTED if others else "one device")


def _identities(one: Given, devices: Mapping[DeviceId, SliceDevice]) -> set[object]:
    """What tells its devices apart: names, and UUIDs, under which one device may be published twice."""
    uuids = {devices[device].attribute("uuid") for device in one.devices if device in devices}
    return {*one.devices, *(uuids - {""})}
