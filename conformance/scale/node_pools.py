"""SCALE-01: pools of accelerator nodes that an autoscaler makes are fenced, limited, and can go to zero."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.platform.node_pools import NodePool, node_pools
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "nodepools: spec.template.spec.taints, spec.limits, spec.disruption"


def check_node_pools(scope: Scope) -> Iterator[Finding]:
    """One finding per NodePool that makes accelerator nodes."""
    found = list(node_pools(scope))
    if not found:
        raise NotApplicable("NoNodePool", "no NodePool makes accelerator nodes")
    for one in found:
        yield _judge(scope, one)


def _judge(scope: Scope, one: NodePool) -> Finding:
    keys = " or ".join(scope.policy.fence.taint_keys)
    about = About(Subject("NodePool", one.name), _SOURCE, f"a hard taint {keys}, a limit, and a way to zero nodes")
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
