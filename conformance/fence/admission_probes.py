"""FENCE-07 and FENCE-11: what admission does with pods that ask for a device or name their node. All by server-side dry-run."""

from collections.abc import Iterator, Sequence

import msgspec

from conformance.probes.admission import Refusal, ask_refusals, device_pod
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Taint
from fixtures.model.cluster import Scope
from fixtures.model.placement.affinity import fence_taints
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

# -- FENCE-07 and FENCE-11 -------------------------------------------------------------------------------


def probe_tolerations(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """FENCE-07: per device resource that fenced nodes offer, what admission does to a pod that asks for it without a toleration."""
    if not scope.policy.fence.device_pods:
        raise NotApplicable("NotDeclared", "policy fence.devicePods does not say whether device pods get their toleration from admission")
    namespace, seen = workspace.namespace(), set[tuple[str, tuple[str, ...]]]()
    for node in scope.accelerator_nodes:
        fence = [taint for taint in fence_taints(scope, node) if taint.effect != "PreferNoSchedule"]
        for resource in sorted(name for name, count in scope.device_capacity(node).items() if count and fence):
            if (resource, kinds := tuple(map(str, fence))) not in seen:
                seen.add((resource, kinds))
                answer = workspace.ask("pods", device_pod(scope, f"toleration-{len(seen)}", {resource: 1}), namespace)
                yield judge_tolerations(scope, resource, fence, answer)


def judge_tolerations(scope: Scope, resource: str, fence: Sequence[Taint], answer: Answer) -> Finding:
    """By the pod that the API server returned, which is what a scheduler would have to place."""
    injected = scope.policy.fence.device_pods == "injected"
    words = " and ".join(map(str, fence))
    about = About(Subject("Request", f"{resource} at {words}"), "tolerations of the pod that a server-side dry-run returns")
    about = msgspec.structs.replace(about, expected="a toleration from admission" if injected else "no toleration: it stays Pending")
    if not injected and answer.denied_by_policy:
        return about.ok(f"refused by a policy: {answer.message[:200]}")
    if not answer.ok:
        return about.undecided(f"the pod was refused: {answer.status} {answer.message[:300]}", cause="RefusedForAnotherReason")
    given = decode_pod(answer.json()).tolerations
    open_ = [taint for taint in fence if not any(one.tolerates(taint) for one in given)]
    observed = (
        f"tolerates {', '.join(str(one) for one in given if one.key and not one.key.startswith('node.kubernetes.io/')) or 'no fence'}"
    )
    if injected and open_:
        message = f"admission gives a pod with {resource} no toleration for {open_[0]}: it stays Pending although the policy says otherwise"
        return about.bad(message, cause="TolerationNotInjected", observed=observed)
    if not injected and not open_:
        message = f"admission lets each pod with {resource} through the fence, and the policy says that owners have to ask for it"
        return about.bad(message, cause="TolerationInjected", observed=observed)
    return about.ok(observed)


def probe_node_name(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """FENCE-11: a pod that names its node itself is refused. Raises :class:`NotApplicable` where the policy does not ask for that."""
    if not scope.policy.admission.node_name:
        raise NotApplicable("NotDeclared", "policy admission.nodeName does not ask for it; the scheduler alone heeds NoSchedule taints")
    if not scope.accelerator_nodes:
        raise NotApplicable("NoAcceleratorNodes", "the cluster has no accelerator node")
    node = min(scope.usable_nodes or scope.accelerator_nodes, key=lambda node: node.name)
    body = device_pod(scope, "node-name", {}, node_name=node.name)
    refusal = Refusal(what=f"a pod with spec.nodeName {node.name}", body=body, key="admission.nodeName")
    yield from ask_refusals(workspace, device_pod(scope, "no-node-name", {}), [refusal])
