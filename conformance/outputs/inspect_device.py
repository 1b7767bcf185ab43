"""Inspections of what a node prints about its devices: nvidia-smi, DCGM metrics, kernel log, vectorAdd, MIG manager.

Facts: docs/facts/telemetry.md#faults-in-metrics.

Inspections of what a run over the fabric printed: NCCL log, nccl-tests table, perftest output.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from conformance.health import judging
from conformance.health.judging import RETIRED_PAGES_LIMIT, Fault, Seen, fabric, host_link, memory, recovery, slowdown
from conformance.outputs import dcgm, job_logs, nccl_lines, nccl_log, nccl_tests, nvidia_smi, xid
from conformance.outputs.captured_text import Unreadable, readable_text
from conformance.outputs.dcgm import Device
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, concluded, worst
from fixtures.model.devices.xid_catalogue import lookup
from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import Driver, Host, Way, decode
from fixtures.nodeprobe.smi_xml import NotSmi
from fixtures.tables.rows import XidClass
from fixtures.text.json_text import NotJson

_PASS, _WARNING, _FAILURE = 0, 10, 20
_FABRIC_DONE = (0, 3)  # not supported, success
_FABRIC_BAD = (1, 2, 4)  # not started, in progress, failure
_VOLATILE = "DCGM_FI_DEV_ECC_DBE_VOL_"
_EVER = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
_DEVICE = "DCGM_FI_DEV_"


class MetricFault(msgspec.Struct, frozen=True):
    """One fault, or one doubt, of a device. ``code`` is the inspection's reason code if nothing is worse."""

    code: str
    verdict: Judged
    message: str


def _xids(device: Device) -> Iterator[MetricFault]:
    for code in device.xids:
        entry = lookup(code)
        if entry.klass is XidClass.FATAL:
            yield MetricFault("XID_FATAL", Judged.BAD, f"fatal Xid {code}: {entry.action or 'no action listed'} {entry.note}".rstrip())
        elif entry.klass is XidClass.UNKNOWN:
            yield MetricFault("XID_UNKNOWN", Judged.UNDECIDABLE, f"Xid {code} is not in the catalogue")


def _health(device: Device) -> Iterator[MetricFault]:
    for watch in device.health:
        what = f"DCGM's health check of {watch.part or 'the device'}: {watch.code or 'no code'} ({watch.result})"
        if watch.result >= _FAILURE:
            yield MetricFault("HEALTH_FAILED", Judged.BAD, what)
        elif watch.result != _PASS:
            known = "a warning" if watch.result == _WARNING else "a result that is not known"
            yield MetricFault("HEALTH_WARNING", Judged.UNDECIDABLE, f"{what}, {known}")


def _memory(device: Device) -> Iterator[MetricFault]:
    count = device.metrics.get
    if count("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0) > 0:
        yield MetricFault("ROW_REMAP_FAILED", Judged.BAD, "row remapping failed: replace the GPU")
    pages = count(f"{_DEVICE}RETIRED_SBE", 0) + count(f"{_DEVICE}RETIRED_DBE", 0)
    if pages >= RETIRED_PAGES_LIMIT:
        yield MetricFault("PAGES_RETIRED", Judged.BAD, f"{pages:g} retired pages: replace the GPU")
    volatile = max((value for name, value in device.metrics.items() if name.startswith(_VOLATILE)), default=None)
    if volatile:
        yield MetricFault("ECC_ERRORS", Judged.BAD, f"{volatile:g} uncorrectable ECC errors since the driver was loaded: reset the GPU")
    for name, what in (("ROW_REMAP_PENDING", "row remapping"), ("RETIRED_PENDING", "page retirement")):
        if count(f"{_DEVICE}{name}", 0) > 0:
            yield MetricFault("RESET_PENDING", Judged.BAD, f"{what} pending: reset the GPU")
    if (ever := count(_EVER, 0)) > 0 and volatile is None:
        message = f"{ever:g} uncorrectable ECC errors in the device's life; how many since the driver was loaded is not exported"
        yield MetricFault("ECC_HISTORY", Judged.UNDECIDABLE, message)


def _fabric(device: Device) -> Iterator[MetricFault]:
    status = device.metrics.get(f"{_DEVICE}FABRIC_MANAGER_STATUS")
    if status is not None and status not in _FABRIC_DONE:
        verdict = Judged.BAD if status in _FABRIC_BAD else Judged.UNDECIDABLE
        yield MetricFault("FABRIC_NOT_READY", verdict, f"the NVLink fabric's status is {status:g}, expected 3 (success)")
    if sxid := device.metrics.get(f"{_DEVICE}NVSWITCH_FATAL_ERRORS", 0):
        yield MetricFault("SXID_FATAL", Judged.BAD, f"fatal SXid {sxid:g} of an NVSwitch")


def inspect_dcgm(text: str) -> Inspection:
    """``dcgm-metrics``: one scrape. Idleness over time needs several; it is noted, not judged. Raises ``Unreadable``."""
    devices = dcgm.parse(text)
    parents = {(device.host, device.uuid) for device in devices if device.instance and device.activity is not None}
    found: list[tuple[str, InspectionFinding]] = []
    for device in devices:
        faults = [*_xids(device), *_health(device), *_memory(device), *_fabric(device)]
        faults.sort(key=lambda fault: fault.verdict is not Judged.BAD)  # else in the order in which an operator would act on them
        found += [(fault.code, InspectionFinding(str(device), fault.verdict, fault.message)) for fault in faults]
        if not faults and device.named and device.activity is None and not device.health and (device.host, device.uuid) not in parents:
            found.append(("NO_ACTIVITY", InspectionFinding(str(device), Judged.UNDECIDABLE, "no utilisation or activity series")))
        elif not faults and device.xids:
            classes = ", ".join(f"{code} ({lookup(code).klass.value})" for code in device.xids)
            found.append(("", InspectionFinding(str(device), Judged.GOOD, f"Xid {classes}")))
    facts: dict[str, object] = {
        "devices": [_facts(device) for device in devices],
        "gpus": len({(d.host, d.gpu, d.uuid) for d in devices if d.named}),
    }
    busy = sum(device.state is dcgm.State.BUSY for device in devices)
    allocated = sum(device.allocated for device in devices)
    unknown = sum(device.activity is None for device in devices)
    used = f"{'BUSY' if busy else 'IDLE'}_{'ALLOCATED' if allocated else 'UNALLOCATED'}"
    code = "HEALTHY" if unknown == len(devices) or (busy and not allocated) else used
    message = f"{len(devices)} device(s): {busy} busy, {len(devices) - busy - unknown} idle, {allocated} allocated"
    return concluded("dcgm-metrics", found, facts, (code, message), [note for device in devices for note in _notes(device)])


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


_LISTING = re.compile(r"^\s{0,8}GPU \d{1,4}: .{1,128}? \(UUID: ", re.MULTILINE)
_JUDGES = (fabric, memory, recovery, judging.of_device, host_link, slowdown)
_SIGNALS = 3
"""Of the first judges a measure proves something of a device's health; a link and a clock that are well prove too little."""


class Action(StrEnum):
    """What has to be done with a GPU, strongest first. ``degraded``: its link to the host is not what it should be."""

    REPLACE = "replace"
    REBOOT = "reboot"
    RESET = "reset"
    THROTTLED = "throttled"
    DEGRADED = "degraded"
    HEALTHY = "healthy"


_ACTIONS = {
    "DeviceNeedsReplacement": Action.REPLACE,
    **dict.fromkeys(("DeviceDoesNotAnswer", "NodeNeedsReboot"), Action.REBOOT),
    **dict.fromkeys(("PowerBrake", "TooHot"), Action.THROTTLED),
    "HostLinkBelowMaximum": Action.DEGRADED,
}
"""By the causes of requirements; of every other cause a reset is what may help."""


def _action(fault: Fault) -> Action:
    return Action.RESET if "requires reset" in fault.words.lower() else _ACTIONS.get(fault.cause, Action.RESET)


_CLASS_VERDICT = {
    XidClass.FATAL: Judged.BAD,
    XidClass.UNKNOWN: Judged.UNDECIDABLE,
    XidClass.APPLICATION: Judged.GOOD,
    XidClass.INFO: Judged.GOOD,
}


def inspect_nvidia_smi(text: str) -> Inspection:
    """``nvidia-smi``: ``-L``, ``-q``, ``-q -x``, the table or CSV, by the text; the worse of two counts. Raises ``Unreadable``."""
    if not _LISTING.search(readable_text(text)):
        return _inspect_query(text)
    listing = _inspect_listing(text)
    try:
        query = _inspect_query(text)
    except Unreadable:
        return listing
    if not query.facts["gpus"]:
        return listing
    worse = query if worst([query.verdict, listing.verdict]) is query.verdict else listing
    return msgspec.structs.replace(worse, facts={**listing.facts, **query.facts}, findings=[*listing.findings, *query.findings])


def _inspect_listing(text: str) -> Inspection:
    listing = nvidia_smi.parse_listing(text)
    problems = nvidia_smi.listing_problems(listing)
    instances = sum(len(gpu.mig) for gpu in listing.gpus)
    facts: dict[str, object] = {
        "form": "-L",
        "gpus": len({gpu.uuid for gpu in listing.gpus}),
        "listings": len(nvidia_smi.listings(listing.gpus)),
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


def inspect_node_probe(text: str) -> Inspection:
    """``node-probe``: a document of the node probe, or what its script printed; the worst of its drivers counts. Raises ``Unreadable``."""
    text = readable_text(text)
    try:
        document = decode(text.encode()) if text.lstrip().startswith("{") else smi.document(text)
    except (NotJson, NotSmi) as error:
        raise Unreadable(str(error)) from None
    present = [driver for driver in document.drivers if not judging.of_driver(driver).unknown]  # AMD's nodes have no nvidia-smi
    found = [_of_driver(driver, document.host) for driver in present or document.drivers]
    if not found:
        return Inspection("node-probe", Judged.UNDECIDABLE, "NO_DRIVER", "the document has no driver", {}, [])
    verdict = worst([one.verdict for one in found])
    return next(one for one in found if one.verdict is verdict)


def _of_driver(driver: Driver, host: Host) -> Inspection:
    answer, cut = judging.of_driver(driver), "devices" in driver.unread
    if answer.unknown and not cut:
        return Inspection("node-probe", Judged.UNDECIDABLE, "NO_DEVICE", answer.unknown, {}, [])
    gpus = tuple((device.pci_address or f"device {device.index}", device) for device in driver.devices)
    query = nvidia_smi.Query(driver.version, driver.cuda, None, gpus, tuple(fault.words for fault in answer.faults), cut)
    return _judged("node-probe", query, driver, host)


def _inspect_query(text: str) -> Inspection:
    query = nvidia_smi.parse_query(text)
    driver = Driver(vendor="nvidia", way=Way.NVIDIA_SMI, devices=[device for _, device in query.gpus])
    return _judged("nvidia-smi", query, driver, Host())


def _judged(kind: str, query: nvidia_smi.Query, driver: Driver, host: Host) -> Inspection:
    findings = [InspectionFinding(kind, Judged.BAD, failure) for failure in query.failures]
    actions: dict[str, list[str]] = {}
    causes: dict[str, list[str]] = {}
    judged: list[Judged] = []
    fabric_unknown = False
    for number, (name, device) in enumerate(query.gpus, 1):
        seen, place = Seen(host, driver, device), f"GPU{number} {name}"
        found = [judge(seen) for judge in _JUDGES]
        faults = sorted((fault for one in found for fault in one.faults), key=lambda fault: list(Action).index(_action(fault)))
        grave, doubts = [fault for fault in faults if fault.grave], [one.unknown for one in found if one.unknown]
        if not any(one.observed for one in found[:_SIGNALS]):
            doubts.append("no health signal in the output")
        action = _action(grave[0]) if grave else Action.HEALTHY
        actions.setdefault(action.value, []).append(name)
        for cause in dict.fromkeys(one.faults[0].cause for one in found if one.faults):
            causes.setdefault(cause, []).append(name)
        if grave:
            verdict, message = Judged.BAD, f"{action.value}: {'; '.join(fault.words for fault in grave)}"
        else:
            verdict, message = (Judged.UNDECIDABLE, doubts[0]) if doubts else (Judged.GOOD, "")
            fabric_unknown |= bool(found[0].unknown)
        judged.append(verdict)
        findings += [InspectionFinding(place, verdict, message)] if message else []
        findings += [InspectionFinding(place, Judged.NOTE, fault.words) for fault in faults if not fault.grave]
    if query.cut:
        findings.append(InspectionFinding(kind, Judged.UNDECIDABLE, "the output is cut: judged by what stands before the cut"))
    facts: dict[str, object] = {
        "form": "-q",
        "driver": query.driver,
        "cuda": query.cuda,
        "attachedGpus": query.attached,
        "gpus": len(query.gpus),
        "causes": causes,
        "actions": actions,
        "fabric": sorted({f"{gpu.fabric.state}/{gpu.fabric.status}" for _, gpu in query.gpus if gpu.fabric}),
        "recoveryActions": sorted({gpu.recovery_action for _, gpu in query.gpus if gpu.recovery_action}),
        "cut": query.cut,
    }
    if query.failures:
        return Inspection(kind, Judged.BAD, "DRIVER_FAILED", query.failures[0], facts, findings)
    if query.attached is not None and query.attached != len(query.gpus):
        message = f"{query.attached} GPUs attached, {len(query.gpus)} in the output"
        findings.append(InspectionFinding(kind, Judged.UNDECIDABLE, message))
        judged.append(Judged.UNDECIDABLE)
    verdict = worst(judged)
    if verdict is Judged.BAD:
        sick = [action.value for action in Action if action.value in actions and action is not Action.HEALTHY]
        counts = ", ".join(f"{len(actions[action])} {action}" for action in sick)
        return Inspection(kind, verdict, sick[0].upper(), f"of {len(query.gpus)} GPUs: {counts}", facts, findings)
    if verdict is Judged.UNDECIDABLE:
        message = next((one.message for one in findings if one.verdict is Judged.UNDECIDABLE), "no GPU in the output")
        code = "FABRIC_UNKNOWN" if fabric_unknown else "NO_HEALTH_SIGNAL"
        return Inspection(kind, verdict, code, message, facts, findings)
    return Inspection(kind, verdict, "HEALTHY", f"all {len(query.gpus)} GPUs healthy", facts, findings)


def inspect_kernel_log(text: str) -> Inspection:
    """``kernel-log``: Xid and NVSwitch SXid lines. A log without any proves nothing about what was cut off. Raises ``Unreadable``.

    As in HW-01, what was before the driver said that nothing is left to do for a device is settled.
    """
    events = xid.parse_kernel_log(text)
    findings = [
        InspectionFinding(
            f"{'SXid' if event.sxid else 'Xid'} {event.code} {event.pci}",
            Judged.GOOD if over else _CLASS_VERDICT[event.klass],
            f"{event.klass.value} {event.action} {event.text}{', settled by a later Xid 154' * over}".replace("  ", " ")[:500],
        )
        for event, over in zip(events, xid.settled(events), strict=True)
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
    log = job_logs.parse_vector_add(text)
    judged = Judged.of(log.passed)
    code = {Judged.GOOD: "TEST_PASSED", Judged.BAD: "TEST_FAILED", Judged.UNDECIDABLE: "INCOMPLETE"}[judged]
    message = "Test PASSED" if log.passed else log.error or "the log ends before the sample's verdict"
    return Inspection("vectoradd", judged, code, message, {"passed": log.passed}, [])


def inspect_mig_manager(text: str) -> Inspection:
    """``mig-manager-log``: the state label that the change ended with. Raises ``Unreadable``."""
    log = job_logs.parse_mig_manager(text)
    judged = Judged.of({"success": True, "failed": False}.get(log.state))
    findings = [InspectionFinding("mig-manager", Judged.BAD, error) for error in log.errors[:50]]
    facts: dict[str, object] = {"state": log.state, "updates": list(log.updates)}
    message = f"mig.config.state ended as {log.state}" if log.state else "the log does not reach a mig.config.state"
    return Inspection("mig-manager-log", judged, (log.state or "incomplete").upper(), message, facts, findings)


def inspect_nccl_log(text: str) -> Inspection:
    """``nccl-log``. Codes: those of :class:`~conformance.outputs.nccl_log.NcclCode`. Raises ``Unreadable``."""
    log = nccl_lines.parse(text)
    verdict = nccl_log.judge(log)
    findings = [InspectionFinding("failure", Judged.BAD, warning[:500]) for warning in verdict.failures]
    findings += [InspectionFinding("NCCL WARN", Judged.UNDECIDABLE, text[:500]) for text in log.warnings if text not in verdict.failures]
    findings += [
        InspectionFinding(f"HCA {hca.index} {hca.name}", Judged.BAD, "GPU Direct RDMA Disabled", "disabled", "enabled")
        for hca in log.hcas
        if not hca.enabled and hca.network not in nccl_log.SOCKET_NETWORKS
    ]
    if log.environment.get("NCCL_IB_DISABLE") not in (None, "0"):
        value = log.environment["NCCL_IB_DISABLE"]
        findings.append(
            InspectionFinding("environment", Judged.UNDECIDABLE, f"NCCL_IB_DISABLE={value}: InfiniBand is off by configuration")
        )
    for line in log.net_channels:
        if not line.gdr:
            end = "" if line.collective else f" -> {line.dst}"
            where = f"channel {line.channel:02d}/{line.connection} {line.src}{end} [{line.direction}]"
            what = "no GPUDirect RDMA" if line.understood else "transport not understood: not seen to be direct"
            findings.append(InspectionFinding(where, Judged.BAD, what, f"via {line.via}", "via NET/…/GDRDMA"))
    one_sided = list(nccl_log.uncovered(log))
    for pair in one_sided if log.whole else ():
        where = f"channel {pair.channel:02d}/{pair.connection} {pair.src} -> {pair.dst}"
        findings.append(InspectionFinding(where, Judged.BAD, f"no [{pair.missing}] line", "one direction only", "send and receive"))
    if one_sided and not log.whole:
        findings.append(InspectionFinding("excerpt", Judged.NOTE, f"{len(one_sided)} connections show lines of one side only"))
    return verdict.inspection("nccl-log", findings)


def inspect_nccl_tests(text: str) -> Inspection:
    """``nccl-tests``. Codes: those of :class:`~conformance.outputs.nccl_tests.NcclTestsCode`. Raises ``Unreadable``."""
    run = nccl_tests.parse(text)
    verdict = nccl_tests.judge(run)
    findings = [
        InspectionFinding(f"{row.size} bytes {place}", Judged.BAD, "wrong values", f"{half.wrong:g}", "0")
        for row in run.rows
        for place, half in (("out-of-place", row.out_of_place), ("in-place", row.in_place))
        if half is not None and half.wrong and not run.error_column
    ]
    if verdict.good is not True:
        findings.append(InspectionFinding("run", Judged.of(verdict.good), verdict.message))
    return verdict.inspection("nccl-tests", findings)


def inspect_perftest(text: str) -> Inspection:
    """``ib-write-bw``, judged as evidence of GPUDirect RDMA. Raises ``Unreadable``."""
    output = job_logs.parse_perftest(text)
    findings = [InspectionFinding("perftest", Judged.BAD, failure) for failure in output.failures]
    return job_logs.judge_perftest(output).inspection("ib-write-bw", findings)
