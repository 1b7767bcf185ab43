"""Inspections of Kubernetes objects and events captured as text: events, pods, claims, ResourceSlices, PodGroups, refusals.

Pods are not in the text of claims: whether they live is not judged.

Facts: docs/facts/dra.md#claims, docs/facts/dra.md#release-of-claims.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from conformance.outputs import captured_objects, events, kubectl_text
from conformance.outputs.captured_objects import load_objects, none_of
from conformance.outputs.captured_text import Unreadable, readable_text
from conformance.outputs.inspection import MAX_FINDINGS, Inspection, InspectionFinding, Judged, concluded, worst
from conformance.outputs.kubectl_text import ClaimRow, SliceRow, claim_rows, slice_rows
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.podsecurity.standards import parse_rejection
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.dra.slices import slices_of
from fixtures.model.objects import full_name, results_of
from fixtures.text.sentences import listed

_CLAIMS = "resourceclaim"


def inspect_resource_claims(text: str) -> Inspection:
    """Devices that several claims hold alone are bad; what waits, or is left over, is undecidable. Raises ``Unreadable``."""
    try:
        objects = load_objects(text)
    except Unreadable:
        if rows := claim_rows(text):
            return _claim_table(rows)
        raise
    claims = [item for item in objects if item.get("kind") == "ResourceClaim"]
    if not claims:
        raise Unreadable(none_of("ResourceClaim", objects))
    devices = sum(len(results_of(claim)) for claim in claims)
    facts: dict[str, object] = {"claims": len(claims), "allocated": sum(bool(results_of(claim)) for claim in claims), "devices": devices}
    found = [
        ("GIVEN_TWICE", InspectionFinding(device, Judged.BAD, f"it is given to {listed(names)}, which do not share it"))
        for device, names in _twice(claims)
    ]
    found += [
        ("DEVICE_NOT_READY", InspectionFinding(_claim_name(claim), Judged.BAD, words)) for claim in claims for words in _not_ready(claim)
    ]
    found += [
        ("UNSETTLED", InspectionFinding(_claim_name(claim), Judged.UNDECIDABLE, words)) for claim in claims if (words := _unsettled(claim))
    ]
    return concluded(_CLAIMS, found, facts, ("ALLOCATED", f"{len(claims)} claims hold {devices} devices, each reserved for somebody"))


def _claim_name(claim: Json) -> str:
    return full_name(claim).strip("/") or "a claim"


def _unsettled(claim: Json) -> str:
    deleted = text_of(mapping(claim.get("metadata")).get("deletionTimestamp"))
    if not results_of(claim):
        return "it has no device yet"
    if deleted:
        return f"it was deleted at {deleted[:40]} and still holds devices"
    return "" if mapping(claim.get("status")).get("reservedFor") else "it holds devices and is reserved for no pod"


def _not_ready(claim: Json) -> Iterator[str]:
    """What drivers say of devices of the claim that are not ready."""
    for device in mappings(mapping(claim.get("status")).get("devices")):
        for condition in mappings(device.get("conditions")):
            if text_of(condition.get("type")) == "Ready" and text_of(condition.get("status")) == "False":
                name = "/".join(text_of(device.get(key)) for key in ("driver", "pool", "device"))
                why = " ".join(text for key in ("reason", "message") if (text := text_of(condition.get(key))[:200]))
                yield f"its driver calls the device {name} not ready: {why or 'no reason given'}"


def _claim_table(rows: list[ClaimRow]) -> Inspection:
    """A table of claims tells their states, and no device."""
    found = [InspectionFinding(row.subject, Judged.UNDECIDABLE, words) for row in rows if (words := _claim_words(row.state))]
    facts: dict[str, object] = {"claims": len(rows), "allocated": sum("allocated" in row.state for row in rows)}
    message = "a table of claims names no device: kubectl get resourceclaims -A -o yaml does"
    first = f"{found[0].subject}: {found[0].message}; " if found else ""
    return Inspection(_CLAIMS, Judged.UNDECIDABLE, "UNSETTLED" if found else "TABLE", f"{first}{message}", facts, found)


def _claim_words(state: tuple[str, ...]) -> str:
    if "deleted" in state:
        return "it was deleted and still holds devices" if "allocated" in state else "it was deleted and is still there"
    if "allocated" not in state:
        return "it has no device yet"
    return "" if "reserved" in state else "it holds devices and is reserved for no pod"


def _twice(claims: list[Json]) -> Iterator[tuple[str, list[str]]]:
    holders: dict[str, list[str]] = {}
    for claim in claims:
        for result in results_of(claim):
            if result.get("adminAccess") is not True and not result.get("shareID") and not result.get("consumedCapacity"):
                device = "/".join(text_of(result.get(key)) for key in ("driver", "pool", "device"))
                holders.setdefault(device, []).append(_claim_name(claim))
    yield from ((device, names) for device, names in sorted(holders.items()) if len(names) > 1)


_MANY_RESTARTS = 5


def inspect_pods(text: str) -> Inspection:
    """``pods``: whether all of ``kubectl get pods`` run or have ended well. Raises ``Unreadable``."""
    rows = kubectl_text.parse_pods(text)
    found = []
    for row in rows:
        verdict = Judged.of(row.well)
        if verdict is not Judged.GOOD:
            words = f"{row.status}, {row.ready} of {row.total} ready"
            finding = InspectionFinding(row.subject, verdict, words, row.status, "Running")
            found.append(("POD_FAILED" if verdict is Judged.BAD else "NOT_YET", finding))
        elif row.restarts >= _MANY_RESTARTS:
            found.append(("ALL_WELL", InspectionFinding(row.subject, Judged.GOOD, f"{row.restarts} restarts")))
    states = Counter(row.status for row in rows)
    facts: dict[str, object] = {"pods": len(rows), "states": dict(sorted(states.items())), "restarts": sum(row.restarts for row in rows)}
    whole = concluded("pods", found, facts, ("ALL_WELL", f"{len(rows)} pods run or have ended well"))
    return msgspec.structs.replace(whole, findings=whole.findings[:MAX_FINDINGS])


def inspect_api_refusal(text: str) -> Inspection:
    """``api-refusal``: an object that the API server refused as not valid, field by field. Raises ``Unreadable``."""
    refusal = kubectl_text.parse_refusal(text)
    facts: dict[str, object] = {
        "kind": refusal.kind,
        "name": refusal.name,
        "causes": [{"field": cause.field, "what": cause.what, "detail": cause.detail} for cause in refusal.causes],
    }
    if not refusal.causes:
        message = "the refusal names no field: the text is cut, or not the API server's"
        return Inspection("api-refusal", Judged.UNDECIDABLE, "INCOMPLETE", message, facts, [])
    first = refusal.causes[0]
    what = f"{first.field}: {first.what}{f': {first.detail}' if first.detail else ''}"
    return Inspection("api-refusal", Judged.GOOD, "REFUSED", f"refused by the API server: {what}"[:400], facts, [])


_PROBLEMS = frozenset({events.EventKind.UNSCHEDULABLE, events.EventKind.GANG_UNSCHEDULABLE, events.EventKind.QUOTA_PENDING})
_READY = frozenset({events.EventKind.ADMITTED, events.EventKind.GANG_READY})


def inspect_events(text: str) -> Inspection:
    """``events``: what is still unplaced, or does not start, at the end of the events. Raises ``Unreadable``."""
    parsed = events.parse_events(text)
    open_problems: dict[str, events.ParsedEvent] = {}
    failed_starts: dict[str, events.ParsedEvent] = {}
    refused = [event for event in parsed if event.kind is events.EventKind.ADMISSION_FAILED]
    settled: list[events.ParsedEvent] = []
    for event in parsed:
        if event.kind is events.EventKind.START_FAILED:
            before = failed_starts.get(_key(event))
            failed_starts[_key(event)] = msgspec.structs.replace(event, count=event.count + (before.count if before else 0))
        elif event.kind in _PROBLEMS:
            open_problems[_key(event) or f"#{len(open_problems)}"] = event
        elif event.kind is events.EventKind.STARTED:
            settled.append(event)
            held = failed_starts.get(_key(event))
            if held is not None and events.obstacle(held.reason, held.message) is not events.Obstacle.CRASH:
                del failed_starts[_key(event)]
        elif event.kind in _READY or (event.reason == "Scheduled" and "uccessfully assigned" in event.message):
            settled.append(event)
            if event.kind is events.EventKind.GANG_READY:
                open_problems.clear()  # a gang's pods carry no name of their group
            open_problems.pop(_key(event), None)
    findings = [InspectionFinding(event.object or "event", Judged.BAD, f"{event.reason}: {event.message}"[:500]) for event in refused]
    findings += [InspectionFinding(event.object or "event", _start_verdict(event), _words(event)) for event in failed_starts.values()]
    for event in open_problems.values():
        verdict = Judged.BAD if event.kind is events.EventKind.UNSCHEDULABLE else Judged.UNDECIDABLE
        findings.append(InspectionFinding(event.object or "event", verdict, _words(event)))
    findings += [
        InspectionFinding(event.object or "event", Judged.UNDECIDABLE, f"{event.reason}: {event.message}"[:500])
        for event in parsed
        if event.kind is events.EventKind.EVICTED
    ]
    kinds = {event.kind for event in open_problems.values()}
    verdict, code, message = (
        _started_verdict(list(failed_starts.values()))
        if failed_starts and not refused
        else _events_verdict(refused, kinds, settled, parsed)
    )
    return Inspection("events", verdict, code, message, _events_facts(parsed), findings)


def _key(event: events.ParsedEvent) -> str:
    """What an event is about. Events of one ``kubectl describe`` are about one object, which they do not name."""
    return event.object or ("described" if event.type else "")


def _words(event: events.ParsedEvent) -> str:
    return f"{event.reason}: {event.message}".removeprefix(": ")[:500]


def _start_verdict(event: events.ParsedEvent) -> Judged:
    may_pass = event.count < 2 and events.obstacle(event.reason, event.message) in events.TRANSIENT
    return Judged.UNDECIDABLE if may_pass else Judged.BAD


def _started_verdict(failed: list[events.ParsedEvent]) -> tuple[Judged, str, str]:
    """Pods that have a node and do not start there."""
    verdict = worst([_start_verdict(event) for event in failed])
    first = next(event for event in failed if _start_verdict(event) is verdict)
    what = events.obstacle(first.reason, first.message)
    times = f", {first.count} times" if first.count > 1 else ""
    return verdict, "START_FAILED", f"it does not start for {what.value if what else 'an unknown reason'}{times}: {_words(first)[:300]}"


def _events_verdict(
    refused: list[events.ParsedEvent], kinds: set[events.EventKind], settled: list[events.ParsedEvent], parsed: list[events.ParsedEvent]
) -> tuple[Judged, str, str]:
    if refused:
        return Judged.BAD, "ADMISSION_FAILED", f"refused at the kubelet: {refused[0].reason or refused[0].message}"
    if events.EventKind.GANG_UNSCHEDULABLE in kinds:
        shortage = next(s for event in parsed if (s := events.gang_shortage(event.message)))
        return (
            Judged.UNDECIDABLE,
            "GANG_HELD",
            f"gang of {shortage[1]} is held, {shortage[0]} unschedulable; only bound pods show all or nothing",
        )
    if events.EventKind.UNSCHEDULABLE in kinds:
        first = next(event for event in parsed if event.kind is events.EventKind.UNSCHEDULABLE)
        reasons = first.unschedulable.reasons if first.unschedulable else ()
        words = ", ".join(f"{reason.count} {reason.kind.value} {reason.detail}".strip() for reason in reasons)
        return Judged.BAD, "UNSCHEDULABLE", f"not placed: {words or first.message[:200]}"
    if kinds:
        return Judged.UNDECIDABLE, "QUOTA_PENDING", "waiting for quota at the end of the events"
    if any(event.kind in _PROBLEMS for event in parsed):
        waited = sum(event.kind in _PROBLEMS for event in parsed)
        return Judged.GOOD, "PLACED_AFTER_WAITING", f"{waited} waiting event(s), all placed or admitted in the end"
    if settled:
        return Judged.GOOD, "PLACED", f"{len(settled)} placed or admitted"
    return Judged.UNDECIDABLE, "NO_SCHEDULING_EVENT", f"{len(parsed)} event(s), none about placement"


def _events_facts(parsed: list[events.ParsedEvent]) -> dict[str, object]:
    messages = [
        {
            "object": event.object,
            "total": event.unschedulable.total,
            "reasons": [{"count": r.count, "kind": r.kind.value, "detail": r.detail, "text": r.text} for r in event.unschedulable.reasons],
            "postfilter": event.unschedulable.postfilter,
        }
        for event in parsed
        if event.unschedulable is not None
    ]
    kinds = [event.kind.value for event in parsed]
    return {"events": len(parsed), "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))}, "unschedulable": messages[:100]}


def inspect_resource_slices(text: str) -> Inspection:
    """``resourceslice``: pools that lack slices or devices, devices published twice or tainted. Raises ``Unreadable``."""
    try:
        objects = load_objects(text)
        if not (slices := slices_of(objects)):
            raise Unreadable(none_of("ResourceSlice", objects))
    except Unreadable:
        if rows := slice_rows(text):
            return _slice_table(rows)
        raise
    pools = captured_objects.pools(slices)
    found: list[tuple[str, InspectionFinding]] = []
    notes: list[InspectionFinding] = []
    for pool in pools:
        subject = f"{pool.driver} pool {pool.name}".strip()
        if pool.incomplete:
            words = f"incomplete text: {pool.incomplete}"
            found.append(("INCOMPLETE_TEXT", InspectionFinding(subject, Judged.UNDECIDABLE, words)))
        for problem in captured_objects.pool_problems(pool):
            verdict = Judged.BAD if problem.certain else Judged.UNDECIDABLE
            found.append((problem.code, InspectionFinding(subject, verdict, problem.message)))
        informing = ((device, taint) for device in pool.devices for taint in device.taints if taint.effect == "None")
        notes += [InspectionFinding(subject, Judged.GOOD, f"device {device.name}: {taint}") for device, taint in informing]
    facts: dict[str, object] = {
        "slices": len(slices),
        "pools": [
            {"driver": p.driver, "name": p.name, "generation": p.generation, "slices": p.slices, "complete": p.complete, "devices": p.types}
            for p in pools
        ],
        "taintedDevices": sum(bool(device.tainted) for pool in pools for device in pool.devices),
    }
    message = f"{len(slices)} slice(s), {len(pools)} complete pool(s), {sum(len(pool.devices) for pool in pools)} devices"
    return concluded("resourceslice", found, facts, ("COMPLETE", message), notes)


def _slice_table(rows: list[SliceRow]) -> Inspection:
    """A table of slices tells which driver publishes for which node, and no more."""
    nodes: dict[str, list[str]] = {}
    for row in rows:
        nodes.setdefault(row.driver, []).append(row.node or "several nodes")
    message = f"a table of {len(rows)} slices tells neither generations nor devices: kubectl get resourceslices -o yaml does"
    facts: dict[str, object] = {"slices": len(rows), "nodes": {driver: sorted(set(names)) for driver, names in sorted(nodes.items())}}
    return Inspection("resourceslice", Judged.UNDECIDABLE, "TABLE", message, facts, [])


_GANG_VERDICT = {
    captured_objects.GangState.HELD: (Judged.GOOD, "GANG_HELD", "held as a whole: none of it runs"),
    captured_objects.GangState.RUNNING: (Judged.GOOD, "RUNNING", "running"),
    captured_objects.GangState.COMPLETED: (Judged.GOOD, "COMPLETED", "completed"),
    captured_objects.GangState.TEARING_DOWN: (Judged.GOOD, "TEARING_DOWN", "finishing: its messages about the gang are no lack of room"),
    captured_objects.GangState.NOT_CREATED: (Judged.UNDECIDABLE, "PODS_NOT_CREATED", "its pods are not created yet"),
    captured_objects.GangState.UNKNOWN: (Judged.BAD, "PHASE_UNKNOWN", "part of the gang is gone, or the phase is not one of Volcano's"),
}


def inspect_podgroup(text: str) -> Inspection:
    """``podgroup``: Volcano PodGroups. A held gang with running members is placed in part. Raises ``Unreadable``."""
    groups = [captured_objects.group_of(item) for item in load_objects(text) if item.get("kind") == "PodGroup"]
    if not groups:
        raise Unreadable("no PodGroup found")
    found = []
    for group in groups:
        verdict, code, message = _GANG_VERDICT[group.doing]
        if group.foreign:
            verdict, code = Judged.UNDECIDABLE, "OTHER_SCHEDULER"
            message = f"a PodGroup of {group.api}, whose state is not read here"
        elif group.running and group.running < group.min_member:
            verdict, code = Judged.BAD, "PARTIAL_PLACEMENT"
            message = f"{group.running} of {group.min_member} members run in phase {group.phase}"
        found.append((code, InspectionFinding(f"{group.namespace}/{group.name}", verdict, message)))
    facts: dict[str, object] = {
        "podGroups": [
            {"name": f"{g.namespace}/{g.name}", "phase": g.phase, "state": g.doing.value, "minMember": g.min_member, "running": g.running}
            for g in groups
        ]
    }
    code, first = found[0]
    return concluded("podgroup", found, facts, (code, f"{first.subject}: {first.message}"))


def inspect_psa_rejection(text: str) -> Inspection:
    """``psa-rejection``: whether a refusal is the Pod Security admission's own, reason by reason. Raises ``Unreadable``."""
    body = "\n".join(line for line in readable_text(text).split("\n") if not line.startswith("#"))
    rejection = parse_rejection(body)
    if rejection is None:
        raise Unreadable("no Pod Security refusal or warning found")
    facts: dict[str, object] = {
        "level": rejection.level.value,
        "version": rejection.version,
        "reasons": list(rejection.reasons),
        "unknownReasons": list(rejection.unknown_reasons),
        "denied": rejection.denied,
        "truncated": rejection.truncated,
    }
    findings = [
        InspectionFinding(reason, Judged.BAD, "not a reason that Pod Security admission gives") for reason in rejection.unknown_reasons
    ]
    if rejection.unknown_reasons:
        message = f"unknown reason {rejection.unknown_reasons[0]!r}: the text is not the API server's"
        return Inspection("psa-rejection", Judged.BAD, "UNKNOWN_REASON", message, facts, findings)
    if not rejection.reasons or rejection.truncated or not rejection.denied:
        code = "WARNING_ONLY" if not rejection.denied else "INCOMPLETE"
        return Inspection("psa-rejection", Judged.UNDECIDABLE, code, "a warning or a cut refusal: not proof of a refusal", facts, findings)
    message = f"refused by {rejection.level.value}: {', '.join(rejection.reasons)}"
    return Inspection("psa-rejection", Judged.GOOD, "REJECTED", message, facts, findings)
