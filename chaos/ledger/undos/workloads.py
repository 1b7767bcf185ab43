"""Undos of workloads: a scaled one, pods whose owner replaces them, one variable of a pod template, and remediation's breaker."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from chaos.cluster.requests import await_object, kubectl, merge, read
from chaos.ledger.undos import Args, Undo
from chaos.ledger.undos.nodes import changed, shown
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import kubectl_name
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.objects import is_ready, node_of, owners_of, uid_of
from fixtures.model.platform.remediators import BREAKER, CLOSED, TRIPPED, breaker_status

SCALED = ("apps/deployments", "apps/statefulsets", "apps/replicasets")
"""Kinds that experiments may scale."""


class WorkloadValue(Undo):
    """One value of a workload, restored while it is still the experiment's."""

    RIGHTS = ("get {key}", "list {key}", "watch {key}", "patch {key}")

    def undo(self, cluster: Cluster, args: Any, deadline: float) -> None:
        """Restore the value while it is still ours."""
        obj, where = read(cluster, args.key, args.name, args.namespace), f"{args.key} {args.namespace}/{args.name}"
        if obj is None or uid_of(obj) != args.uid:
            raise UndoRefused("replaced", f"{where} is gone or another one", prior=args.uid, current=uid_of(obj))
        what, current = self.value(obj, args)
        if current == args.ours != args.prior:
            merge(cluster, args.key, obj, self.patch(obj, args))
        elif current != args.prior:
            raise changed(f"{what} of {where}", args.prior, current)

    def verify(self, cluster: Cluster, args: Any, deadline: float) -> str:
        """Empty once the value is back."""

        def differs(obj: Json | None) -> str:
            if obj is None or uid_of(obj) != args.uid:
                return "it is gone or another one"
            what, current = self.value(obj, args)
            return self.unready(obj, args) if current == args.prior else f"{what}: {shown(current)} instead of {shown(args.prior)}"

        return await_object(cluster, args.key, args.name, args.namespace, deadline, differs)

    @abstractmethod
    def value(self, obj: Json, args: Any) -> tuple[str, Any]:
        """What the value is called, and what it is now."""

    @abstractmethod
    def patch(self, obj: Json, args: Any) -> Json:
        """The merge patch that restores it."""

    def unready(self, obj: Json, args: Any) -> str:
        """What is still to come back when the value is restored; empty when nothing is."""
        return ""


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


class WorkloadReplicas(WorkloadValue):
    """``workload.replicas``: restored once as many replicas are ready as there were."""

    name = "workload.replicas"
    Args = ReplicasArgs

    def args(self, key: str, obj: Json, ours: int) -> ReplicasArgs:
        """Arguments for scaling the workload that was just read."""
        meta = obj["metadata"]
        return ReplicasArgs(
            key=key, namespace=meta["namespace"], name=meta["name"], uid=uid_of(obj), prior=_replicas(obj), ours=ours, ready=_ready(obj)
        )

    def value(self, obj: Json, args: ReplicasArgs) -> tuple[str, int]:
        """``spec.replicas``."""
        return "replicas", _replicas(obj)

    def patch(self, obj: Json, args: ReplicasArgs) -> Json:
        """The number of before."""
        return {"spec": {"replicas": args.prior}}

    def unready(self, obj: Json, args: ReplicasArgs) -> str:
        """Empty once as many replicas are ready as were."""
        return "" if _ready(obj) >= args.ready else f"{_ready(obj)} of {args.ready} replicas are ready"

    def human(self, args: ReplicasArgs) -> tuple[str, str]:
        """The workload, and the line that scales it back."""
        line = kubectl("scale", f"{kubectl_name(args.key)}/{args.name}", f"--replicas={args.prior}", namespace=args.namespace)
        return f"{args.key} {args.namespace}/{args.name}", line


def _replicas(obj: Json) -> int:
    value = mapping(obj, "spec").get("replicas")
    return 1 if value is None else int(value)


def _ready(obj: Json) -> int:
    return int(mapping(obj, "status").get("readyReplicas") or 0)


class BreakerArgs(Args, frozen=True, kw_only=True):
    """The ConfigMap by which remediation says whether its breaker is closed, as it was."""

    namespace: str
    uid: str
    key: str = "configmaps"
    name: str = BREAKER
    prior: str = CLOSED
    ours: str = TRIPPED

    def __post_init__(self) -> None:
        if (self.key, self.name, self.prior, self.ours) != ("configmaps", BREAKER, CLOSED, TRIPPED):
            raise ValueError(f"breaker.closed: a breaker is ConfigMap {BREAKER}, and only closed")


class BreakerClosed(WorkloadValue):
    """``breaker.closed``: close the breaker that too many sick nodes have tripped. Nobody else does: it waits for a person."""

    name = "breaker.closed"
    Args = BreakerArgs

    def value(self, obj: Json, args: BreakerArgs) -> tuple[str, str]:
        """``data.status``."""
        return "status", breaker_status(obj)

    def patch(self, obj: Json, args: BreakerArgs) -> Json:
        """Closed."""
        return {"data": {"status": args.prior}}

    def human(self, args: BreakerArgs) -> tuple[str, str]:
        """The ConfigMap, and the line that closes the breaker."""
        body = f'{{"data":{{"status":"{args.prior}"}}}}'
        return f"configmap {args.namespace}/{args.name}", kubectl("patch", "configmap", args.name, "-p", body, namespace=args.namespace)


class ReplacedArgs(Args, frozen=True, kw_only=True):
    """Pods about to be killed, and their owner, who makes new ones: ``ready`` of them on ``node`` (anywhere when empty)."""

    namespace: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    node: str = ""
    killed: tuple[str, ...]
    ready: int


class PodsReplaced(Undo):
    """``pods.replaced``: nothing to undo, everything to verify. A kill that never happened left the pods as they were: right too."""

    name = "pods.replaced"
    Args = ReplacedArgs
    RIGHTS = ("list pods", "watch pods")

    def args(self, pods: list[Json], every: list[Json], *, on_node: bool) -> ReplacedArgs:
        """Arguments for killing ``pods``, which have one owner; ``every`` is what is in their namespace. Raises ValueError without one."""
        owners = {str(_owner(pod)["uid"]): _owner(pod) for pod in pods if _owner(pod)}
        if len(owners) != 1 or not all(_owner(pod) for pod in pods):
            raise ValueError("pods.replaced: pods of one controller, which replaces them; found " + (", ".join(sorted(owners)) or "none"))
        owner = next(iter(owners.values()))
        node = node_of(pods[0]) if on_node else ""
        return ReplacedArgs(
            namespace=str(pods[0]["metadata"]["namespace"]),
            owner_kind=str(owner["kind"]),
            owner_name=str(owner["name"]),
            owner_uid=str(owner["uid"]),
            node=node,
            killed=tuple(uid_of(pod) for pod in pods),
            ready=len(_ready_pods(every, str(owner["uid"]), node)),
        )

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
    return next((ref for ref in owners_of(pod) if ref.get("controller")), {})


def _ready_pods(pods: Iterable[Json], owner_uid: str, node: str) -> list[Json]:
    return [pod for pod in pods if _owner(pod).get("uid") == owner_uid and node in ("", node_of(pod)) and is_ready(pod)]


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


class WorkloadEnv(WorkloadValue):
    """``workload.env``: the template is put back; what runs with it is for ``agent.restarted``."""

    name = "workload.env"
    Args = EnvArgs

    def value(self, obj: Json, args: EnvArgs) -> tuple[str, str | None]:
        """The variable in the template."""
        return args.variable, value_of(obj, args.container, args.variable)

    def patch(self, obj: Json, args: EnvArgs) -> Json:
        """The template with the variable of before."""
        return with_value(obj, args.container, args.variable, args.prior)

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
    for item in containers_of(obj):
        if item.get("name") == container:
            kept = [entry for entry in item.get("env") or () if entry.get("name") != variable]
            item = {**item, "env": kept + ([{"name": variable, "value": value}] if value is not None else [])}
        containers.append(item)
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _env(obj: Json, container: str) -> list[Json]:
    return [entry for item in containers_of(obj) if item.get("name") == container for entry in item.get("env") or ()]


def template_of(obj: Json) -> Json:
    """The template of a workload's pods."""
    return mapping(obj, "spec", "template")


def containers_of(obj: Json) -> list[Json]:
    """The containers of a workload's pods."""
    return mappings(mapping(template_of(obj), "spec").get("containers"))
