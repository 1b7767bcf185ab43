"""FENCE-12 and 13: nodes take work after a validation, when they come back from quarantine and when they are new."""

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.chosen import is_returning
from fixtures.model.nodes.holds import STATE_LABEL
from fixtures.model.nodes.returns import Quarantine, last_quarantine, validations
from fixtures.model.platform.node_pools import NodePool, node_pools
from fixtures.text.globs import matches
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "metadata of the node, its conditions, validator pods on it"


def check_validated(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node that shows a quarantine."""
    found = [(node, quarantine) for node in scope.accelerator_nodes if (quarantine := last_quarantine(node)) is not None]
    if not found:
        raise NotApplicable("NoQuarantine", "no accelerator node shows that it was in quarantine")
    for node, quarantine in found:
        yield _validated(scope, node, quarantine)


def _validated(scope: Scope, node: Node, quarantine: Quarantine) -> Finding:
    about = About(subject(node), _SOURCE, "a validation that is newer than the quarantine")
    state = node.metadata.label.get(STATE_LABEL, "")
    if is_returning(scope, node):
        return about.not_judged("it is not back in service: this run is to say whether it may be")
    if away := scope.why_not_judged(node) or (f"label {STATE_LABEL}={state}" if state else ""):
        return about.not_judged(f"it is not back in service: {away}")
    last = max(validations(scope, node), key=lambda one: one.at, default=None)
    now, shown = scope.snapshot.taken_at, f"it was in quarantine ({quarantine.words})"
    if last is None:
        return about.bad(f"{shown}, and nothing shows that it was validated", cause="ReturnedWithoutValidation", observed="no validation")
    observed = f"{last.words}, {duration(max(now - last.at, 0.0))} ago"
    began, ended = quarantine.began.latest, quarantine.ended.latest
    if last.at >= min((at for at in (began, ended) if at is not None), default=float("inf")):
        return about.ok(observed)
    if began is None:
        return about.undecided(f"{shown}; {observed}: nothing says whether that is older than the quarantine's begin")
    message = f"{shown}, and its last validation is older: {observed}"
    return about.bad(message, cause="ReturnedWithoutValidation", observed=observed)


def check_birth_fences(scope: Scope) -> Iterator[Finding]:
    """FENCE-13: one finding per NodePool that makes accelerator nodes, where the policy names the taints that new nodes must have."""
    keys = scope.policy.fence.birth_taints
    if not keys:
        raise NotApplicable("NotDeclared", "policy fence.birthTaints names no taint that new nodes have until their devices are ready")
    found = list(node_pools(scope))
    if not found:
        raise NotApplicable("NoNodePool", "no NodePool makes accelerator nodes")
    yield from (_born(keys, pool) for pool in found)


def _born(keys: tuple[str, ...], pool: NodePool) -> Finding:
    about = About(Subject("NodePool", pool.name), "nodepool spec.template.spec.startupTaints", f"a hard startup taint {' or '.join(keys)}")
    hard = [str(taint) for taint in pool.startup if taint.effect in ("NoSchedule", "NoExecute") and matches(taint.key, keys)]
    if hard:
        return about.ok(listed(hard))
    observed = listed([str(taint) for taint in pool.startup]) or "no startup taints"
    if kept := [str(taint) for taint in pool.taints if matches(taint.key, keys)]:
        message = f"{listed(kept)} stands among its taints and not its startupTaints: to Karpenter it stays, so it buys another node"
        return about.bad(message, cause="BirthFenceMissing", observed=observed)
    message = f"its nodes take pods as soon as they are Ready ({pool.why}), minutes before their devices are there"
    return about.bad(message, cause="BirthFenceMissing", observed=observed)
