"""Pods that a kubelet refused: who is at fault, the node or the pod.

A pod that names its node itself (``spec.nodeName``) passes no scheduler, so a healthy node refuses it for want of room, labels or
agreement with a scheduler. The status of a refused pod does not say who bound it.

Facts: docs/facts/scheduling-messages.md#refusals-of-the-kubelet.
"""

from __future__ import annotations

import re

from conformance.req.creation_failures import Fault, statuses
from fixtures.cluster.kinds import BARE_KEYS, WORKLOAD_KEYS
from fixtures.kubernetes.models import Node, Pod
from fixtures.model.cluster import Scope, whole
from fixtures.model.demand.pod_templates import templates_of
from fixtures.model.placement.affinity import admits
from fixtures.model.placement.claimable import units_of
from fixtures.text.sentences import listed
from fixtures.verdict.subjects import Subject

_SHARED_UNITS = re.compile(r"maximum request size for shared resources is 1|at most 1 [\w./-]{1,253} can be requested")
_OWN_REASONS = frozenset({"SMTAlignmentError", "SysctlForbidden", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"})
_SICK = re.compile(
    r"no healthy devices present|no longer healthy|cannot allocate unhealthy devices|GPU is lost|node had condition"
    r"|(?:Allocate|GetPreferredAllocation|PreStartContainer) rpc failed"
    r"|rpc error: code = (?:Unavailable|DeadlineExceeded|Internal|Canceled|Aborted)"
)
"""What kubelets and plugins say of a sick device or plugin. No request brings that about on a healthy node that has such devices."""

_AMOUNTS = re.compile(r"requested: (?P<requested>\d{1,18}), used: \d{1,18}, capacity: (?P<capacity>\d{1,18})")


def asks_for_shared_units(message: str) -> bool:
    """Whether a plugin refused a request because it gives out one unit of a shared device, as it was told to."""
    return bool(_SHARED_UNITS.search(message[:4096]))


def fault_of_refusal(scope: Scope, pod: Pod) -> tuple[Fault, str]:
    """Who is at fault that a kubelet refused a pod, and why it is not plainly the node, as a clause."""
    reason, message = pod.status.reason, pod.status.message[:4096]
    node = scope.snapshot.node_by_name.get(pod.spec.node_name)
    if asks_for_shared_units(message) or reason in _OWN_REASONS:
        return Fault.POD, "its own request is the reason"
    if statuses(pod):
        return Fault.NODE, ""  # it was admitted before, and the kubelet has started anew
    lacking = _lacks(scope, pod, node) if node is not None else ""
    if _SICK.search(message):
        return (Fault.DOUBTED, lacking) if lacking else (Fault.NODE, "")
    if own := _asks_too_much(scope, pod, node, message):
        return Fault.POD, own
    if doubt := lacking or (_no_scheduler_would(scope, pod, node) if node is not None else ""):
        return Fault.DOUBTED, doubt
    if scope.platform.is_proven(pod.namespace):
        return Fault.NODE, ""  # no tenant makes pods there
    if naming := scope.cached(_naming).get((pod.namespace, pod.spec.node_name)):
        return Fault.DOUBTED, f"the template of {naming} names {pod.spec.node_name}"
    return Fault.UNPROVEN, ""


def _lacks(scope: Scope, pod: Pod, node: Node) -> str:
    """Devices that a pod asks for and of which its node has none, as a clause, or empty."""
    none = sorted(name for name, count in scope.devices_of(pod.spec).items() if count and not _offered(scope, node, name))
    return f"{node.name} has no {listed(none)}, so that a scheduler would not send it there" if none else ""


def _asks_too_much(scope: Scope, pod: Pod, node: Node | None, message: str) -> str:
    """That a pod asks for more than its node has, however free that is, as a clause, or empty."""
    said = _AMOUNTS.search(message)
    capacity = int(said["capacity"]) if said else 0
    if node is not None:
        for name, count in sorted(scope.devices_of(pod.spec).items()):
            if 0 < max(_offered(scope, node, name), capacity if name in message else 0) < count:
                return f"it asks for {count} {name}, more than {node.name} has"
    devices = any(name in message for name in scope.devices_of(pod.spec))
    if said and capacity and not devices and int(said["requested"]) > capacity:
        return f"it asks for {said['requested']} of what the node has {capacity}"
    return ""


def _offered(scope: Scope, node: Node, resource: str) -> int:
    """How many units a node has of its own, free or not, or of the DeviceClass that serves the resource."""
    known = scope.cached(_offers)
    if (node.name, resource) not in known:
        known[node.name, resource] = max(whole(node.status.capacity.get(resource)), units_of(scope, node, resource))
    return known[node.name, resource]


def _offers(_: Scope) -> dict[tuple[str, str], int]:
    return {}


def _no_scheduler_would(scope: Scope, pod: Pod, node: Node) -> str:
    """Why no scheduler would send a pod to a node now, as a clause, or empty. The labels and taints may have been others then."""
    hard = [taint for taint in scope.fence_taints(node) if taint.effect in ("NoSchedule", "NoExecute")]
    missed = [taint.key for taint in hard if not any(one.tolerates(taint) for one in pod.spec.tolerations or ())]
    if missed:
        return f"it does not tolerate the taint {missed[0]} of {node.name}, so that a scheduler would not send it there"
    if not admits(pod.spec, node):
        return f"its selector or affinity does not let it onto {node.name}, so that a scheduler would not send it there"
    return ""


def _naming(scope: Scope) -> dict[tuple[str, str], Subject]:
    """Workloads whose templates name a node, by namespace and node, of the kinds that this run has read."""
    found: dict[tuple[str, str], Subject] = {}
    for key in (*WORKLOAD_KEYS, *BARE_KEYS):
        for item in scope.snapshot.listing(key).items:
            for template in templates_of(key, item):
                if template.spec.node_name:
                    found.setdefault((template.namespace, template.spec.node_name), template.subject)
    return found
