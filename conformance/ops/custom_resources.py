"""OPS-01: whether the stack's custom resources are ready, and not merely because they found no GPU node.

Facts: docs/facts/gpu-operator.md#custom-resources, docs/facts/rdma.md#network-operator, docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.common_findings import reconciling
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

GPU_CLUSTER = "nvidia.com/gpuclusters"
KEYS = (CLUSTER_POLICIES, GPU_CLUSTER, "nvidia.com/nvidiadrivers", "mellanox.com/nicclusterpolicies", "amd.com/deviceconfigs")

EMPTY_REASONS = {"NoGPUNodes": "no node has a GPU label", "NFDLabelsMissing": "no node has labels of Node Feature Discovery"}
"""Reasons of a Ready condition that mean: nothing was done (docs/facts/gpu-operator.md#ready-without-work)."""

_READY_FOR_NOTHING = "ready only because"
_SINGLETONS = (CLUSTER_POLICIES, GPU_CLUSTER, "mellanox.com/nicclusterpolicies")
_COMPONENTS = ("driver", "devicePlugin", "metricsExporter")
_SOURCE = "status.state, status.conditions"


def check_ready(scope: Scope) -> Iterator[Finding]:
    """One finding per custom resource of the stack, one per kind that must be there exactly once, one for the pair that excludes itself.

    Raises :class:`NotApplicable` when the cluster has none of them: agents may run without an operator.
    """
    found = {key: objects for key in KEYS if (objects := _objects(scope.snapshot, key))}
    if not found:
        raise NotApplicable("NoOperator", "no ClusterPolicy, GPUCluster, NVIDIADriver, NicClusterPolicy or DeviceConfig is in the cluster")
    for key, objects in found.items():
        active = [item for item in objects if is_heeded(item)]
        if key in _SINGLETONS:
            yield _exactly_one(key, objects, active)
        for item in objects:
            if item in active:
                yield _judge_object(scope, key, item)
            else:
                yield not_judged(_subject(key, item), message="its operator ignores it", source=_SOURCE)
    if CLUSTER_POLICIES in found and GPU_CLUSTER in found:
        yield _exclusive(found[CLUSTER_POLICIES], found[GPU_CLUSTER])


def _objects(snapshot: Snapshot, key: str) -> list[Json]:
    """Objects of a kind; none where it is not served or a saved snapshot lacks it. Raises :class:`Inconclusive` for a refused list."""
    listing = snapshot.listing(key)
    if not listing.trouble and not listing.collected and snapshot.offline:
        return []
    return snapshot.objects(key)


def _exactly_one(key: str, objects: list[Json], active: list[Json]) -> Finding:
    place = Subject(KINDS[key].kind, "*")
    names = ", ".join(sorted(_subject(key, item).name for item in active)) or "none"
    observed = f"{len(active)} of {len(objects)} not ignored: {names}"
    expected = "exactly one that is not ignored"
    about = About(place, "status.state", expected, observed)
    if len(active) == 1:
        return about.ok()
    if not active:
        message = f"every {KINDS[key].kind} is ignored by its operator: nothing configures the agents"
    else:
        message = f"{len(active)} of them are not ignored ({names}): each configures the same agents and the last writer wins"
    cause = "TwoActiveObjects" if active else "OperatorObjectMissing"
    return about.bad(message, cause=cause)


def _exclusive(policies: list[Json], clusters: list[Json]) -> Finding:
    names = [str(_subject(CLUSTER_POLICIES, item)) for item in policies] + [str(_subject(GPU_CLUSTER, item)) for item in clusters]
    message = "ClusterPolicy (device plugin) and GPUCluster (DRA) exist together: the operator refuses to reconcile either"
    return bad(
        Subject("GPUCluster", "*"),
        cause="TwoActiveObjects",
        observed=", ".join(names),
        expected="one or the other",
        source="objects of both kinds",
        message=message,
    )


def _judge_object(scope: Scope, key: str, item: Json) -> Finding:
    place = _subject(key, item)
    observed, expected = describe(item), "ready, observed, and not merely because no GPU node was found"
    stale = _stale(item)
    problem = stale or (_device_config(item) if key == "amd.com/deviceconfigs" else _state_and_conditions(scope, item))
    empty = problem.startswith(_READY_FOR_NOTHING)
    cause = "OperatorNotReconciling" if stale else "OperatorFoundNoNode" if empty else "OperatorObjectNotReady"
    about = About(place, _SOURCE, expected, observed)
    if problem and (doing := reconciling(scope, item)):
        return about.undecided(f"{problem}; {doing}", cause=CHANGE_UNDER_WAY)
    if problem:
        return about.bad(problem, cause=cause)
    return about.ok()


def _stale(item: Json) -> str:
    """Why the status is not about the current spec, or empty. Kinds without observedGeneration do not show it."""
    seen, current = _status(item).get("observedGeneration"), mapping(item.get("metadata")).get("generation")
    if isinstance(seen, int) and isinstance(current, int) and seen and seen != current:
        return f"its status is of generation {seen} and its spec of {current}: the operator has not acted on the last change"
    return ""


def _state_and_conditions(scope: Scope, item: Json) -> str:
    """What is wrong with an object that has ``status.state`` and the conditions Ready and Error, or empty."""
    state = _state(item)
    conditions = conditions_of(item)
    ready, error = conditions.get("Ready"), conditions.get("Error")
    if state != "ready":
        why = next((text for each in (error, ready) if each and each.get("message") and (text := _said(each))), "")
        return f"its state is {state or 'not set'}" + (f": {why}" if why else ": its operator has not finished, or cannot finish")
    if ready is not None:
        reason = str(ready.get("reason") or "")
        if reason in EMPTY_REASONS:
            return f"{_READY_FOR_NOTHING} {EMPTY_REASONS[reason]} ({reason}): nothing was installed"
        if ready.get("status") != "True":
            return f"its state is ready and its condition Ready is {ready.get('status')}: {_said(ready)}"
    elif not scope.accelerator_nodes:
        return "its state is ready, no condition gives the reason, and the cluster has no accelerator node"
    if error is not None and error.get("status") == "True":
        return f"its state is ready and its condition Error is True: {_said(error)}"
    return ""


def _device_config(item: Json) -> str:
    """What is wrong with an AMD DeviceConfig: it has no state, but counts per component (gpu-operator api/v1alpha1)."""
    status = _status(item)
    ready = conditions_of(item).get("Ready")
    if ready is not None and ready.get("status") != "True":
        return f"its condition Ready is {ready.get('status')}: {_said(ready)}"
    wanted = mapping(mapping(item.get("spec")).get("devicePlugin")).get("enableDevicePlugin") is not False  # False: DRA instead
    if wanted and not mapping(status.get("devicePlugin")).get("desiredNumber"):
        return "its device plugin is desired on no node"
    for name in _COMPONENTS:
        counts = mapping(status.get(name))
        desired, available = counts.get("desiredNumber") or 0, counts.get("availableNumber") or 0
        matching = counts.get("nodesMatchingSelectorNumber") or 0
        if desired != available or (desired and desired != matching):
            return f"{name}: {available} available of {desired} desired on {matching} matching nodes"
    return ""


def describe(item: Json) -> str:
    """State and conditions of an object in one line."""
    parts = [f"state {state}"] if (state := _state(item)) else []
    parts += [
        f"{kind}={condition.get('status')} ({condition.get('reason') or 'no reason'})" for kind, condition in conditions_of(item).items()
    ]
    return ", ".join(parts)[:300] or "no status"


def _said(condition: Json) -> str:
    return " ".join(str(condition.get(name) or "") for name in ("reason", "message")).strip()[:300]


def _state(item: Json) -> str:
    state = _status(item).get("state")
    return state if isinstance(state, str) else ""


def _status(item: Json) -> Json:
    return mapping(item.get("status"))


def _subject(key: str, item: Json) -> Subject:
    meta = mapping(item.get("metadata"))
    return Subject(KINDS[key].kind, str(meta.get("name") or ""), str(meta.get("namespace") or ""))
