"""Inspections of what a node says about its devices: nvidia-smi, DCGM metrics, kernel log, vectorAdd, MIG manager."""

from __future__ import annotations

import re

from conformance.outputs import dcgm, job_log, nvidia_smi, xid
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst
from conformance.outputs.unreadable import readable_text

_LISTING = re.compile(r"^\s{0,8}GPU \d{1,4}: .{1,128}? \(UUID: ", re.MULTILINE)
_CLASS_VERDICT = {
    xid.XidClass.FATAL: Judged.BAD,
    xid.XidClass.UNKNOWN: Judged.UNDECIDABLE,
    xid.XidClass.APPLICATION: Judged.GOOD,
    xid.XidClass.INFO: Judged.GOOD,
}


def inspect_nvidia_smi(text: str) -> Inspection:
    """``nvidia-smi``: ``-L``, ``-q`` or ``-q -x``, told apart by the text. Raises ``Unreadable``."""
    return _inspect_listing(text) if _LISTING.search(readable_text(text)) else _inspect_query(text)


def _inspect_listing(text: str) -> Inspection:
    listing = nvidia_smi.parse_listing(text)
    problems = nvidia_smi.listing_problems(listing)
    instances = sum(len(gpu.mig) for gpu in listing.gpus)
    facts: dict[str, object] = {
        "form": "-L",
        "gpus": len(listing.gpus),
        "migDevices": instances,
        "models": sorted({gpu.model for gpu in listing.gpus}),
        "layouts": [gpu.layout for gpu in listing.gpus],
        "uuids": listing.uuids,
    }
    findings = [InspectionFinding("nvidia-smi", Judged.BAD, problem) for problem in problems]
    if problems:
        return Inspection("nvidia-smi", Judged.BAD, "BAD_LISTING", problems[0], facts, findings)
    message = f"{len(listing.gpus)} GPU(s), {instances} MIG device(s)"
    return Inspection("nvidia-smi", Judged.GOOD, "LISTED", message, facts, findings)


def _inspect_query(text: str) -> Inspection:
    query = nvidia_smi.parse_query(text)
    findings = [InspectionFinding("nvidia-smi", Judged.BAD, failure) for failure in query.failures]
    actions: dict[str, list[str]] = {action.value: [] for action in nvidia_smi.Action}
    judged: list[Judged] = []
    for number, gpu in enumerate(query.gpus, 1):
        action, reasons = gpu.judge()
        actions[action.value].append(gpu.pci)
        if action is not nvidia_smi.Action.HEALTHY:
            judged.append(Judged.BAD)
            findings.append(InspectionFinding(f"GPU{number} {gpu.pci}", Judged.BAD, f"{action.value}: {'; '.join(reasons)}"))
        elif not gpu.has_signal:
            judged.append(Judged.UNDECIDABLE)
            findings.append(InspectionFinding(f"GPU{number} {gpu.pci}", Judged.UNDECIDABLE, "no health signal in the output"))
        else:
            judged.append(Judged.GOOD)
    if query.cut:
        findings.append(InspectionFinding("nvidia-smi", Judged.UNDECIDABLE, "the XML is cut: judged by what stands before the cut"))
    facts: dict[str, object] = {
        "form": "-q",
        "driver": query.driver,
        "cuda": query.cuda,
        "attachedGpus": query.attached,
        "gpus": len(query.gpus),
        "actions": {action: gpus for action, gpus in actions.items() if gpus},
        "recoveryActions": sorted({gpu.recovery_action for gpu in query.gpus if gpu.recovery_action}),
        "cut": query.cut,
    }
    if query.failures:
        return Inspection("nvidia-smi", Judged.BAD, "DRIVER_FAILED", query.failures[0], facts, findings)
    if query.attached is not None and query.attached != len(query.gpus) and not query.cut:
        message = f"{query.attached} GPUs attached, {len(query.gpus)} in the output"
        findings.append(InspectionFinding("nvidia-smi", Judged.UNDECIDABLE, message))
        judged.append(Judged.UNDECIDABLE)
    verdict = worst(judged)
    sick = [action.value for action in reversed(nvidia_smi.Action) if actions[action.value] and action is not nvidia_smi.Action.HEALTHY]
    if verdict is Judged.BAD:
        counts = ", ".join(f"{len(actions[action])} {action}" for action in sick)
        return Inspection("nvidia-smi", verdict, sick[0].upper(), f"of {len(query.gpus)} GPUs: {counts}", facts, findings)
    if verdict is Judged.UNDECIDABLE:
        message = findings[0].message if findings else "no GPU in the output"
        return Inspection("nvidia-smi", verdict, "NO_HEALTH_SIGNAL", message, facts, findings)
    return Inspection("nvidia-smi", verdict, "HEALTHY", f"all {len(query.gpus)} GPUs healthy", facts, findings)


def inspect_dcgm(text: str) -> Inspection:
    """``dcgm-metrics``: one scrape. Idleness over time needs several; it is noted, not judged. Raises ``Unreadable``."""
    devices = dcgm.parse(text)
    findings: list[InspectionFinding] = []
    judged: list[Judged] = []
    for device in devices:
        verdict = Judged.GOOD
        unknown = [code for code in device.xids if xid.lookup(code).klass is xid.XidClass.UNKNOWN]
        if device.fatal_xids:
            entry = xid.lookup(device.fatal_xids[0])
            verdict = Judged.BAD
            message = f"fatal Xid {entry.code}: {entry.action or 'no action listed'} {entry.note}".rstrip()
            findings.append(InspectionFinding(str(device), verdict, message))
        elif device.state is dcgm.State.REMAP_FAILED:
            verdict = Judged.BAD
            findings.append(InspectionFinding(str(device), verdict, "row remapping failed: replace the GPU"))
        elif unknown:
            verdict = Judged.UNDECIDABLE
            findings.append(InspectionFinding(str(device), verdict, f"Xid {unknown[0]} is not in the catalogue"))
        elif device.state is dcgm.State.UNKNOWN:
            verdict = Judged.UNDECIDABLE
            findings.append(InspectionFinding(str(device), verdict, "no utilisation or activity series"))
        elif device.xids:
            classes = ", ".join(f"{code} ({xid.lookup(code).klass.value})" for code in device.xids)
            findings.append(InspectionFinding(str(device), Judged.GOOD, f"Xid {classes}"))
        if device.allocated and device.state is dcgm.State.IDLE:
            pod = "/".join(device.pods[0][:2])
            findings.append(InspectionFinding(str(device), Judged.UNDECIDABLE, f"allocated to {pod} and idle in this scrape"))
        if device.used_but_unallocated:
            used = f"{device.memory_used:g} MiB used, no pod named: outside Kubernetes, leaked, or a shared device"
            findings.append(InspectionFinding(str(device), Judged.UNDECIDABLE, used))
        judged.append(verdict)
    facts: dict[str, object] = {
        "devices": [_device_facts(device) for device in devices],
        "gpus": len({(d.host, d.gpu, d.uuid) for d in devices}),
    }
    verdict = worst(judged)
    if verdict is not Judged.GOOD:
        first = next(finding for finding in findings if finding.verdict is verdict)
        code = "NO_ACTIVITY" if verdict is Judged.UNDECIDABLE and "Xid" not in first.message else "XID_UNKNOWN"
        if verdict is Judged.BAD:
            code = "XID_FATAL" if any(device.state is dcgm.State.XID_FATAL for device in devices) else "ROW_REMAP_FAILED"
        return Inspection("dcgm-metrics", verdict, code, f"{first.subject}: {first.message}", facts, findings)
    busy = sum(device.state is dcgm.State.BUSY for device in devices)
    allocated = sum(device.allocated for device in devices)
    code = f"{'BUSY' if busy else 'IDLE'}_{'ALLOCATED' if allocated else 'UNALLOCATED'}"
    message = f"{len(devices)} device(s): {busy} busy, {len(devices) - busy} idle, {allocated} allocated"
    return Inspection("dcgm-metrics", verdict, code, message, facts, findings)


def _device_facts(device: dcgm.Device) -> dict[str, object]:
    return {
        "host": device.host,
        "gpu": device.gpu,
        "uuid": device.uuid,
        "instance": device.instance,
        "profile": device.profile,
        "model": device.model,
        "pciBusId": device.pci,
        "driver": device.driver,
        "vgpu": device.vgpu,
        "state": device.state.value,
        "allocated": device.allocated,
        "pods": ["/".join(pod) for pod in device.pods],
        "activity": device.activity,
        "memoryUsedMiB": device.memory_used,
        "temperatureC": device.temperature,
        "powerW": device.power,
        "xid": device.xid,
        "xids": list(device.xids),
    }


def inspect_kernel_log(text: str) -> Inspection:
    """``kernel-log``: Xid and NVSwitch SXid lines. A log without any proves nothing about what was cut off. Raises ``Unreadable``."""
    events = xid.parse_kernel_log(text)
    findings = [
        InspectionFinding(
            f"{'SXid' if event.sxid else 'Xid'} {event.code} {event.pci}",
            _CLASS_VERDICT[event.klass],
            f"{event.klass.value} {event.action} {event.text}".replace("  ", " ")[:500],
        )
        for event in events
    ]
    counts: dict[str, int] = {}
    for event in events:
        counts[str(event.code)] = counts.get(str(event.code), 0) + 1
    facts: dict[str, object] = {
        "events": len(events),
        "codes": counts,
        "gpus": sorted({event.pci for event in events}),
        "actions": sorted({event.action for event in events if event.action}),
    }
    verdict = worst([finding.verdict for finding in findings])
    if not events:
        return Inspection("kernel-log", verdict, "NO_XID", "no Xid line in the excerpt", facts, findings)
    code = {Judged.BAD: "XID_FATAL", Judged.UNDECIDABLE: "XID_UNKNOWN", Judged.GOOD: "XID_NOT_FATAL"}[verdict]
    first = next(event for event, finding in zip(events, findings, strict=True) if finding.verdict is verdict)
    message = f"Xid {first.code} on {first.pci}: {first.klass.value} {first.action}".rstrip()
    return Inspection("kernel-log", verdict, code, f"{message}; {len(events)} line(s)", facts, findings)


def inspect_vector_add(text: str) -> Inspection:
    """``vectoradd``: the log of the CUDA vectorAdd sample. Raises ``Unreadable``."""
    log = job_log.parse_vector_add(text)
    judged = Judged.of(log.passed)
    code = {Judged.GOOD: "TEST_PASSED", Judged.BAD: "TEST_FAILED", Judged.UNDECIDABLE: "INCOMPLETE"}[judged]
    message = "Test PASSED" if log.passed else log.error or "the log ends before the sample's verdict"
    return Inspection("vectoradd", judged, code, message, {"passed": log.passed}, [])


def inspect_mig_manager(text: str) -> Inspection:
    """``mig-manager-log``: the state label that the change ended with. Raises ``Unreadable``."""
    log = job_log.parse_mig_manager(text)
    judged = Judged.of({"success": True, "failed": False}.get(log.state))
    findings = [InspectionFinding("mig-manager", Judged.BAD, error) for error in log.errors[:50]]
    facts: dict[str, object] = {"state": log.state, "updates": list(log.updates)}
    message = f"mig.config.state ended as {log.state}" if log.state else "the log does not reach a mig.config.state"
    return Inspection("mig-manager-log", judged, (log.state or "incomplete").upper(), message, facts, findings)
