"""Undos of single values of a Node: labels, unschedulable."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from chaos.cluster.requests import await_object, kubectl, merge, read
from chaos.ledger.undos import Args, Undo
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.holds import UNSCHEDULABLE
from fixtures.model.nodes.untyped_nodes import cordon, named_cordoner
from fixtures.model.objects import is_unschedulable, labels_of, machine_of, taints_of, uid_of


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
        words = [f"{key}-" if prior is None else f"{key}={prior}" for key, prior in args.prior.items()]
        return f"node {args.name}", kubectl("label", "node", args.name, *words, "--overwrite")


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


def changed(what: str, prior: Any, current: Any) -> UndoRefused:
    """Somebody else wrote after the experiment did: it is theirs now."""
    return UndoRefused("changed by another", f"{what}: somebody else has changed it since; left as it is", prior=prior, current=current)


def shown(value: object) -> str:
    """A value for people."""
    return "absent" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
