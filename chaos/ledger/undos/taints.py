"""Undo of a Node's taints."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from chaos.cluster.requests import field, kubectl, merge
from chaos.ledger.protocol import Args
from chaos.ledger.undos.nodes import NodeArgs, NodeValue, changed, identity, same_node
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json


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
