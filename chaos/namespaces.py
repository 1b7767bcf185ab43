"""The two namespaces of chaos: one of each run for its pods, and one that all runs share for Lease and ledgers."""

from __future__ import annotations

import time

from chaos.ledger.access import accepted, field, read, uid_of
from fixtures import ownership
from fixtures.belongings import belongings
from fixtures.cluster import Answer, Cluster
from fixtures.models import Json
from fixtures.probes import limits
from fixtures.proof import CHAOS_PREFIX, Proof, read_proofs
from fixtures.trouble import ApiTrouble
from fixtures.watch import Observation

SHARED = "gpu-conformance-chaos"
"""Lease and ledgers. It carries no run's label: cleaning up after a run must not take another run's ledger along."""

EPHEMERAL = "gpu-conformance.io/ephemeral"
"""Annotation of the shared namespace where a run created it: it goes when the last run is through. An administrator's stays."""

GONE_SECONDS = 60.0

PODS = 100
"""Pods at a time in a namespace of a run of experiments."""

RIGHTS = (f"create {limits.NETWORK_POLICIES}", f"create {limits.QUOTAS}")
"""What bounding a namespace takes; its removal takes them along."""

_MESHES_OUT: Json = {"istio-injection": "disabled"}


def of_run(run_id: str) -> str:
    """Name of the run's own namespace, for injector and canary pods."""
    return f"{SHARED}-{run_id}"


def ensure_shared(cluster: Cluster) -> None:
    """The shared namespace, created unless somebody has; an administrator's stays as it is. Raises ApiTrouble when it cannot be had."""
    labels = {ownership.MANAGED_BY: ownership.SUITE, **_security("restricted")}
    _ensure(cluster, SHARED, labels, {EPHEMERAL: "true"})


def ensure_run(cluster: Cluster, run_id: str, *, level: str = "privileged", undoing: bool = False) -> str:
    """The run's own namespace; its name.

    Raises ApiTrouble when it cannot be had, and when one of that name is not proven to be the run's: nothing is put into it, and it
    stays as it is. One that cannot be bounded is used only for ``undoing``.
    """
    name = of_run(run_id)
    found = _present(cluster, name)
    if found is None:
        proof = Proof.open(cluster, run_id, prefix=CHAOS_PREFIX, renewing=False)
        labels = {**ownership.labels(run_id), **_MESHES_OUT, **_security(level)}
        meta = {"name": name, "labels": labels, "annotations": proof.will_create("namespaces", name)}
        answer = cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        if not proof.confirm("namespaces", name, answer):
            raise _not_own(name, run_id) if answer.status == 409 else _refused(answer, f"create namespace {name}")
    else:
        require_own(cluster, found, run_id)
    bound(cluster, name, run_id, limits.quota(PODS, {}), needed=not undoing)
    return name


def require_own(cluster: Cluster, found: Json, run_id: str) -> None:
    """Raises ApiTrouble for a namespace of which the run's proof does not say that the run created it: its labels say nothing."""
    view = read_proofs(cluster, run_id).get(run_id)
    if view is None or not view.created_this("namespaces", found):
        raise _not_own(str(field(found, "metadata", "name")), run_id)


def bound(cluster: Cluster, namespace: str, run_id: str, quota: Json, *, needed: bool = True) -> None:
    """Close a namespace of the run to all traffic, and bound what it may hold. Raises ApiTrouble when that is refused and ``needed``."""
    for key, obj in ((limits.NETWORK_POLICIES, limits.closed()), (limits.QUOTAS, quota)):
        wanted = {**obj, "metadata": {**obj["metadata"], "labels": ownership.labels(run_id)}}
        answer = cluster.create(key, wanted, namespace=namespace)
        if needed and answer.status != 409:  # it is the run's own namespace
            accepted(answer, f"create {key} in namespace {namespace}")


def _not_own(name: str, run_id: str) -> ApiTrouble:
    why = "it is left as it is, and nothing is put into it"
    return ApiTrouble("AlreadyExists", f"namespace {name} is there, and not proven to be of run {run_id}: {why}")


def _refused(answer: Answer, what: str) -> ApiTrouble:
    return ApiTrouble(answer.reason, f"{what}: {answer.status} {answer.message}")


def remove_run(cluster: Cluster, run_id: str, *, seconds: float = GONE_SECONDS) -> list[ownership.Leftover]:
    """Remove what the run created cluster-wide, as its proof knows it, its namespaces with all that is in them; what is still there.

    Its proof stays, which vouches for what could not be undone, and no longer for what is gone.
    """
    views = read_proofs(cluster, run_id)
    found = belongings(cluster, views, run_id)
    left = ownership.remove(cluster, list(found.objects), seconds=seconds)
    if any(name == f"{CHAOS_PREFIX}-{run_id}" for view in views.values() for name, _ in view.classes):
        proof = Proof.open(cluster, run_id, prefix=CHAOS_PREFIX, renewing=False)
        proof.settle({(item.key, item.name) for item in left})
    return left


def remove_shared(cluster: Cluster) -> bool:
    """Remove the shared namespace if a run created it, and wait until it is gone; whether it was to go. Raises ApiTrouble."""
    found = read(cluster, "namespaces", SHARED)
    if found is None or (field(found, "metadata", "annotations") or {}).get(EPHEMERAL) != "true":
        return False
    if ownership.ask_deletion(cluster, "namespaces", SHARED, "", uid_of(found)):
        _await_gone(cluster, SHARED)
    return True


def _ensure(cluster: Cluster, name: str, labels: Json, annotations: Json) -> None:
    if _present(cluster, name) is None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels, "annotations": annotations}}
        answer = cluster.create("namespaces", body)
        if answer.reason != "AlreadyExists":
            accepted(answer, f"create namespace {name}")


def _present(cluster: Cluster, name: str) -> Json | None:
    """The namespace, or None; one that is on its way out is waited for. Raises ApiTrouble."""
    found = read(cluster, "namespaces", name)
    if found is None or not field(found, "metadata", "deletionTimestamp"):
        return found
    _await_gone(cluster, name)
    return None


def _await_gone(cluster: Cluster, name: str) -> None:
    with Observation(cluster, "namespaces", fields=f"metadata.name={name}") as observation:
        for objects in observation.until(time.monotonic() + GONE_SECONDS):
            if not objects:
                return
    raise ApiTrouble("Terminating", f"namespace {name} is still being deleted after {GONE_SECONDS:g} s")


def _security(level: str) -> dict[str, str]:
    return {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
