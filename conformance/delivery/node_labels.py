"""The verdict on each node as labels and a condition of the project's own, so that schedulers can use it. Both say until when they hold.

``gpu-conformance.io/verdict`` is ``passed``, ``failed`` or ``unknown``. ``gpu-conformance.io/verdict-until`` is a time in Unix seconds, so
that node affinity can ask for more than a number (``Gt``). What has expired is removed by the next publishing or by a sweep. The condition
``GPUConformant`` has the same verdict for programs that wait for one. Its heartbeat is the begin of the run, and a sweep lets it say
``Unknown`` once it has ended.
"""

import itertools
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from fixtures.cluster.client import SIMULATED_MARK, Cluster
from fixtures.cluster.kinds import KINDS, WORKLOAD_KEYS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Condition, Json, Node
from fixtures.model.nodes.chosen import released
from fixtures.model.nodes.health import CONFORMANT
from fixtures.model.nodes.work import Why, as_node, work_by_node
from fixtures.snapshot.simulated_nodes import is_simulated
from fixtures.text import typed
from fixtures.verdict.coverage import is_cut_down
from fixtures.verdict.findings import MAX_OTHERS_KEPT, UNDECIDED
from fixtures.verdict.record import Level, Report, Result, TargetKind, Verdict
from fixtures.verdict.subjects import REST, causes_that_blame_nodes, node_concerned, node_named
from reports import phrases
from reports.safe_text import one_line

LABEL = "gpu-conformance.io/verdict"
UNTIL = "gpu-conformance.io/verdict-until"
MAX_HOURS = 168
MAX_NODES = 10_000

_OF_TENANTS = frozenset({"Pod", "Resource", *(KINDS[key].kind for key in WORKLOAD_KEYS if key != "apps/daemonsets")})
"""Kinds of what tenants run, and the names of resources that they ask for."""

_UNDECIDED = frozenset({Verdict.INCONCLUSIVE, Verdict.ERROR})


class NodeVerdict(StrEnum):
    """What the label says."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class NotPublished(Exception):
    """Verdicts that must not be published or could not be. The message is one line."""


class Statement(msgspec.Struct, frozen=True):
    """The condition of one node as a sweep or a report wants it; None removes it."""

    node: str
    uid: str
    verdict: str | None  # its status
    condition: Json = {}


class Change(msgspec.Struct, frozen=True):
    """Labels of one node that change; None removes one."""

    node: str
    uid: str
    labels: dict[str, str | None]


def verdicts(report: Report) -> dict[str, NodeVerdict]:
    """The verdict on each accelerator node of the report, from its MUST requirements.

    ``failed``: one of them failed for the node. ``passed``: one judged the node, none failed for it or is undecided, and the run judged
    all that it had to. Otherwise ``unknown``: also where a pod on it alone shows a fault of the node, because a tenant may have written
    the pod's events. Waived findings count as passed. A requirement that is undecided about nodes, or pods on
    nodes, alone is undecided about these and no others.

    A failure outranks whatever was not judged in exit code 1, and whatever a requirement did not come to in its verdict. So both are
    looked for in the record: a node passes no sooner because something else failed.
    """
    failed: set[str] = set()
    unsure: set[str] = set()
    good: set[str] = set()
    uncounted = undecided = False
    blaming = causes_that_blame_nodes(report)
    for result in report.results:
        if result.level is not Level.MUST:
            continue
        undecided |= result.verdict in _UNDECIDED and not _of_nodes(result)
        for subject in result.subjects:
            undecided |= subject.kind == REST.kind
            if not (node := node_concerned(subject, blaming)):
                continue
            if subject.verdict is Verdict.FAILED and node_named(subject.kind, subject.name):
                failed.add(node)
            elif subject.verdict in (Verdict.FAILED, *_UNDECIDED):
                unsure.add(node)
            elif subject.verdict in (Verdict.PASSED, Verdict.WARNED, Verdict.WAIVED):
                good.add(node)
        hidden = result.subjects_omitted and all(one.verdict is not Verdict.PASSED for one in result.subjects)
        uncounted |= bool(hidden)  # the record keeps failures first: if it holds nothing else, it may lack some
    short = report.scope is not None and bool(report.scope.shortfalls)
    ended = report.exit_code in (0, 1) or (report.exit_code == 10 and any(map(_of_nodes, report.results)))
    whole = ended and not (short or is_cut_down(report.scope) or undecided or uncounted)
    found = {}
    for row in report.inventory[:MAX_NODES]:
        if row.node in failed:
            found[row.node] = NodeVerdict.FAILED
        elif whole and row.judged and row.node in good and row.node not in unsure:
            found[row.node] = NodeVerdict.PASSED
        else:
            found[row.node] = NodeVerdict.UNKNOWN
    return found


def _of_nodes(result: Result) -> bool:
    """Whether a MUST is undecided about nodes and what tenants run or ask for alone, all of which the record holds.

    What of a tenant is wrong fails no node, so what is not known of it costs none but the node it runs on.
    """
    if result.level is not Level.MUST or (result.verdict, result.reason_code) != (Verdict.INCONCLUSIVE, UNDECIDED):
        return False
    unsure = [subject for subject in result.subjects if subject.verdict in _UNDECIDED]
    return all(node_concerned(one, ()) or one.kind in _OF_TENANTS for one in unsure) and 0 < len(unsure) < MAX_OTHERS_KEPT


def check(report: Report, cluster_uid: str, version: str) -> None:
    """Whether the report is about this very cluster. Raises :class:`NotPublished`; a simulated result never labels a real node."""
    target = report.target
    if target.kind is TargetKind.SNAPSHOT:
        raise NotPublished("the report is about saved objects, not about a cluster")
    simulated = target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL)
    if simulated and SIMULATED_MARK not in version:
        raise NotPublished("the report is about a simulated cluster, and this is not one")
    if not target.cluster_uid or target.cluster_uid != cluster_uid:
        raise NotPublished("the report is about another cluster: the UIDs of the namespace kube-system differ")
    if report.other_cluster_uid:
        raise NotPublished("the run ended at another cluster than it began with: which of them its results are about is not known")


def until(report: Report, hours: int, max_age_hours: float, now: float) -> int:
    """The Unix time at which the verdicts of a report end: so many hours after its run began. Raises :class:`NotPublished`."""
    begun = phrases.started(report)
    if begun is None or begun.timestamp() > now + phrases.SKEW.total_seconds():
        raise NotPublished("the report does not say when its run began, or names a time that is still to come")
    age = (now - begun.timestamp()) / 3600
    if age > max_age_hours:
        raise NotPublished(f"the run began {age:,.0f} h ago, and the policy allows {max_age_hours:g} h (publish.maxAgeHours): run again")
    if age >= hours:
        raise NotPublished(f"the run began {age:,.0f} h ago: labels that hold for {hours} h from then have ended")
    return int(begun.timestamp()) + hours * 3600


def of_other_machines(report: Report, nodes: list[Json]) -> dict[str, str]:
    """Nodes that are not the machines that the run judged, by name: why their verdicts are not theirs.

    Raises :class:`NotPublished` for a record that does not say which machines it judged.
    """
    rows = {row.node: row for row in report.inventory if row.uid}
    if report.inventory and not rows:
        raise NotPublished(f"the report (schema {one_line(report.schema_version, 20)}) does not say which machines it judged: run again")
    found = {}
    for node in nodes:
        row = rows.get(node["metadata"]["name"])
        uid = node["metadata"]["uid"]
        machine = str(((node.get("status") or {}).get("nodeInfo") or {}).get("systemUUID") or "")
        if row is not None and (row.uid, row.system_uuid) != (uid, machine):
            what = "UID" if row.uid != uid else "systemUUID"
            found[row.node] = f"it gets no label: it is another machine than the run judged, its {what} differs"
    return found


def held_back(report: Report, wanted: Mapping[str, NodeVerdict], nodes: list[Json]) -> dict[str, NodeVerdict]:
    """The verdicts that these nodes may carry: no node that is real now passes because a simulated one of its name did."""
    simulated = {row.node for row in report.inventory if row.simulated}
    real = {name for node in nodes if (name := node["metadata"]["name"]) in simulated and not _says_simulated(node)}
    return {name: NodeVerdict.UNKNOWN if name in real and verdict is NodeVerdict.PASSED else verdict for name, verdict in wanted.items()}


def out_of_work(
    nodes: list[Json], is_fence: Callable[[str], bool], tolerate: Collection[str] = (), returning: Collection[str] = ()
) -> dict[str, str]:
    """Nodes that may not work now, by name, with the reason: a run of yesterday says nothing of a fault or a quarantine of today.

    ``returning`` are nodes that the run was about: what the policy tolerates on them until they return speaks against none.
    """
    try:
        now = [released(node, tolerate) if node.name in returning else node for node in map(as_node, nodes)]
        works = work_by_node(now, is_fence=is_fence)
    except msgspec.ValidationError as error:
        raise NotPublished(f"the nodes cannot be read: {error}") from error
    found = {name: work.first(Why.DELETED, Why.CORDONED, Why.TAINTED, Why.FAULT, Why.REPAIR) for name, work in works.items()}
    return {name: str(obstacle) for name, obstacle in found.items() if obstacle}


def _says_simulated(node: Json) -> bool:
    try:
        return is_simulated(typed.convert(node, Node, strict=False))
    except msgspec.ValidationError:
        return False


def changes(nodes: list[Json], wanted: Mapping[str, NodeVerdict], until: int) -> list[Change]:
    """What to change so that the wanted nodes have their labels, and no other node has one."""
    found = []
    for node in nodes:
        metadata = node["metadata"]
        held = {key: value for key, value in (metadata.get("labels") or {}).items() if key in (LABEL, UNTIL)}
        verdict = wanted.get(metadata["name"])
        target: dict[str, str] = {} if verdict is None else {LABEL: verdict.value, UNTIL: str(until)}
        if held != target:
            found.append(Change(metadata["name"], metadata["uid"], {**dict.fromkeys(held), **target}))
    return found


def expired(nodes: list[Json], now: float, *, everything: bool = False) -> list[Change]:
    """Labels that no longer hold: past their time, without a readable time, or with one further off than any that is published."""
    found = []
    for node in nodes:
        metadata = node["metadata"]
        labels = metadata.get("labels") or {}
        held = [key for key in (LABEL, UNTIL) if key in labels]
        text = str(labels.get(UNTIL, ""))
        holds = LABEL in labels and text.isascii() and text.isdigit() and len(text) <= 12 and now < int(text) <= now + MAX_HOURS * 3600
        if held and (everything or not holds):
            found.append(Change(metadata["name"], metadata["uid"], dict.fromkeys(held)))
    return found


_STATUS = {NodeVerdict.PASSED: ("True", "Conformant"), NodeVerdict.FAILED: ("False", "NotConformant")}


def statements(report: Report, nodes: list[Json], wanted: Mapping[str, NodeVerdict], until: int) -> list[Statement]:
    """The condition of each wanted node. Its transition is as old as its status."""
    begun, about = phrases.started(report), phrases.scope_words(report).partition(";")[0]
    assert begun is not None  # :func:`until` has refused the report otherwise
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        if (verdict := wanted.get(name)) is None:
            continue
        status, reason = _STATUS.get(verdict, ("Unknown", "NotKnown"))
        message = f"{about}; run {report.run.id}; holds until {_written(until)}"
        found.append(_stated(node, status, reason, one_line(message, 1_000), begun.timestamp()))
    return found


def withdrawn(nodes: list[Json], now: float, *, everything: bool = False) -> list[Statement]:
    """What becomes of conditions whose verdict has ended: unknown. With ``everything``, all are removed."""
    ended = {change.node for change in expired(nodes, now)}
    found = []
    for node in nodes:
        held, labels = _held(node), node["metadata"].get("labels") or {}
        if held is None:
            continue
        name, over = node["metadata"]["name"], held.status != "Unknown" and LABEL not in labels
        if everything:
            found.append(Statement(name, node["metadata"]["uid"], None))
        elif name in ended or over:
            found.append(_stated(node, "Unknown", "Expired", "the verdict has ended, and none has followed it", now))
    return found


def _held(node: Json) -> Condition | None:
    """The condition of a node. Raises :class:`NotPublished` for one that cannot be read."""
    try:
        return as_node(node).condition(CONFORMANT)
    except msgspec.ValidationError as error:
        raise NotPublished(f"the nodes cannot be read: {error}") from error


def _stated(node: Json, verdict: str, reason: str, message: str, heartbeat: float) -> Statement:
    held, metadata = _held(node), node["metadata"]
    written = _written(heartbeat)
    since = (held.last_transition_time if held is not None and held.status == verdict else "") or written
    condition = {"type": CONFORMANT, "status": verdict, "reason": reason, "message": message}
    return Statement(metadata["name"], metadata["uid"], verdict, {**condition, "lastHeartbeatTime": written, "lastTransitionTime": since})


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def state(cluster: Cluster, wanted: list[Statement]) -> list[str]:
    """Write the conditions, each to the very node that was read, and leave all others to their owners. Returns a sentence per failure."""
    failed = []
    for one in wanted:
        item = one.condition if one.verdict is not None else {"type": CONFORMANT, "$patch": "delete"}
        patch = {"metadata": {"uid": one.uid}, "status": {"conditions": [item]}}
        try:
            answer = cluster.patch("nodes", one.node, patch, subresource="status", kind="strategic-merge")
        except ApiTrouble as error:
            failed.append(f"node {one.node}: condition {CONFORMANT}: {error.message}")
            continue
        if not answer.ok and answer.status not in (404, 409):  # it is gone, or another of its name has followed
            failed.append(f"node {one.node}: condition {CONFORMANT}: {answer.status} {answer.reason}: {answer.message[:200]}")
    return failed


def apply(cluster: Cluster, wanted: list[Change]) -> list[str]:
    """Make the changes, each on the very node that was read. Returns a sentence for each that the cluster does not show afterwards.

    A node that is gone, or has followed another of its name, is none. Raises :class:`NotPublished` and ``ApiTrouble`` as
    :func:`read_nodes` does.
    """
    reported = {change.uid: _asked(cluster, change) for change in wanted}
    shown = {node["metadata"]["uid"]: node["metadata"].get("labels") or {} for node in read_nodes(cluster)} if wanted else {}
    return [f"node {change.node}: {reported[change.uid] or _NOT_KEPT}" for change in wanted if _differs(change, shown.get(change.uid))]


_NOT_KEPT = "the API server took the change, and does not show it"


def _asked(cluster: Cluster, change: Change) -> str:
    """What the API server says against a change; empty when it takes it."""
    try:
        answer = cluster.patch("nodes", change.node, {"metadata": {"uid": change.uid, "labels": change.labels}})
    except ApiTrouble as error:
        return error.message
    return "" if answer.ok else f"{answer.status} {answer.reason}: {answer.message[:200]}"


def _differs(change: Change, labels: Mapping[str, str] | None) -> bool:
    return labels is not None and any(labels.get(key) != value for key, value in change.labels.items())


def read_nodes(cluster: Cluster) -> list[Json]:
    """All nodes. Raises :class:`NotPublished` if they are too many, and ``ApiTrouble``."""
    found = list(itertools.islice(cluster.each("nodes"), MAX_NODES + 1))
    if len(found) > MAX_NODES:
        raise NotPublished(f"the cluster has more than {MAX_NODES:,} nodes")
    return found
