"""Pods that a kubelet refused: who is at fault, the node or the pod.

A pod that names its node itself (``spec.nodeName``) passes no scheduler, so a healthy node refuses it for want of room, labels or
agreement with a scheduler. The status of a refused pod does not say who bound it. A scheduler's binding leaves no entry in
``metadata.managedFields``. Who makes a pod with ``spec.nodeName`` leaves one, and so does a controller whose template has it.

Facts: docs/facts/scheduling-messages.md#refusals-of-the-kubelet, docs/facts/scheduling-messages.md#who-put-a-pod-on-its-node.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from conformance.requirement import Asks, Form
from fixtures.cluster.kinds import BARE_KEYS, WORKLOAD_KEYS
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.untyped import mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import whole
from fixtures.model.demand.failing_pods import Fault
from fixtures.model.demand.pod_events import quoted
from fixtures.model.demand.pod_state import DEADLINE
from fixtures.model.demand.pod_templates import templates_of
from fixtures.model.nodes.holds import owns
from fixtures.model.placement.affinity import admits, fence_taints
from fixtures.model.placement.claimable import units_of
from fixtures.snapshot.managed_fields import MOST_ASKED, read_fields
from fixtures.snapshot.state import Snapshot
from fixtures.text.sentences import listed
from fixtures.verdict.subjects import Subject

_SHARED_UNITS = re.compile(r"maximum request size for shared resources is 1|at most 1 [\w./-]{1,253} can be requested")
_OWN_REASONS = frozenset({"SMTAlignmentError", "SysctlForbidden", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"})
_SICK = re.compile(
    r"no healthy devices present|no longer healthy|cannot allocate unhealthy devices|GPU is lost|node had condition"
    r"|(?:Allocate|GetPreferredAllocation|PreStartContainer) rpc failed"
    r"|rpc error: code = (?:Unavailable|Internal|Canceled|Aborted)"
)
"""What kubelets and plugins say of a sick device or plugin. No request brings that about on a healthy node that has such devices."""

_AMOUNTS = re.compile(r"requested: (?P<requested>\d{1,18}), used: \d{1,18}, capacity: (?P<capacity>\d{1,18})")


def asks_for_shared_units(message: str) -> bool:
    """Whether a plugin refused a request because it gives out one unit of a shared device, as it was told to."""
    return bool(_SHARED_UNITS.search(message[:4096]))


def fault_of_refusal(scope: Scope, pod: Pod) -> tuple[Fault, str]:
    """Who is at fault that a kubelet refused a pod, and why it is not plainly the node, as a clause."""
    reason, message = pod.ended_with[0], pod.ended_with[1][:4096]
    node = scope.snapshot.node_by_name.get(pod.node_name)
    if asks_for_shared_units(message) or reason in _OWN_REASONS:
        return Fault.POD, "its own request is the reason"
    if pod.statuses:
        return Fault.NODE, ""  # it was admitted before, and the kubelet has started anew
    lacking = _lacks(scope, pod, node) if node is not None else ""
    if DEADLINE.search(message):
        return Fault.DOUBTED, lacking or "a runtime or plugin that had no answer in time may only have been slow"
    if _SICK.search(message):
        return (Fault.DOUBTED, lacking) if lacking else (Fault.NODE, "")
    if own := _asks_too_much(scope, pod, node, message):
        return Fault.POD, own
    if doubt := lacking or (_no_scheduler_would(scope, pod, node) if node is not None else ""):
        return Fault.DOUBTED, doubt
    if scope.platform.of(pod.namespace).proven:
        return Fault.NODE, ""  # no tenant makes pods there
    if naming := scope.cached(_naming).get((pod.namespace, pod.node_name)):
        return Fault.DOUBTED, f"the template of {naming} names {pod.node_name}"
    return Fault.UNPROVEN, ""


def _lacks(scope: Scope, pod: Pod, node: Node) -> str:
    """Devices that a pod asks for and of which its node has none, as a clause, or empty."""
    none = sorted(name for name, count in scope.devices_of(pod.spec).items() if count and not _offered(scope, node, name))
    return f"{node.name} has no {listed(none)}, so that a scheduler would not send it there" if none else ""


def _asks_too_much(scope: Scope, pod: Pod, node: Node | None, message: str) -> str:
    """That a pod asks for more than its node has, however free that is, as a clause, or empty."""
    amounts = _AMOUNTS.search(message)
    capacity = int(amounts["capacity"]) if amounts else 0
    if node is not None:
        for name, count in sorted(scope.devices_of(pod.spec).items()):
            if 0 < max(_offered(scope, node, name), capacity if name in message else 0) < count:
                return f"it asks for {count} {name}, more than {node.name} has"
    devices = any(name in message for name in scope.devices_of(pod.spec))
    if amounts and capacity and not devices and int(amounts["requested"]) > capacity:
        return f"it asks for {amounts['requested']} of what the node has {capacity}"
    return ""


def _offered(scope: Scope, node: Node, resource: str) -> int:
    """How many units a node has of its own, free or not, or of the DeviceClass that serves the resource."""
    own = whole(node.capacity.get(resource))
    return scope.cached_by(("units", node.name, resource), lambda: max(own, units_of(scope, node, resource)))


def _no_scheduler_would(scope: Scope, pod: Pod, node: Node) -> str:
    """Why no scheduler would send a pod to a node now, as a clause, or empty. The labels and taints may have been others then."""
    hard = [taint for taint in fence_taints(scope, node) if taint.effect in ("NoSchedule", "NoExecute")]
    missed = [taint.key for taint in hard if not any(one.tolerates(taint) for one in pod.tolerations)]
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
                if template.node_name:
                    found.setdefault((template.namespace, template.node_name), template.subject)
    return found


MOST_SAMPLES = 8
"""Of how many pods of one node and reason the record is read at most."""

_NODE_NAME = ("f:spec", "f:nodeName")
_CONTAINERS = ("f:spec", "f:containers")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A device pod that a node did not take. ``pod`` is None where only an event tells of it.

    ``at``: when, at least; None where nothing says so. ``alone``: nobody replaces it. ``why`` it is not plainly the node's fault.
    """

    node: str
    reason: str
    message: str
    who: str
    namespace: str
    at: float | None
    alone: bool
    fault: Fault = Fault.NODE
    why: str = ""
    pod: Pod | None = None


class By(StrEnum):
    """Who put a pod on its node.

    ``UNRECORDED``: it has no record that says so. ``EMPTIED``: the same, where other pods have theirs. ``UNREAD``: nobody could read it.
    """

    SCHEDULER = "scheduler"
    AUTHOR = "author"
    UNRECORDED = "unrecorded"
    EMPTIED = "emptied"
    UNREAD = "unread"


class Placement(msgspec.Struct, frozen=True):
    """Who put a pod on its node, and the ``manager`` that wrote ``spec.nodeName`` if it was no scheduler."""

    by: By
    manager: str = ""


def placement(fields: object) -> Placement:
    """What the managedFields of a bound pod tell. A record that does not name who wrote the containers is not whole."""
    entries = mappings(fields)
    if authors := [entry for entry in entries if owns(entry, _NODE_NAME)]:
        return Placement(By.AUTHOR, text_of(authors[0].get("manager")))
    return Placement(By.SCHEDULER if any(owns(entry, _CONTAINERS) for entry in entries) else By.UNRECORDED)


class Records:
    """managedFields of refused pods: of a saved snapshot, else each pod is ``read`` from the cluster, :data:`MOST_ASKED` at most.

    ``read`` gives what :func:`read_of` does.
    """

    def __init__(self, snapshot: Snapshot, read: Callable[[Pod], list[Any] | None]) -> None:
        self._snapshot = snapshot
        self._read = read
        self._asked = 0

    def of(self, pod: Pod) -> Placement:
        """Who put a pod on its node."""
        saved, key = self._snapshot.failed_pod_fields, f"{pod.namespace}/{pod.name}"
        if key in saved or self._snapshot.offline:
            found = placement(saved.get(key))
            return _beside_others(found) if key in saved or any(saved.values()) else found
        if self._asked >= MOST_ASKED:
            return Placement(By.UNREAD)
        self._asked += 1
        fields = self._read(pod)
        return Placement(By.UNREAD) if fields is None else _beside_others(placement(fields))


def read_of(asks: Asks, pod: Pod) -> list[Any] | None:
    """managedFields of a pod as a live cluster has it now; None where it is gone or cannot be read."""
    name, uid = f"{pod.namespace}/{pod.name}", pod.metadata.uid
    form: Form[list[Any] | None] = Form(list[Any] | None)
    return asks(f"managedFields of pod {name} {uid}", lambda cluster: read_fields(cluster, "pods", pod.name, pod.namespace, uid), form)


def _beside_others(found: Placement) -> Placement:
    """A placement where pods have records, as every API server keeps them: one that is missing was taken away."""
    return Placement(By.EMPTIED) if found.by is By.UNRECORDED else found


def attributed(refusals: Sequence[Refusal], records: Records) -> tuple[list[Refusal], list[Refusal]]:
    """Refusals of one node and reason that count against the node, and those of which nobody can say who sent the pods there.

    One that is surely the node's, or one pod that a scheduler sent there, convicts the node, and the others count with it. In a saved
    snapshot without any records a pod of a controller does: whoever saved it left out what would tell more.
    """
    if any(one.fault is not Fault.UNPROVEN for one in refusals):
        return [*refusals], []
    authors: dict[tuple[str, str], str] = {}
    met, asked = set[By](), 0
    for one, pod in _samples(refusals):
        if _maker(one) in authors:
            continue
        if asked == MOST_SAMPLES or By.SCHEDULER in met:
            break
        asked += 1
        found = records.of(pod)
        if found.by is By.AUTHOR:
            authors[_maker(one)] = found.manager
        if found.by is not By.UNRECORDED or not one.alone:
            met.add(found.by)
    others = [one for one in refusals if _maker(one) not in authors]
    if By.SCHEDULER in met:
        return others, []
    if By.UNRECORDED in met:
        return [one for one in others if not one.alone], []
    return [], [_doubted(one, authors.get(_maker(one)), By.UNREAD in met) for one in refusals]


def _samples(refusals: Sequence[Refusal]) -> Iterator[tuple[Refusal, Pod]]:
    """The newest refusal of each namespace, then of each maker of pods, and then the others: the newest pod may be gone by now."""
    newest = sorted(refusals, key=lambda one: one.at or 0.0, reverse=True)
    spaces = {one.namespace: one for one in reversed(newest)}
    makers = {_maker(one): one for one in reversed(newest)}
    chosen = {one.who: one for one in (*spaces.values(), *makers.values(), *newest)}
    yield from ((one, one.pod) for one in chosen.values() if one.pod is not None)


def _maker(one: Refusal) -> tuple[str, str]:
    """The namespace of a pod and the UID of its controller; its own name where it has none."""
    owner = one.pod.controller if one.pod else None
    return one.namespace, owner.uid if owner else one.who


def _doubted(one: Refusal, author: str | None, unread: bool) -> Refusal:
    if author is not None:
        why = f"its managedFields say that {quoted(author, 60) or 'somebody'} wrote spec.nodeName"
    elif unread:
        why = "its managedFields could not be read, and nothing else says that a scheduler sent it there"
    else:
        why = "it has no managedFields that say so, and nothing else says that a scheduler sent it there"
    return msgspec.structs.replace(one, fault=Fault.DOUBTED, why=why)
