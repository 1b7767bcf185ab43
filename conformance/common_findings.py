"""A cluster in motion: what is bad once it is old, or about a node that is being changed, is undecided, with the time to ask again.

Nodes: for checks of what agents bring about there (devices, labels, fabric). Taints and other fences hold from a node's first second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import moment, unix
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.demand.template import Template
from fixtures.model.nodes.changes import being_changed, change_under_way
from fixtures.model.platform.agents import Agent, agents, full_name, is_ready, roll_out_under_way
from fixtures.model.platform.namespaces import IGNORED, OPERATORS
from fixtures.text.sentences import ask_again, so_far
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, Outcome, not_judged, undecided

JUST_READY_MINUTES = 1.0
"""How long a node's status may lag behind an agent that has become Ready."""


def overdue(
    about: About,
    since: float | None,
    now: float,
    limit: float,
    state: str,
    *,
    cause: str,
    rest: str = "",
    unknown: str = "",
    aged: bool = False,
    quiet: bool = False,
) -> Finding | float:
    """How long, in seconds, a state has lasted that is bad once it is older than its limit; or the finding about one that is not.

    A younger one is undecided, with when to ask again, or ``quiet``: not judged, since nothing complains of it. One of unknown age is
    undecided, with the ``cause`` that it may have.

    Args:
        about: The subject, and where its age comes from.
        since: When the state began, Unix seconds, as ``now``; None where that is not known.
        now: When the cluster was read.
        limit: How long the policy lets it last, in seconds.
        state: A clause, to which how long it has lasted is added, unless the clause says that itself (``aged``), and then ``rest``.
        cause: What to do about a state of unknown age.
        rest: Further words about a young one.
        unknown: The whole message about one of unknown age.
        aged: Whether ``state`` says how long it has lasted.
        quiet: Whether a young one is none that should have been judged.
    """
    if since is None:
        return about.undecided(unknown or f"{state.rstrip(':')}, and nothing says since when", cause=cause)
    age = max(now - since, 0.0)
    if age > limit:
        return age
    message = f"{state}: {ask_again(age, limit)}{rest}" if aged else f"{state} {so_far(age, limit)}{rest}"
    return about.not_judged(message) if quiet else about.undecided(message, cause=CHANGE_UNDER_WAY)


def unless_settling(scope: Scope, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, with bad and advised ones about nodes undecided while something is being done to the node.

    The first word of such a subject's name is the node's.
    """
    known: dict[str, str] = {}
    running: list[Agent] | None = None
    for finding in findings:
        if finding.outcome not in (Outcome.BAD, Outcome.ADVISED) or finding.subject.kind != "Node":
            yield finding
            continue
        name = finding.subject.name.partition(" ")[0]
        if name not in known:
            running = _agents(scope) if running is None else running
            known[name] = _doing(scope, name, running)
        if known[name]:
            message = f"{_said(finding)}; {known[name]}"
            finding = undecided(finding.subject, message=message, source=finding.source, cause=CHANGE_UNDER_WAY)
        yield finding


def still_moving(scope: Scope) -> list[str]:
    """What is under way in the cluster: nodes that are being changed or have no devices yet, agents and operators' objects."""
    now, found = scope.snapshot.taken_at, []
    for node in scope.accelerator_nodes:
        offers = any(scope.device_allocatable(node).values()) or bool(scope.dra_inventory.get(node.name))
        if doing := being_changed(node) or ("" if offers and node.ready else change_under_way(node, scope.policy, now)):
            found.append(f"{node.name}: {doing}")
    for agent in _agents(scope):
        nodes = [*agent.accelerator_nodes, *agent.other_nodes]
        if doing := roll_out_under_way(agent, nodes, scope.policy, now):
            found.append(f"{full_name(agent.daemonset)}: {doing}")
    for key in OPERATORS:
        for item in scope.snapshot.listing(key).objects:
            if mapping(item.get("status")).get("state") not in ("ready", *IGNORED) and (doing := reconciling(scope, item)):
                found.append(f"{KINDS[key].kind} {mapping(item.get('metadata')).get('name')}: {doing}")
    return found


def reconciling(scope: Scope, item: Json) -> str:
    """Why an operator's object need not be ready yet, as a clause, or empty.

    It was made or became unready less than ``operators.rolloutMinutes`` ago, or an agent that it owns is being rolled out.
    """
    limit, now, meta = scope.policy.operators.rollout_minutes * 60, scope.snapshot.taken_at, mapping(item.get("metadata"))
    known = mappings(mapping(item.get("status")).get("conditions"))
    telling = [one for one in known if one.get("type") == "Ready" or (one.get("type") == "Error" and one.get("status") == "True")]
    turned = [moment(one.get("lastTransitionTime")) for one in telling]
    times = [moment(meta.get("creationTimestamp")), *([] if None in turned else [min((at for at in turned if at), default=None)])]
    age = min((max(now - at, 0.0) for at in times if at is not None), default=limit)
    if age < limit:
        return f"so {so_far(age, limit)} (policy operators.rolloutMinutes)"
    for agent in _agents(scope):
        nodes = [*agent.accelerator_nodes, *agent.other_nodes]
        owned = any(owner.uid == meta.get("uid") for owner in agent.daemonset.metadata.owners)
        if owned and (doing := roll_out_under_way(agent, nodes, scope.policy, now)):
            return f"{full_name(agent.daemonset)}: {doing}"
    return ""


def _agents(scope: Scope) -> list[Agent]:
    """The agents, where the run reads them."""
    read = all(scope.snapshot.listing(key).collected for key in ("apps/daemonsets", "pods", "nodes"))
    return agents(scope) if read else []


def _said(finding: Finding) -> str:
    return finding.message or f"{finding.observed}, expected {finding.expected}"


def _doing(scope: Scope, name: str, running: Iterable[Agent]) -> str:
    """What is being done to a node, or which of its agents is just starting; else empty."""
    node, now = scope.snapshot.node_by_name.get(name), scope.snapshot.taken_at
    if node is None:
        return ""
    if doing := change_under_way(node, scope.policy, now):
        return doing
    limit = scope.policy.operators.rollout_minutes
    pods = [pod for agent in running if (pod := agent.pods.get(name)) is not None and _starts(pod, now, limit)]
    return f"{pods[0].name} is starting there (policy operators.rolloutMinutes: {limit:g}): ask again in a minute" if pods else ""


def _starts(pod: Pod, now: float, limit: float) -> bool:
    """Whether a pod was made a moment ago and is not Ready, or has just become so."""
    created, condition = unix(pod.metadata.creation_timestamp), pod.condition("Ready")
    if created is None or now - created >= limit * 60:
        return False
    since = unix(condition.last_transition_time) if condition is not None else None
    return not is_ready(pod) or (since is not None and now - since < JUST_READY_MINUTES * 60)


def unread(template: Template) -> Finding:
    """The finding for a template with ``trouble``."""
    make = not_judged if template.left_out else undecided
    return make(template.place, message=template.trouble, source=template.path or template.key)
