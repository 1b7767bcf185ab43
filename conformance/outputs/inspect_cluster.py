"""Inspections of Kubernetes objects and events captured as text: events, ResourceSlices, PodGroups, Pod Security refusals."""

from __future__ import annotations

import msgspec

from conformance.outputs import events, resource_slice, starts, volcano
from conformance.outputs.claim_tables import SliceRow, slice_rows
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst
from conformance.outputs.unreadable import Unreadable, readable_text
from fixtures.kubernetes.podsecurity.rejection import parse_rejection

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
            if held is not None and starts.obstacle(held.reason, held.message) is not starts.Obstacle.CRASH:
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
    return Judged.UNDECIDABLE if starts.may_pass(event.reason, event.message, event.count) else Judged.BAD


def _started_verdict(failed: list[events.ParsedEvent]) -> tuple[Judged, str, str]:
    """Pods that have a node and do not start there."""
    verdict = worst([_start_verdict(event) for event in failed])
    first = next(event for event in failed if _start_verdict(event) is verdict)
    what = starts.obstacle(first.reason, first.message)
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
        slices = resource_slice.parse(text)
    except Unreadable:
        if rows := slice_rows(text):
            return _slice_table(rows)
        raise
    pools = resource_slice.pools(slices)
    findings: list[InspectionFinding] = []
    codes: list[str] = []
    notes: list[InspectionFinding] = []
    for pool in pools:
        subject = f"{pool.driver} pool {pool.name}".strip()
        if pool.incomplete:
            codes.append("INCOMPLETE_TEXT")
            findings.append(InspectionFinding(subject, Judged.UNDECIDABLE, f"incomplete text: {pool.incomplete}"))
        for problem in resource_slice.pool_problems(pool):
            codes.append(problem.code)
            findings.append(InspectionFinding(subject, Judged.BAD if problem.certain else Judged.UNDECIDABLE, problem.message))
        notes += [InspectionFinding(subject, Judged.GOOD, taint) for taint in resource_slice.informing_taints(pool)]
    facts: dict[str, object] = {
        "slices": len(slices),
        "pools": [
            {"driver": p.driver, "name": p.name, "generation": p.generation, "slices": p.slices, "complete": p.complete, "devices": p.types}
            for p in pools
        ],
        "taintedDevices": sum(bool(device.tainted) for pool in pools for device in pool.devices),
    }
    verdict = worst([finding.verdict for finding in findings] or [Judged.GOOD])
    if verdict is Judged.GOOD:
        devices = sum(len(pool.devices) for pool in pools)
        message = f"{len(slices)} slice(s), {len(pools)} complete pool(s), {devices} devices"
        return Inspection("resourceslice", verdict, "COMPLETE", message, facts, notes)
    first, code = next((finding, code) for finding, code in zip(findings, codes, strict=True) if finding.verdict is verdict)
    return Inspection("resourceslice", verdict, code, f"{first.subject}: {first.message}", facts, findings + notes)


def _slice_table(rows: list[SliceRow]) -> Inspection:
    """A table of slices tells which driver publishes for which node, and no more."""
    nodes: dict[str, list[str]] = {}
    for row in rows:
        nodes.setdefault(row.driver, []).append(row.node or "several nodes")
    message = f"a table of {len(rows)} slices tells neither generations nor devices: kubectl get resourceslices -o yaml does"
    facts: dict[str, object] = {"slices": len(rows), "nodes": {driver: sorted(set(names)) for driver, names in sorted(nodes.items())}}
    return Inspection("resourceslice", Judged.UNDECIDABLE, "TABLE", message, facts, [])


_GANG_VERDICT = {
    volcano.GangState.HELD: (Judged.GOOD, "GANG_HELD", "held as a whole: none of it runs"),
    volcano.GangState.RUNNING: (Judged.GOOD, "RUNNING", "running"),
    volcano.GangState.COMPLETED: (Judged.GOOD, "COMPLETED", "completed"),
    volcano.GangState.TEARING_DOWN: (Judged.GOOD, "TEARING_DOWN", "finishing: its messages about the gang are no lack of room"),
    volcano.GangState.NOT_CREATED: (Judged.UNDECIDABLE, "PODS_NOT_CREATED", "its pods are not created yet"),
    volcano.GangState.UNKNOWN: (Judged.BAD, "PHASE_UNKNOWN", "part of the gang is gone, or the phase is not one of Volcano's"),
}


def inspect_podgroup(text: str) -> Inspection:
    """``podgroup``: Volcano PodGroups. A held gang with running members is placed in part. Raises ``Unreadable``."""
    groups = volcano.parse(text)
    findings: list[InspectionFinding] = []
    codes: list[tuple[Judged, str]] = []
    for group in groups:
        verdict, code, message = _GANG_VERDICT[group.state]
        if group.foreign:
            verdict, code = Judged.UNDECIDABLE, "OTHER_SCHEDULER"
            message = f"a PodGroup of {group.api}, whose state is not read here"
        elif group.running and group.running < group.min_member:
            verdict, code = Judged.BAD, "PARTIAL_PLACEMENT"
            message = f"{group.running} of {group.min_member} members run in phase {group.phase}"
        codes.append((verdict, code))
        findings.append(InspectionFinding(f"{group.namespace}/{group.name}", verdict, message))
    verdict = worst([each for each, _ in codes])
    position = next(index for index, (each, _) in enumerate(codes) if each is verdict)
    facts: dict[str, object] = {
        "podGroups": [
            {"name": f"{g.namespace}/{g.name}", "phase": g.phase, "state": g.state.value, "minMember": g.min_member, "running": g.running}
            for g in groups
        ]
    }
    return Inspection(
        "podgroup", verdict, codes[position][1], f"{findings[position].subject}: {findings[position].message}", facts, findings
    )


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
