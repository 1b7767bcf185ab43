"""Undos of single values of a Node: labels, annotations, unschedulable, taints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from chaos.cluster.node_work import cordon, is_unschedulable, named_cordoner
from chaos.cluster.requests import await_object, field, kubectl, merge, read, uid_of
from chaos.ledger.undos import Args
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.holds import UNSCHEDULABLE


class NodeArgs(Args, frozen=True, kw_only=True):
    """Which node. ``machine`` is its systemUUID: a node that registered again is another object and the same machine."""

    name: str
    uid: str
    machine: str = ""


def identity(node: Json) -> dict[str, str]:
    """The arguments that say which node it is."""
    return {"name": str(node["metadata"]["name"]), "uid": uid_of(node), "machine": machine_of(node)}


def machine_of(node: Json | None) -> str:
    """systemUUID of a node, empty when it gives none."""
    return str(field(node, "status", "nodeInfo", "systemUUID") or "")


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


class NodeValue(ABC):
    """What the undos of a Node's values share."""

    def rights(self, args: Any) -> tuple[str, ...]:
        """Reading, watching and patching nodes."""
        return ("get nodes", "list nodes", "watch nodes", "patch nodes")

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


class _Values(NodeValue):
    """Keys of a map in a Node's metadata."""

    Args = ValueArgs
    name: ClassVar[str]
    map_name: ClassVar[str]

    def args(self, node: Json, ours: Mapping[str, str | None]) -> ValueArgs:
        """Arguments for setting ``ours`` on the node that was just read; None removes."""
        present = field(node, "metadata", self.map_name) or {}
        return ValueArgs(**identity(node), prior={key: present.get(key) for key in ours}, ours=dict(ours))

    def undo(self, cluster: Cluster, args: ValueArgs, deadline: float) -> None:
        """Restore what is still ours."""
        node = same_node(cluster, args)
        present = field(node, "metadata", self.map_name) or {}
        wrong = {key: present.get(key) for key, prior in args.prior.items() if present.get(key) != prior}
        ours = [key for key, current in wrong.items() if key in args.ours and args.ours[key] == current]
        if ours:
            merge(cluster, "nodes", node, {"metadata": {self.map_name: {key: args.prior[key] for key in ours}}})
        if others := {key: current for key, current in wrong.items() if key not in ours}:
            raise changed(f"{self.map_name} of node {args.name}", {key: args.prior[key] for key in others}, others)

    def differs(self, args: ValueArgs, node: Json) -> str:
        """How the node differs from what was recorded; empty when it does not."""
        present = field(node, "metadata", self.map_name) or {}
        wrong = {key: present.get(key) for key, prior in args.prior.items() if present.get(key) != prior}
        return "; ".join(f"{key}: {shown(current)} instead of {shown(args.prior[key])}" for key, current in sorted(wrong.items()))

    def human(self, args: ValueArgs) -> tuple[str, str]:
        """The node, and the kubectl line that restores it."""
        words = [f"{key}-" if prior is None else f"{key}={prior}" for key, prior in args.prior.items()]
        return f"node {args.name}", kubectl(
            self.map_name.removesuffix("s").replace("annotation", "annotate"), "node", args.name, *words, "--overwrite"
        )


class NodeLabels(_Values):
    """``node.labels``."""

    name: ClassVar[str] = "node.labels"
    map_name: ClassVar[str] = "labels"


class NodeAnnotations(_Values):
    """``node.annotations``."""

    name: ClassVar[str] = "node.annotations"
    map_name: ClassVar[str] = "annotations"


class UnschedulableArgs(NodeArgs, frozen=True, kw_only=True):
    """``spec.unschedulable`` as it was and as the experiment sets it."""

    prior: bool
    ours: bool


class NodeUnschedulable(NodeValue):
    """``node.unschedulable``: cordon and uncordon. Restored is what was recorded, which may be cordoned."""

    name: ClassVar[str] = "node.unschedulable"
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
        tainted = any(taint.get("key") == UNSCHEDULABLE for taint in field(node, "spec", "taints") or ())
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


class Taint(Args, frozen=True, kw_only=True):
    """A taint, identified by key and effect."""

    key: str
    effect: str
    value: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """What tells it apart."""
        return self.key, self.effect


class TaintArgs(NodeArgs, frozen=True, kw_only=True):
    """Taints as they were and as the experiment leaves them. A place that one of the two lacks has no taint there."""

    prior: tuple[Taint, ...] = ()
    ours: tuple[Taint, ...] = ()


class NodeTaints(NodeValue):
    """``node.taints``: only the places named are restored, every other taint is left alone."""

    name: ClassVar[str] = "node.taints"
    Args = TaintArgs

    def args(self, node: Json, add: tuple[Taint, ...] = (), remove: tuple[tuple[str, str], ...] = ()) -> TaintArgs:
        """Arguments for adding (or overwriting) taints and removing those of ``(key, effect)`` on the node that was just read."""
        touched = {taint.place for taint in add} | set(remove)
        return TaintArgs(**identity(node), prior=tuple(t for t in _taints(node).values() if t.place in touched), ours=add)

    def undo(self, cluster: Cluster, args: TaintArgs, deadline: float) -> None:
        """Restore what is still ours."""
        node = same_node(cluster, args)
        present, others = _taints(node), {}
        wanted = list(field(node, "spec", "taints") or ())
        for place, prior, ours in _places(args):
            current = present.get(place)
            if current == prior:
                continue
            if current != ours:
                others["|".join(place)] = current
                continue
            wanted = [taint for taint in wanted if (taint.get("key"), taint.get("effect")) != place]
            wanted += [{key: value for key, value in msgspec.to_builtins(prior).items() if value}] if prior else []
        if wanted != list(field(node, "spec", "taints") or ()):
            merge(cluster, "nodes", node, {"spec": {"taints": wanted or None}})
        if others:
            raise changed(f"taints of node {args.name}", msgspec.to_builtins(args.prior), msgspec.to_builtins(others))

    def differs(self, args: TaintArgs, node: Json) -> str:
        """How the node differs from what was recorded; empty when it does not."""
        present = _taints(node)
        wrong = [(place, present.get(place), prior) for place, prior, _ in _places(args) if present.get(place) != prior]
        return "; ".join(
            f"taint {key}:{effect}: {_taint_shown(now)} instead of {_taint_shown(prior)}" for (key, effect), now, prior in wrong
        )

    def human(self, args: TaintArgs) -> tuple[str, str]:
        """The node, and the kubectl line that restores it."""
        words = [f"{key}:{effect}-" if prior is None else f"{key}={prior.value}:{effect}" for (key, effect), prior, _ in _places(args)]
        return f"node {args.name}", kubectl("taint", "node", args.name, *words, "--overwrite")


def _taints(node: Json) -> dict[tuple[str, str], Taint]:
    found = [
        Taint(key=str(taint.get("key")), effect=str(taint.get("effect")), value=str(taint.get("value") or ""))
        for taint in field(node, "spec", "taints") or ()
    ]
    return {taint.place: taint for taint in found}


def _places(args: TaintArgs) -> list[tuple[tuple[str, str], Taint | None, Taint | None]]:
    prior, ours = {t.place: t for t in args.prior}, {t.place: t for t in args.ours}
    return [(place, prior.get(place), ours.get(place)) for place in dict.fromkeys([*prior, *ours])]


def _taint_shown(taint: Taint | None) -> str:
    return "absent" if taint is None else repr(taint.value)
