"""FENCE-01 to 04 and 08: which nodes are fenced, which pods are on them, and which could get there."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from conformance.common_findings import unread
from fixtures.kubernetes.models import DaemonSet, Node, Pod, Taint, Toleration
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import looks_like_device, tenant_device_pods
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.reserved_devices import doubt, shares
from fixtures.model.demand.template import is_static
from fixtures.model.devices.names import vendors_of
from fixtures.model.devices.offers import unlisted_offers
from fixtures.model.devices.scheduler_amounts import USUAL, may_give_alone, of_owner
from fixtures.model.devices.shares import doubt_of_shares, is_share
from fixtures.model.nodes.pools import pools
from fixtures.model.placement.affinity import Choice, aim, fence_taints, selects, too_long
from fixtures.model.platform.agents import agents, is_agent, missing_agents, roll_out_under_way
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, undecided
from fixtures.verdict.subjects import NotApplicable, Subject


class Daemon(msgspec.Struct, frozen=True):
    """What is known of the DaemonSet that made a pod. All are clauses, and empty where there is nothing to say.

    ``agent``: why its pods may be there; ``unclear``: why nobody can tell; ``word``: what made the pod, followed by a comma.
    """

    agent: str = ""
    unclear: str = ""
    word: str = ""


def _daemon_of(scope: Scope, pod: Pod) -> Daemon:
    """What is known of the DaemonSet that made a pod, by the UID of its owner. Anybody may write an owner of that kind."""
    owner, listing = pod.controller, scope.snapshot.listing("apps/daemonsets")
    if owner is None or owner.kind != "DaemonSet" or scope.is_infrastructure(pod.namespace):
        return Daemon()
    if not listing.known:
        return Daemon(unclear=f"whether DaemonSet {owner.name} is an agent is not known, because apps/daemonsets were not read")
    found = scope.cached(_daemonsets).get((pod.namespace, owner.uid))
    if found is None:
        return Daemon()
    if is_agent(scope, found):
        return Daemon(agent=f"agent {found.name}")
    if access := pod.host_access:
        advice = "if the platform runs it, name the namespace in the policy's tenants.moreInfrastructure or fence.allowedNamespaces"
        where = f"nothing proves its namespace {pod.namespace} to be the platform's"
        return Daemon(unclear=f"DaemonSet {found.name} has {access} as agents of nodes have, and {where}; {advice}")
    return Daemon(word=f"DaemonSet {found.name} puts a pod on every node that it tolerates, ")


def _daemonsets(scope: Scope) -> dict[tuple[str, str], DaemonSet]:
    """DaemonSets by namespace and UID."""
    return {(item.namespace, item.metadata.uid): item for item in scope.snapshot.listing("apps/daemonsets").items}


HARD = ("NoSchedule", "NoExecute")
"""Effects that keep pods away. PreferNoSchedule is a wish."""

_USUAL_KEY = "nvidia.com/gpu"
"""The key that a command of the cause names: pods of another vendor's devices do not tolerate it."""

_USUAL_VENDOR = _USUAL_KEY.partition("/")[0]

_OF_KUBERNETES = "node.kubernetes.io/"
"""Taints that Kubernetes sets for a state of the node: they go with it."""


def hard_taints(scope: Scope, node: Node) -> list[Taint]:
    """Fence taints of a node that really keep pods away."""
    return [taint for taint in fence_taints(scope, node) if taint.effect in HARD]


# -- FENCE-01 ------------------------------------------------------------------------------------------


def unfenced_box(scope: Scope) -> str:
    """Why the cluster needs no fence, as a sentence; empty where it needs one."""
    if scope.policy.fence.single_node or len(scope.snapshot.nodes) != 1:
        return ""
    return "the cluster is this one node, where everything has to run (policy fence.singleNode)"


def check_fenced(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node: a hard taint of an allowed key, and the key that its pool shares."""
    for product, nodes in pools(scope, scope.accelerator_nodes).items():
        counts = Counter(key for node in nodes for key in {taint.key for taint in hard_taints(scope, node)})
        shared = min(counts, key=lambda key: (-counts[key], key)) if counts else ""
        for node in nodes:
            yield _fenced(scope, node, product, shared, counts)


def _fenced(scope: Scope, node: Node, product: str, shared: str, counts: Counter[str]) -> Finding:
    hard = hard_taints(scope, node)
    expected = f"a taint {' or '.join([shared] if shared else scope.policy.fence.taint_keys)} with NoSchedule or NoExecute"
    observed = ", ".join(str(taint) for taint in node.taints) or "no taints"
    about = About(subject(node), "node.spec.taints", expected, observed)
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: pods without devices take nothing from machines here", source="node labels")
    if not hard and (box := unfenced_box(scope)):
        return about.not_judged(box)
    unknown = [taint for taint in node.taints if taint.effect in HARD and not taint.key.startswith(_OF_KUBERNETES)]
    if not hard and unknown and (offers := unlisted_offers(scope, node)):
        message = f"{offers}: whether its taints ({observed}) are their fence is not known"
        return about.undecided(message, source="node.spec.taints, node.status.capacity")
    if not hard:
        soft = [str(taint) for taint in fence_taints(scope, node)]
        if soft:
            message = f"{listed(soft)} only asks the scheduler to avoid the node: pods without devices still land on it"
        elif node.taints:
            message = f"none of its taints ({observed}) has an allowed key: pods that tolerate them for other reasons land on it"
        else:
            message = "the node has no taint: any pod that fits lands on it and takes CPU and memory from device pods"
        usual = shared == _USUAL_KEY or (not shared and scope.policy.fence.taint_keys[0] == _USUAL_KEY and not unknown)
        cause = "NodeNotFenced" if usual and vendors_of(node, scope) <= {_USUAL_VENDOR} else "FenceKeyMissing"
        return about.bad(message, cause=cause)
    if shared not in {taint.key for taint in hard}:
        others = f"{counts[shared]} nodes of {product} are fenced by {shared}"
        message = f"fenced by {hard[0].key} while {others}: one toleration does not reach the whole pool"
        return about.bad(message, cause="FenceKeyMissing")
    return about.ok(", ".join(str(taint) for taint in hard))


# -- FENCE-02 ------------------------------------------------------------------------------------------


def check_intruders(scope: Scope) -> Iterator[Finding]:
    """One finding per pod that is bound to an accelerator node and not finished."""
    for node in scope.accelerator_nodes:
        for pod in () if scope.virtual(node) else scope.snapshot.pods_by_node.get(node.name, ()):
            yield _intruding(scope, pod, node)


def _intruding(scope: Scope, pod: Pod, node: Node) -> Finding:
    demand = scope.held_demand_of(pod)
    asked = _asked(scope, pod)
    (absent, never), unsure = _absent(scope, pod, node, asked), doubt(scope, pod)
    only_shares = asked and not demand.devices and not any(looks_like_device(scope, name) for name in asked)
    ungiven = doubt_of_shares(scope, pod, node, asked) if only_shares else ""
    watches = scope.device_demand_of(pod).devices and not demand.devices
    asks = "asks for a device" if demand.devices else f"asks for {listed(asked)}" if asked else ""
    about = About(subject(pod), "pod spec and owner", "a device or an exception")
    if reason := ("" if absent or ungiven else asks) or _belongs(scope, pod) or ("" if unsure else shares(scope, pod)):
        return about.ok(f"on {node.name}: {reason}")
    daemon = _daemon_of(scope, pod)
    if daemon.agent:
        return about.ok(f"on {node.name}: {daemon.agent}")
    if box := unfenced_box(scope):
        return about.not_judged(box)
    if demand.unknown:
        message = f"whether it asks for a device is not known: {demand.unknown}"
        return about.undecided(message, source="pod spec and claims")
    if absent and never:
        about = About(subject(pod), "pod spec, node.status.capacity", "a device that the node has", f"on {node.name}")
        message = f"{absent}: no scheduler sends it there, so spec.nodeName was written by hand, and it holds no device"
        return about.bad(message, cause="BoundByHand")
    if absent:
        return about.undecided(absent, source="pod spec, node.status.capacity")
    if ungiven:
        message = f"it asks for {listed(asked)}, and whether its scheduler gave it a device is not known: {ungiven}"
        return about.undecided(message, source="pod spec, annotations of pods, node.status.allocatable")
    if unclear := daemon.unclear or unsure:
        return about.undecided(f"it asks for no device and runs on accelerator node {node.name}: {unclear}")
    advice = scope.platform.advice(pod.namespace)
    without = "its claims have admin access only, which holds no device, and it" if watches else "it asks for no device and"
    return about.bad(
        f"{without} runs on accelerator node {node.name}: {daemon.word}{way_in(scope, pod, node)}{advice}",
        cause="PodWithoutDevice",
        observed=f"on {node.name} without a device",
        expected="a device, an agent of the platform, a static pod or an allowed namespace",
    )


def _asked(scope: Scope, pod: Pod) -> list[str]:
    """Names of devices that a pod asks for: a virtual machine's is a product's name, a sliced or shared device's a scheduler's own."""
    amounts = scope.extended_amounts(pod).items()
    return sorted(name for name, count in amounts if count and (looks_like_device(scope, name) or is_share(scope, name)))


def _absent(scope: Scope, pod: Pod, node: Node, asked: list[str]) -> tuple[str, bool]:
    """That a node has none of what a pod asks for, as a clause; empty where it has, or where claims or a scheduler give it.

    Second, whether it had none while the pod was there either, so that no scheduler sent the pod.

    No scheduler binds such a pod, and a kubelet lets it in all the same. A kubelet that loses a device plugin keeps the name with 0, so a
    node without the name lost it before it joined anew (docs/facts/admission.md#resources-that-a-node-lacks).
    """
    if not asked or any(name in node.capacity or of_owner(scope, name) or scope.claims.by_resource(name).devices for name in asked):
        return "", False
    if scope.claims.demand(pod.claims, pod.namespace, pod.claim_statuses).devices:
        return "", False
    if all(matches(name, USUAL) for name in asked):
        why = f"it asks for {listed(asked)}, which schedulers count beside a device, and for no device that {node.name} has"
        return why, not any(may_give_alone(scope, node, name) for name in asked)
    why = f"it asks for {listed(asked)}, of which {node.name} has none"
    joined, made = unix(node.metadata.creation_timestamp), unix(pod.metadata.creation_timestamp)
    plugins = all(looks_like_device(scope, name) for name in asked)  # shares are others' amounts: nothing keeps their names
    if plugins and joined is not None and made is not None and joined < made:
        return why, True
    return f"{why}: the node has lost it, or spec.nodeName was written by hand", False


def _belongs(scope: Scope, pod: Pod) -> str:
    """Why a pod that asks for no known device may be on an accelerator node, or empty."""
    if is_static(scope, pod):
        return "static pod"
    if matches(pod.namespace, scope.policy.fence.allowed_namespaces):
        return "namespace allowed by the policy"
    return "namespace of the platform" if scope.is_infrastructure(pod.namespace) else ""


def way_in(scope: Scope, pod: Pod, node: Node) -> str:
    """What let a pod onto a node: the toleration, the missing fence, or a way around the scheduler."""
    hard = hard_taints(scope, node)
    if not hard:
        return "the node carries no fencing taint"
    let_in = [str(item) for taint in hard for item in pod.tolerations if item.tolerates(taint)]
    if let_in:
        return f"its toleration {listed(dict.fromkeys(let_in))} let it in"
    fences = listed(str(taint) for taint in hard)
    return f"none of its tolerations matches {fences}, so it was bound before the taint or by spec.nodeName"


# -- FENCE-03 ------------------------------------------------------------------------------------------


def is_blanket(toleration: Toleration) -> bool:
    """Whether a toleration matches every taint of a hard effect: ``operator: Exists`` and no key."""
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in ("", *HARD)


def check_blanket_tolerations(scope: Scope) -> Iterator[Finding]:
    """One finding per pod and per workload template in tenant namespaces."""
    for template in templates(scope):
        if template.trouble:
            yield unread(template)
        elif scope.is_tenant(template.namespace) and (template.tolerations or not template.partial):
            source = f"{template.path}.tolerations"
            blanket = [item for item in template.tolerations if is_blanket(item)]
            static = is_static(scope, template.pod) if template.pod is not None else False
            about = About(template.place, source, "named keys")
            if static is None:
                message = "it says that it is a static pod, and whether its node owns it is not known: nodes were not read"
                yield about.undecided(message)
            elif static:
                yield about.not_judged("a static pod: the kubelet adds tolerations to it, and no scheduler places it")
            elif blanket:
                which = f"every taint of effect {blanket[0].effect}" if blanket[0].effect else "every taint"
                message = f"its toleration {blanket[0]} matches {which}, so its pods may land on every node that these taints fence"
                message += scope.platform.advice(template.namespace)
                yield about.bad(
                    message, cause="BlanketToleration", observed=f"operator Exists without key (effect {blanket[0].effect or 'any'})"
                )
            else:
                yield about.ok(f"{len(template.tolerations)} tolerations with keys")


# -- FENCE-04 ------------------------------------------------------------------------------------------


def check_agents_reach(scope: Scope) -> Iterator[Finding]:
    """The matrix node × agent: one finding per pair where the agent must run, by the pods that are there."""
    for glob in missing_agents(scope):
        about = About(Subject("DaemonSet", glob), "policy operators.expectedAgents", "installed", "none")
        yield about.bad(f"no DaemonSet matches {glob}", cause="AgentNotInstalled")
    for agent in agents(scope):
        name = agent.daemonset.name
        for node in agent.accelerator_nodes:
            pair = Subject("Agent", f"{name} on {node.name}", agent.daemonset.namespace)
            about = About(pair, "pods by owner, node.spec.taints, template tolerations", "a pod of the agent", "no pod")
            if node.name in agent.pods:
                yield about.ok(agent.pods[node.name].name)
                continue
            as_read = scope.as_read.node_by_name[node.name]  # with the taints that hold it until it returns
            taints = [str(taint) for taint in agent.untolerated(as_read)]
            if taints:
                message = f"{name} does not tolerate {listed(taints)} of {node.name}, so it has no pod there"
                cause = "TaintNotTolerated"
            elif scope.why_not_judged(node) == "NotReady":
                yield about.not_judged(f"{node.name} is NotReady and {name} has no pod there")
                continue
            elif doing := roll_out_under_way(agent, [node], scope.policy, scope.snapshot.taken_at):
                yield about.undecided(f"{name} has no pod on {node.name}; {doing}", cause=CHANGE_UNDER_WAY)
                continue
            else:
                message, cause = f"{name} tolerates every taint of {node.name} and has no pod there", "AgentPodMissing"
            yield about.bad(message, cause=cause)


# -- FENCE-08 ------------------------------------------------------------------------------------------


def check_aimed(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant pod that holds devices: its selector or required affinity admits accelerator nodes and no others."""
    pods = tenant_device_pods(scope)
    unclear = [(pod, scope.held_demand_of(pod)) for pod in scope.snapshot.pods if not pod.finished and scope.is_tenant(pod.namespace)]
    unclear = [(pod, demand) for pod, demand in unclear if demand.unknown and not demand.devices]
    if not pods and not unclear:
        raise NotApplicable("NoDevicePods", "no tenant pod asks for a device")
    for pod, demand in unclear:
        yield undecided(subject(pod), message=f"whether it asks for a device is not known: {demand.unknown}", source="pod spec and claims")
    accelerators = {node.name for node in scope.accelerator_nodes}
    verdicts: dict[str, tuple[int, list[str]]] = {}
    for pod in pods:
        expected = "a selector or required affinity that admits accelerator nodes only"
        about = About(subject(pod), "spec.nodeSelector, spec.affinity.nodeAffinity", expected)
        if not selects(pod.spec):
            message = "it has neither selector nor required node affinity: only the device request keeps it off other nodes"
            yield about.bad(message, cause="SelectorMissing", observed="no selector, no required node affinity")
            continue
        if long := too_long(pod.spec):
            yield about.undecided(long)
            continue
        form = aim(pod.spec)
        if form not in verdicts:
            choice = Choice(pod.spec)
            admitted = [node.name for node in scope.snapshot.nodes if choice.admits(node)]
            verdicts[form] = (len(admitted), sorted(set(admitted) - accelerators))
        count, strangers = verdicts[form]
        if strangers:
            message = f"its selector also admits nodes without accelerators ({listed(strangers)})"
            yield about.bad(message, cause="SelectorTooWide", observed=f"admits {count} nodes, {len(strangers)} without accelerators")
        elif not count:
            yield about.bad("its selector admits no node of the cluster", cause="SelectorMatchesNothing", observed="admits no node")
        else:
            yield about.ok(f"admits {count} accelerator nodes")
