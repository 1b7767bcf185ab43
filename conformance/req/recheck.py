"""Asks a live cluster again whether pods still wait: in a busy one, a device is free for seconds between two pods, at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from conformance.req.waiting import Still
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.untyped import mapping
from fixtures.model.demand.requests import held
from fixtures.snapshot.state import Snapshot
from fixtures.text import typed

PATIENCE_SECONDS = 10.0
"""A scheduler looks at a pod that did not fit after ten seconds at the latest, once something has become free."""

MAX_ASKED = 20
"""Groups that are asked about; a cluster in which more of them wait is not merely busy."""


def recheck(cluster: Cluster, snapshot: Snapshot, sleep: Callable[[float], None] = time.sleep) -> Still:
    """A function that asks about pods and nodes, :data:`PATIENCE_SECONDS` after the snapshot was taken."""
    known = {pod.metadata.uid for pod in snapshot.pods}
    asked = 0

    def still(pods: Sequence[Pod], nodes: Sequence[str]) -> str:
        nonlocal asked
        asked += 1
        if asked > MAX_ASKED:
            return ""
        sleep(max(0.0, snapshot.read_at + PATIENCE_SECONDS - time.time()))
        try:
            return _changed(cluster, pods, nodes, known)
        except (ApiTrouble, msgspec.ValidationError):
            return ""  # what the snapshot shows stands

    return still


def _changed(cluster: Cluster, pods: Sequence[Pod], nodes: Sequence[str], known: set[str]) -> str:
    for pod in pods:
        found = cluster.find("pods", pod.name, pod.namespace)
        meta = mapping(found, "metadata")
        if found is None or meta.get("uid") != pod.metadata.uid or meta.get("deletionTimestamp") or mapping(found, "spec").get("nodeName"):
            return f"{pod.namespace}/{pod.name} was placed or deleted seconds later"
    for node in nodes:
        for item in _pods_on(cluster, node):
            if item.metadata.uid not in known and any(held(item.spec).values()):
                return f"{item.namespace}/{item.name} took devices of {node} seconds later"
    return ""


def _pods_on(cluster: Cluster, node: str) -> list[Pod]:
    answer = cluster.request("GET", cluster.path("pods"), query={"fieldSelector": f"spec.nodeName={node}"})
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"list pods on {node}: {answer.status} {answer.message}")
    items: list[Json] = answer.json()["items"]
    return [typed.convert(item, Pod, strict=False) for item in items]
