"""Inspection of one scrape of dcgm-exporter."""

from __future__ import annotations

from conformance.outputs import dcgm
from conformance.outputs.dcgm_faults import faults
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst
from fixtures.model.devices.xid_catalogue import lookup


def inspect_dcgm(text: str) -> Inspection:
    """``dcgm-metrics``: one scrape. Idleness over time needs several; it is noted, not judged. Raises ``Unreadable``."""
    devices = dcgm.parse(text)
    parents = {(device.host, device.uuid) for device in devices if device.instance and device.activity is not None}
    findings: list[InspectionFinding] = []
    codes: list[tuple[Judged, str]] = []
    for device in devices:
        found = faults(device)
        codes += [(fault.verdict, fault.code) for fault in found]
        findings += [InspectionFinding(str(device), fault.verdict, fault.message) for fault in found]
        if not found and device.named and device.activity is None and not device.health and (device.host, device.uuid) not in parents:
            codes.append((Judged.UNDECIDABLE, "NO_ACTIVITY"))
            findings.append(InspectionFinding(str(device), Judged.UNDECIDABLE, "no utilisation or activity series"))
        elif not found and device.xids:
            classes = ", ".join(f"{code} ({lookup(code).klass.value})" for code in device.xids)
            findings.append(InspectionFinding(str(device), Judged.GOOD, f"Xid {classes}"))
    verdict = worst([each for each, _ in codes] or [Judged.GOOD])
    first = next((finding for finding in findings if finding.verdict is verdict), None)
    findings += [note for device in devices for note in _notes(device)]
    facts: dict[str, object] = {
        "devices": [_facts(device) for device in devices],
        "gpus": len({(d.host, d.gpu, d.uuid) for d in devices if d.named}),
    }
    if verdict is not Judged.GOOD and first is not None:
        code = next(code for each, code in codes if each is verdict)
        return Inspection("dcgm-metrics", verdict, code, f"{first.subject}: {first.message}", facts, findings)
    busy = sum(device.state is dcgm.State.BUSY for device in devices)
    allocated = sum(device.allocated for device in devices)
    unknown = sum(device.activity is None for device in devices)
    used = f"{'BUSY' if busy else 'IDLE'}_{'ALLOCATED' if allocated else 'UNALLOCATED'}"
    code = "HEALTHY" if unknown == len(devices) or (busy and not allocated) else used
    idle = len(devices) - busy - unknown
    message = f"{len(devices)} device(s): {busy} busy, {idle} idle, {allocated} allocated"
    return Inspection("dcgm-metrics", verdict, code, message, facts, findings)


def _notes(device: dcgm.Device) -> list[InspectionFinding]:
    notes = []
    if device.allocated and device.state is dcgm.State.IDLE:
        pod = "/".join(device.pods[0][:2])
        notes.append(InspectionFinding(str(device), Judged.UNDECIDABLE, f"allocated to {pod} and idle in this scrape"))
    if device.used_but_unallocated:
        used = f"{device.memory_used:g} MiB used, no pod named: outside Kubernetes, leaked, or a shared device"
        notes.append(InspectionFinding(str(device), Judged.UNDECIDABLE, used))
    return notes


def _facts(device: dcgm.Device) -> dict[str, object]:
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
        "health": {watch.part: watch.result for watch in device.health},
    }
