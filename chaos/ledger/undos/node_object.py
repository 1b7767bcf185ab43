"""Undo of a deleted Node object: its kubelet registers again, and labels, annotations and taints that people had set are restored."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from chaos.cluster.requests import accepted, await_object, field, kubectl, merge, read, uid_of
from chaos.ledger.undos.nodes import NodeArgs, identity, machine_of, shown
from chaos.model.errors import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json

_CLUSTERS_OWN = "node.kubernetes.io/"
"""Taints with this prefix are conditions that the cluster itself writes and removes."""

_ALIVE = ("nvidia.com/gfd.timestamp",)
"""Labels whose values change whenever their writer starts: only their presence is recorded."""


class NodeExistsArgs(NodeArgs, frozen=True, kw_only=True):
    """The node as it was: ``saved`` has metadata (labels, annotations) and spec; ``ready`` whether it was Ready.

    ``wait_seconds`` is how long its kubelet may take to register it; then the object is created from what was saved.
    """

    saved: dict[str, Any]
    ready: bool
    wait_seconds: float


class NodeExists:
    """``node.exists``."""

    name: ClassVar[str] = "node.exists"
    Args = NodeExistsArgs

    def args(self, node: Json, wait_seconds: float) -> NodeExistsArgs:
        """Arguments for deleting the node that was just read."""
        meta = node["metadata"]
        saved = {
            "metadata": {"labels": meta.get("labels") or {}, "annotations": meta.get("annotations") or {}},
            "spec": dict(node.get("spec") or {}),
        }
        return NodeExistsArgs(**identity(node), saved=saved, ready=_ready(node), wait_seconds=wait_seconds)

    def rights(self, args: Any) -> tuple[str, ...]:
        """Reading, watching, patching and creating nodes."""
        return ("get nodes", "list nodes", "watch nodes", "patch nodes", "create nodes")

    def undo(self, cluster: Cluster, args: NodeExistsArgs, deadline: float) -> None:
        """Wait for the kubelet; put back what is missing on the node, or the node itself."""
        until = min(deadline, time.monotonic() + args.wait_seconds)
        await_object(cluster, "nodes", args.name, "", until, lambda node: _absent(args, node))
        node = read(cluster, "nodes", args.name)
        if node is None:
            accepted(cluster.create("nodes", _recreated(args)), f"create node {args.name}")
        elif uid_of(node) != args.uid and not _leaving(node) and (missing := _missing(args, node)):
            _must_be_the_machine(args, node)
            merge(cluster, "nodes", node, missing)

    def verify(self, cluster: Cluster, args: NodeExistsArgs, deadline: float) -> str:
        """Empty once the node is back, Ready if it was, with the labels, annotations and taints it had."""
        return await_object(cluster, "nodes", args.name, "", deadline, lambda node: _differs(args, node))

    def human(self, args: NodeExistsArgs) -> tuple[str, str]:
        """The node, and how to make its kubelet register it."""
        wrap = ("nsenter", "--target", "1", "--mount", "--", "systemctl", "restart", "kubelet")
        return f"node {args.name}", kubectl("debug", f"node/{args.name}", "--profile=sysadmin", "--image=busybox", "--", *wrap)


def _absent(args: NodeExistsArgs, node: Json | None) -> str:
    """Empty once the node is there and says which machine it is, if anything is to be put back on it."""
    if node is None or _leaving(node):
        return "it is not there"
    unknown = uid_of(node) != args.uid and args.machine and not machine_of(node)
    return "it does not say which machine it is" if unknown and _missing(args, node) else ""


def _must_be_the_machine(args: NodeExistsArgs, node: Json) -> None:
    """Raises :class:`UndoRefused` for another machine of the name: what this one had is not its. ApiTrouble while it does not say."""
    machine = machine_of(node)
    if not args.machine or machine == args.machine:
        return
    if not machine:
        raise ApiTrouble("NotYet", f"node {args.name} does not say yet which machine it is")
    raise UndoRefused("replaced", f"node {args.name} is another machine now", prior=args.machine, current=machine)


def _leaving(node: Json) -> bool:
    return bool(field(node, "metadata", "deletionTimestamp"))


def _ready(node: Json) -> bool:
    conditions = field(node, "status", "conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _people_taints(spec: Json) -> list[Json]:
    return [taint for taint in spec.get("taints") or () if not str(taint.get("key")).startswith(_CLUSTERS_OWN)]


def _place(taint: Json) -> tuple[str, str]:
    return str(taint.get("key")), str(taint.get("effect"))


def _missing(args: NodeExistsArgs, node: Json) -> Json:
    """A merge patch with what is recorded and not there. What is there with another value has a newer writer."""
    patch: Json = {}
    for name, saved in args.saved["metadata"].items():
        present = field(node, "metadata", name) or {}
        if absent := {key: value for key, value in saved.items() if key not in present}:
            patch.setdefault("metadata", {})[name] = absent
    spec = node.get("spec") or {}
    there = {_place(taint) for taint in spec.get("taints") or ()}
    if taints := [taint for taint in _people_taints(args.saved["spec"]) if _place(taint) not in there]:
        patch.setdefault("spec", {})["taints"] = [*(spec.get("taints") or ()), *taints]
    if args.saved["spec"].get("unschedulable") and not spec.get("unschedulable"):
        patch.setdefault("spec", {})["unschedulable"] = True
    return patch


def _recreated(args: NodeExistsArgs) -> Json:
    """The saved node without what the server and the cluster's controllers write."""
    spec = {key: value for key, value in args.saved["spec"].items() if key != "taints"}
    if taints := _people_taints(args.saved["spec"]):
        spec["taints"] = taints
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": args.name, **args.saved["metadata"]}, "spec": spec}


def _differs(args: NodeExistsArgs, node: Json | None) -> str:
    if node is None:
        return "the node is not there"
    if _leaving(node):
        return "the node is being deleted"
    if uid_of(node) == args.uid:
        return ""  # it was never deleted
    if args.ready and not _ready(node):
        return "the node is not Ready, as it was"
    if missing := _missing(args, node):
        return f"missing: {', '.join(_names(missing))}"
    present = field(node, "metadata", "labels") or {}
    wrong = {k: v for k, v in args.saved["metadata"]["labels"].items() if present.get(k) != v and k not in _ALIVE}
    return "; ".join(f"label {key}: {shown(present.get(key))} instead of {shown(value)}" for key, value in sorted(wrong.items()))


def _names(patch: Json) -> list[str]:
    meta, spec = patch.get("metadata") or {}, patch.get("spec") or {}
    return [
        *(meta.get("labels") or ()),
        *(meta.get("annotations") or ()),
        *(["taints"] if "taints" in spec else []),
        *(set(spec) - {"taints"}),
    ]
