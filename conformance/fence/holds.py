"""FENCE-09 and FENCE-10: what is out of service, for a fault or for a time.

FENCE-09: a node with a fault is out of service, and one that was repaired is in service again. FENCE-10: no temporary taint and no
cordon is older than the policy allows; each is named with its age and owner.

Facts: docs/facts/device-health.md#node-conditions, docs/facts/device-health.md#nvsentinel, docs/facts/nodes.md#cordons,
docs/facts/nodes.md#temporary-taints.

FENCE-12: nodes take work after a validation when they come back from quarantine.
"""

from collections.abc import Iterator

from conformance.common_findings import overdue
from conformance.fence.checks import HARD
from fixtures.kubernetes.models import Node, Taint
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.chosen import is_returning
from fixtures.model.nodes.health import Health, Word, of, words_by_node
from fixtures.model.nodes.holds import STATE_LABEL, Hold, soft_holds
from fixtures.model.nodes.pools import pools
from fixtures.model.nodes.returns import Quarantine, last_quarantine, validations
from fixtures.model.nodes.work import age_words, held_nodes, limit_of, own_keys
from fixtures.snapshot.managed_fields import MOST_ASKED, FieldsByNode
from fixtures.text.globs import matches
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding, allowed, not_judged, ok, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_EXPECTED = "a node with a fault is cordoned or has a quarantine taint; a healthy one is in service"
_SOURCE = "node.status.conditions, node labels, node.spec"


def check_quarantined(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per accelerator node about whose health something is said."""
    held, stated = held_nodes(scope, fields), words_by_node(scope)
    for nodes in pools(scope, scope.accelerator_nodes).values():
        healthy = [node for node in nodes if not of(stated[node.name], Health.FAULT)]  # whatever the fault: a pressure has taints too
        normal = {taint.key for node in healthy for taint in node.taints} | own_keys(nodes, scope.is_fence_key)
        for node in nodes:
            if words := stated[node.name]:
                yield _quarantined(scope, node, words, held.get(node.name, []), _alone(node, normal))
            else:
                message = "no condition or label says anything about its health"
                yield not_judged(subject(node), message=message, source=_SOURCE)


def _alone(node: Node, normal: set[str]) -> list[Taint]:
    """Hard taints of a node that no healthy node of its pool has: whoever set them keeps pods away from this one."""
    return [taint for taint in node.taints if taint.effect in HARD and taint.key not in normal]


def _quarantined(scope: Scope, node: Node, words: list[Word], held: list[Hold], alone: list[Taint]) -> Finding:
    faults, unsure = of(words, Health.FAULT), of(words, Health.UNSURE)
    if sick := [word for word in faults if word.reading.devices]:
        fine = [word for word in of(words, Health.FINE) if word.reading.devices and word.since.latest is not None]
        return _sick(scope, node, sick, held, alone, stale=bool(fine) and not any(word.since.latest for word in sick))
    if unsure:
        message = f"{unsure[0].text}: {unsure[0].reading.why or 'what it means is not known'}"
        return undecided(subject(node), message=message, source=_SOURCE)
    quarantine = next((hold for hold in held if hold.health), None)
    if quarantine is None:
        quarantine = next((hold for hold in held if hold.doubt), None)
    if quarantine is not None and not faults and not matches(node.name, scope.policy.accelerators.allow_not_judged):
        return _well(scope, node, words, quarantine)
    observed = f"no fault of a device in {len(words)} conditions and labels" + (f"; {listed(held)}" if held else "")
    return ok(subject(node), observed=observed, expected=_EXPECTED, source=_SOURCE)


def _sick(scope: Scope, node: Node, faults: list[Word], held: list[Hold], alone: list[Taint], *, stale: bool) -> Finding:
    """A node with a fault: something must keep device pods off it. ``stale``: labels alone tell the fault, and conditions tell none."""
    place, observed = subject(node), listed([word.text for word in faults], 3)
    keeping = [str(hold) for hold in held] or [f"taint {taint}" for taint in alone]
    if keeping:
        return ok(place, observed=f"{observed}; out of service: {listed(keeping)}", expected=_EXPECTED, source=_SOURCE)
    oldest = min(faults, key=lambda word: word.since.latest if word.since.latest is not None else float("inf"))
    now, limit = scope.snapshot.taken_at, scope.policy.nodes.quarantine_minutes * 60
    about, state = About(place, _SOURCE, _EXPECTED, observed), f"{oldest.text} {age_words(scope, oldest.since)}"
    since, service = oldest.since.latest or 0.0, f"{state}, and the node is still in service"  # of unknown age: it counts as old
    age = overdue(about, since, now, limit, service, cause="FaultInService", aged=True)
    if isinstance(age, Finding):
        return age
    rest = "; no condition tells a fault, so it was repaired or the label was left" if stale else ""
    return about.bad(f"{state}, and the node is schedulable: the next device pod lands on the fault{rest}", cause="FaultInService")


def _well(scope: Scope, node: Node, words: list[Word], hold: Hold) -> Finding:
    """A node that was taken out for a fault, and nothing tells of a fault any more."""
    state = f"{hold} {age_words(scope, hold.since)}, and none of {len(words)} conditions and labels reports a fault"
    about, limit = About(subject(node), _SOURCE), limit_of(scope)
    if hold.doubt:
        message = f"{state}: its owner is not known, {hold.doubt}"
        return about.undecided(message, cause="OwnerUnknown")
    age = overdue(about, hold.since.latest, scope.snapshot.taken_at, limit, state, cause="AgeUnknown", unknown=state, aged=True)
    if isinstance(age, Finding):
        return age
    message = f"{state}: it was not put back into service"
    return about.bad(message, cause="HeldTooLong", observed=str(hold), expected=_EXPECTED)


_OF_HOLD = "node.spec.taints, node.spec.unschedulable, metadata.managedFields"


def check_temporary(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per hold of an accelerator node, and one for each node that nothing holds."""
    held = held_nodes(scope, fields)
    expected = f"nothing that holds a node for more than {duration(limit_of(scope))}"
    for node in scope.accelerator_nodes:
        for hold in held.get(node.name, ()):
            yield _held(scope, hold, expected)
        for taint in soft_holds(node):
            yield _asked(scope, node, taint, expected)
        if node.name not in held:
            taints = ", ".join(str(taint) for taint in node.taints) or "none"
            yield ok(subject(node), observed=f"not cordoned; taints: {taints}", expected=expected, source=_OF_HOLD)


def _held(scope: Scope, hold: Hold, expected: str) -> Finding:
    place = _place(hold.node, hold.name)
    owner = hold.owner or (f"not known ({hold.doubt})" if hold.doubt else "not known")
    if matches(hold.node.name, scope.policy.accelerators.allow_not_judged):
        message = f"{hold.name} on {hold.node.name} {age_words(scope, hold.since)}, owner {owner}: the policy allows it"
        return allowed(place, message=message, source="policy accelerators.allowNotJudged")
    about, now, limit = About(place, _OF_HOLD, expected, str(hold)), scope.snapshot.taken_at, limit_of(scope)
    unknown = f"{hold.name} on {hold.node.name}, owner {owner}: since when is not known{_hint(scope, hold)}"
    words = f"{hold.name} on {hold.node.name} {age_words(scope, hold.since)}, owner {owner}"
    age = overdue(about, hold.since.latest, now, limit, words, cause="AgeUnknown", unknown=unknown, aged=True)
    if isinstance(age, Finding):
        return age
    return about.bad(f"{words}: no new pod gets its devices, and the hold was left or forgotten", cause="HeldTooLong")


_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"


def _asked(scope: Scope, node: Node, taint: Taint, expected: str) -> Finding:
    """A taint that only asks: the autoscaler takes it from each node that it needs, and a node of which every device is in use is one."""
    about, since = About(_place(node, f"taint {taint.key}"), _OF_HOLD, expected, str(taint)), moment(taint.value)
    age = scope.snapshot.taken_at - since if since is not None else 0.0
    if taint.key == _CANDIDATE and age > limit_of(scope) and scope.snapshot.listing("pods").known and _all_in_use(scope, node):
        message = f"{taint.key} on {node.name} for {duration(age)}, by its value, and all of its devices are in use: it was left"
        return about.bad(f"{message}, and pods go elsewhere when devices come free", cause="HeldTooLong")
    return about.not_judged(f"{taint} only asks the scheduler to avoid the node")


def _all_in_use(scope: Scope, node: Node) -> bool:
    held = scope.held.get(node.name, {})
    there = scope.device_capacity(node)
    return any(there.values()) and all(held.get(name, 0) >= count for name, count in there.items())


def _hint(scope: Scope, hold: Hold) -> str:
    if hold.node.name in scope.snapshot.managed_fields:
        return ""
    if scope.snapshot.offline:
        return "; save the snapshot with --show-managed-fields"
    return f"; a run asks for the managedFields of {MOST_ASKED} nodes at most, which may tell"


def _place(node: Node, name: str) -> Subject:
    return Subject("Node", f"{node.name} {name}")


_RETURNS_SOURCE = "metadata of the node, its conditions, validator pods on it"


def check_validated(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node that shows a quarantine."""
    found = [(node, quarantine) for node in scope.accelerator_nodes if (quarantine := last_quarantine(node)) is not None]
    if not found:
        raise NotApplicable("NoQuarantine", "no accelerator node shows that it was in quarantine")
    for node, quarantine in found:
        yield _validated(scope, node, quarantine)


def _validated(scope: Scope, node: Node, quarantine: Quarantine) -> Finding:
    about = About(subject(node), _RETURNS_SOURCE, "a validation that is newer than the quarantine")
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
