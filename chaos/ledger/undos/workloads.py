"""Undos of workloads: a scaled one, pods whose owner replaces them, and one environment variable of a pod template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from chaos.cluster.requests import await_object, field, kubectl, merge, read, uid_of
from chaos.ledger.undos import Args
from chaos.ledger.undos.nodes import changed, shown
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import kubectl_name
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json

SCALED = ("apps/deployments", "apps/statefulsets", "apps/replicasets")
"""Kinds that experiments may scale."""


class ReplicasArgs(Args, frozen=True, kw_only=True):
    """``spec.replicas`` as it was and as the experiment sets it; ``ready`` is how many were."""

    key: str
    namespace: str
    name: str
    uid: str
    prior: int
    ours: int
    ready: int

    def __post_init__(self) -> None:
        if self.key not in SCALED:
            raise ValueError(f"workload.replicas: {self.key!r} is none of {', '.join(SCALED)}")


class WorkloadReplicas:
    """``workload.replicas``: restored once as many replicas are ready as there were."""

    name: ClassVar[str] = "workload.replicas"
    Args = ReplicasArgs

    def args(self, key: str, obj: Json, ours: int) -> ReplicasArgs:
        """Arguments for scaling the workload that was just read."""
        meta = obj["metadata"]
        return ReplicasArgs(
            key=key, namespace=meta["namespace"], name=meta["name"], uid=uid_of(obj), prior=_replicas(obj), ours=ours, ready=_ready(obj)
        )

    def rights(self, args: ReplicasArgs) -> tuple[str, ...]:
        """Reading, watching and patching that kind."""
        return tuple(f"{verb} {args.key}" for verb in ("get", "list", "watch", "patch"))

    def undo(self, cluster: Cluster, args: ReplicasArgs, deadline: float) -> None:
        """Restore the number while it is still ours."""
        obj = read(cluster, args.key, args.name, args.namespace)
        if obj is None or uid_of(obj) != args.uid:
            raise UndoRefused(
                "replaced", f"{args.key} {args.namespace}/{args.name} is gone or another one", prior=args.uid, current=uid_of(obj)
            )
        current = _replicas(obj)
        if current == args.ours != args.prior:
            merge(cluster, args.key, obj, {"spec": {"replicas": args.prior}})
        elif current != args.prior:
            raise changed(f"replicas of {args.key} {args.namespace}/{args.name}", args.prior, current)

    def verify(self, cluster: Cluster, args: ReplicasArgs, deadline: float) -> str:
        """Empty once the number is back and as many are ready as were."""

        def differs(obj: Json | None) -> str:
            if obj is None or uid_of(obj) != args.uid:
                return "it is gone or another one"
            if _replicas(obj) != args.prior:
                return f"replicas: {_replicas(obj)} instead of {args.prior}"
            return "" if _ready(obj) >= args.ready else f"{_ready(obj)} of {args.ready} replicas are ready"

        return await_object(cluster, args.key, args.name, args.namespace, deadline, differs)

    def human(self, args: ReplicasArgs) -> tuple[str, str]:
        """The workload, and the line that scales it back."""
        line = kubectl("scale", f"{kubectl_name(args.key)}/{args.name}", f"--replicas={args.prior}", namespace=args.namespace)
        return f"{args.key} {args.namespace}/{args.name}", line


def _replicas(obj: Json) -> int:
    value = field(obj, "spec", "replicas")
    return 1 if value is None else int(value)


def _ready(obj: Json) -> int:
    return int(field(obj, "status", "readyReplicas") or 0)


class ReplacedArgs(Args, frozen=True, kw_only=True):
    """Pods about to be killed, and their owner, who makes new ones: ``ready`` of them on ``node`` (anywhere when empty)."""

    namespace: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    node: str = ""
    killed: tuple[str, ...]
    ready: int


class PodsReplaced:
    """``pods.replaced``: nothing to undo, everything to verify. A kill that never happened left the pods as they were: right too."""

    name: ClassVar[str] = "pods.replaced"
    Args = ReplacedArgs

    def args(self, pods: list[Json], every: list[Json], *, on_node: bool) -> ReplacedArgs:
        """Arguments for killing ``pods``, which have one owner; ``every`` is what is in their namespace. Raises ValueError without one."""
        owners = {str(_owner(pod)["uid"]): _owner(pod) for pod in pods if _owner(pod)}
        if len(owners) != 1 or not all(_owner(pod) for pod in pods):
            raise ValueError("pods.replaced: pods of one controller, which replaces them; found " + (", ".join(sorted(owners)) or "none"))
        owner = next(iter(owners.values()))
        node = str(field(pods[0], "spec", "nodeName") or "") if on_node else ""
        return ReplacedArgs(
            namespace=str(pods[0]["metadata"]["namespace"]),
            owner_kind=str(owner["kind"]),
            owner_name=str(owner["name"]),
            owner_uid=str(owner["uid"]),
            node=node,
            killed=tuple(uid_of(pod) for pod in pods),
            ready=len(_ready_pods(every, str(owner["uid"]), node)),
        )

    def rights(self, args: ReplacedArgs) -> tuple[str, ...]:
        """Reading and watching pods."""
        return ("list pods", "watch pods")

    def undo(self, cluster: Cluster, args: ReplacedArgs, deadline: float) -> None:
        """Nothing: the owner does it."""

    def verify(self, cluster: Cluster, args: ReplacedArgs, deadline: float) -> str:
        """Empty once the owner has as many Ready pods there as before."""
        where = f" on {args.node}" if args.node else ""

        def differs(pods: Mapping[str, Json]) -> str:
            ready = len(_ready_pods(pods.values(), args.owner_uid, args.node))
            return "" if ready >= args.ready else f"{ready} of {args.ready} pods of {args.owner_kind} {args.owner_name} are Ready{where}"

        with Observation(cluster, "pods", args.namespace) as observation:
            return observation.await_shown(deadline, differs)

    def human(self, args: ReplacedArgs) -> tuple[str, str]:
        """The owner, and the line that says what keeps it."""
        line = kubectl("describe", args.owner_kind.lower(), args.owner_name, namespace=args.namespace)
        return f"{args.owner_kind} {args.namespace}/{args.owner_name}", line


def _owner(pod: Json) -> Mapping[str, object]:
    refs = field(pod, "metadata", "ownerReferences") or ()
    return next((ref for ref in refs if ref.get("controller")), {})


def _ready_pods(pods: Iterable[Json], owner_uid: str, node: str) -> list[Json]:
    return [
        pod
        for pod in pods
        if _owner(pod).get("uid") == owner_uid
        and (not node or field(pod, "spec", "nodeName") == node)
        and not field(pod, "metadata", "deletionTimestamp")
        and any(c.get("type") == "Ready" and c.get("status") == "True" for c in field(pod, "status", "conditions") or ())
    ]


CONFIGURED = ("apps/daemonsets", "apps/deployments")
"""Kinds whose pods' environment experiments may set."""


class EnvArgs(Args, frozen=True, kw_only=True):
    """One variable of one container, as it was and as the experiment sets it; None is absent. Values come from no Secret."""

    key: str
    namespace: str
    name: str
    uid: str
    container: str
    variable: str
    prior: str | None
    ours: str

    def __post_init__(self) -> None:
        if self.key not in CONFIGURED:
            raise ValueError(f"workload.env: {self.key!r} is none of {', '.join(CONFIGURED)}")


class WorkloadEnv:
    """``workload.env``: the template is put back; what runs with it is for ``agent.restarted``."""

    name: ClassVar[str] = "workload.env"
    Args = EnvArgs

    def rights(self, args: EnvArgs) -> tuple[str, ...]:
        """Reading, watching and patching that kind."""
        return tuple(f"{verb} {args.key}" for verb in ("get", "list", "watch", "patch"))

    def undo(self, cluster: Cluster, args: EnvArgs, deadline: float) -> None:
        """Restore the variable while it is still ours."""
        obj = read(cluster, args.key, args.name, args.namespace)
        if obj is None or uid_of(obj) != args.uid:
            raise UndoRefused("replaced", f"{args.key} {args.name} is gone or another one", prior=args.uid, current=uid_of(obj))
        current = value_of(obj, args.container, args.variable)
        if current == args.ours != args.prior:
            merge(cluster, args.key, obj, with_value(obj, args.container, args.variable, args.prior))
        elif current != args.prior:
            raise changed(f"{args.variable} of {args.key} {args.namespace}/{args.name}", args.prior, current)

    def verify(self, cluster: Cluster, args: EnvArgs, deadline: float) -> str:
        """Empty once the template says what it did."""

        def differs(obj: Json | None) -> str:
            if obj is None or uid_of(obj) != args.uid:
                return "it is gone or another one"
            current = value_of(obj, args.container, args.variable)
            return "" if current == args.prior else f"{args.variable}: {shown(current)} instead of {shown(args.prior)}"

        return await_object(cluster, args.key, args.name, args.namespace, deadline, differs)

    def human(self, args: EnvArgs) -> tuple[str, str]:
        """The workload, and the line that sets the variable back."""
        word = f"{args.variable}-" if args.prior is None else f"{args.variable}={args.prior}"
        line = kubectl(
            "set", "env", f"{kubectl_name(args.key)}/{args.name}", f"--containers={args.container}", word, namespace=args.namespace
        )
        return f"{args.key} {args.namespace}/{args.name}", line


def value_of(obj: Json, container: str, variable: str) -> str | None:
    """A variable of a template's container; None when it is not set, or comes from elsewhere."""
    for item in _env(obj, container):
        if item.get("name") == variable:
            return None if item.get("value") is None else str(item["value"])
    return None


def with_value(obj: Json, container: str, variable: str, value: str | None) -> Json:
    """A merge patch of the template's containers with the variable set, or removed."""
    containers: list[Any] = []
    for item in field(obj, "spec", "template", "spec", "containers") or ():
        if item.get("name") == container:
            kept = [entry for entry in item.get("env") or () if entry.get("name") != variable]
            item = {**item, "env": kept + ([{"name": variable, "value": value}] if value is not None else [])}
        containers.append(item)
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _env(obj: Json, container: str) -> list[Json]:
    found = field(obj, "spec", "template", "spec", "containers") or ()
    return [entry for item in found if item.get("name") == container for entry in item.get("env") or ()]
