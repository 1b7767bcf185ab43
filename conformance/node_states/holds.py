"""What keeps new pods off a node for a time: cordons and temporary taints, with age and owner.

A taint is temporary by its key: it is one of a family that some program sets and takes away, or its words say so. All other taints
are a pool's own, and may stay for ever. Facts: docs/facts/nodes.md#temporary-taints, docs/facts/nodes.md#cordons.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec

from conformance.node_states.field_writes import MERGED, SPEC_TAINTS, SPEC_UNSCHEDULABLE, last_write
from conformance.node_states.since import UNKNOWN, Since, said
from fixtures.kubernetes.models import Node, Taint
from fixtures.kubernetes.times import moment

HARD = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_STARTUP = re.compile(
    r"node\.cloudprovider\.kubernetes\.io/uninitialized|node\.cluster\.x-k8s\.io/\S+|karpenter\.sh/unregistered"
    r"|\S*(?:agent-not-ready|uninitialized)"
)
_STARTUP_WORDS = re.compile(r"(?i)startup|start-up|initiali[sz]ing|bootstrap")
_FAMILIES = re.compile(
    r"node\.kubernetes\.io/(?:not-ready|unreachable|unschedulable|out-of-service|network-unavailable|\w+-pressure)|node\.cloudprovider\.kubernetes\.io/\S+|readiness\.k8s\.io/\S+"
    r"|karpenter\.sh/(?:disrupted|disruption)|(?:ToBeDeleted|DeletionCandidate)\w*"
    r"|aws-node-termination-handler/\S+|cloud\.google\.com/impending-node-termination|medik8s\.io/\S+|kubevirt\.io/drain|amd-dcm"
    r"|sagemaker\.amazonaws\.com/node-health-status"
)
_WORDS = re.compile(
    r"(?i)not-?ready|unhealthy|unschedulable|quarantin|cordon|maintenance|repair|remediat|upgrad|drain|reboot|terminat|disrupt"
    r"|deletion|out-of-service|xid|(?:gpu|nvlink|node|hardware|device)[-_.]?(?:error|fault|failure|health)|impending|interrupt(?!ible)"
)
_HEALTH = re.compile(
    r"(?i)unhealthy|quarantin|repair|remediat|xid|medik8s|(?:gpu|nvlink|node|hardware|device)[-_.]?(?:error|fault|failure|health)"
)
_NOTICE = re.compile(r"(?i)terminat|spot-itn|impending|interrupt|rebalance|ToBeDeleted|disrupt|scheduled-maintenance|deletion")
_CONDITION_OF = {
    "node.kubernetes.io/not-ready": "Ready",
    "node.kubernetes.io/unreachable": "Ready",
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
_OWNERS: tuple[tuple[str, str], ...] = (
    (r"karpenter\.sh/\S+", "Karpenter"),
    (r"(?:ToBeDeleted|DeletionCandidate)\w*", "Cluster Autoscaler"),
    (r"readiness\.k8s\.io/\S+", "the node readiness controller"),
    (r"aws-node-termination-handler/\S+", "the AWS node termination handler"),
    (r"cloud\.google\.com/\S+", "GKE"),
    (r"node\.cloudprovider\.kubernetes\.io/\S+", "the cloud controller manager"),
    (r"node\.cluster\.x-k8s\.io/\S+", "Cluster API"),
    (r"medik8s\.io/\S+", "medik8s"),
    (r"kubevirt\.io/drain", "the node maintenance operator"),
    (r"sagemaker\.amazonaws\.com/\S+", "SageMaker HyperPod"),
    (r"amd-\S+", "the AMD GPU operator"),
    (r"node\.kubernetes\.io/(?!unschedulable|out-of-service)\S+", "the node lifecycle controller"),
)
_NVSENTINEL = re.compile(r"(?i)nvsentinel|quarantineHealthEvent")
_BY = re.compile(r"(?i)(?:\A|[/._-])cordon(?:ed)?-?by\Z")
_AT = re.compile(r"(?i)(?:\A|[/._-])(?:cordon|drain|maintenance|quarantine)\w*[-_.]?(?:time|timestamp|at|since|started?)\w*\Z")
_ABOUT = re.compile(r"(?i)cordon|maintenance|quarantine|kured|drain")
_OF_ONE_CORDON = 600.0
"""How long after the note about a cordon its taint may come, in seconds: the node lifecycle controller adds it within moments."""

_MACHINERY = ("node.alpha.kubernetes.io/", "volumes.kubernetes.io/", "csi.volume.kubernetes.io/")


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that keeps new pods off a node. ``name`` is ``cordon`` or the taint; ``owner`` is empty when nothing tells.

    ``notice``: the node is about to be taken away. ``health``: it is held because something about it is wrong.
    """

    node: Node
    name: str
    since: Since
    owner: str = ""
    notice: bool = False
    health: bool = False

    def __str__(self) -> str:
        return self.name + (f" of {self.owner}" if self.owner else "")


def is_cordoned(node: Node) -> bool:
    """Whether a node takes no new pods, by its spec or by the taint that a cordon leaves."""
    return node.spec.unschedulable or any(taint.key == UNSCHEDULABLE for taint in node.spec.taints)


def is_temporary(taint: Taint) -> bool:
    """Whether a taint is one that some program sets for a time."""
    key = taint.key[:316]
    return is_of_a_family(taint) or bool(_WORDS.search(key) or _STARTUP_WORDS.search(key))


def is_of_a_family(taint: Taint) -> bool:
    """Whether a taint is temporary beyond doubt; others are so by their words only."""
    key = taint.key[:316]
    return bool(_STARTUP.fullmatch(key) or _FAMILIES.fullmatch(key))


def holds(node: Node, fields: object, permanent: Collection[str] = ()) -> Iterator[Hold]:
    """The cordon and the hard temporary taints of a node. ``permanent`` are keys of the pool's own taints, whatever their words.

    ``fields`` are the node's managedFields, or None.
    """
    if is_cordoned(node):
        yield _cordon(node, fields)
    for taint in node.spec.taints:
        if taint.effect in HARD and taint.key != UNSCHEDULABLE and taint.key not in permanent and is_temporary(taint):
            yield Hold(
                node=node,
                name=f"taint {said(str(taint), 120)}",
                since=_taint_since(node, taint, fields),
                owner=_taint_owner(taint),
                notice=bool(_NOTICE.search(taint.key)),
                health=bool(_HEALTH.search(taint.key)),
            )


def soft_holds(node: Node) -> list[Taint]:
    """Temporary taints that only ask the scheduler to avoid a node."""
    return [taint for taint in node.spec.taints if taint.effect not in HARD and is_temporary(taint)]


def _cordon(node: Node, fields: object) -> Hold:
    taint = next((taint for taint in node.spec.taints if taint.key == UNSCHEDULABLE), None)
    added, noted = moment(taint.time_added) if taint is not None else None, _noted_time(node)
    earlier = added is not None and noted is not None and noted.latest is not None and added - noted.latest > _OF_ONE_CORDON
    owner = _cordon_owner(node, fields, noted=not earlier)
    since = UNKNOWN
    if added is not None:
        since = Since(latest=added, source=f"timeAdded of taint {UNSCHEDULABLE}")
    elif noted is not None:
        since = noted
    elif write := last_write(fields, SPEC_UNSCHEDULABLE):
        since = Since(latest=write.at, source="metadata.managedFields of spec.unschedulable")
    return Hold(
        node=node,
        name="cordon" if node.spec.unschedulable else f"taint {UNSCHEDULABLE} without spec.unschedulable",
        since=_bounded(node, since),
        owner=owner,
        health=bool(_NVSENTINEL.search(owner)),
    )


def _cordon_owner(node: Node, fields: object, *, noted: bool) -> str:
    """Who cordoned a node: who says so in a label or annotation, else who wrote the field, else who keeps notes about cordons there.

    ``noted`` is False where the notes are those of an earlier cordon (docs/facts/device-health.md#nvsentinel).
    """
    meta = node.metadata
    notes = {**meta.label, **meta.annotation} if noted else {}
    if by := next((value for key, value in sorted(notes.items()) if value and _BY.search(key)), ""):
        return said(by, 80)
    if any(_NVSENTINEL.search(key) and value for key, value in notes.items()):
        return "NVSentinel"
    write = last_write(fields, SPEC_UNSCHEDULABLE)
    if write is not None and write.manager not in ("", MERGED):
        return said(write.manager, 80)
    keys = sorted(key for key in meta.annotation if _ABOUT.search(key) and not key.startswith(_MACHINERY))
    return f"annotation {said(keys[0], 80)}" if keys else ""


def _noted_time(node: Node) -> Since | None:
    """The time of a cordon that somebody wrote into a label or annotation."""
    for key, value in sorted({**node.metadata.label, **node.metadata.annotation}.items()):
        if _AT.search(key) and (at := moment(value)) is not None:
            return Since(latest=at, source=f"{said(key, 80)} of the node")
    return None


def _taint_since(node: Node, taint: Taint, fields: object) -> Since:
    """When a taint was set: by its own time, by the condition that it stands for, by the start of the node, or by the last write."""
    if (added := moment(taint.time_added)) is not None:
        return Since(latest=added, source="timeAdded of the taint")
    if taint.key.startswith(("ToBeDeleted", "DeletionCandidate")) and (at := moment(taint.value)) is not None:
        return Since(latest=at, source="value of the taint")  # docs/facts/nodes.md#taints-of-autoscalers
    kind = _CONDITION_OF.get(taint.key)
    condition = node.condition(kind) if kind else None
    if condition is not None and (at := moment(condition.last_transition_time)) is not None:
        return _bounded(node, Since(latest=at, source=f"condition {kind}"))
    if _is_startup(taint) and (at := moment(node.metadata.creation_timestamp)) is not None:
        return Since(latest=at, source="creation of the node, which starts with the taint")
    if write := last_write(fields, SPEC_TAINTS):
        return Since(latest=write.at, source="metadata.managedFields of spec.taints")
    return UNKNOWN


def _is_startup(taint: Taint) -> bool:
    """Whether nodes have a taint from their creation, until they are set up."""
    return bool(_STARTUP.fullmatch(taint.key) or _STARTUP_WORDS.search(taint.key))


def _bounded(node: Node, since: Since) -> Since:
    """Nothing on a node is older than the node."""
    created = moment(node.metadata.creation_timestamp)
    if created is not None and since.latest is not None and since.latest < created:
        return Since(latest=created, source="creation of the node")
    return since


def _taint_owner(taint: Taint) -> str:
    return next((owner for pattern, owner in _OWNERS if re.fullmatch(pattern, taint.key)), "")
