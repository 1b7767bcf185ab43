"""Inspections of Kubernetes objects and events captured as text: nodes, events, ResourceSlices, PodGroups, Pod Security refusals."""

from __future__ import annotations

from conformance.outputs import events, node_labels, node_text, resource_slice, volcano
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst
from conformance.outputs.unreadable import Unreadable, readable_text
from fixtures.podsecurity.rejection import parse_rejection

_PROBLEMS = frozenset({events.EventKind.UNSCHEDULABLE, events.EventKind.GANG_UNSCHEDULABLE, events.EventKind.QUOTA_PENDING})
_READY = frozenset({events.EventKind.ADMITTED, events.EventKind.GANG_READY})


def inspect_node(text: str) -> Inspection:
    """``node``: label arithmetic of every NVIDIA node in the text. Raises ``Unreadable``."""
    views = node_text.parse_nodes(text)
    nvidia = [view for view in views if _is_nvidia(view)]
    judged = [(view, *_judge_node(view)) for view in nvidia]
    findings = [finding for _, _, _, found in judged for finding in found]
    facts: dict[str, object] = {"nodes": len(views), "acceleratorNodes": [_node_facts(view) for view in nvidia]}
    if not nvidia:
        return Inspection(
            "node", Judged.UNDECIDABLE, "NO_DEVICES", f"{len(views)} node(s), none with NVIDIA labels or resources", facts, []
        )
    verdict = worst([each for _, each, _, _ in judged])
    code = next(code for _, each, code, _ in judged if each is verdict)
    if verdict is Judged.GOOD:
        message = "; ".join(f"{view.name or 'node'}: {_expected_words(view)}" for view in nvidia[:8])
        return Inspection("node", verdict, code, f"consistent: {message}", facts, findings)
    first = next(finding for finding in findings if finding.verdict is verdict)
    return Inspection("node", verdict, code, f"{first.subject}: {first.message}", facts, findings)


def _is_nvidia(view: node_text.NodeView) -> bool:
    return any("nvidia.com/" in key for key in (*view.labels, *(view.capacity or {})))


def _expected_words(view: node_text.NodeView) -> str:
    return ", ".join(f"{name} {units}" for name, units in sorted(node_labels.expectations(view.labels).items()))


def _node_facts(view: node_text.NodeView) -> dict[str, object]:
    node = node_labels.advertisement(view.labels, view.capacity, view.allocatable)
    return {
        "name": view.name,
        "form": view.form,
        "product": node.gpu.product.text,
        "model": node.gpu.product.model,
        "count": node.gpu.count,
        "replicas": node.gpu.replicas,
        "shared": node.gpu.product.shared or node.gpu.factor > 1,
        "renamed": node.gpu.renamed,
        "migStrategy": node.strategy,
        "migConfig": node.mig_config,
        "migConfigState": node.mig_config_state,
        "vgpu": node.vgpu,
        "expected": node_labels.expectations(view.labels),
        "capacity": dict(node.capacity) if view.capacity is not None else None,
        "allocatable": dict(node.allocatable) if view.allocatable is not None else None,
    }


def _judge_node(view: node_text.NodeView) -> tuple[Judged, str, list[InspectionFinding]]:
    name = view.name or "node"
    node = node_labels.advertisement(view.labels, view.capacity, view.allocatable)
    if node.vgpu:
        message = "vGPU guest: MIG, GPUDirect RDMA and DCGM profiling do not apply"
        return Judged.UNDECIDABLE, "NOT_APPLICABLE", [InspectionFinding(name, Judged.UNDECIDABLE, message)]
    wrong = [
        InspectionFinding(
            name, Judged.BAD, f"{item.what} {item.observed}, expected {item.expected} ({item.source})", item.observed, item.expected
        )
        for item in node_labels.inconsistencies(view.labels, view.capacity, view.allocatable)
    ]
    if node.mig_config_state == "failed":
        wrong.append(InspectionFinding(name, Judged.BAD, f"mig.config {node.mig_config} failed: labels show the last applied geometry"))
    if wrong:
        return Judged.BAD, "INCONSISTENT", wrong
    if node.mig_config_state not in ("", "success"):
        message = f"mig.config.state is {node.mig_config_state}: the node is changing"
        return Judged.UNDECIDABLE, "MIG_CONFIG_CHANGING", [InspectionFinding(name, Judged.UNDECIDABLE, message)]
    if not node.labelled:
        return _judge_uncounted(name, node)
    return Judged.GOOD, "CONSISTENT", []


def _judge_uncounted(name: str, node: node_labels.NodeAdvertisement) -> tuple[Judged, str, list[InspectionFinding]]:
    """Without a device count only divisibility can be checked."""
    gpu = node.gpu
    units = node.capacity.get(gpu.advertised_as, 0)
    if gpu.factor > 1 and units % gpu.factor:
        message = f"capacity {gpu.advertised_as} {units} is no multiple of replicas {gpu.factor}"
        return Judged.BAD, "INCONSISTENT", [InspectionFinding(name, Judged.BAD, message, str(units), f"a multiple of {gpu.factor}")]
    if gpu.factor > 1 and units:
        message = f"no gpu.count: {units} is consistent if the node has {units // gpu.factor} device(s) x {gpu.factor} replicas"
    else:
        message = f"no gpu.count: {units} x {gpu.advertised_as} cannot be checked ({'shared' if gpu.product.shared else 'exclusive'})"
    return Judged.UNDECIDABLE, "NO_DEVICE_COUNT", [InspectionFinding(name, Judged.UNDECIDABLE, message)]


def inspect_events(text: str) -> Inspection:
    """``events``: what is still unplaced at the end of the events. Raises ``Unreadable``."""
    parsed = events.parse_events(text)
    open_problems: dict[str, events.ParsedEvent] = {}
    refused = [event for event in parsed if event.kind is events.EventKind.ADMISSION_FAILED]
    settled: list[events.ParsedEvent] = []
    for event in parsed:
        if event.kind in _PROBLEMS:
            open_problems[event.object or f"#{len(open_problems)}"] = event
        elif event.kind in _READY or (event.reason == "Scheduled" and "uccessfully assigned" in event.message):
            settled.append(event)
            if event.kind is events.EventKind.GANG_READY:
                open_problems.clear()  # a gang's pods carry no name of their group
            open_problems.pop(event.object, None)
    findings = [InspectionFinding(event.object or "event", Judged.BAD, f"{event.reason}: {event.message}"[:500]) for event in refused]
    for event in open_problems.values():
        verdict = Judged.BAD if event.kind is events.EventKind.UNSCHEDULABLE else Judged.UNDECIDABLE
        findings.append(InspectionFinding(event.object or "event", verdict, f"{event.reason}: {event.message}".removeprefix(": ")[:500]))
    findings += [
        InspectionFinding(event.object or "event", Judged.UNDECIDABLE, f"{event.reason}: {event.message}"[:500])
        for event in parsed
        if event.kind is events.EventKind.EVICTED
    ]
    kinds = {event.kind for event in open_problems.values()}
    verdict, code, message = _events_verdict(refused, kinds, settled, parsed)
    return Inspection("events", verdict, code, message, _events_facts(parsed), findings)


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
    """``resourceslice``: completeness of pools and devices published twice. Raises ``Unreadable``."""
    slices = resource_slice.parse(text)
    pools = resource_slice.pools(slices)
    findings: list[InspectionFinding] = []
    for pool in pools:
        subject = f"{pool.driver} pool {pool.name}"
        if pool.incomplete:
            findings.append(InspectionFinding(subject, Judged.UNDECIDABLE, f"incomplete text: {pool.incomplete}"))
        findings += [InspectionFinding(subject, Judged.BAD, problem) for problem in resource_slice.pool_problems(pool)]
    facts: dict[str, object] = {
        "slices": len(slices),
        "pools": [
            {"driver": p.driver, "name": p.name, "generation": p.generation, "slices": p.slices, "complete": p.complete, "devices": p.types}
            for p in pools
        ],
    }
    verdict = worst([finding.verdict for finding in findings] or [Judged.GOOD])
    if verdict is Judged.GOOD:
        devices = sum(len(pool.devices) for pool in pools)
        return Inspection(
            "resourceslice", verdict, "COMPLETE", f"{len(slices)} slice(s), {len(pools)} complete pool(s), {devices} devices", facts, []
        )
    first = next(finding for finding in findings if finding.verdict is verdict)
    code = "INCOMPLETE_TEXT" if verdict is Judged.UNDECIDABLE else "INCOMPLETE_POOL" if "slices of" in first.message else "DUPLICATE"
    return Inspection("resourceslice", verdict, code, f"{first.subject}: {first.message}", facts, findings)


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
        if group.running and group.running < group.min_member:
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
