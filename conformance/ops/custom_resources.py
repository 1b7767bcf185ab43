"""OPS-01 and the first part of OPS-13: an operator that runs has its object, which is ready, and not merely because it found no GPU node.

Facts: docs/facts/gpu-operator.md#custom-resources, docs/facts/rdma.md#network-operator, docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.common_findings import reconciling
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.model.platform.operators import (
    GPU_CLUSTER,
    KEYS,
    STACKS,
    describe,
    device_config_problem,
    objects_of,
    operator_object,
    operators_running,
    outdated,
    owned_daemonsets,
    said_by,
    state_of,
    without_work,
)
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.text.sentences import ask_again, duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject


def check_configured(scope: Scope) -> Iterator[Finding]:
    """One finding per stack of which an operator or agents run."""
    for stack in STACKS:
        objects = [item for key in stack.keys for item in scope.snapshot.listing(key).objects]
        operators, owned = operators_running(scope, stack), owned_daemonsets(scope, stack)
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
        elif not owned and (why := without_work(scope, stack)):
            yield about.not_judged(f"it runs without a {' or '.join(stack.owners)}, and {why}")
        else:
            message = f"{observed} run, and no {' or '.join(stack.owners)} tells them what to do: nodes that join or restart get no agents"
            yield about.bad(message, cause="OperatorObjectMissing", observed=observed)


def _young(scope: Scope, operators: Mapping[str, float | None]) -> str:
    """Whether an operator was installed a moment ago, as a clause; its object comes second."""
    created, limit = [at for at in operators.values() if at is not None], scope.policy.accelerators.new_node_minutes * 60
    age = scope.snapshot.taken_at - max(created) if created else limit
    return f"installed {duration(age)} ago: {ask_again(age, limit)}" if age < limit else ""


EMPTY_REASONS = {"NoGPUNodes": "no node has a GPU label", "NFDLabelsMissing": "no node has labels of Node Feature Discovery"}
"""Reasons of a Ready condition that mean: nothing was done (docs/facts/gpu-operator.md#ready-without-work)."""

_READY_FOR_NOTHING = "ready only because"
_SINGLETONS = (CLUSTER_POLICIES, GPU_CLUSTER, "mellanox.com/nicclusterpolicies")
_SOURCE = "status.state, status.conditions"


def check_ready(scope: Scope) -> Iterator[Finding]:
    """One finding per custom resource of the stack, one per kind that must be there exactly once, one for the pair that excludes itself.

    Raises :class:`NotApplicable` when the cluster has none of them: agents may run without an operator.
    """
    found = {key: objects for key in KEYS if (objects := objects_of(scope.snapshot, key))}
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
                yield not_judged(operator_object(key, item), message="its operator ignores it", source=_SOURCE)
    if CLUSTER_POLICIES in found and GPU_CLUSTER in found:
        yield _exclusive(found[CLUSTER_POLICIES], found[GPU_CLUSTER])


def _exactly_one(key: str, objects: list[Json], active: list[Json]) -> Finding:
    place = Subject(KINDS[key].kind, "*")
    names = ", ".join(sorted(operator_object(key, item).name for item in active)) or "none"
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
    names = [str(operator_object(key, item)) for key, items in ((CLUSTER_POLICIES, policies), (GPU_CLUSTER, clusters)) for item in items]
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
    place = operator_object(key, item)
    observed, expected = describe(item), "ready, observed, and not merely because no GPU node was found"
    stale = outdated(item)
    problem = stale or (device_config_problem(item) if key == "amd.com/deviceconfigs" else _state_and_conditions(scope, item))
    empty = problem.startswith(_READY_FOR_NOTHING)
    cause = "OperatorNotReconciling" if stale else "OperatorFoundNoNode" if empty else "OperatorObjectNotReady"
    about = About(place, _SOURCE, expected, observed)
    if problem and (doing := reconciling(scope, item)):
        return about.undecided(f"{problem}; {doing}", cause=CHANGE_UNDER_WAY)
    if problem:
        return about.bad(problem, cause=cause)
    return about.ok()


def _state_and_conditions(scope: Scope, item: Json) -> str:
    """What is wrong with an object that has ``status.state`` and the conditions Ready and Error, or empty."""
    state = state_of(item)
    conditions = conditions_of(item)
    ready, error = conditions.get("Ready"), conditions.get("Error")
    if state != "ready":
        why = next((text for each in (error, ready) if each and each.get("message") and (text := said_by(each))), "")
        return f"its state is {state or 'not set'}" + (f": {why}" if why else ": its operator has not finished, or cannot finish")
    if ready is not None:
        reason = str(ready.get("reason") or "")
        if reason in EMPTY_REASONS:
            return f"{_READY_FOR_NOTHING} {EMPTY_REASONS[reason]} ({reason}): nothing was installed"
        if ready.get("status") != "True":
            return f"its state is ready and its condition Ready is {ready.get('status')}: {said_by(ready)}"
    elif not scope.accelerator_nodes:
        return "its state is ready, no condition gives the reason, and the cluster has no accelerator node"
    if error is not None and error.get("status") == "True":
        return f"its state is ready and its condition Error is True: {said_by(error)}"
    return ""
