"""FENCE-13: new nodes are fenced until their devices are ready, and somebody takes the fence away then.

Facts: docs/facts/nodes.md#readiness-rules.
"""

from collections.abc import Iterator, Sequence

from conformance.common_findings import overdue
from conformance.fence.checks import HARD
from fixtures.kubernetes.models import Node, Taint
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.nodes.holds import holds
from fixtures.model.nodes.readiness_rules import PREFIX, RULES, ReadinessRule, readiness_rules
from fixtures.model.nodes.work import age_words, limit_of
from fixtures.model.platform.node_pools import NodePool, node_pools
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


def check_birth_fences(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per NodePool of accelerator nodes where the policy names taints that new nodes must have, per rule of the node readiness
    controller that is about accelerator nodes, and per taint of such a node that none of its rules takes away.
    """
    keys, rules = scope.policy.fence.birth_taints, list(readiness_rules(scope)) if scope.snapshot.served(RULES) else None
    found = [_born(keys, pool, rules) for pool in node_pools(scope)] if keys else []
    found += [finding for rule in rules or () if (finding := _rule(scope, rule))]
    found += [finding for node in scope.accelerator_nodes if rules is not None for finding in _stays(scope, node, rules, fields)]
    if not (found or keys):
        raise NotApplicable("NotDeclared", "policy fence.birthTaints names no taint that new nodes have until their devices are ready")
    if not found:
        raise NotApplicable("NoNodePool", "no NodePool makes accelerator nodes")
    yield from found


def _born(keys: Sequence[str], pool: NodePool, rules: Sequence[ReadinessRule] | None) -> Finding:
    about = About(Subject("NodePool", pool.name), "nodepool spec.template.spec.startupTaints", f"a hard startup taint {' or '.join(keys)}")
    hard = [taint for taint in pool.startup if taint.effect in HARD and matches(taint.key, keys)]
    observed = listed([str(taint) for taint in hard or pool.startup]) or "no startup taints"
    if lasting := [str(taint) for taint in hard if rules is not None and not _managed(taint, rules)]:
        message = f"no rule of the node readiness controller takes {listed(lasting)} away: its nodes never take work, and it buys more"
        return about.bad(message, cause="ReadinessTaintStays", observed=observed)
    if hard:
        return about.ok(observed)
    if kept := [str(taint) for taint in pool.taints if matches(taint.key, keys)]:
        message = f"{listed(kept)} stands among its taints and not its startupTaints: to Karpenter it stays, so it buys another node"
        return about.bad(message, cause="BirthFenceMissing", observed=observed)
    message = f"its nodes take pods as soon as they are Ready ({pool.why}), minutes before their devices are there"
    return about.bad(message, cause="BirthFenceMissing", observed=observed)


def _managed(taint: Taint, rules: Sequence[ReadinessRule]) -> bool:
    """Whether a rule takes a taint away. A taint of another program's is not the controller's to take."""
    return not taint.key.startswith(PREFIX) or any(rule.works and rule.manages(taint) for rule in rules)


def _rule(scope: Scope, rule: ReadinessRule) -> Finding | None:
    """None for a rule that has nothing to do with accelerator nodes."""
    nodes, of_birth = (
        [node for node in scope.accelerator_nodes if rule.selects(node)],
        matches(rule.taint.key, scope.policy.fence.birth_taints),
    )
    if not (nodes or of_birth):
        return None
    waits = f"{rule.taint} until {(' or ' if rule.any_of else ' and ').join(map(str, rule.wanted))}"
    about = About(
        Subject("NodeReadinessRule", rule.name), "spec of the rule, conditions of nodes", "conditions that a program reports", waits
    )
    if not rule.works:
        return about.not_judged("it is a dry run, or being deleted: it sets and takes no taint")
    if of_birth and rule.says_nothing_of_devices:
        message = f"{waits}: a new node meets that before anything was said of its devices, so its fence falls too early"
        return about.bad(message, cause="BirthFenceFallsEarly")
    if not (missing := rule.unreported(nodes)) or not nodes:
        return about.ok(f"{waits}; accelerator nodes: {len(nodes)}")
    born = [at for node in nodes if (at := unix(node.metadata.creation_timestamp)) is not None]
    since = max(unix(rule.created) or 0.0, min(born)) if born else None
    state = f"none of {len(nodes)} accelerator nodes has a condition {listed(missing)}"
    late = overdue(about, since, scope.snapshot.taken_at, limit_of(scope), state, cause="ReadinessTaintStays")
    if isinstance(late, Finding):
        return late
    return about.bad(f"{state}, so nothing takes {rule.taint} from a new node", cause="ReadinessTaintStays")


def _stays(scope: Scope, node: Node, rules: Sequence[ReadinessRule], fields: FieldsByNode) -> Iterator[Finding]:
    """Taints of the controller's on a node that none of its rules takes away, whatever the node's conditions become."""
    for hold in holds(node, fields.get(node.name)):
        if not hold.key.startswith(PREFIX):
            continue
        about = About(Subject("Node", f"{node.name} taint {hold.key}"), "node.spec.taints, rules", "a rule that takes it away", hold.name)
        own = [rule for rule in rules if rule.works and rule.taint.key == hold.key and rule.selects(node)]
        if any(not rule.is_done_with(node) for rule in own):
            continue
        why = f"rule {own[0].name} is marked done with the node" if own else "no rule for this taint selects the node"
        state = f"{why}, and {hold.name} is there {age_words(scope, hold.since)}"
        late = overdue(about, hold.since.latest, scope.snapshot.taken_at, limit_of(scope), state, cause="ReadinessTaintStays", aged=True)
        yield late if isinstance(late, Finding) else about.bad(f"{state}: it never goes by itself", cause="ReadinessTaintStays")
