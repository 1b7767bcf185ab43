"""OPS-01 and the first part of OPS-13: an operator that runs has its object, which is ready, and not merely because it found no GPU node.

Facts: docs/facts/gpu-operator.md#custom-resources, docs/facts/rdma.md#network-operator, docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from conformance.common_findings import reconciling
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.images import repository
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope, matches
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.nodes.marks import adapter_labels
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.snapshot.state import Snapshot
from fixtures.text.ages import ask_again, duration
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject


class _Stack(msgspec.Struct, frozen=True, kw_only=True):
    """An operator: globs of its image, the kinds that configure it, and the kinds whose objects may be all that it is there for."""

    name: str
    images: tuple[str, ...]
    owners: tuple[str, ...]
    keys: tuple[str, ...]
    others: tuple[str, ...] = ()


_STACKS = (
    _Stack(
        name="NVIDIA's GPU operator",
        images=("*nvidia*/gpu-operator", "gpu-operator", "*/cloud-native/gpu-operator"),
        owners=("ClusterPolicy", "GPUCluster"),
        keys=(CLUSTER_POLICIES, "nvidia.com/gpuclusters"),
    ),
    _Stack(
        name="AMD's GPU operator",
        images=("*rocm/gpu-operator", "*amd*/gpu-operator"),
        owners=("DeviceConfig",),
        keys=("amd.com/deviceconfigs",),
    ),
    _Stack(
        name="NVIDIA's network operator",
        images=("*/network-operator",),
        owners=("NicClusterPolicy",),
        keys=("mellanox.com/nicclusterpolicies",),
        others=("sriovnetwork.openshift.io/sriovnetworknodepolicies",),
    ),
)

_MADE_BY_ITSELF = "default"
"""The policy that the SR-IOV operator makes when it starts, and that configures nothing."""


def check_configured(scope: Scope) -> Iterator[Finding]:
    """One finding per stack of which an operator or agents run."""
    for stack in _STACKS:
        objects = [item for key in stack.keys for item in scope.snapshot.listing(key).objects]
        operators, owned = _operators(scope, stack), _owned(scope, stack)
        if not operators and not owned:
            continue
        place, source = Subject("Operator", stack.name), "Deployments, owners of DaemonSets, objects of the stack's kinds"
        observed = ", ".join([*operators, *(f"DaemonSet {name}" for name in owned)][:6])
        expected = f"a {' or '.join(stack.owners)} that is not ignored"
        about = About(place, source, expected)
        if active := [item for item in objects if is_heeded(item)]:
            names = listed(str(mapping(item.get("metadata")).get("name")) for item in active)
            yield about.ok(names)
        elif not owned and (young := _young(scope, operators)):
            yield about.undecided(f"{observed}: no {' or '.join(stack.owners)} yet; {young}", cause=CHANGE_UNDER_WAY)
        elif not owned and (why := _without_work(scope, stack)):
            yield about.not_judged(f"it runs without a {' or '.join(stack.owners)}, and {why}")
        else:
            message = f"{observed} run, and no {' or '.join(stack.owners)} tells them what to do: nodes that join or restart get no agents"
            yield about.bad(message, cause="OperatorObjectMissing", observed=observed)


def _without_work(scope: Scope, stack: _Stack) -> str:
    """Why an operator needs none of the objects that configure its agents, as a clause, or empty."""
    for key in stack.others:
        names = [str(mapping(item.get("metadata")).get("name")) for item in scope.snapshot.listing(key).objects]
        if made := sorted(set(names) - {_MADE_BY_ITSELF}):
            return f"{KINDS[key].kind} {listed(made, 3)} configures the network instead"
    if not scope.accelerator_nodes:
        return "the cluster has no accelerator node"
    if stack.others and not any(adapter_labels(node) or any(map(scope.is_rdma, node.status.capacity)) for node in scope.snapshot.nodes):
        return "no node has a label or a resource of an adapter for it"
    return ""


def _operators(scope: Scope, stack: _Stack) -> dict[str, float | None]:
    """Deployments of the stack's operator that want a pod, and when each was created (Unix seconds)."""
    found: dict[str, float | None] = {}
    for item in scope.snapshot.listing("apps/deployments").objects:
        meta = mapping(item.get("metadata"))
        name, namespace = str(meta.get("name")), str(meta.get("namespace"))
        if mapping(item.get("spec")).get("replicas") == 0 or not scope.platform_workloads.admits(namespace):
            continue
        images = {container.image for template in templates_in("apps/deployments", item) for container in template.spec.containers}
        if any(matches(repository(image), stack.images) for image in images):
            found[f"Deployment {namespace}/{name}"] = unix(str(meta.get("creationTimestamp")))
    return found


def _owned(scope: Scope, stack: _Stack) -> list[str]:
    """DaemonSets that an object of the stack owns or owned."""
    items = [item for item in scope.snapshot.daemonsets if scope.platform_workloads.admits(item.namespace)]
    return [f"{item.namespace}/{item.name}" for item in items if any(owner.kind in stack.owners for owner in item.metadata.owners)]


def _young(scope: Scope, operators: Mapping[str, float | None]) -> str:
    """Whether an operator was installed a moment ago, as a clause; its object comes second."""
    created, limit = [at for at in operators.values() if at is not None], scope.policy.accelerators.new_node_minutes * 60
    age = scope.snapshot.taken_at - max(created) if created else limit
    return f"installed {duration(age)} ago: {ask_again(age, limit)}" if age < limit else ""


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
