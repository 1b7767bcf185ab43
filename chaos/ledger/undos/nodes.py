"""Undos of a Node's values: labels, unschedulable, and what remediation did because of a fault (cordon, state label, conditions).

A line in a kernel log cannot be taken back; what it led to can, by the clear path that a person would take.
"""

import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from chaos.cluster.requests import accepted, await_object, kubectl, merge, read
from chaos.ledger.undos import Args, Undo
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.devices.gpu_names import names_another
from fixtures.model.nodes.health import wrong_status
from fixtures.model.nodes.holds import STATE_LABEL, UNSCHEDULABLE, Kind, is_note
from fixtures.model.nodes.untyped_nodes import cordon, fault_conditions, named_cordoner
from fixtures.model.objects import annotations_of, conditions_of, is_unschedulable, labels_of, machine_of, taints_of, uid_of


class NodeArgs(Args, frozen=True, kw_only=True):
    """Which node. ``machine`` is its systemUUID: a node that registered again is another object and the same machine."""

    name: str
    uid: str
    machine: str = ""


def identity(node: Json) -> dict[str, str]:
    """The arguments that say which node it is."""
    return {"name": str(node["metadata"]["name"]), "uid": uid_of(node), "machine": machine_of(node)}


def same_node(cluster: Cluster, args: NodeArgs) -> Json:
    """The node now. Raises :class:`UndoRefused` when it is gone or another one, ApiTrouble when the API does not say."""
    node = read(cluster, "nodes", args.name)
    if node is None:
        raise UndoRefused("replaced", f"node {args.name} is gone", prior=args.uid)
    if (problem := _other(args, node)) is not None:
        raise UndoRefused("replaced", problem, prior=args.uid, current=uid_of(node))
    return node


def _other(args: NodeArgs, node: Json | None) -> str | None:
    if node is None:
        return f"node {args.name} is gone"
    if uid_of(node) == args.uid or (args.machine and args.machine == machine_of(node)):
        return None
    return f"node {args.name} is another one now (uid {uid_of(node)})"


class NodeValue(Undo):
    """What the undos of a Node's values share."""

    RIGHTS = ("get nodes", "list nodes", "watch nodes", "patch nodes")

    def verify(self, cluster: Cluster, args: Any, deadline: float) -> str:
        """Empty once the node shows the prior values."""
        return await_object(cluster, "nodes", args.name, "", deadline, lambda node: _other(args, node) or self.differs(args, node or {}))

    @abstractmethod
    def differs(self, args: Any, node: Json) -> str:
        """How the node differs from what was recorded; empty when it does not."""


class ValueArgs(NodeArgs, frozen=True, kw_only=True):
    """Values by key, as they were and as the experiment sets them; None is absent."""

    prior: dict[str, str | None]
    ours: dict[str, str | None]


class NodeLabels(NodeValue):
    """``node.labels``."""

    name = "node.labels"
    Args = ValueArgs

    def args(self, node: Json, ours: Mapping[str, str | None]) -> ValueArgs:
        """Arguments for setting ``ours`` on the node that was just read; None removes."""
        present = labels_of(node)
        return ValueArgs(**identity(node), prior={key: present.get(key) for key in ours}, ours=dict(ours))

    def undo(self, cluster: Cluster, args: ValueArgs, deadline: float) -> None:
        """Restore what is still ours."""
        node = same_node(cluster, args)
        wrong = _wrong(args, node)
        ours = [key for key, current in wrong.items() if key in args.ours and args.ours[key] == current]
        if ours:
            merge(cluster, "nodes", node, {"metadata": {"labels": {key: args.prior[key] for key in ours}}})
        if others := {key: current for key, current in wrong.items() if key not in ours}:
            raise changed(f"labels of node {args.name}", {key: args.prior[key] for key in others}, others)

    def differs(self, args: ValueArgs, node: Json) -> str:
        """How the node differs from what was recorded; empty when it does not."""
        wrong = sorted(_wrong(args, node).items())
        return "; ".join(f"{key}: {shown(current)} instead of {shown(args.prior[key])}" for key, current in wrong)

    def human(self, args: ValueArgs) -> tuple[str, str]:
        """The node, and the kubectl line that restores it."""
        return f"node {args.name}", _labelling(args.name, args.prior)


def _wrong(args: ValueArgs, node: Json) -> dict[str, str | None]:
    present = labels_of(node)
    return {key: present.get(key) for key, prior in args.prior.items() if present.get(key) != prior}


class UnschedulableArgs(NodeArgs, frozen=True, kw_only=True):
    """``spec.unschedulable`` as it was and as the experiment sets it."""

    prior: bool
    ours: bool


class NodeUnschedulable(NodeValue):
    """``node.unschedulable``: cordon and uncordon. Restored is what was recorded, which may be cordoned."""

    name = "node.unschedulable"
    Args = UnschedulableArgs

    def args(self, node: Json, ours: bool) -> UnschedulableArgs:
        """Arguments for setting ``spec.unschedulable`` on the node that was just read."""
        return UnschedulableArgs(**identity(node), prior=is_unschedulable(node), ours=ours)

    def undo(self, cluster: Cluster, args: UnschedulableArgs, deadline: float) -> None:
        """Restore what is still ours."""
        node = same_node(cluster, args)
        if is_unschedulable(node) != args.prior:
            if args.ours == args.prior or named_cordoner(node):
                found = cordon(node)
                raise changed(f"cordon of node {args.name}", args.prior, (found.owner or found.kind.value) if found else "in service")
            merge(cluster, "nodes", node, {"spec": {"unschedulable": args.prior or None}})

    def differs(self, args: UnschedulableArgs, node: Json) -> str:
        """How the node differs from what was recorded; empty when it does not."""
        current = is_unschedulable(node)
        if current != args.prior:
            return f"unschedulable: {shown(current)} instead of {shown(args.prior)}"
        tainted = any(taint.get("key") == UNSCHEDULABLE for taint in taints_of(node))
        return "" if tainted <= args.prior else f"the taint {UNSCHEDULABLE} is still there"

    def human(self, args: UnschedulableArgs) -> tuple[str, str]:
        """The node, and the kubectl line that restores it."""
        return f"node {args.name}", kubectl("cordon" if args.prior else "uncordon", args.name)


def _labelling(name: str, prior: Mapping[str, str | None]) -> str:
    """The kubectl line that sets labels of a node to what they were; None: it had no such label."""
    words = [f"{key}-" if value is None else f"{key}={value}" for key, value in prior.items()]
    return kubectl("label", "node", name, *words, "--overwrite")


def changed(what: str, prior: Any, current: Any) -> UndoRefused:
    """Somebody else wrote after the experiment did: it is theirs now."""
    return UndoRefused("changed by another", f"{what}: somebody else has changed it since; left as it is", prior=prior, current=current)


def shown(value: object) -> str:
    """A value for people."""
    return "absent" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


_DEVICES = re.compile(r"(?i)gpu|nvidia|nvlink|nvswitch|xid|dcgm|syslog|acceleratedhardware")
"""Words in the types of conditions that tell faults of devices. Any other answers no fault of ours and is never cleared.

Facts: docs/facts/device-health.md#node-conditions.
"""


AGENT_LABEL = re.compile(r"nvidia\.com/gpu\.deploy\.[a-z][a-z0-9-]{0,40}")
"""Labels by which GPU Operator runs an agent on a node. A repair sets them to ``false`` while it resets a device.

Facts: docs/facts/device-health.md#nvsentinel.
"""


class ClearedArgs(NodeArgs, frozen=True, kw_only=True):
    """The node before the fault: whether it was cordoned, its state labels and notes, and the conditions that told a fault, by type.

    ``kinds``: types of all its conditions; None in the ledger of an older release. ``names``: of the GPU that the fault is about. A
    condition that names another one tells a fault of somebody else. ``agents``: labels by which an agent ran there.
    """

    unschedulable: bool
    labels: dict[str, str | None]
    conditions: dict[str, str]
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    kinds: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class NodeCleared(Undo):
    """``node.cleared``: uncordon and take the state label away where remediation did that, and see that the conditions are as before."""

    name = "node.cleared"
    Args = ClearedArgs
    RIGHTS = ("get nodes", "list nodes", "watch nodes", "patch nodes", "patch nodes/status")

    def undo(self, cluster: Cluster, args: ClearedArgs, deadline: float) -> None:
        """Put back what remediation changed. What shows to be somebody else's (a cordon, another device's fault) is left as it is.

        A cordon that nothing explains is left too, and refused: nobody knows whose it is. A condition that tells the fault, which is
        over, is set to what it is without one: detectors of Xids never do that themselves. One that came with the fault is taken away.
        A repair under way gets half of the time to end by itself; agents that it leaves stopped are started again. A cordon of before
        that is gone stays gone: the API server does not keep who takes one away, and the node may have been opened on purpose.
        """
        node = same_node(cluster, args)
        if _under_repair(args, node):
            now = time.monotonic()
            await_object(cluster, "nodes", args.name, "", now + (deadline - now) / 2, lambda found: _under_repair(args, found or {}))
            node = same_node(cluster, args)
        patch: Json = {}
        labels = _labels(node)
        if moved := {key: prior for key, prior in args.labels.items() if labels[key] != prior}:
            patch["metadata"] = {"labels": moved}
        if noted := _noted(args, node):
            patch.setdefault("metadata", {})["annotations"] = noted
        reported = [kind for kind in _conditions(node, args.names) if kind not in args.conditions]
        ours = [kind for kind in reported if _DEVICES.search(kind)]
        found = cordon(node)
        if found and not args.unschedulable and not named_cordoner(node):
            if found.kind in (Kind.UNKNOWN, Kind.SUITE) and not moved and not noted and not ours:
                raise UndoRefused(
                    "changed by another", f"node {args.name} is cordoned, and no remediation shows that did it", prior=False, current=True
                )
            patch["spec"] = {"unschedulable": None}
        if stopped := _stopped(args, node) if moved or noted or ours else ():
            # the state label goes with the same patch, and a repair that lost it starts no agent again
            patch.setdefault("metadata", {}).setdefault("labels", {}).update(dict.fromkeys(stopped, "true"))
        if patch:
            merge(cluster, "nodes", node, patch)
        added = _added(args, node)
        if ours or added:
            path = cluster.path("nodes", "", args.name, "status")
            body = {
                "status": {
                    "conditions": [
                        *(_over(kind) for kind in ours if kind not in added),
                        *({"type": kind, "$patch": "delete"} for kind in added),
                    ]
                }
            }
            answer = cluster.request("PATCH", path, body=body, content_type="application/strategic-merge-patch+json")
            accepted(answer, f"clear conditions of node {args.name}")
        if others := sorted(set(reported) - set(ours)):
            raise UndoRefused(
                "changed by another",
                f"node {args.name} tells {', '.join(others)}, which no fault of devices leads to",
                prior="",
                current=others,
            )

    def verify(self, cluster: Cluster, args: ClearedArgs, deadline: float) -> str:
        """Empty once cordon, labels and conditions are as before, to stay: whoever still sees the fault would do it again.

        What is somebody else's does not count.
        """
        return await_object(cluster, "nodes", args.name, "", deadline, lambda node: _differs(args, node))

    def human(self, args: ClearedArgs) -> tuple[str, str]:
        """The node, and the line that puts it back into service."""
        if args.unschedulable:
            return f"node {args.name}", _labelling(args.name, {STATE_LABEL: args.labels.get(STATE_LABEL)})
        return f"node {args.name}", kubectl("uncordon", args.name)


def cleared_args(cluster: Cluster, name: str, names: tuple[str, ...] = ()) -> ClearedArgs:
    """Arguments from the node as it is now; ``names`` as in :class:`ClearedArgs`. Raises :class:`ApiTrouble` when it cannot be read."""
    node = read(cluster, "nodes", name)
    if node is None:
        raise ApiTrouble("NotFound", f"node {name} is gone")
    return ClearedArgs(
        **identity(node),
        unschedulable=is_unschedulable(node),
        labels=_labels(node),
        conditions=_conditions(node),
        notes=_notes(node),
        kinds=tuple(sorted(str(item.get("type")) for item in conditions_of(node))),
        names=names,
        agents=tuple(key for key, value in sorted(labels_of(node).items()) if AGENT_LABEL.fullmatch(key) and value == "true"),
    )


def _added(args: ClearedArgs, node: Json) -> list[str]:
    """Types of conditions about devices that the node did not have before, without those that name another GPU."""
    if args.kinds is None:
        return []
    found = {str(item.get("type")): str(item.get("message") or "") for item in conditions_of(node)}
    new = [kind for kind in sorted(found) if kind not in args.kinds and _DEVICES.search(kind)]
    return [kind for kind in new if not names_another(found[kind], args.names)]


def _over(kind: str) -> Json:
    """A health condition that tells no fault any more."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": "True" if wrong_status(kind) == "False" else "False",
        "reason": "ChaosExperimentOver",
        "message": "The fault that was told here was injected by gpu-conformance and is over.",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }


def _labels(node: Json) -> dict[str, str | None]:
    return {STATE_LABEL: labels_of(node).get(STATE_LABEL)}


def _under_repair(args: ClearedArgs, node: Json) -> str:
    """The agents that a repair has stopped and is still to start, or empty."""
    return ", ".join(_stopped(args, node)) if _labels(node) != args.labels else ""


def _stopped(args: ClearedArgs, node: Json) -> list[str]:
    """Labels of agents that ran before and are kept off the node now."""
    return [key for key in args.agents if labels_of(node).get(key) == "false"]


def _notes(node: Json) -> dict[str, str]:
    return {key: value for key, value in annotations_of(node).items() if is_note(key)}


def _noted(args: ClearedArgs, node: Json) -> dict[str, str | None]:
    """Notes to put back: those that came since are taken away."""
    now = _notes(node)
    return {key: args.notes.get(key) for key in sorted({*now, *args.notes}) if now.get(key) != args.notes.get(key)}


def _conditions(node: Json, names: tuple[str, ...] = ()) -> dict[str, str]:
    """Status of the health conditions that name no other GPU. One that was never written and one that tells no fault are the same."""
    return {item.type: item.status for item in fault_conditions(node) if not names_another(item.message, names)}


def _differs(args: ClearedArgs, node: Json | None) -> str:
    if node is None:
        return f"node {args.name} is gone"
    reported = []
    if is_unschedulable(node) and not args.unschedulable and not named_cordoner(node):
        reported.append("it is cordoned")
    reported += [f"label {key}: {value}" for key, value in _labels(node).items() if value != args.labels[key]]
    reported += [f"annotation {key}" for key in _noted(args, node)]
    reported += [f"condition {kind}, which was not there" for kind in _added(args, node)]
    if (conditions := _conditions(node, args.names)) != args.conditions:
        reported.append(f"conditions {', '.join(sorted(set(conditions) ^ set(args.conditions))) or 'differ'}")
    return "; ".join(reported)
