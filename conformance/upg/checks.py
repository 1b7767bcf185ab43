"""UPG-01 to 04 and 06: removed APIs, drains, members of the control plane, versions that support each other, and roll-outs."""

from collections import Counter
from collections.abc import Callable, Iterator

from conformance.common_findings import overdue
from conformance.probes.server_metrics import DEPRECATED, REQUESTS, ServerMetrics
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.demand.budgets import Guard, guards
from fixtures.model.dra.nvidia_driver import DRA_DRIVER
from fixtures.model.nodes.changes import being_changed
from fixtures.model.nodes.holds import is_cordoned
from fixtures.model.nodes.peers import driver_version, pools_of_peers
from fixtures.model.platform.control_plane import Members, members, zones
from fixtures.model.platform.kubernetes_version import minor_of, running_and_target, webhook_rules, writers
from fixtures.model.platform.versions import Installed, installed, version_of
from fixtures.tables.rows import OF_NODES, REMOVED, SUPPORT, Support
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_BUDGETS_SOURCE = "poddisruptionbudgets, pods"
_BUDGETS_EXPECTED = "a budget that allows an eviction while all its pods are healthy, and one budget per pod"


def check_drains(scope: Scope) -> Iterator[Finding]:
    """One finding per budget that guards a pod on an accelerator node."""
    found = list(guards(scope))
    if not found:
        raise NotApplicable("NoBudget", "no PodDisruptionBudget guards a pod on an accelerator node")
    shared = Counter((pod.namespace, pod.name) for one in found for pod in one.pods)
    for one in found:
        yield _judge_drains(scope, one, [pod.name for pod in one.pods if shared[pod.namespace, pod.name] > 1])


def _judge_drains(scope: Scope, one: Guard, twice: list[str]) -> Finding:
    nodes = listed(one.nodes, 3)
    about = About(
        Subject("PodDisruptionBudget", one.name, one.namespace), _BUDGETS_SOURCE, _BUDGETS_EXPECTED, observed=f"{one.rule}, pods on {nodes}"
    )
    if one.mover:
        return about.not_judged(f"the controller of {one.mover} moves the pod or removes the budget when the node is drained")
    if twice:
        message = f"{listed(twice, 2)} has a second budget: the API server evicts no pod with two, and {nodes} cannot be drained"
        return about.bad(message, cause="TwoBudgets")
    if one.never:
        message = f"{one.rule} never allows an eviction: a drain of {nodes} waits for ever, and so does each upgrade"
        return about.bad(message, cause="BudgetBlocksDrain")
    if not one.counts.current or one.counts.counted is None:
        return about.undecided("its status is not of its last change: the controller of budgets may be away")
    if one.counts.allowed < 1 and not one.always:
        state = f"it allows no eviction: {one.counts.healthy} pods are healthy of {one.counts.desired} that must be"
        limit = scope.policy.operators.rollout_minutes * 60
        late = overdue(about, one.since, scope.snapshot.taken_at, limit, state, cause="BudgetNotMet", quiet=True)
        if isinstance(late, Finding):
            return late
        return about.advised(f"{state}: a drain of {nodes} waits until they are, and evicts none of them", cause="BudgetNotMet")
    return about.ok()


_MEMBERS_SOURCE = "static pods of kube-system, labels of nodes"


def check_members(scope: Scope) -> Iterator[Finding]:
    """One finding for etcd and one for the API servers, where the cluster shows them."""
    found = members(scope)
    if not found:
        raise NotApplicable("ControlPlaneNotShown", "the cluster shows no member of its control plane: whoever runs it answers for it")
    spread = zones(scope, frozenset(node.name for node in scope.accelerator_nodes))
    for one in found:
        yield _judge_members(scope, one, spread)


def _judge_members(scope: Scope, one: Members, spread: set[str]) -> Finding:
    count, ready = one.count, len(one.ready)
    expected = "an odd number of members, at least 3, of which one can be lost" if one.part == "etcd" else "2 API servers, Ready"
    about = About(
        Subject("ControlPlane", one.part), _MEMBERS_SOURCE, expected, observed=f"{ready} of {count} Ready: {listed(sorted(one.ready), 5)}"
    )
    lacking = sorted((one.on | one.beside) - one.ready)
    words = f"{one.part} is Ready on {ready} of {count} nodes of the control plane ({listed(sorted(one.ready), 3) or 'none'}"
    words += f"; not on {listed(lacking, 3)})" if lacking else ")"
    if one.part == "etcd" and ready - 1 < count // 2 + 1:
        message = f"{words}: etcd needs {count // 2 + 1} of {count}, so that it can lose none, and an upgrade stops the API"
        return about.bad(message, cause="ControlPlaneCannotLoseOne")
    if one.part != "etcd" and ready < 2:
        return about.bad(f"{words}: the API is away while this one is upgraded", cause="ControlPlaneCannotLoseOne")
    if one.part == "etcd" and count % 2 == 0:
        message = f"{words}: {count} members can lose no more than {count - 1} can, and one more of them can fail"
        return about.advised(message, cause="ControlPlaneEven")
    if len(own := zones(scope, one.on)) == 1 and len(spread) > 1:
        message = f"{words}: all are in zone {own.pop()}, and accelerator nodes are in {len(spread)} zones"
        return about.advised(message, cause="ControlPlaneInOneZone")
    return about.ok()


_ROLL_OUTS_SOURCE = "node labels of upgrades, node.spec.unschedulable, conditions"


def check_roll_outs(scope: Scope) -> Iterator[Finding]:
    """One finding per pool of accelerator nodes. Raises :class:`NotApplicable` without one."""
    pools = pools_of_peers(scope)
    if not pools:
        raise NotApplicable("NoAcceleratorNode", "no node has devices that are its pool's")
    at_work = [[node.name for node in pool if being_changed(node)] for pool in pools]
    others = [names for names in at_work if names]
    for pool, names in zip(pools, at_work, strict=True):
        yield _judge_roll_outs(scope, pool, names, [other for other in others if other is not names])


def _judge_roll_outs(scope: Scope, pool: list[Node], names: list[str], others: list[list[str]]) -> Finding:
    most = max(1, int(scope.policy.upgrade.most_unavailable * len(pool)))
    expected = f"at most {most} of {len(pool)} nodes without devices, in one pool at a time"
    about = About(Subject("Pool", f"of {pool[0].name}"), _ROLL_OUTS_SOURCE, expected)
    away = [node.name for node in pool if node.name in names or is_cordoned(node) or not node.ready]
    if not names:
        return about.ok("no upgrade is under way")
    if len(away) > most:
        message = f"a change of {listed(names, 4)} is under way, and {len(away)} of {len(pool)} nodes are away, where {most} may be"
        return about.bad(message, cause="TooManyNodesInUpgrade", observed=f"{len(away)} of {len(pool)} nodes away: {listed(away, 4)}")
    if others:
        message = f"a change of {listed(names, 4)} is under way, and of {listed(others[0], 2)} in another pool: a bad driver reaches both"
        return about.bad(message, cause="PoolsUpgradedAtOnce", observed=f"{listed(names, 4)} and {listed(others[0], 2)}")
    return about.ok(f"a change of {listed(names, 4)} is under way")


def check_support(scope: Scope) -> Iterator[Finding]:
    """One finding per node or workload and part of which the table knows a limit."""
    parts = [one for one in installed(scope) if any(row.part == one.part for row in SUPPORT.rows)]
    if not parts:
        raise NotApplicable("NoKnownPart", "no part is installed of which a limit is known")
    running, target = running_and_target(scope, ahead=0)
    for one in parts:
        yield _judge_support(scope, one, running, target)


def _judge_support(scope: Scope, one: Installed, running: int | None, target: int) -> Finding:
    source = f"status.nodeInfo, tags of images, tables of {SUPPORT.table.date}"
    place = Subject(one.place.kind, f"{one.place.name} {one.part}", one.place.namespace)
    expected = f"a version that supports Kubernetes 1.{target}"
    about = About(place, source, expected, observed=f"{one.part} {one.text or 'of no version'}")
    if one.version is None:
        say = about.undecided if one.part in OF_NODES else about.not_judged  # a digest is no fault, and no job depends on what is tested
        return say(f"the version of {one.part} is not known: {one.text or 'it is empty'}")
    rows = [(limit, row) for row in SUPPORT.rows if row.part == one.part and (limit := version_of(row.below)) and one.version < limit]
    row = min(rows, key=lambda pair: pair[0])[1] if rows else None  # the one of its release
    return (_beyond(scope, about, one, row, running, target) if row else None) or about.ok()


def _beyond(scope: Scope, about: About, one: Installed, row: Support, running: int | None, target: int) -> Finding | None:
    """What goes beyond the limits of a row."""
    named = f"{one.part} {one.text}"
    if running and running < row.least:
        message = f"{named} needs Kubernetes 1.{row.least} or newer, and 1.{running} runs"
        return about.bad(message, cause="NotSupportedByTarget")
    if row.until and target > row.until and row.tested:
        message = f"{named} is tested with Kubernetes up to 1.{row.until}, and 1.{target} runs or is next: newer releases go further"
        return about.advised(message, cause="NotTestedWithTarget")
    if row.until and target > row.until:
        message = f"{named} supports Kubernetes up to 1.{row.until}, and 1.{target} runs or is next: its kubelet will not start"
        return about.bad(message, cause="NotSupportedByTarget")
    for node in scope.accelerator_nodes if row.driver else ():
        text = driver_version(scope, node) if any(device.driver == DRA_DRIVER for device in scope.dra_inventory.get(node.name, ())) else ""
        driver, needed = version_of(text), version_of(row.driver)
        if driver and needed and driver < needed:
            message = f"{named} needs NVIDIA's driver {row.driver} or newer, and node {node.name} has {text}"
            return about.advised(message, cause="DriverTooOldForPart")
    return None


_READING = {"LIST", "WATCH", "DELETECOLLECTION"}
"""What the controllers of garbage and namespaces do of each kind that they find served, whoever else uses it."""
_SERVER = Subject("APIServer", "/metrics")


def check_removed_apis(scope: Scope, ask: Callable[[], ServerMetrics]) -> Iterator[Finding]:
    """One finding per webhook, per removed API that clients ask for, and one for the API server's counts.

    ``ask`` reads the counts of a live cluster. Raises :class:`Inconclusive` where no version is known.
    """
    running, target = running_and_target(scope, ahead=1)
    for one in webhook_rules(scope):
        about = About(one.place, f"rules; tables of {REMOVED.table.date}", f"rules on versions that Kubernetes 1.{target} serves")
        if gone := [api for api, end in one.gone() if (running or 0) < end <= target]:
            message = f"its rules name {listed(gone)} alone, which 1.{target} serves no more: it is then asked for nothing"
            yield about.bad(message, cause="WebhookOnRemovedApi", observed=listed(gone))
        else:
            yield about.ok("rules on versions that stay")
    if scope.snapshot.offline:
        yield About(_SERVER).not_judged("a saved snapshot has no counts of the API server's requests")
        return
    yield from _requests(scope, ask(), target)


def _requests(scope: Scope, metrics: ServerMetrics, target: int) -> Iterator[Finding]:
    """Deprecated APIs of the API server that answered: its counts begin with its start, and others have counts of their own."""
    about = About(_SERVER, DEPRECATED, f"no request for an API that Kubernetes 1.{target} removes")
    if metrics.trouble:
        yield about.undecided(f"the API server's counts could not be read: {metrics.trouble}", cause=metrics.code)
        return
    used: dict[tuple[str, str, str], int] = {}
    for labels, value in metrics.of(DEPRECATED):
        removed = minor_of(labels.get("removed_release", ""))
        if value > 0 and removed is not None and removed <= target:
            used[labels.get("group", ""), labels.get("version", ""), labels.get("resource", "")] = removed
    counts: dict[tuple[str, str, str], Counter[str]] = {key: Counter() for key in used}
    for labels, value in metrics.of(REQUESTS):
        place = (labels.get("group", ""), labels.get("version", ""), labels.get("resource", ""))
        if place in counts and 0 < value < 1e15:
            counts[place][labels.get("verb", "")] += int(value)
    age = f" in {duration(scope.snapshot.read_at - metrics.since)}" if metrics.since else ""
    for place, removed in sorted(used.items()):
        yield _judge_removed_apis(scope, place, removed, counts[place], age)
    if not used:
        later = sum(1 for _, value in metrics.of(DEPRECATED) if value > 0)
        yield about.ok(f"none{age}; {later} deprecated ones that stay")


def _judge_removed_apis(scope: Scope, place: tuple[str, str, str], removed: int, verbs: Counter[str], age: str) -> Finding:
    group, version, kind = place
    api, key = f"{group}/{version}".lstrip("/"), f"{group}/{kind}".lstrip("/")
    asked = listed([f"{count} {verb}" for verb, count in sorted(verbs.items())]) or "requests that it does not count"
    about = About(Subject("API", f"{api} {kind}"), DEPRECATED, "no request for it", observed=f"{asked}{age}")
    by = f", written through it by {listed(names, 3)}" if (names := writers(scope, key, api)) else ""
    message = f"{kind} are asked for by {api}, which Kubernetes 1.{removed} removes ({asked}{age}{by}): who asks gets 404 then"
    elsewhere = scope.snapshot.versions.get(key, version) != version
    if verbs and set(verbs) <= _READING and not elsewhere:
        return about.advised(f"{message}; it may be the garbage collector, which lists all that is served", cause="RemovedApiRead")
    return about.bad(message, cause="RemovedApiInUse")
