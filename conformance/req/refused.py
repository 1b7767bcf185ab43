"""REQ-11: no kubelet refuses pods with devices.

Pods convict a node if a scheduler sent them there: their status is the kubelet's. Events alone do not, because a tenant can write them
in a kubelet's name.

Facts: docs/facts/scheduling-messages.md#refusals-of-the-kubelet, docs/facts/pod-lifecycle.md#containers-that-are-never-created,
docs/facts/pod-lifecycle.md#events.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from conformance.req.refusal_faults import Records, Refusal, asks_for_shared_units, attributed, fault_of_refusal
from fixtures.kubernetes.models import Event, Pod
from fixtures.kubernetes.times import newest
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.failing_pods import Fault, failed_at, failed_creation, fault, had_succeeded
from fixtures.model.demand.pod_events import quoted
from fixtures.model.jobs.pod_makers import maker_of
from fixtures.model.pod_endings import is_refusal
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding, Outcome, not_judged, ok, undecided
from fixtures.verdict.subjects import Subject

PILE = 50
"""So many refused pods of one node and reason are a pile, however old they are."""

_SOURCE = "pod.status.reason of Failed pods, events of the kubelet"
_EXPECTED = "no device pod refused"
_REJECTED = "Pod was rejected"
_ENDED_BY_OTHERS = frozenset({"Evicted", "Preempting", "DeadlineExceeded", "NodeShutdown", "Shutdown", "Terminated", "NodeLost"})


def check_refused(scope: Scope, now: float, records: Records) -> Iterator[Finding]:
    """One finding per node and reason of refusal, and one per node with device pods that refused none within the policy's window.

    One more for each node of which only events tell that it refused pods.
    """
    refusals: dict[tuple[str, str], list[Refusal]] = {}
    bound = Counter[str]()
    for pod in scope.snapshot.pods:
        if not pod.node_name:
            continue
        found = refusal(scope, pod)
        demand = scope.device_demand_of(pod)
        if not demand.devices and not (found and _names_device(scope, f"{found.reason} {found.message}")):
            if found and demand.unknown:
                message = f"its kubelet refused it, and whether it asks for devices is not known: {demand.unknown}"
                yield undecided(subject(pod), message=message)
            continue
        bound[pod.node_name] += 1
        if found is None:
            continue
        if asks_for_shared_units(found.message):
            message = f"it asks for several units of a shared device, which the plugin is set to refuse: {quoted(found.message)}"
            yield not_judged(subject(pod), message=message, source=_SOURCE)
        else:
            refusals.setdefault((found.node, found.reason), []).append(found)
    gone: dict[str, list[Refusal]] = {}
    for event in scope.pod_events.of_gone_pods():
        if found := _of_event(scope, event):
            if found.fault is Fault.NODE:
                refusals.setdefault((found.node, found.reason), []).append(found)
            else:
                gone.setdefault(found.node, []).append(found)
    judged: set[str] = set()
    for (node, reason), group in sorted(refusals.items()):
        for finding in _judge(scope, node, reason, group, now, records):
            judged |= {node} if finding.outcome is not Outcome.NOT_JUDGED else set()
            yield finding
    for node in sorted(gone.keys() - judged):
        if recent := [one for one in gone[node] if _recent(one, now, scope.policy.requests.refused_hours * 3600)]:
            judged.add(node)
            yield _by_events(node, recent)
    for node in sorted(bound.keys() - judged):
        yield ok(Subject("Node", node), observed=f"{bound[node]} device pods, none refused", expected=_EXPECTED, source=_SOURCE)


def refusal(scope: Scope, pod: Pod) -> Refusal | None:
    """How a kubelet or runtime refused a pod, or None. A pod that was ended by others, or had done its work before, was not."""
    if pod.phase != "Failed" or had_succeeded(pod):
        return None
    reason, message = pod.ended_with
    if reason and _is_refusal(pod):
        whose, why = fault_of_refusal(scope, pod)
    elif created := failed_creation(pod):
        reason, message = created
        whose, why = fault(message, pod), "nothing says that the node is at fault"
    else:
        return None
    return Refusal(
        node=pod.node_name,
        reason=reason,
        message=message,
        who=f"{pod.namespace}/{pod.name}",
        namespace=pod.namespace,
        at=failed_at(pod),
        alone=pod.controller is None,
        fault=whose,
        why=why,
        pod=pod,
    )


def _is_refusal(pod: Pod) -> bool:
    """By the kubelet's own reasons, by its words, or by shape: it failed for a reason before it had any container."""
    reason, message = pod.ended_with
    if is_refusal(reason):
        return True
    if message.startswith(f"{_REJECTED}:"):
        return reason not in _ENDED_BY_OTHERS - {"Evicted"}  # a node short of disk refuses with that reason
    return reason not in _ENDED_BY_OTHERS and not pod.statuses


def _names_device(scope: Scope, text: str) -> bool:
    parts = (part.strip("\"',.;:()[]{}").removeprefix("OutOf") for part in text[:4096].split())
    return any("/" in part and scope.is_device(part) for part in parts)


def _of_event(scope: Scope, event: Event) -> Refusal | None:
    """The refusal of a pod that is gone: told in the name of a kubelet of a known node, in words that name a device.

    In a namespace of the platform no tenant could have written it.
    """
    if event.reporter != "kubelet" or event.host not in scope.snapshot.node_by_name:
        return None
    if not is_refusal(event.reason) or asks_for_shared_units(event.text):
        return None
    if not (_names_device(scope, f"{event.reason} {event.text}") or "device plugin" in event.text):
        return None
    about, platform = event.about, scope.platform.of(event.namespace).proven
    return Refusal(
        node=event.host,
        reason=event.reason,
        message=event.text,
        who=f"{event.namespace}/{about.name}",
        namespace=event.namespace,
        at=newest([event.last]),
        alone=False,
        fault=Fault.NODE if platform else Fault.UNCLEAR,
    )


def _judge(scope: Scope, node: str, reason: str, group: list[Refusal], now: float, records: Records) -> Iterator[Finding]:
    window = scope.policy.requests.refused_hours * 3600
    place = Subject("Node", f"{node} {reason}")
    several = len({one.namespace for one in group if one.fault is Fault.UNCLEAR}) > 1  # what nobody can attribute is the node's then
    the_nodes = {Fault.NODE, Fault.UNPROVEN, *([Fault.UNCLEAR] if several else [])}
    if own := [one for one in group if one.fault not in (*the_nodes, Fault.DOUBTED)]:
        message = f"{own[0].who} did not start on {node}: {own[0].why}; {quoted(own[0].message)}"
        yield not_judged(place, message=message, source=_SOURCE)
    doubted, rest = [one for one in group if one.fault is Fault.DOUBTED], [one for one in group if one.fault in the_nodes]
    recent = [one for one in rest if _recent(one, now, window)]
    lost = [one for one in rest if one.alone and not _recent(one, now, window)]
    piled = len(rest) >= PILE
    counted, unproven = [*rest] if piled else [*recent, *lost], list[Refusal]()
    if not _a_race(scope, reason, counted):
        counted, unproven = attributed(counted, records)
    if counted:
        yield _bad(scope, place, counted, [one for one in counted if _recent(one, now, window)], now)
    elif doubtful := [one for one in (*unproven, *doubted) if piled or _recent(one, now, window)]:
        yield _doubtful(place, doubtful)


def _doubtful(place: Subject, doubted: list[Refusal]) -> Finding:
    """What a healthy node says to pods that name it themselves, and a faulty one to others: nobody knows which it was."""
    one = doubted[0]
    many = f" and {len(doubted) - 1} more" if len(doubted) > 1 else ""
    message = (
        f"{one.node} refused {one.who}{many} with {one.reason}, and a healthy node refuses so a pod that names its node itself: {one.why}; "
        f"kubectl get pod --show-managed-fields shows who wrote spec.nodeName; it says: {quoted(one.message)}"
    )
    return undecided(place, message=message, source=_SOURCE, cause="PlacementUnknown")


def _by_events(node: str, gone: list[Refusal]) -> Finding:
    """What only events of tenants' namespaces tell."""
    spaces, reasons = sorted({one.namespace for one in gone}), sorted({one.reason for one in gone})
    message = (
        f"events in {listed(spaces, 3)} say that {node} refused {len(gone)} device pods that are gone ({quoted(listed(reasons, 3), 100)}), "
        f"and no pod that is still there shows it: whoever may write events there can write this; they say: {quoted(_commonest(gone))}"
    )
    return undecided(Subject("Node", node), message=message, source="events of the kubelet", cause="PlacementUnknown")


def _recent(one: Refusal, now: float, window: float) -> bool:
    return one.at is None or now - one.at <= window


def _bad(scope: Scope, place: Subject, counted: list[Refusal], recent: list[Refusal], now: float) -> Finding:
    node, reason = counted[0].node, counted[0].reason
    times = [one.at for one in counted if one.at is not None]
    oldest = f" and the oldest {duration(now - min(times))}" if len(times) > 1 else ""
    ages = f", the newest {duration(now - max(times))}{oldest} ago" if times else ""
    window = duration(scope.policy.requests.refused_hours * 3600)
    observed = f"{len(counted)} device pods refused with {reason} ({len(recent)} within {window}){ages}"
    clause = _consequence(scope, counted, recent)
    who = listed([one.who for one in counted], 3)
    message = f"{node} refused {len(counted)} device pods with {reason}{ages} ({who}): {clause}; it says: {quoted(_commonest(counted))}"
    about = About(place, _SOURCE, _EXPECTED, observed)
    if _a_race(scope, reason, counted):
        return about.advised(message, cause="KubeletRefusesPods")
    return about.bad(message, cause="KubeletRefusesPods")


def _a_race(scope: Scope, reason: str, counted: list[Refusal]) -> bool:
    """One pod, replaced by its controller, for want of what is no device: kubelet and scheduler count an ended pod at different times."""
    return len(counted) == 1 and not counted[0].alone and reason.startswith("OutOf") and not scope.is_device(reason.removeprefix("OutOf"))


def _consequence(scope: Scope, counted: list[Refusal], recent: list[Refusal]) -> str:
    if len(counted) >= PILE:
        return "the node draws pods and fails them, and what failed piles up in the API server"
    jobs = [maker_of(scope, one.pod).job if one.pod is not None else None for one in counted]
    if all(job is not None and job.ended for job in jobs):
        return "their jobs have ended, so they were refused after their work, or others did it"
    if not recent:
        return "nobody has started them again, because no controller owns them"
    if all(one.alone for one in counted):
        return "no controller owns them, so nobody starts them again"
    return "the scheduler goes on to send pods there"


def _commonest(counted: Iterable[Refusal]) -> str:
    return Counter(one.message for one in counted).most_common(1)[0][0]
