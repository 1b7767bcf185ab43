"""SCALE-01 to 03: node pools, groups of nodes that autoscalers make grow, and autoscalers of pods with devices.

By what they and their controllers say: no machine is bought.
"""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.autoscalers import Autoscaler, lost_on_instances, of_devices
from fixtures.model.platform.node_groups import (
    CLAIMS_LABEL,
    STATUS,
    NodeGroup,
    node_groups,
    not_grown_for,
    without_device,
    without_resource,
)
from fixtures.model.platform.node_pools import NodePool, node_pools
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_NODE_POOLS_SOURCE = "nodepools: spec.template.spec.taints, spec.limits, spec.disruption"


def check_node_pools(scope: Scope) -> Iterator[Finding]:
    """One finding per NodePool that makes accelerator nodes."""
    found = list(node_pools(scope))
    if not found:
        raise NotApplicable("NoNodePool", "no NodePool makes accelerator nodes")
    for one in found:
        yield _judge_node_pool(scope, one)


def _judge_node_pool(scope: Scope, one: NodePool) -> Finding:
    keys = " or ".join(scope.policy.fence.taint_keys)
    about = About(Subject("NodePool", one.name), _NODE_POOLS_SOURCE, f"a hard taint {keys}, a limit, and a way to zero nodes")
    hard = [str(taint) for taint in one.taints if taint.effect in ("NoSchedule", "NoExecute") and scope.is_fence_key(taint.key)]
    if not hard:
        observed = listed([str(taint) for taint in one.taints]) or "no taints"
        message = f"its nodes have no taint of accelerator nodes ({one.why}): any pod that fits makes it buy the dearest machines"
        return about.bad(message, cause="NodePoolNotFenced", observed=observed)
    if not one.limits:
        message = f"it has no limit ({one.why}): a wrong number of replicas buys machines until the cloud has none"
        return about.bad(message, cause="NodePoolWithoutLimit", observed="no limits")
    if one.never_empty:
        message = f"{one.never_empty}: idle machines stay and cost money"
        return about.advised(message, cause="NodePoolNeverShrinks", observed=one.never_empty)
    return about.ok(f"{listed(hard)}; limits {listed([f'{key} {value}' for key, value in one.limits.items()])}")


_STATUS = f"configmap kube-system/{STATUS}"
_KEPT = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


def check_growth(scope: Scope) -> Iterator[Finding]:
    """Findings of NodePools, of Cluster Autoscaler's groups, and of nodes and pods that keep them from working."""
    pools = list(node_pools(scope)) if scope.snapshot.listing("karpenter.sh/nodepools").objects else []
    about = About(Subject("ConfigMap", STATUS, "kube-system"), _STATUS, "groups of nodes")
    try:
        every = node_groups(scope)
    except ValueError as error:
        yield about.undecided(f"what Cluster Autoscaler says of its groups is not understood: {error}"[:300])
        every = []
    if every is None and not pools:
        raise NotApplicable("NoNodeAutoscaler", "no NodePool makes accelerator nodes, and no Cluster Autoscaler has written its status")
    yield from (_judge_pool(scope, one) for one in pools)
    groups = [one for one in every or () if one.has_devices]
    grows = bool(pools) or any(one.smallest < one.largest for one in groups)
    yield from (_judge_group(scope, one, grows=grows) for one in groups)
    yield from _kept(scope)
    if every is not None:
        yield from _not_ready(scope)
    if every and groups:
        yield from _not_grown(scope, len(every) - len(groups))


def _judge_pool(scope: Scope, one: NodePool) -> Finding:
    about = About(Subject("NodePool", one.name), "nodepool.status.conditions", "Ready")
    if one.state("Ready") == "True":
        return about.ok("Ready True")
    if one.state("Ready") != "False":  # Karpenter before its version 1 writes no such condition
        return about.not_judged("Karpenter does not say whether it is Ready")
    limit = scope.policy.requests.pending_minutes * 60
    state = f"it is not Ready ({one.words('Ready')[:200]}), and no pending pod makes it grow"
    age = overdue(about, unix(one.turned("Ready")), scope.snapshot.taken_at, limit, state, cause="NodeGroupCannotGrow")
    return age if isinstance(age, Finding) else about.bad(state, cause="NodeGroupCannotGrow", observed="Ready False")


def _judge_group(scope: Scope, one: NodeGroup, *, grows: bool) -> Finding:
    about = About(Subject("NodeGroup", one.name), _STATUS, "between sizes that differ, healthy, and no growth that fails")
    limit, now = scope.policy.requests.pending_minutes * 60, scope.snapshot.taken_at
    if one.unsaid:
        return about.undecided(f"its status does not say {listed(one.unsaid)}")
    if one.probed is not None and now - one.probed > limit:
        return about.undecided(f"the autoscaler last looked at it {(now - one.probed) / 60:.0f} minutes ago: it may not run any more")
    if one.smallest == one.largest:
        message = f"its size is fixed at {one.largest}: no pending pod makes it grow, and no idle node goes"
        return (about.advised if grows else about.bad)(message, cause="NodeGroupFixed", observed=f"minSize and maxSize {one.largest}")
    troubles = [
        (not one.healthy or one.unregistered > 0, one.unhealthy_since, f"its nodes do not come up ({one.unregistered} never registered)"),
        (one.backoff, one.backoff_since, f"it is in backoff, because growing failed ({one.failure or 'no reason given'})"),
    ]
    for holds, since, state in troubles:
        if holds:
            age = overdue(about, since, now, limit, state, cause="NodeGroupCannotGrow")
            return age if isinstance(age, Finding) else about.bad(state, cause="NodeGroupCannotGrow", observed=state[:100])
    return about.ok(f"{one.smallest} to {one.largest} nodes{f', among them {listed(one.nodes, 2)}' if one.nodes else ''}")


def _kept(scope: Scope) -> Iterator[Finding]:
    """Nodes of which surely no pod holds a device, and that an annotation keeps."""
    for node in scope.accelerator_nodes:
        marks = [key for key in _KEPT if (node.metadata.annotations or {}).get(key) == "true"]
        held = (scope.held_demand_of(pod) for pod in scope.snapshot.pods_by_node.get(node.name, ()) if marks)
        if marks and not any(one.devices or one.unknown for one in held):
            about = About(subject(node), "node.metadata.annotations", "idle nodes may go")
            message = f"no pod holds a device of it, and {listed(marks)} keeps autoscalers from taking it away"
            yield about.advised(message, cause="IdleNodeKept", observed=listed(marks))


def _not_ready(scope: Scope) -> Iterator[Finding]:
    limit = scope.policy.operators.rollout_minutes * 60
    for node in without_device(scope):
        about = About(subject(node), "labels and capacity of the node", "devices where the label of the autoscaler says so")
        if node.name in scope.dra_inventory:
            if node.metadata.label.get(CLAIMS_LABEL) != "true":
                message = "its devices are for claims only, and its label makes Cluster Autoscaler wait for a resource: it may buy too much"
                yield about.advised(message, cause="LabelForClaims", observed="no device in its capacity, devices in slices")
            continue
        state = "its label says devices and it has none: Cluster Autoscaler waits for them, and may buy nothing more"
        age = overdue(about, unix(node.metadata.creation_timestamp), scope.snapshot.taken_at, limit, state, cause="LabelWithoutDevice")
        yield age if isinstance(age, Finding) else about.bad(state, cause="LabelWithoutDevice", observed="no device in its capacity")


def _not_grown(scope: Scope, others: int) -> Iterator[Finding]:
    """Pods that ask for no more than a node has, while more groups are said to have too few devices than ``others``, which have none."""
    most: dict[str, int] = {}
    for node in scope.accelerator_nodes:
        for name, count in scope.device_capacity(node).items():
            most[name] = max(most.get(name, 0), count)
    for pod, words in not_grown_for(scope):
        asked = scope.devices_of(pod.spec)
        short = any(without_resource(words, name) > others for name in asked)
        if not short or "max node group size reached" in words or any(count > most.get(name, count) for name, count in asked.items()):
            continue
        message = f"the autoscaler takes its groups for nodes without {listed(asked)}: {words[:200]}"
        yield About(subject(pod), "events", "a group that grows").advised(
            message, cause="AutoscalerKnowsNoDevice", observed="NotTriggerScaleUp"
        )


_TURNED_OFF = "ScalingDisabled"


def check_autoscaling(scope: Scope) -> Iterator[Finding]:
    """One finding for each autoscaler that goes by a metric of devices, or whose pods ask for devices."""
    found = list(of_devices(scope))
    if not found:
        raise NotApplicable("NoAutoscalerOfDevices", "no autoscaler goes by a metric of devices, and none scales pods that ask for devices")
    for one in found:
        about = About(Subject(one.kind, one.name, one.namespace), "its spec and its status", "it goes up and comes down")
        if one.fixed:
            message = f"it may have {one.least} replicas at least and {one.most} at most, so that no metric moves it"
            yield about.bad(message, cause="AutoscalerFixed", observed=f"{one.least} to {one.most} replicas")
        else:
            yield _of_keda(scope, about, one) if one.kind == "ScaledObject" else _judge_autoscaling(scope, about, one)


def _judge_autoscaling(scope: Scope, about: About, one: Autoscaler) -> Finding:
    lost = lost_on_instances(scope, one)
    active, able = one.conditions.get("ScalingActive", {}), one.conditions.get("AbleToScale", {})
    if active.get("reason") == _TURNED_OFF:
        return about.not_judged(f"its scaling is turned off: {text_of(active.get('message'))}"[:300])
    if not one.conditions:
        return about.not_judged("its controller has said nothing of it so far")
    if one.state("ScalingActive") == "False":
        cause = "MetricNotOfInstances" if lost else "AutoscalerWithoutMetric"
        cause = "AutoscalersOverlap" if active.get("reason") == "AmbiguousSelector" else cause
        return _lasting(scope, about, one, "ScalingActive", f"its replicas stay as they are: {one.words('ScalingActive')}", cause)
    if one.state("AbleToScale") == "False" and not text_of(able.get("reason")).startswith("Backoff"):
        return _lasting(
            scope, about, one, "AbleToScale", f"it cannot change the number of replicas: {one.words('AbleToScale')}", "AutoscalerUnable"
        )
    if one.rescaled is not None and one.current != one.desired:
        state = f"it asked for {one.desired} replicas and there are {one.current}"
        limit = scope.policy.requests.pending_minutes * 60
        age = overdue(about, one.rescaled, scope.snapshot.taken_at, limit, state, cause="AutoscalerNotFollowed")
        return (
            age if isinstance(age, Finding) else about.bad(state, cause="AutoscalerNotFollowed", observed=f"{one.current} of {one.desired}")
        )
    if one.state("ScalingActive") != "True":
        return about.undecided("its controller does not say whether it gets a value of its metrics")
    if lost:
        return _of_whole_gpus(about, lost)
    if one.stopped:
        message = f"its behaviour turns {' and '.join(one.stopped)} off, so that {one.target[1]} goes one way only"
        return about.advised(message, cause="AutoscalerOneWay", observed="selectPolicy Disabled")
    return about.ok(f"{one.current} replicas of {one.least} to {one.most}, ScalingActive True")


def _of_whole_gpus(about: About, metric: str) -> Finding:
    message = f"it goes by {metric}, which DCGM does not measure on MIG instances, and its pods hold nothing else: no load makes it grow"
    return about.advised(message, cause="MetricNotOfInstances", observed=metric)


def _lasting(scope: Scope, about: About, one: Autoscaler, kind: str, state: str, cause: str) -> Finding:
    """Bad once a condition has been False for longer than a metric may be missing in between."""
    limit = scope.policy.requests.pending_minutes * 60
    age = overdue(about, unix(one.turned(kind)), scope.snapshot.taken_at, limit, state[:400], cause=cause)
    return age if isinstance(age, Finding) else about.bad(state[:500], cause=cause, observed=f"{kind} False")


def _of_keda(scope: Scope, about: About, one: Autoscaler) -> Finding:
    """KEDA's conditions have no times, so that only a young object is excused."""
    if one.holds("Paused"):
        return about.not_judged("its owner has paused it")
    if one.state("Ready") == "False":
        state = f"KEDA does not scale {one.target[1]}: {one.words('Ready')}"
        age = overdue(about, one.since, scope.snapshot.taken_at, 300.0, state, cause="ScaledObjectNotReady")
        return age if isinstance(age, Finding) else about.bad(state, cause="ScaledObjectNotReady", observed="Ready False")
    if one.state("Ready") != "True":
        return about.not_judged("KEDA does not say whether it is Ready")
    if one.holds("Fallback"):
        message = "its metrics cannot be read, and it keeps the number of replicas for that case"
        return about.advised(message, cause="ScaledObjectFallsBack", observed="Fallback True")
    if lost := lost_on_instances(scope, one):
        return _of_whole_gpus(about, lost)
    return about.ok(f"Ready True, Active {one.state('Active') or 'not said'}")
