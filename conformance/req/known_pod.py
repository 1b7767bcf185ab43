"""What is known of one pod: where it is, which devices it holds, and why it got none: by its scheduler's words and by the nodes.

Why a pod waits is what REQ-04 and REQ-12 find of it; the rows by nodes rest on the same arithmetic (:class:`FreeCapacity`).
"""

from collections.abc import Iterable, Iterator
from functools import partial

from conformance.known.answers import Known, gathered
from conformance.known.device import uuids_by_claim
from conformance.known.node import placed_since
from conformance.req.checks import check_can_be_offered
from conformance.req.waiting import check_waiting
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.budgets import hard, used
from fixtures.model.demand.pod_events import quoted, unread_events
from fixtures.model.demand.pod_state import why_not_running
from fixtures.model.demand.reserved_devices import as_reserved
from fixtures.model.devices.shares import given_by_kubelet
from fixtures.model.dra.claims import allocated_at
from fixtures.model.facts import UNKNOWN, Fact, Since, reported
from fixtures.model.jobs.pending_groups import pending_groups
from fixtures.model.nodes.pools import product_of
from fixtures.model.objects import results_of
from fixtures.model.placement.affinity import too_long
from fixtures.model.placement.claimable import claimed_devices_of
from fixtures.model.placement.fitting import FreeCapacity, constraints_not_modelled, requests_of
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable

_WAITS = "why it waits"
_REFUSALS = (Outcome.BAD, Outcome.UNDECIDED)
_BY_NODES = "status.allocatable, labels and taints of nodes, requests of bound pods"
_RESOURCES = "spec.containers[].resources"


def known_pod(scope: Scope, pod: Pod) -> Known:
    """Everything that is known of a pod."""
    waits = not pod.node_name and not pod.finished
    found, trouble = _findings(scope, pod) if waits else ({}, ())
    parts = [partial(part, scope, pod) for part in (_asked, _claims, _quotas, _held)]
    if waits:
        parts += [partial(_by_scheduler, scope, pod), partial(_found, found), partial(_by_nodes, scope, pod)]
    facts, unread = gathered(partial(_itself, pod), *parts)
    state, answer = _answer(scope, pod, facts, found)
    events = unread_events(scope.snapshot) if waits else ""
    every = tuple(dict.fromkeys(filter(None, (*unread, *trouble, events))))
    return Known(kind="Pod", name=f"{pod.namespace}/{pod.name}", state=state, answer=answer, facts=facts, unread=every)


def _answer(scope: Scope, pod: Pod, facts: Iterable[Fact], found: dict[str, Finding]) -> tuple[str, str]:
    name, (reason, words) = f"{pod.namespace}/{pod.name}", pod.ended_with
    holds = listed((fact.value.replace("; ", ", ") for fact in facts if fact.about == "asks for"), 3) or "no devices"
    leaving = " and is being deleted" if pod.metadata.deletion_timestamp else ""
    if pod.finished:
        why = f" ({reported(f'{reason} {words}'.strip(), 200)})" if reason or words else ""
        return "has ended", f"{name} has ended as {pod.phase}{why} and holds nothing any more"
    if pod.node_name:
        if pod.phase == "Running":
            return "runs", f"{name} runs on {pod.node_name}{leaving} and holds {holds}"
        return "starts", f"{name} is bound to {pod.node_name}{leaving}, holds {holds} and does not run: {quoted(why_not_running(pod))}"
    created = moment(pod.metadata.creation_timestamp)
    age = f" {duration(scope.snapshot.taken_at - created)}" if created is not None else ""
    if gates := [reported(name, 80) for name in pod.gates]:
        own = found.get("REQ-12")
        why = own.message if own is not None and own.message else "no scheduler looks at it before"
        return "waits", f"{name} has waited{age} behind the scheduling gate {listed(gates, 3)}: {why}"
    claimed = claimed_devices_of(scope, pod.spec, pod.namespace, pod.claim_statuses)
    bad = next((one.message for one in found.values() if one.outcome is Outcome.BAD), "")
    by_nodes = [f"{fact.name}: {fact.value}" for fact in facts if fact.about == _WAITS and fact.source == _BY_NODES]
    scheduler = next((fact.value for fact in facts if fact.about == _WAITS and fact.name.endswith(" says")), "")
    why = bad or claimed.not_modelled or listed(by_nodes, 3) or scheduler or "nothing says why"
    return "waits", f"{name} has waited{age} for a node{leaving}: {why}"


def _itself(pod: Pod) -> Iterator[Fact]:
    created, owner = pod.metadata.creation_timestamp or "not known", pod.controller
    rows = (
        ("phase", pod.phase or "not known", "status.phase", UNKNOWN),
        ("created", created, "metadata.creationTimestamp", Since(latest=moment(created))),
        ("owner", f"{owner.kind} {owner.name}" if owner else "", "metadata.ownerReferences", UNKNOWN),
        ("node", pod.node_name, "spec.nodeName", placed_since(pod)),
        ("nominated node", pod.nominated, "status.nominatedNodeName", UNKNOWN),
        ("scheduler", pod.scheduler_name or "default-scheduler", "spec.schedulerName", UNKNOWN),
        ("priority", str(pod.priority or ""), "spec.priority", UNKNOWN),
        *(("scheduling gate", reported(gate, 120), "spec.schedulingGates", UNKNOWN) for gate in pod.gates),
    )
    return (Fact(about="pod", name=name, value=value, source=source, since=since) for name, value, source, since in rows if value)


def _asked(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """A row for each extended resource, as the scheduler counts it."""
    for name, amount in sorted(requests_of(pod.spec).items()):
        if "/" in name or scope.is_device(name):
            yield Fact(about="asks for", name=name, value=f"{amount} {name}", source=_RESOURCES)


def _quotas(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """A row for each amount of a device that a quota of its namespace limits."""
    for quota in scope.snapshot.quotas:
        for key in sorted(hard(quota)) if quota.namespace == pod.namespace else ():
            if scope.names_device(key.removeprefix("requests.")):
                value = f"{hard(quota)[key]}, used: {used(quota).get(key, 'not known')}"
                source = f"ResourceQuota {quota.name}, spec.hard, status.used"
                yield Fact(about="quota", name=reported(key, 120), value=value, source=source)


def _claims(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """A row for each claim: what it asks for and what it was allocated."""
    made = pod.claim_statuses
    for entry in pod.claims:
        asked = scope.claims.spec_of(entry, pod.namespace, made)
        claim = scope.claims.claim_behind(entry, pod.namespace, made)
        yield _claim(scope, text_of(entry.get("name")), asked, claim, pod.namespace)
    if name := pod.extended_claim:
        entry = {"name": "extended resources", "resourceClaimName": name}
        asked, claim = scope.claims.spec_of(entry, pod.namespace, made), scope.claims.claim(pod.namespace, name)
        yield _claim(scope, "extended resources", asked, claim, pod.namespace)


def _claim(scope: Scope, name: str, asked: Json | str, claim: Json | None, namespace: str) -> Fact:
    ways = [] if isinstance(asked, str) else [ways[0] for ways in scope.claims.ways_of(asked) if ways]
    wants = asked if isinstance(asked, str) else listed((f"{one.count or 'all'} of {one.device_class}" for one in ways), 4)
    meta = mapping(claim, "metadata")
    given = ["/".join(text_of(result.get(key)) for key in ("driver", "pool", "device")) for result in results_of(claim)] if claim else []
    state = f"allocated: {listed(given, 8)}" if given else "not allocated" if claim else "no ResourceClaim yet"
    source = f"ResourceClaim {namespace}/{text_of(meta.get('name'))}" if claim else "spec.resourceClaims"
    at = allocated_at(claim)
    since = Since(latest=at, source="status.allocation.allocationTimestamp") if at is not None else UNKNOWN
    return Fact(about="asks for", name=f"claim {reported(name, 80)}", value=f"{wants}; {state}", source=source, since=since)


def _held(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """Which devices it has, by UUID, as far as the API server knows them."""
    if pod.finished or not pod.node_name or not scope.device_demand_of(pod).devices:
        return
    by_claim = uuids_by_claim(scope, pod)
    for uuid, source in sorted(by_claim.items()):
        yield Fact(about="holds", name=uuid, value="by its claim", source=source)
    by_kubelet = given_by_kubelet(pod, scope.is_device)
    for uuid in in_order(by_kubelet - by_claim.keys()):
        yield Fact(about="holds", name=uuid, value="by its kubelet", source="status.containerStatuses[].allocatedResourcesStatus")
    if not by_claim and not by_kubelet:
        words = f"the API server does not know: only the kubelet does (PodResources); gpu-conformance owners --node {pod.node_name}"
        yield Fact(about="holds", name="which devices", value=words, source="status.containerStatuses[].allocatedResourcesStatus: nothing")


def _by_scheduler(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """What its scheduler says: the condition, and the newest warning that is no repetition of it."""
    who = f"{pod.scheduler_name or 'default-scheduler'} says"
    condition, texts = pod.condition("PodScheduled"), set()
    if condition is not None and condition.status == "False" and condition.message:
        since = Since(latest=moment(condition.last_transition_time), source="lastTransitionTime")
        texts.add(condition.message)
        yield Fact(about=_WAITS, name=who, value=quoted(condition.message), source="condition PodScheduled", since=since)
    for event in scope.pod_events.of(pod)[:1]:
        if event.text not in texts:
            reporter, since = f"{reported(event.reporter, 60) or 'an event'} says", Since(latest=moment(event.last), source="lastTimestamp")
            yield Fact(about=_WAITS, name=reporter, value=quoted(event.text), source=f"event {reported(event.reason, 60)}", since=since)


def _findings(scope: Scope, pod: Pod) -> tuple[dict[str, Finding], tuple[str, ...]]:
    """What REQ-04 and REQ-12 find of a pod, or of the group that must be placed with it; and why one of them is not known."""
    found: dict[str, Finding] = {}
    trouble: list[str] = []

    def offered() -> Iterator[Finding]:
        return (one for one in check_can_be_offered(scope) if one.subject == subject(pod))

    def waiting() -> Iterator[Finding]:
        own = next((group.subject for group in pending_groups(scope) if any(one.metadata is pod.metadata for one in group.pods)), None)
        return (one for one in check_waiting(scope, scope.snapshot.taken_at) if one.subject == own)

    for id_, check in (("REQ-04", offered), ("REQ-12", waiting)):
        try:
            findings = list(check())
        except (Inconclusive, NotApplicable) as error:
            trouble.append(f"{id_}: {error.message}")
            continue
        if one := next((one for one in findings if one.outcome in _REFUSALS), next(iter(findings), None)):
            found[id_] = one
    return found, tuple(trouble)


def _found(found: dict[str, Finding]) -> Iterator[Fact]:
    for id_, one in found.items():
        value = one.message or f"nothing is wrong: {one.observed}"
        yield Fact(about=_WAITS, name=f"by {id_}", value=value, source=one.source)


def _by_nodes(scope: Scope, pod: Pod) -> Iterator[Fact]:
    """A row for each reason that keeps it from nodes of one product, and one for what is not weighed here."""
    pod = as_reserved(pod)
    if long := too_long(pod.spec):
        yield Fact(about=_WAITS, name="nodes", value=long, source="spec.affinity")
        return
    claimed = claimed_devices_of(scope, pod.spec, pod.namespace, pod.claim_statuses)
    if claimed.not_modelled:
        yield Fact(about=_WAITS, name="its claims", value=claimed.not_modelled, source="spec.resourceClaims, DeviceClasses")
    wanted = [name for name, count in scope.devices_of(pod.spec).items() if count]
    rooms = FreeCapacity(scope, scope.snapshot.taken_at)
    groups: dict[tuple[str, str], list[Node]] = {}
    every = scope.accelerator_nodes if wanted or claimed.requests else scope.snapshot.nodes
    for node, refusal in rooms.refusals(every, pod.spec, claimed):
        groups.setdefault((product_of(scope, node), refusal), []).append(node)
    for (product, refusal), nodes in sorted(groups.items()):
        free = [f"{name}: at most {max(scope.free(node, name) for node in nodes)} free on a node" for name in wanted if name in refusal]
        value = "; ".join([refusal or "it fits there now", *free])
        words = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} of {reported(product, 60)}"
        yield Fact(about=_WAITS, name=words, value=value, source=_BY_NODES)
    if others := constraints_not_modelled(pod.spec):
        yield Fact(about=_WAITS, name="not weighed", value=f"only its scheduler can weigh {listed(others)}", source="spec")
