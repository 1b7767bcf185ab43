"""Killing pods of agents and controllers, which their owners replace."""

from __future__ import annotations

from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import accepted, current, read_target, target_record, targets
from chaos.ledger.undos.workloads import PodsReplaced
from fixtures.kubernetes.models import Json
from fixtures.model.platform.components import DAEMON_SETS


def kill(grace: int | None = None) -> list[dict[str, Any]]:
    """Delete the plan's pods, each only if it still is that very pod. ``grace``: seconds; None leaves it to the pod."""
    acting = current()
    done = []
    for target in targets("pods"):
        pod = read_target(target)
        every = everything_in(target.namespace)
        try:
            args = PodsReplaced().args([pod], every, on_node=target.facts.get("owner_kind") == DAEMON_SETS)
        except ValueError as error:
            raise ActivityFailed(str(error)) from error
        with acting.fault("pods.replaced", args) as fault:
            answer = acting.cluster.delete("pods", target.name, target.namespace, uid=target.uid, grace_seconds=grace)
            accepted(answer, f"delete {target}")
            fault.applied({"deleted": target_record(target), "grace": grace})
        done.append({**target_record(target), "grace": grace})
    return done


def everything_in(namespace: str) -> list[Json]:
    """All pods of a namespace."""
    cluster = current().cluster
    answer = accepted(cluster.request("GET", cluster.path("pods", namespace)), f"list pods of {namespace}")
    return [item for item in answer.json().get("items") or () if isinstance(item, dict)]
