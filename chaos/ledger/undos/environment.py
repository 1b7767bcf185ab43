"""Undo of one environment variable in a workload's pod template."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.cluster.requests import await_object, field, kubectl, merge, read, uid_of
from chaos.ledger.protocol import Args
from chaos.ledger.undos.nodes import changed, shown
from chaos.model.errors import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import kubectl_name
from fixtures.kubernetes.models import Json

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
