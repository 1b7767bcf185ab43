"""SCALE-02: autoscalers can make groups of accelerator nodes grow, and take idle nodes away. By what they say: no machine is bought."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
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
