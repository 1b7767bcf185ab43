"""Which status of a node condition means that something is wrong.

There is no rule for all: most conditions are True when something is wrong, some are False then. A table holds the conditions of
known monitors. Any other condition that is about devices is read by its name and its reason, and is unsure if they do not tell.

Facts: docs/facts/device-health.md#node-conditions, docs/facts/device-health.md#recommended-actions.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from conformance.node_states.since import said
from conformance.outputs.xid import XidClass, lookup
from fixtures.kubernetes.models import Condition, Node


class Health(StrEnum):
    """What a word about a node means."""

    FINE = "fine"
    FAULT = "fault"
    NOTICE = "notice"  # something is announced: the node will go, and is healthy until then
    UNSURE = "unsure"  # it is about devices, and nobody can tell whether something is wrong
    OTHER = "other"  # not about the health of the node


class Reading(msgspec.Struct, frozen=True):
    """What a condition means; ``why`` is a clause for a reading that needs one. ``devices``: it is about devices or their fabric."""

    health: Health
    devices: bool = False
    why: str = ""


def _types(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_DEVICES_TRUE_IS_FAULT = _types(
    r"Gpu\w{2,40}Watch", r"GpuXidError", r"SysLogs\w{2,40}", r"NVSwitch\w{2,40}", r"DCGMError", r"SyslogError",  # NVSentinel
    r"GPUMissing", r"NVLinkStatusInactive", r"XIDErrors", r"IBLinkFlapping", r"GPUClockThrottling", r"UnhealthyNvidia\w{2,40}",  # AKS
    r"XidCriticalError",  # GKE
    r"Gpu(?:Count|Ecc|RowRemap|Bus|Pcie|FabricMgr|BadPages|Xid)", r"Rdma(?:Link|LinkFlapping|WpaAuth|Rttcc)",  # OKE
    r"oci\.oraclecloud\.com/MaintenanceFault",
    r"AMDGPU\w{2,40}",
    r"Gcm\w{2,40}Problem",
)  # fmt: skip
_DEVICES_TRUE_IS_FINE = _types(r"AcceleratedHardwareReady")
_NODE_TRUE_IS_FAULT = _types(
    r"(?:Memory|Disk|PID)Pressure", r"NetworkUnavailable",  # the kubelet and the cloud's controller
    r"KernelDeadlock", r"ReadonlyFilesystem", r"CorruptDockerOverlay2", r"XfsShutdown", r"CperHardwareErrorFatal",  # NPD
    r"Frequent(?:Kubelet|Docker|Containerd|ContainerRuntime)Restart", r"FrequentUnregisterNetDevice",
    r"(?:ContainerRuntime|Kubelet)Unhealthy", r"(?:FilesystemCorruption|Kubelet|ContainerRuntime)Problem",
)  # fmt: skip
_NODE_TRUE_IS_FINE = _types(r"(?:Kernel|ContainerRuntime|Networking|Storage|InstanceStore)Ready")  # EKS
_NOTICES = _types(r"CSPMaintenance", r"VMEventScheduled")
_LIFECYCLE = _types(r"DrainInProgress", r"Drained", r"Maintenance(?:Planned|InProgress)", r"GracefulNodeShutdownInProgress")
_TELLS_FAULT = re.compile(
    r"(?i)fault|fail|error|xid|\becc\b|uncorrect|broken|defect|degrad|unhealthy|missing|\blost\b|fallen|\bfell\b|replac|repair|remediat|remap"
)

_ABOUT_DEVICES = re.compile(
    r"(?i:gpu|nvidia|nvlink|nvswitch|\bs?xid|xid(?:error|critical)|dcgm|accelerat|neuron|gaudi|cuda|rdma|infiniband|imex)|\bTPU|\bIB[A-Z]|\bEFA"
)
_GOOD_NAME = re.compile(r"(?:Ready|Healthy|Available|OK|Ok|Online|Operational|Passed|Succeeded)\Z")
_NEGATED = re.compile(r"(?:Not|Un|In|un|in)(?:Ready|Healthy|healthy|Available|available|OK|Ok|Online|Operational|operational)\Z")
_BAD_NAME = re.compile(
    r"(?:Error|Failure|Failed|Fault|Problem|Missing|Lost|Down|Flapping|Deadlock|Degraded|Stuck|Hang|Hung|Throttling|Throttled"
    r"|Overheat|Mismatch|Unhealthy|NotReady|Unavailable|Inactive|Offline)s?\Z"
)
_FINE_REASON = re.compile(
    r"No[A-Z]\w*|\w*HasNoIssues?|\w*IsHealthy|\w*IsReady|(?:Health)?CheckPassed|\w*(?:Passed|Resolved|Recovered)|Healthy|Ok|OK"
)
_NOT_HEALTHY = re.compile(r"\w*Is(?:Not|Un)(?:Healthy|healthy|Ready)")

_ACTION = re.compile(r"Recommended ?Action\s?[=:]\s?(\w{1,40})")
_CODE = re.compile(r"ErrorCode:(\w{1,60})|\[(\w{1,60})")
_XID_MAP = re.compile(r'"(\d{1,4})"\s?:\s?true')
_NOTHING_TO_DO = frozenset({"NONE", "0"})
_MOST_ENTRIES = 50
COMPUTE_DOMAIN = "resource.nvidia.com/computeDomain"
_PRODUCT = "nvidia.com/gpu.product"


def read_condition(condition: Condition, node: Node) -> Reading:
    """What a condition of a node means. ``Ready`` is the kubelet's word about itself, and nothing here."""
    kind = condition.type
    if kind == "Ready" or len(kind) > 316:
        return Reading(Health.OTHER)
    for pattern, devices, wrong in (
        (_DEVICES_TRUE_IS_FAULT, True, "True"),
        (_DEVICES_TRUE_IS_FINE, True, "False"),
        (_NODE_TRUE_IS_FAULT, False, "True"),
        (_NODE_TRUE_IS_FINE, False, "False"),
    ):
        if pattern.fullmatch(kind):
            return _by_polarity(condition, node, devices, wrong)
    if _NOTICES.fullmatch(kind):
        return Reading(Health.NOTICE if condition.status == "True" else Health.FINE)
    if _LIFECYCLE.fullmatch(kind):
        return _of_lifecycle(condition)
    return _by_shape(condition, node)


def _of_lifecycle(condition: Condition) -> Reading:
    """A condition of Kubernetes' own that tells what is done to a node, or will be. Only a fault that is its cause matters here."""
    words = f"{condition.reason[:1000]} {condition.message[:1000]}"
    if condition.status == "True" and _ABOUT_DEVICES.search(words) and _TELLS_FAULT.search(words):
        return Reading(Health.UNSURE, True, "work on the node is announced, and its words tell of a fault")
    return Reading(Health.OTHER)


def _by_polarity(condition: Condition, node: Node, devices: bool, wrong: str) -> Reading:
    if condition.status == wrong:
        return _fault(condition, node) if devices else Reading(Health.FAULT)
    if condition.status in ("True", "False"):
        return Reading(Health.FINE, devices)
    return Reading(Health.UNSURE, devices, "its monitor cannot tell") if devices else Reading(Health.OTHER)


def _by_shape(condition: Condition, node: Node) -> Reading:
    """A condition that no table holds. Only what is about devices matters; what its words leave open stays open."""
    if (condition.reason, condition.status) in ((f"{condition.type}IsNotHealthy", "True"), (f"{condition.type}IsHealthy", "False")):
        return _by_polarity(condition, node, True, "True")  # NVSentinel's form, whatever its monitor is called
    if not any(_ABOUT_DEVICES.search(text[:1000]) for text in (condition.type, condition.reason, condition.message)):
        return Reading(Health.OTHER)
    if condition.status not in ("True", "False"):
        return Reading(Health.UNSURE, True, "its monitor cannot tell")
    wrong = _wrong_status(condition.type)
    reads_fine = bool(_FINE_REASON.fullmatch(condition.reason)) and not _NOT_HEALTHY.fullmatch(condition.reason)
    if wrong == condition.status and not reads_fine:
        return _fault(condition, node)
    if (wrong and wrong != condition.status) or (not wrong and reads_fine):
        return Reading(Health.FINE, True)
    return Reading(Health.UNSURE, True, f"whether {condition.status} is good or bad for it is not known")


def wrong_status(kind: str) -> str:
    """The status in which a condition of this type tells a fault; True where nothing says otherwise, as for the node problem detector."""
    if any(pattern.fullmatch(kind) for pattern in (_DEVICES_TRUE_IS_FINE, _NODE_TRUE_IS_FINE)):
        return "False"
    if any(pattern.fullmatch(kind) for pattern in (_DEVICES_TRUE_IS_FAULT, _NODE_TRUE_IS_FAULT)):
        return "True"
    return _wrong_status(kind) or "True"


def _wrong_status(kind: str) -> str:
    """The status that means a fault, by the name of a condition; empty if the name does not say."""
    if _BAD_NAME.search(kind) or _NEGATED.search(kind):
        return "True"
    return "False" if _GOOD_NAME.search(kind) else ""


def _fault(condition: Condition, node: Node) -> Reading:
    """A condition in the status of a fault. Its message may list several findings, and some of them are no faults."""
    if "MaintenanceFault" not in condition.type and (stale := _earlier_boot(condition, node)):
        return Reading(Health.UNSURE, True, stale)
    readings = [_entry(text, condition.type, node) for text in _entries(condition)]
    worst = next((one for one in readings if one.health is Health.FAULT), None)
    return worst or next((one for one in readings if one.health is Health.UNSURE), readings[0])


def _entries(condition: Condition) -> list[str]:
    """The findings of a condition: each ends with its recommended action; or the one that the whole message is."""
    parts = [part for part in condition.message.split(";")[:_MOST_ENTRIES] if _ACTION.search(part)]
    return parts or [f"{condition.reason} {condition.message}"]


def _entry(text: str, kind: str, node: Node) -> Reading:
    action = _ACTION.search(text)
    if action and action[1].upper() in _NOTHING_TO_DO:
        return Reading(Health.FINE, True, f"recommended action {action[1]}")
    if "IMEX" in text and COMPUTE_DOMAIN not in node.metadata.label:
        return Reading(Health.FINE, True, "IMEX does not run on a node that is in no ComputeDomain")
    if "NVLINK_DOWN" in text and "pcie" in node.metadata.label.get(_PRODUCT, "").lower():
        return Reading(Health.UNSURE, True, "a PCIe board has NVLink only with a bridge, and no label tells of one")
    codes = _xids(text, kind)
    if codes and all(lookup(code).klass in (XidClass.APPLICATION, XidClass.INFO) for code in codes):
        words = ", ".join(str(code) for code in sorted(codes)[:5])
        return Reading(Health.UNSURE, True, f"by NVIDIA's catalogue Xid {words} is no fault of the device")
    return Reading(Health.FAULT, True)


def _xids(text: str, kind: str) -> set[int]:
    """Xid codes that a finding is about; none if it is about anything else too."""
    found = {int(code) for code in _XID_MAP.findall(text)}
    if "xid" in kind.lower():
        words = [first or second for first, second in _CODE.findall(text)]
        if not all(word.isdigit() for word in words):
            return set()
        found |= {int(word) for word in words}
    return found


_BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _earlier_boot(condition: Condition, node: Node) -> str:
    """Why a condition is about an earlier boot, or empty: GKE's carries the boot ID as its message, and nobody sets it back."""
    boot = condition.message.strip()
    current = node.status.node_info.boot_id
    if current and _BOOT_ID.fullmatch(boot) and boot != current:
        return f"it is about boot {boot}, and the node has started again since"
    return ""


def words_of(condition: Condition) -> str:
    """``XIDErrors=True (XidErrorsDetected: GPU 3 …)`` for a finding."""
    more = ": ".join(part for part in (said(condition.reason, 80), said(condition.message)) if part)
    return f"{said(condition.type, 80)}={said(condition.status, 10)}" + (f" ({more})" if more else "")
