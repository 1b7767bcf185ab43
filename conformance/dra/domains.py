"""DRA-09: ComputeDomains are Ready, and their nodes are those of the NVLink clique, each with its IMEX daemon. Pure.

Facts: docs/facts/dra.md#compute-domains.
"""

from collections.abc import Iterator, Mapping

from conformance.common_findings import overdue
from fixtures.grouping import grouped
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.times import moment, unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.dra.compute_domains import Domain, Member, domains_of, pods_by_template
from fixtures.model.dra.nvidia_driver import DOMAIN_LABEL, DOMAINS
from fixtures.model.jobs.marks import placed_at
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.platform.agents import is_ready
from fixtures.text.sentences import duration, in_order, listed, so_far
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_CLIQUE = "nvidia.com/gpu.clique"
_SOURCE = "status of the ComputeDomain, node labels, pods of IMEX daemons"
_Problem = tuple[str, frozenset[str] | None]
"""What is wrong, and the nodes that need time to put it right; none: no time helps; None: it follows from what some node lacks."""

_LASTING: frozenset[str] = frozenset()
_EXPECTED = "Ready, every member a node of the clique that its label names, with a Ready IMEX daemon"


def check_domains(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per ComputeDomain, and one per node and per pod of a daemon that a domain has left behind."""
    domains = domains_of(scope)
    left = list(_left_behind(scope, {domain.uid for domain in domains}, now))
    if not domains and not left:
        raise NotApplicable("NoComputeDomain", "no ComputeDomain exists")
    yield from left
    daemons = (pod for pod in _of_domains(scope) if pod.controller is not None and pod.controller.kind == "DaemonSet")
    pods = grouped((pod.metadata.label[DOMAIN_LABEL], pod) for pod in daemons)
    labelled: dict[str, dict[str, Node]] = {}
    for node in scope.snapshot.nodes:
        if uid := node.metadata.label.get(DOMAIN_LABEL):
            labelled.setdefault(uid, {})[node.name] = node
    for domain in domains:
        yield _judge(scope, domain, pods.get(domain.uid, []), labelled.get(domain.uid, {}), now)


def _of_domains(scope: Scope) -> list[Pod]:
    """Unfinished pods that carry the UID of a domain, where agents are: the driver's namespace. Anybody may copy the label."""
    pods = [pod for pod in scope.snapshot.pods if pod.metadata.label.get(DOMAIN_LABEL) and not pod.finished]
    return [pod for pod in pods if scope.platform.of(pod.namespace).components]


def _left_behind(scope: Scope, known: set[str], now: float) -> Iterator[Finding]:
    """Nodes and IMEX daemons that carry the UID of a domain which does not exist."""
    if not scope.snapshot.served(DOMAINS):
        return
    for node in scope.snapshot.nodes:
        uid = node.metadata.label.get(DOMAIN_LABEL, "")
        if uid and uid not in known:
            message = f"its label {DOMAIN_LABEL} names the ComputeDomain {uid}, which does not exist: no other domain can take the node"
            about = About(Subject("Node", node.name), _SOURCE, "no label of a ComputeDomain that is gone", f"{DOMAIN_LABEL}={uid}")
            yield about.advised(message, cause="DomainLeftBehind")
    limit = scope.policy.requests.end_minutes * 60
    for pod in _of_domains(scope):
        uid, at = pod.metadata.label[DOMAIN_LABEL], moment(pod.metadata.deletion_timestamp)
        if uid not in known and at is not None and now - at > limit:
            age = duration(now - at)
            about = About(subject(pod), _SOURCE, "gone with its domain", f"Terminating for {age}")
            stays = f"its ComputeDomain {uid} is gone, and it has not ended since it was deleted {age} ago"
            yield about.bad(f"{stays}: its claims cannot be given back", cause="DomainLeftBehind")


def _judge(scope: Scope, domain: Domain, daemons: list[Pod], labelled: dict[str, Node], now: float) -> Finding:
    members, state = domain.members, domain.state
    observed = f"{state or 'no status'}, {len(members)} members" + (f", {len(daemons)} IMEX daemons" if daemons else "")
    limit = scope.policy.requests.start_minutes * 60
    late = _late_to_go(domain, now, limit)
    about = About(domain.place, _SOURCE, _EXPECTED, observed)
    if not members and not labelled:
        if late:
            message = f"{late}, although no node belongs to it: neither it nor its namespace can go"
            return about.bad(message, cause="DomainStays", expected="gone after its deletion")
        if state != "Ready" and (waiting := _since(domain, daemons, scope)):
            pods = f"pods on {listed(in_order(waiting), 3)} have waited for it"
            words = f"it is {state or 'without a status'}, no node has joined it, and {pods}"
            age = overdue(about, min(waiting.values()), now, limit, words, cause="DomainNotReady")
            return age if isinstance(age, Finding) else about.bad(f"{words} for {duration(age)}", cause="DomainNotReady")
        return about.not_judged("no node has joined it: no pod of it runs, or the hosts run IMEX themselves")
    problems = [*_members(scope, members, labelled), *_daemons(daemons, labelled)]
    missing = [name for name in sorted(labelled) if name not in members]
    problems += [(f"not joined, though labelled for it: {listed(missing)}", frozenset(missing))] if missing else []
    if domain.wanted is not None and len(members) < domain.wanted:
        problems.append((f"{len(members)} of {domain.wanted} nodes have joined", None))
    problems += [(late, _LASTING)] if late else []
    if state != "Ready":
        joined = not problems and all(one.status in ("Ready", "") for one in members.values())
        problems.insert(0, (f"it is {state or 'without a status'}" + (" although all its nodes are Ready" if joined else ""), None))
    if not problems:
        return about.ok()
    wrong = listed([text for text, _ in problems], 4)
    begun = domain.turned
    young = {node: at for node, at in _since(domain, daemons, scope).items() if now - at < limit}
    nodes = {name: node for name in in_order({*members, *labelled}) if (node := scope.snapshot.node_by_name.get(name))}
    changing = {name: doing for name, node in nodes.items() if (doing := change_under_way(node, scope.policy, now))}
    doing = listed([f"; {name}: {text}" for name, text in changing.items()], 1)
    may_pass = young.keys() | changing.keys()
    if may_pass and all(nodes is None or (nodes and nodes <= may_pass) for _, nodes in problems):
        if changing:
            return about.undecided(f"{wrong}{doing}", cause="ChangeUnderWay")
        begun = max(young.values())
    if begun is not None and now - begun < limit:  # at its limit it is late
        return about.undecided(f"{wrong}, unchanged {so_far(now - begun, limit)}{doing}", cause="ChangeUnderWay")
    message = f"{wrong}: its pods wait for IMEX channels, or reach memory over NVLink on fewer nodes than they count on"
    return about.bad(message, cause="DomainNotReady")


def _since(domain: Domain, daemons: list[Pod], scope: Scope) -> dict[str, float]:
    """Since when each node has had what makes it join: its IMEX daemon, or before that a pod that asks for a channel.

    A domain may be old and without a pod for weeks. A daemon that is stuck does not get younger by the next pod of the node.
    """
    found: dict[str, float] = {}
    asking = scope.cached(pods_by_template).get((domain.place.namespace, domain.template), [])
    for pods, begun in ((daemons, lambda pod: unix(pod.metadata.creation_timestamp)), (asking, placed_at)):
        first: dict[str, float] = {}
        for pod in pods:
            if pod.node_name and not pod.metadata.deletion_timestamp and (at := begun(pod)) is not None:
                first[pod.node_name] = min(at, first.get(pod.node_name, at))
        found = first | found
    return found


def _late_to_go(domain: Domain, now: float, limit: float) -> str:
    """Since when a domain is deleted and still there, as a clause; empty where it is not, or may take a while yet."""
    deleted = domain.deleted_at
    if deleted is None or now - deleted <= limit:
        return ""
    keep = listed(domain.finalizers, 3)
    return f"it was deleted {duration(now - deleted)} ago and is kept by {keep or 'nobody that it names'}"


def _members(scope: Scope, members: Mapping[str, Member], labelled: dict[str, Node]) -> Iterator[_Problem]:
    for name, member in sorted(members.items()):
        node = scope.snapshot.node_by_name.get(name)
        if node is None:
            yield f"its member {name} is no node of the cluster", _LASTING
            continue
        label, clique = node.metadata.label.get(_CLIQUE, ""), member.clique or ""
        if (label and member.clique is not None and clique != label) or (clique and not label):
            yield f"its member {name} says clique {clique or 'none'}, and the node's label {_CLIQUE} says {label or 'nothing'}", _LASTING
        if member.status not in ("Ready", ""):
            yield f"its member {name} is {member.status}", frozenset({name})
        if name not in labelled:
            yield f"its member {name} has no label {DOMAIN_LABEL} of it", _LASTING


def _daemons(daemons: list[Pod], labelled: dict[str, Node]) -> Iterator[_Problem]:
    ready = {pod.node_name for pod in daemons if is_ready(pod)}
    for pod in sorted(daemons, key=lambda pod: pod.name):
        if pod.node_name not in ready:
            text = f"its IMEX daemon {pod.namespace}/{pod.name} on {pod.node_name or 'no node'} is not Ready"
            yield text, frozenset({pod.node_name})
    if daemons and (without := sorted(set(labelled) - {pod.node_name for pod in daemons})):
        yield f"no IMEX daemon runs on {listed(without)}", frozenset(without)
