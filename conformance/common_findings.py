"""A cluster in motion: what is bad once it is old, or about a node that is being changed, is undecided, with the time to ask again.

Nodes: for checks of what agents bring about there (devices, labels, fabric). Taints and other fences hold from a node's first second.
"""

from collections.abc import Iterable, Iterator

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.demand.template import Template
from fixtures.model.nodes.changes import being_changed, change_under_way
from fixtures.model.platform.agents import Agent, agents_if_read, full_name, is_ready, roll_out_under_way
from fixtures.model.platform.namespaces import OPERATORS
from fixtures.model.platform.operators import operator_object, reconciling
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
            running = agents_if_read(scope) if running is None else running
            known[name] = _doing(scope, name, running)
        if known[name]:
            message = f"{_words(finding)}; {known[name]}"
            finding = undecided(finding.subject, message=message, source=finding.source, cause=CHANGE_UNDER_WAY)
        yield finding


def still_moving(scope: Scope) -> list[str]:
    """What is under way in the cluster: nodes that are being changed or have no devices yet, agents and operators' objects."""
    now, found = scope.snapshot.taken_at, []
    for node in scope.accelerator_nodes:
        offers = any(scope.device_allocatable(node).values()) or bool(scope.dra_inventory.get(node.name))
        if doing := being_changed(node) or ("" if offers and node.ready else change_under_way(node, scope.policy, now)):
            found.append(f"{node.name}: {doing}")
    for agent in agents_if_read(scope):
        nodes = [*agent.accelerator_nodes, *agent.other_nodes]
        if doing := roll_out_under_way(agent, nodes, scope.policy, now):
            found.append(f"{full_name(agent.daemonset)}: {doing}")
    for key in OPERATORS:
        for one in (operator_object(key, item) for item in scope.snapshot.listing(key).objects):
            if one.heeded and one.phase != "ready" and (doing := reconciling(scope, one)):
                found.append(f"{one.place.kind} {one.name}: {doing}")
    return found


def _words(finding: Finding) -> str:
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
