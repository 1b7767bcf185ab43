"""The two namespaces of chaos: one of each run for its pods, and one that all runs share for Lease and ledgers."""

from __future__ import annotations

import time

from chaos.ledger.access import accepted, field, read, uid_of
from fixtures import ownership
from fixtures.cluster import Cluster
from fixtures.models import Json
from fixtures.proof import CHAOS_PREFIX
from fixtures.trouble import ApiTrouble
from fixtures.watch import Observation

SHARED = "gpu-conformance-chaos"
"""Lease and ledgers. It carries no run's label: cleaning up after a run must not take another run's ledger along."""

EPHEMERAL = "gpu-conformance.io/ephemeral"
"""Annotation of the shared namespace where a run created it: it goes when the last run is through. An administrator's stays."""

GONE_SECONDS = 60.0

_MESHES_OUT: Json = {"istio-injection": "disabled"}


def of_run(run_id: str) -> str:
    """Name of the run's own namespace, for injector and canary pods."""
    return f"{SHARED}-{run_id}"


def ensure_shared(cluster: Cluster) -> None:
    """The shared namespace, created unless somebody has; an administrator's stays as it is. Raises ApiTrouble when it cannot be had."""
    labels = {ownership.MANAGED_BY: ownership.SUITE, **_security("restricted")}
    _ensure(cluster, SHARED, labels, {EPHEMERAL: "true"})


def ensure_run(cluster: Cluster, run_id: str, *, level: str = "privileged") -> str:
    """The run's own namespace; its name. ``cleanup`` finds it by the run's label.

    Raises ApiTrouble when it cannot be had, and when one of that name is not the run's: nothing is put into it, and its labels stay.
    """
    name = of_run(run_id)
    _ensure(cluster, name, {**ownership.labels(run_id), **_MESHES_OUT, **_security(level)}, {})
    require_own(read(cluster, "namespaces", name), name, run_id)
    return name


def require_own(found: Json | None, name: str, run_id: str) -> None:
    """Raises ApiTrouble for a namespace that does not carry the run's labels, or went while it was to be used."""
    present = (field(found or {}, "metadata", "labels")) or {}
    if any(present.get(key) != value for key, value in ownership.labels(run_id).items()):
        raise ApiTrouble("AlreadyExists", f"namespace {name} is not of run {run_id}: it is left as it is, and nothing is put into it")


def remove_run(cluster: Cluster, run_id: str, *, seconds: float = GONE_SECONDS) -> list[ownership.Leftover]:
    """Remove what the run created cluster-wide, its namespaces with all that is in them; what is still there.

    Its proof stays, which vouches for what could not be undone.
    """
    proof = f"{CHAOS_PREFIX}-{run_id}"
    found = [item for item in ownership.find(cluster, run_id) if (item.key, item.name) != (ownership.PRIORITY_CLASSES, proof)]
    return ownership.remove(cluster, found, seconds=seconds)


def remove_shared(cluster: Cluster) -> bool:
    """Remove the shared namespace if a run created it, and wait until it is gone; whether it was to go. Raises ApiTrouble."""
    found = read(cluster, "namespaces", SHARED)
    if found is None or (field(found, "metadata", "annotations") or {}).get(EPHEMERAL) != "true":
        return False
    if ownership.ask_deletion(cluster, "namespaces", SHARED, "", uid_of(found)):
        _await_gone(cluster, SHARED)
    return True


def _ensure(cluster: Cluster, name: str, labels: Json, annotations: Json) -> None:
    found = read(cluster, "namespaces", name)
    if found is not None and field(found, "metadata", "deletionTimestamp"):
        _await_gone(cluster, name)
        found = None
    if found is None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels, "annotations": annotations}}
        answer = cluster.create("namespaces", body)
        if answer.reason != "AlreadyExists":
            accepted(answer, f"create namespace {name}")


def _await_gone(cluster: Cluster, name: str) -> None:
    with Observation(cluster, "namespaces", fields=f"metadata.name={name}") as observation:
        for objects in observation.until(time.monotonic() + GONE_SECONDS):
            if not objects:
                return
    raise ApiTrouble("Terminating", f"namespace {name} is still being deleted after {GONE_SECONDS:g} s")


def _security(level: str) -> dict[str, str]:
    return {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
