"""The probe of OBS-06: a device pod that fits on no node, and as its control the same pod with one device."""

import time
from collections.abc import Iterator, Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.events import ReasonKind, Unschedulable, parse_unschedulable
from conformance.probes.node_sampling import choose_places
from conformance.probes.running import absence_seconds
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json, Pod, Toleration
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_state import disturbance
from fixtures.model.dra.claims import Request
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.model.placement.claimable import could_choose
from fixtures.model.placement.free_devices import Place, usable_places
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

REASON = "FailedScheduling"
SOURCE = "events of the pod"
NO_DEVICES = "cannot allocate"


class Unplaced(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of the pod that cannot be placed. ``messages``: of its FailedScheduling events, in order of arrival."""

    asked: int
    resource: str
    node: str
    condition: str
    messages: tuple[str, ...]
    window: float
    way: str = ""
    by_dra: bool = False  # no resource of the node is short: the scheduler speaks of claims
    obstacle: str = ""  # why no scheduler was asked: the pod is gone, or a gate of others holds it


def probe_unplaced(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """OBS-06: one more device than the largest node has is asked for; the control asks for one and must be scheduled."""
    places = usable_places(scope)
    if not places:
        raise NotApplicable("NoUsableDevice", "no Ready, schedulable node offers a device")
    place = choose_places(scope, places)[0]
    impossible = 1 + most_on_a_node(scope, place)
    seconds = _control(scope, workspace, place)
    window = absence_seconds(scope, seconds)
    name, namespace = "obs-06-impossible", workspace.namespace()
    with Observation(workspace.cluster, "events", namespace, fields=f"involvedObject.name={name}") as observation:
        workspace.start(_pod(scope, place, name, impossible))
        workspace.wait([name], tried, scope.policy.probes.start_seconds)  # a busy scheduler comes to it late: silence counts from then on
        messages: tuple[str, ...] = ()
        for objects in observation.until(time.monotonic() + window):
            messages = scheduling_messages(objects)
            if any(names_reason(message, place.resource, by_dra=bool(place.device_class)) for message in messages):
                break
    state = workspace.wait([name], lambda pods: pods[0] if pods else None, scope.policy.probes.start_seconds)
    condition = state.condition("PodScheduled") if state is not None else None
    seen = Unplaced(
        asked=impossible,
        resource=place.resource,
        way=place.way,
        by_dra=bool(place.device_class),
        node=state.node_name if state is not None else "",
        condition=f"{condition.status}/{condition.reason}: {condition.message}" if condition is not None else "",
        messages=messages,
        window=window,
        obstacle="the probe pod was deleted by someone else" if state is None else disturbance(state),
    )
    yield judge_unplaced(Subject("Pod", name, namespace), seen)


def most_on_a_node(scope: Scope, place: Place) -> int:
    """The most devices that one node has of what a place offers, held and tainted ones too."""
    by_plugin = max(scope.device_allocatable(node).get(place.resource, 0) for node in scope.accelerator_nodes)
    if not place.device_class:
        return by_plugin
    wanted = Request(name="", device_class=place.device_class, count=1, expressions=(), admin=False)
    return max(by_plugin, *(could_choose(scope, drivers, wanted) for drivers in scope.dra_inventory.values()))


def _control(scope: Scope, workspace: Workspace, place: Place) -> float:
    """Seconds until the same pod with one device had its node. Raises :class:`Inconclusive` when it got none."""
    began = time.monotonic()
    name = workspace.start(_pod(scope, place, "obs-06-control", 1))
    if workspace.wait([name], _bound, scope.policy.probes.start_seconds) is None:
        message = f"the same pod with one {place.resource} got no node either, so a missing event would prove nothing ({place})"
        raise Inconclusive("PositiveControlFailed", message)
    return time.monotonic() - began


def _bound(pods: list[Pod]) -> bool | None:
    return True if pods and pods[0].node_name else None


def tried(pods: list[Pod]) -> bool | None:
    """Whether the scheduler has decided about the pod. The event of a refusal is on its way when the condition is written."""
    waits = bool(pods) and not pods[0].node_name and pods[0].condition("PodScheduled") is None
    return None if waits else True


def _pod(scope: Scope, place: Place, name: str, count: int) -> Json:
    """A pod for any accelerator node: it tolerates every fence, so that only the devices decide."""
    probes = scope.policy.probes
    tolerations: dict[str, Toleration] = {str(item): item for node in scope.accelerator_nodes for item in fence_tolerations(scope, node)}
    return probe_pod(
        PodShape(
            name=name,
            image=probes.image_for([place.resource]),
            script="id -u",
            resources={place.resource: count},
            tolerations=[*tolerations.values(), *probes.tolerations],
            run_as_user=probes.run_as_user,
            pull_secrets=probes.pull_secrets,
        )
    )


def scheduling_messages(events: Mapping[str, Json]) -> tuple[str, ...]:
    """Messages of the FailedScheduling events, bounded. ``note`` is the field of events.k8s.io/v1."""
    found = (event for event in events.values() if event.get("reason") == REASON)
    return tuple(str(event.get("message") or event.get("note") or "")[:4096] for event in found)


def _parsed(message: str) -> Unschedulable | None:
    try:
        return parse_unschedulable(message)
    except Unreadable:
        return None


def names_reason(message: str, resource: str, *, by_dra: bool = False) -> bool:
    """Whether a message says that nodes are short of this very resource, or of devices for claims where DRA serves it."""
    parsed = _parsed(message)
    return parsed is not None and (resource in parsed.insufficient or (by_dra and bool(short_of_claims(parsed))))


def short_of_claims(message: Unschedulable) -> int:
    """Nodes of which the scheduler says that they lack devices for a pod's claims (docs/facts/dra.md#extended-resources-by-claim)."""
    return sum(reason.count or 1 for reason in message.about(ReasonKind.DRA) if NO_DEVICES in reason.text)


def judge_unplaced(subject: Subject, seen: Unplaced) -> Finding:
    """OBS-06: an event is there, can be read, and names the resource that is short."""
    wanted = f'"{NO_DEVICES} all claims"' if seen.by_dra else f"Insufficient {seen.resource}"
    expected = f"{REASON} naming {wanted} within {seen.window:.1f} s"
    asked = f"{seen.asked} {seen.resource} (by {seen.way})" if seen.by_dra else f"{seen.asked} {seen.resource}"
    about = About(subject, SOURCE, expected)
    if seen.node:
        return about.undecided(
            f"a pod that asks for {asked}, more than any node has, was placed on {seen.node}", source="pod.spec.nodeName"
        )
    if seen.obstacle and not seen.messages:
        return about.undecided(f"no {REASON} event, and {seen.obstacle}", cause="EventsUnread")
    if not seen.messages:
        message = f"a pod that asks for {asked} waits and no {REASON} event says why"
        return about.bad(message, cause="NoSchedulingEvent", observed=f"no {REASON} event; condition {seen.condition or 'none'}"[:600])
    for text in seen.messages:
        parsed = _parsed(text)
        if parsed is not None and names_reason(text, seen.resource, by_dra=seen.by_dra):
            short = parsed.insufficient.get(seen.resource) or short_of_claims(parsed)
            nodes = f"{short} of {parsed.total if parsed.total is not None else 'all'} nodes"
            return about.ok(f"{asked}: {wanted} on {nodes}: {text}"[:600])
    message = f"the event of a pod that asks for {asked} does not name the resource that is short: {seen.messages[-1]}"
    return about.bad(message[:600], cause="SchedulingEventUnclear", observed=seen.messages[-1][:600])
