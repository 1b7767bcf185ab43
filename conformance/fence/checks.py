"""FENCE-01 to 04 and 08: taints, who is behind them, and who can get there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conformance.fence.selection import admits, selects
from conformance.ops.agents import agents, missing_agents
from conformance.products import pools
from conformance.req.amounts import looks_like_device
from conformance.scope import Scope, held_by, matches, subject
from conformance.templates import templates, unread
from fixtures.evidence import Finding, NotApplicable, Subject, bad, not_judged, ok, undecided
from fixtures.models import Node, Pod, Taint, Toleration
from fixtures.text import listed

HARD = ("NoSchedule", "NoExecute")
"""Effects that keep pods away. PreferNoSchedule is a wish."""

_MIRROR = "kubernetes.io/config.mirror"


def hard_taints(scope: Scope, node: Node) -> list[Taint]:
    """Fence taints of a node that really keep pods away."""
    return [taint for taint in scope.fence_taints(node) if taint.effect in HARD]


# -- FENCE-01 ------------------------------------------------------------------------------------------


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
    observed = ", ".join(str(taint) for taint in node.spec.taints) or "no taints"
    if not hard:
        soft = [str(taint) for taint in scope.fence_taints(node)]
        if soft:
            message = f"{listed(soft)} only asks the scheduler to avoid the node: pods without devices still land on it"
        elif node.spec.taints:
            message = f"none of its taints ({observed}) has an allowed key: any pod that tolerates them for another reason lands on it"
        else:
            message = "the node has no taint: any pod that fits lands on it and takes CPU and memory from device pods"
        return bad(subject(node), observed, expected, "node.spec.taints", message)
    if shared not in {taint.key for taint in hard}:
        others = f"{counts[shared]} nodes of {product} are fenced by {shared}"
        message = f"fenced by {hard[0].key} while {others}: one toleration does not reach the whole pool"
        return bad(subject(node), observed, expected, "node.spec.taints", message)
    return ok(subject(node), ", ".join(str(taint) for taint in hard), expected, "node.spec.taints")


# -- FENCE-02 ------------------------------------------------------------------------------------------


def check_intruders(scope: Scope) -> Iterator[Finding]:
    """One finding per pod that is bound to an accelerator node and not finished."""
    for node in scope.accelerator_nodes:
        for pod in scope.snapshot.pods_by_node.get(node.name, ()):
            asking = scope.asking_of(pod)
            reason = "asks for a device" if asking.devices else _belongs(scope, pod)
            if reason:
                yield ok(subject(pod), f"on {node.name}: {reason}", "a device or an exception", "pod spec and owner")
            elif asking.unknown:
                yield undecided(subject(pod), f"whether it asks for a device is not known: {asking.unknown}", "pod spec and claims")
            else:
                way = way_in(scope, pod, node)
                advice = scope.platform.advice(pod.namespace)
                message = f"it asks for no device and runs on accelerator node {node.name}: {way}{advice}"
                yield bad(
                    subject(pod), f"on {node.name} without a device", "a device, a DaemonSet, a static pod", "pod spec and owner", message
                )


def _belongs(scope: Scope, pod: Pod) -> str:
    """Why a pod that asks for no known device may be on an accelerator node, or empty."""
    # a virtual machine holds its device under a product's name, a sliced device under a scheduler's own
    if names := [name for name, count in held_by(pod.spec, lambda name: looks_like_device(scope, name)).items() if count]:
        return f"asks for {listed(names)}"
    owner = pod.controller
    if owner is not None and owner.kind == "DaemonSet":
        return f"DaemonSet {owner.name}"
    if _is_static(scope, pod):
        return "static pod"
    if matches(pod.namespace, scope.policy.fence.allowed_namespaces):
        return "namespace allowed by the policy"
    return "namespace of the platform" if scope.is_infrastructure(pod.namespace) else ""


def _is_static(scope: Scope, pod: Pod) -> bool:
    """Whether a pod is its node's own: it mirrors a static pod, and the very node it is on owns it.

    A kubelet runs no pod of the API that carries the mark of a mirror, and an owner alone is written by hand.
    """
    owner, node = pod.controller, scope.snapshot.node_by_name.get(pod.spec.node_name)
    owned = owner is not None and node is not None and owner.kind == "Node" and owner.uid == node.metadata.uid
    return owned and _MIRROR in pod.metadata.annotation


def way_in(scope: Scope, pod: Pod, node: Node) -> str:
    """What let a pod onto a node: the toleration, the missing fence, or a way around the scheduler."""
    hard = hard_taints(scope, node)
    if not hard:
        return "the node carries no fencing taint"
    let_in = [str(item) for taint in hard for item in pod.spec.tolerations or () if item.tolerates(taint)]
    if let_in:
        return f"its toleration {listed(dict.fromkeys(let_in))} let it in"
    fences = listed(str(taint) for taint in hard)
    return f"no toleration of it matches {fences}, so it was bound before the taint or by spec.nodeName"


# -- FENCE-03 ------------------------------------------------------------------------------------------


def is_blanket(toleration: Toleration) -> bool:
    """Whether a toleration matches every taint of a hard effect: ``operator: Exists`` and no key."""
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in ("", *HARD)


def check_blanket_tolerations(scope: Scope) -> Iterator[Finding]:
    """One finding per pod and per workload template in tenant namespaces."""
    for template in templates(scope):
        if template.trouble:
            yield unread(template)
        elif scope.is_tenant(template.namespace):
            source = f"{template.path}.tolerations"
            blanket = [item for item in template.spec.tolerations or () if is_blanket(item)]
            if template.live and _MIRROR in template.annotations:
                yield not_judged(template.place, "a static pod: the kubelet adds tolerations to it, and no scheduler places it", source)
            elif blanket:
                which = f"every taint of effect {blanket[0].effect}" if blanket[0].effect else "every taint"
                message = f"its toleration {blanket[0]} matches {which}, so its pods may land behind any fence made of them"
                message += scope.platform.advice(template.namespace)
                yield bad(
                    template.place, f"operator Exists without key (effect {blanket[0].effect or 'any'})", "named keys", source, message
                )
            else:
                yield ok(template.place, f"{len(template.spec.tolerations or ())} tolerations with keys", "named keys", source)


# -- FENCE-04 ------------------------------------------------------------------------------------------


def check_agents_reach(scope: Scope) -> Iterator[Finding]:
    """The matrix node × agent: one finding per pair where the agent must run, by the pods that are there."""
    source = "pods by owner, node.spec.taints, template tolerations"
    for glob in missing_agents(scope):
        yield bad(Subject("DaemonSet", glob), "none", "installed", "policy operators.expectedAgents", f"no DaemonSet matches {glob}")
    for agent in agents(scope):
        name = agent.daemonset.name
        for node in agent.accelerator_nodes:
            pair = Subject("Agent", f"{name} on {node.name}", agent.daemonset.namespace)
            if node.name in agent.pods:
                yield ok(pair, agent.pods[node.name].name, "a pod of the agent", source)
                continue
            taints = [str(taint) for taint in agent.untolerated(node)]
            if taints:
                message = f"{name} does not tolerate {listed(taints)} of {node.name}, so it has no pod there and its work is not done"
            elif scope.why_not_judged(node) == "NotReady":
                yield not_judged(pair, f"{node.name} is NotReady and {name} has no pod there", source)
                continue
            else:
                message = f"{name} tolerates every taint of {node.name} and has no pod there"
            yield bad(pair, "no pod", "a pod of the agent", source, message)


# -- FENCE-08 ------------------------------------------------------------------------------------------


def check_aimed(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant device pod: its selector or required affinity admits accelerator nodes and no others."""
    pods = scope.tenant_device_pods
    unclear = [(pod, scope.asking_of(pod)) for pod in scope.snapshot.pods if not pod.finished and scope.is_tenant(pod.namespace)]
    unclear = [(pod, asking) for pod, asking in unclear if asking.unknown and not asking.devices]
    if not pods and not unclear:
        raise NotApplicable("NoDevicePods", "no tenant pod asks for a device")
    for pod, asking in unclear:
        yield undecided(subject(pod), f"whether it asks for a device is not known: {asking.unknown}", "pod spec and claims")
    accelerators = {node.name for node in scope.accelerator_nodes}
    verdicts: dict[str, tuple[int, list[str]]] = {}
    for pod in pods:
        place, source = subject(pod), "spec.nodeSelector, spec.affinity.nodeAffinity"
        expected = "a selector or required affinity that admits accelerator nodes only"
        if not selects(pod.spec):
            message = "it has neither selector nor required node affinity: only the device request keeps it off other nodes"
            yield bad(place, "no selector, no required node affinity", expected, source, message)
            continue
        form = repr((pod.spec.node_selector, (pod.spec.affinity or {}).get("nodeAffinity")))
        if form not in verdicts:
            admitted = [node.name for node in scope.snapshot.nodes if admits(pod.spec, node)]
            verdicts[form] = (len(admitted), sorted(set(admitted) - accelerators))
        count, strangers = verdicts[form]
        if strangers:
            message = f"its selector also admits nodes without accelerators ({listed(strangers)})"
            yield bad(place, f"admits {count} nodes, {len(strangers)} without accelerators", expected, source, message)
        elif not count:
            yield bad(place, "admits no node", expected, source, "its selector admits no node of the cluster")
        else:
            yield ok(place, f"admits {count} accelerator nodes", expected, source)
