"""Undos of whole objects: one that the experiment creates, one that it deletes, and a deleted Node, which its kubelet registers again."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from chaos.cluster.requests import accepted, await_object, kubectl, merge, read
from chaos.ledger.undos import Args, Undo
from chaos.ledger.undos.nodes import NodeArgs, identity, shown
from chaos.model.records import UndoRefused
from fixtures.cluster import kinds
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import kubectl_name
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.model.objects import VOLATILE_LABELS, condition, is_going, labels_of, lasting_taints, machine_of, owners_of, uid_of
from fixtures.ownership import owned
from fixtures.ownership.proof_record import is_run_name
from fixtures.ownership.read_proofs import read_proofs

CREATED = (
    "pods",
    "namespaces",
    "configmaps",
    "services",
    "policy/poddisruptionbudgets",
    "batch/jobs",
    "apps/deployments",
    "scheduling.k8s.io/priorityclasses",
    "scheduling.k8s.io/workloads",
    "scheduling.k8s.io/podgroups",
    "scheduling.volcano.sh/podgroups",
    "scheduling.volcano.sh/queues",
    "batch.volcano.sh/jobs",
    "kueue.x-k8s.io/clusterqueues",
    "kueue.x-k8s.io/localqueues",
    "kueue.x-k8s.io/resourceflavors",
    "resource.k8s.io/resourceclaims",
    "resource.k8s.io/devicetaintrules",
)
"""Kinds that experiments may create."""

OPERAND_KINDS = ("services", "configmaps")
"""Kinds of operands, which experiments may delete and restore: nothing stops where one is missed for a moment. Secrets are not among
them, because a ledger must not hold them."""

_KIND_BY_TYPE = {(kind.group, kind.kind): key for key, kind in kinds.KINDS.items()}
_SERVERS_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp")


class AbsentArgs(Args, frozen=True, kw_only=True):
    """An object about to be created under this name, carrying the run's labels. Its UID is not known before."""

    key: str
    namespace: str = ""
    name: str
    run_id: str
    grace_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.key not in CREATED:
            raise ValueError(f"object.absent: {self.key!r} is none of the kinds that an experiment creates")


class ObjectAbsent(Undo):
    """``object.absent``: delete, by UID, the run's object of this name. Another's object of that name is not ours.

    In a namespace of the run its label tells, if the run's proof knows the namespace: another one may have its name by now. What
    stands in no namespace is deleted only where the proof knows its UID. What carries the label and nothing proves is told, and left.
    """

    name = "object.absent"
    Args = AbsentArgs
    RIGHTS = ("get {key}", "list {key}", "watch {key}", "delete {key}")

    def undo(self, cluster: Cluster, args: AbsentArgs, deadline: float) -> None:
        """Ask for the deletion of exactly the object that is there."""
        found = read(cluster, args.key, args.name, args.namespace)
        if found is None or not _of_run(cluster, args)[0](found) or is_going(found):
            return
        answer = cluster.delete(args.key, args.name, args.namespace, uid=uid_of(found), grace_seconds=args.grace_seconds)
        if answer.status != 404:
            accepted(answer, f"delete {args.key} {args.name}")

    def verify(self, cluster: Cluster, args: AbsentArgs, deadline: float) -> str:
        """Empty once no object of ours has that name."""

        ours, proven = _of_run(cluster, args)

        def differs(found: Json | None) -> str:
            if found is not None and not proven and _is_labelled(found, args):
                return "nothing proves that the run created it: it is left as it is"
            if found is None or not ours(found):
                return ""
            held = mapping(found, "metadata").get("finalizers")
            return "it is still there" + (f", held by {', '.join(map(str, held))}" if held else "")

        return await_object(cluster, args.key, args.name, args.namespace, deadline, differs)

    def human(self, args: AbsentArgs) -> tuple[str, str]:
        """The object, and the line that deletes it."""
        return _where(args.key, args.namespace, args.name), kubectl("delete", kubectl_name(args.key), args.name, namespace=args.namespace)


def _of_run(cluster: Cluster, args: AbsentArgs) -> tuple[Callable[[Json], bool], bool]:
    """What tells the run's own object from one that took its name, and whether anything says what the run created. Raises ApiTrouble."""
    if args.namespace and not is_run_name(args.namespace, args.run_id):  # no bounds let an entry reach there
        return (lambda found: _is_labelled(found, args)), True
    view = read_proofs(cluster, args.run_id).get(args.run_id)
    if view is None or not view.records:
        return (lambda found: False), False
    if not args.namespace:
        return (lambda found: view.created_this(args.key, found)), True
    home = read(cluster, "namespaces", args.namespace)
    own = home is not None and view.created_this("namespaces", home)
    return (lambda found: own and _is_labelled(found, args)), True


def _is_labelled(found: Json, args: AbsentArgs) -> bool:
    return bool((labels_of(found)).get(owned.RUN_LABEL) == args.run_id)


def _where(key: str, namespace: str, name: str) -> str:
    return f"{key} {namespace + '/' if namespace else ''}{name}"


class PresentArgs(Args, frozen=True, kw_only=True):
    """An object about to be deleted, as it was (``saved``, without what the server writes)."""

    key: str
    namespace: str = ""
    name: str
    uid: str
    saved: dict[str, Any]

    def __post_init__(self) -> None:
        if self.key not in OPERAND_KINDS:
            raise ValueError(f"object.present: {self.key!r} is none of the kinds that are saved and put back")


class ObjectPresent(Undo):
    """``object.present``: create it again, if nobody else has."""

    name = "object.present"
    Args = PresentArgs

    def args(self, key: str, obj: Json) -> PresentArgs:
        """Arguments for deleting the object that was just read."""
        meta = obj["metadata"]
        return PresentArgs(
            key=key, namespace=str(meta.get("namespace") or ""), name=str(meta["name"]), uid=uid_of(obj), saved=stripped(obj)
        )

    def rights(self, args: PresentArgs) -> tuple[str, ...]:
        """Reading, watching and creating that kind, and reading the kinds of its owners."""
        owners = tuple(f"get {key}" for ref in owners_of(args.saved) if (key := _owner_key(ref)))
        return (*(f"{verb} {args.key}" for verb in ("get", "list", "watch", "create")), *owners)

    def undo(self, cluster: Cluster, args: PresentArgs, deadline: float) -> None:
        """Create it from what was saved. One that is going has to be gone first."""
        await_object(
            cluster,
            args.key,
            args.name,
            args.namespace,
            min(deadline, time.monotonic() + 30),
            lambda obj: "it is going" if is_going(obj) else "",
        )
        if read(cluster, args.key, args.name, args.namespace) is not None:
            return
        obj = msgspec.json.decode(msgspec.json.encode(args.saved))
        obj["metadata"]["ownerReferences"] = [ref for ref in owners_of(obj) if _lives(cluster, ref, args.namespace)]
        answer = cluster.create(args.key, obj, namespace=args.namespace)
        if answer.reason != "AlreadyExists":
            accepted(answer, f"create {args.key} {args.name}")

    def verify(self, cluster: Cluster, args: PresentArgs, deadline: float) -> str:
        """Empty once an object of that name is there to stay."""
        return await_object(
            cluster,
            args.key,
            args.name,
            args.namespace,
            deadline,
            lambda obj: "it is missing" if obj is None else "it is going" if is_going(obj) else "",
        )

    def human(self, args: PresentArgs) -> tuple[str, str]:
        """The object, and the line that shows whether it is there; what was saved is in the ledger."""
        return _where(args.key, args.namespace, args.name), kubectl("get", kubectl_name(args.key), args.name, namespace=args.namespace)


def stripped(obj: Json) -> Json:
    """An object as it could be created again: no status, nothing that the server writes."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS_FIELDS}
    spec = obj.get("spec")
    if obj.get("kind") == "Service" and isinstance(spec, dict):
        obj = {
            **obj,
            "spec": {
                key: value for key, value in spec.items() if key not in ("clusterIP", "clusterIPs") or spec.get("clusterIP") == "None"
            },
        }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def _owner_key(ref: Json) -> str:
    return _KIND_BY_TYPE.get((str(ref.get("apiVersion", "")).rpartition("/")[0], str(ref.get("kind"))), "")


def _lives(cluster: Cluster, ref: Json, namespace: str) -> bool:
    """Whether the owner is still that very object. One of a kind we cannot read is left out: a dead owner would take it along."""
    key = _owner_key(ref)
    if not key:
        return False
    scope = namespace if kinds.KINDS[key].namespaced else ""
    return uid_of(read(cluster, key, str(ref.get("name")), scope)) == ref.get("uid")


class NodeExistsArgs(NodeArgs, frozen=True, kw_only=True):
    """The node as it was: ``saved`` has metadata (labels, annotations) and spec; ``ready`` whether it was Ready.

    ``wait_seconds`` is how long its kubelet may take to register it; then the object is created from what was saved.
    """

    saved: dict[str, Any]
    ready: bool
    wait_seconds: float


class NodeExists(Undo):
    """``node.exists``."""

    name = "node.exists"
    Args = NodeExistsArgs
    RIGHTS = ("get nodes", "list nodes", "watch nodes", "patch nodes", "create nodes")

    def args(self, node: Json, wait_seconds: float) -> NodeExistsArgs:
        """Arguments for deleting the node that was just read."""
        meta = node["metadata"]
        saved = {
            "metadata": {"labels": meta.get("labels") or {}, "annotations": meta.get("annotations") or {}},
            "spec": dict(node.get("spec") or {}),
        }
        return NodeExistsArgs(**identity(node), saved=saved, ready=(condition(node, "Ready") == "True"), wait_seconds=wait_seconds)

    def undo(self, cluster: Cluster, args: NodeExistsArgs, deadline: float) -> None:
        """Wait for the kubelet; put back what is missing on the node, or the node itself."""
        until = min(deadline, time.monotonic() + args.wait_seconds)
        await_object(cluster, "nodes", args.name, "", until, lambda node: _absent(args, node))
        node = read(cluster, "nodes", args.name)
        if node is None:
            accepted(cluster.create("nodes", _recreated(args)), f"create node {args.name}")
        elif uid_of(node) != args.uid and not is_going(node) and (missing := _missing_of(args, node)):
            _must_be_the_machine(args, node)
            merge(cluster, "nodes", node, missing)

    def verify(self, cluster: Cluster, args: NodeExistsArgs, deadline: float) -> str:
        """Empty once the node is back, Ready if it was, with the labels, annotations and taints it had."""
        return await_object(cluster, "nodes", args.name, "", deadline, lambda node: _node_differs(args, node))

    def human(self, args: NodeExistsArgs) -> tuple[str, str]:
        """The node, and how to make its kubelet register it."""
        wrap = ("nsenter", "--target", "1", "--mount", "--", "systemctl", "restart", "kubelet")
        return f"node {args.name}", kubectl("debug", f"node/{args.name}", "--profile=sysadmin", "--image=busybox", "--", *wrap)


def _absent(args: NodeExistsArgs, node: Json | None) -> str:
    """Empty once the node is there and says which machine it is, if anything is to be put back on it."""
    if node is None or is_going(node):
        return "it is not there"
    unknown = uid_of(node) != args.uid and args.machine and not machine_of(node)
    return "it does not say which machine it is" if unknown and _missing_of(args, node) else ""


def _must_be_the_machine(args: NodeExistsArgs, node: Json) -> None:
    """Raises :class:`UndoRefused` for another machine of the name: what this one had is not its. ApiTrouble while it does not say."""
    machine = machine_of(node)
    if not args.machine or machine == args.machine:
        return
    if not machine:
        raise ApiTrouble("NotYet", f"node {args.name} does not say yet which machine it is")
    raise UndoRefused("replaced", f"node {args.name} is another machine now", prior=args.machine, current=machine)


def _place(taint: Json) -> tuple[str, str]:
    return str(taint.get("key")), str(taint.get("effect"))


def _missing_of(args: NodeExistsArgs, node: Json) -> Json:
    """A merge patch with what is recorded and not there. What is there with another value has a newer writer."""
    patch: Json = {}
    for name, saved in args.saved["metadata"].items():
        present = mapping(node, "metadata", name)
        if absent := {key: value for key, value in saved.items() if key not in present}:
            patch.setdefault("metadata", {})[name] = absent
    spec = node.get("spec") or {}
    there = {_place(taint) for taint in spec.get("taints") or ()}
    if taints := [taint for taint in lasting_taints(args.saved["spec"].get("taints")) if _place(taint) not in there]:
        patch.setdefault("spec", {})["taints"] = [*(spec.get("taints") or ()), *taints]
    if args.saved["spec"].get("unschedulable") and not spec.get("unschedulable"):
        patch.setdefault("spec", {})["unschedulable"] = True
    return patch


def _recreated(args: NodeExistsArgs) -> Json:
    """The saved node without what the server and the cluster's controllers write."""
    spec = {key: value for key, value in args.saved["spec"].items() if key != "taints"}
    if taints := lasting_taints(args.saved["spec"].get("taints")):
        spec["taints"] = taints
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": args.name, **args.saved["metadata"]}, "spec": spec}


def _node_differs(args: NodeExistsArgs, node: Json | None) -> str:
    if node is None:
        return "the node is not there"
    if is_going(node):
        return "the node is being deleted"
    if uid_of(node) == args.uid:
        return ""  # it was never deleted
    if args.ready and condition(node, "Ready") != "True":
        return "the node is not Ready, as it was"
    if missing := _missing_of(args, node):
        return f"missing: {', '.join(_names(missing))}"
    present = labels_of(node)
    wrong = {k: v for k, v in args.saved["metadata"]["labels"].items() if present.get(k) != v and k not in VOLATILE_LABELS}
    return "; ".join(f"label {key}: {shown(present.get(key))} instead of {shown(value)}" for key, value in sorted(wrong.items()))


def _names(patch: Json) -> list[str]:
    meta, spec = patch.get("metadata") or {}, patch.get("spec") or {}
    return [
        *(meta.get("labels") or ()),
        *(meta.get("annotations") or ()),
        *(["taints"] if "taints" in spec else []),
        *(set(spec) - {"taints"}),
    ]
