"""OPS-01 and the first part of OPS-13: an operator that runs has its object, which is ready, and not merely because it found no GPU node.

Facts: docs/facts/gpu-operator.md#custom-resources, docs/facts/rdma.md#network-operator, docs/facts/vendors-and-clouds.md#amd.
"""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.cluster.kinds import KINDS
from fixtures.model.cluster import Scope
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, NIC_CLUSTER_POLICIES
from fixtures.model.platform.operators import (
    DEVICE_CONFIGS,
    GPU_CLUSTER,
    KEYS,
    STACKS,
    OperatorObject,
    device_config_problem,
    operator_object,
    operator_objects,
    operators_running,
    owned_daemonsets,
    reconciling,
    without_work,
)
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject


def check_configured(scope: Scope) -> Iterator[Finding]:
    """One finding per stack of which an operator or agents run."""
    now, limit = scope.snapshot.taken_at, scope.policy.accelerators.new_node_minutes * 60
    for stack in STACKS:
        objects = [operator_object(key, item) for key in stack.keys for item in scope.snapshot.listing(key).objects]
        operators, owned = operators_running(scope, stack), owned_daemonsets(scope, stack)
        if not operators and not owned:
            continue
        place, source = Subject("Operator", stack.name), "Deployments, owners of DaemonSets, objects of the stack's kinds"
        observed = ", ".join([*operators, *(f"DaemonSet {name}" for name in owned)][:6])
        expected = f"a {' or '.join(stack.owners)} that is not ignored"
        about = About(place, source, expected)
        installed = max((at for at in operators.values() if at is not None), default=0.0)  # the object comes second
        state = f"{observed}: no {' or '.join(stack.owners)} yet; installed {duration(now - installed)} ago"
        young = overdue(about, installed, now, limit, state, cause="OperatorObjectMissing", aged=True)
        if active := [one.name for one in objects if one.heeded]:
            yield about.ok(listed(active))
        elif not owned and not isinstance(young, float):
            yield young
        elif not owned and (why := without_work(scope, stack)):
            yield about.not_judged(f"it runs without a {' or '.join(stack.owners)}, and {why}")
        else:
            message = f"{observed}: there is no {' or '.join(stack.owners)} to act on, so nodes that join or restart get no agents"
            yield about.bad(message, cause="OperatorObjectMissing", observed=observed)


EMPTY_REASONS = {"NoGPUNodes": "no node has a GPU label", "NFDLabelsMissing": "no node has labels of Node Feature Discovery"}
"""Reasons of a Ready condition that mean: nothing was done (docs/facts/gpu-operator.md#ready-without-work)."""

_READY_FOR_NOTHING = "ready only because"
_SINGLETONS = (CLUSTER_POLICIES, GPU_CLUSTER, NIC_CLUSTER_POLICIES)
_SOURCE = "status.state, status.conditions"


def check_ready(scope: Scope) -> Iterator[Finding]:
    """One finding per custom resource of the stack, one per kind that must be there exactly once, one for the pair that excludes itself.

    Raises :class:`NotApplicable` when the cluster has none of them: agents may run without an operator.
    """
    found = {key: objects for key in KEYS if (objects := operator_objects(scope, key))}
    if not found:
        raise NotApplicable("NoOperator", "no ClusterPolicy, GPUCluster, NVIDIADriver, NicClusterPolicy or DeviceConfig is in the cluster")
    for key, objects in found.items():
        if key in _SINGLETONS:
            yield _exactly_one(KINDS[key].kind, objects)
        for one in objects:
            yield _judge_object(scope, one) if one.heeded else not_judged(one.place, message="its operator ignores it", source=_SOURCE)
    if CLUSTER_POLICIES in found and GPU_CLUSTER in found:
        message = "ClusterPolicy (device plugin) and GPUCluster (DRA) exist together: the operator refuses to reconcile either"
        names = ", ".join(str(one.place) for key in (CLUSTER_POLICIES, GPU_CLUSTER) for one in found[key])
        about = About(Subject("GPUCluster", "*"), "objects of both kinds", "one or the other", names)
        yield about.bad(message, cause="TwoActiveObjects")


def _exactly_one(kind: str, objects: list[OperatorObject]) -> Finding:
    active = sorted(one.name for one in objects if one.heeded)
    names = ", ".join(active) or "none"
    about = About(
        Subject(kind, "*"), "status.state", "exactly one that is not ignored", f"{len(active)} of {len(objects)} not ignored: {names}"
    )
    if not active:
        return about.bad(f"every {kind} is ignored by its operator: nothing configures the agents", cause="OperatorObjectMissing")
    if len(active) > 1:
        message = f"{len(active)} of them are not ignored ({names}): each configures the same agents and the last writer wins"
        return about.bad(message, cause="TwoActiveObjects")
    return about.ok()


def _judge_object(scope: Scope, one: OperatorObject) -> Finding:
    about = About(one.place, _SOURCE, "ready, observed, and not merely because no GPU node was found", str(one))
    stale = one.outdated
    problem = stale or (device_config_problem(one) if one.key == DEVICE_CONFIGS else _state_and_conditions(scope, one))
    if not problem:
        return about.ok()
    if doing := reconciling(scope, one):
        return about.undecided(f"{problem}; {doing}", cause=CHANGE_UNDER_WAY)
    empty = problem.startswith(_READY_FOR_NOTHING)
    return about.bad(problem, cause="OperatorNotReconciling" if stale else "OperatorFoundNoNode" if empty else "OperatorObjectNotReady")


def _state_and_conditions(scope: Scope, one: OperatorObject) -> str:
    """What is wrong with an object that has ``status.state`` and the conditions Ready and Error, or empty."""
    if one.phase != "ready":
        why = next((one.reported(kind) for kind in ("Error", "Ready") if one.conditions.get(kind, {}).get("message")), "")
        return f"its state is {one.phase or 'not set'}" + (f": {why}" if why else ": its operator has not finished, or cannot finish")
    if "Ready" in one.conditions:
        ready = one.conditions["Ready"]
        reason = str(ready.get("reason") or "")
        if reason in EMPTY_REASONS:
            return f"{_READY_FOR_NOTHING} {EMPTY_REASONS[reason]} ({reason}): nothing was installed"
        if not one.holds("Ready"):
            return f"its state is ready and its condition Ready is {one.state('Ready')}: {one.reported('Ready')}"
    elif not scope.accelerator_nodes:
        return "its state is ready, no condition gives the reason, and the cluster has no accelerator node"
    return f"its state is ready and its condition Error is True: {one.reported('Error')}" if one.holds("Error") else ""
