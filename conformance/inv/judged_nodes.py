"""INV-01 and INV-02: independent sources name the same accelerator nodes, and each of them was judged or has a reason why not.

INV-07: objects that stand for a node have their node, and each accelerator node has those of its peers.
"""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import whole
from fixtures.model.devices.names import shared_pools
from fixtures.model.devices.offers import busy, foreign_taints, unlisted_offers, vm_devices_gone, withheld, without_devices
from fixtures.model.dra.slices import DriverKind
from fixtures.model.nodes.accelerators import is_faint, vm_devices
from fixtures.model.nodes.changes import rebooting
from fixtures.model.nodes.holds import Hold
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.model.nodes.sources import ADAPTERS, ADVERTISED, CLAIMS, FEATURES, KINDS_OF_NODES, StandIn, sources_by_node, stand_ins
from fixtures.model.nodes.work import again, age_words, held_nodes, is_young
from fixtures.model.platform.kubelet_plugins import DriverPods
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, allowed, bad, missed, not_judged, undecided
from fixtures.verdict.subjects import NotApplicable, Subject


def check_agreement(scope: Scope) -> Iterator[Finding]:
    """One finding per node that any source names, and one for the number of nodes where the policy states it."""
    table = sources_by_node(scope)
    if not table and scope.policy.accelerators.expected_count != 0:
        yield _none(scope)
    for name, row in sorted(table.items()):
        yield _judge_sources(scope, name, row)
    expected = scope.policy.accelerators.expected_count
    if expected is not None and not scope.chosen:
        found = sum(name in scope.snapshot.node_by_name for name in table)
        subject = Subject("Cluster", "accelerator nodes")
        about = About(subject, "policy accelerators.expectedCount")
        if found == expected:
            yield about.ok(str(found), expected=str(expected))
        else:
            message = f"the policy expects {expected} accelerator nodes and the sources name {found}"
            yield about.bad(message, cause="NodeCountUnexpected", observed=str(found), expected=str(expected))


def _none(scope: Scope) -> Finding:
    """No source calls any node an accelerator node. Resources that the policy does not list may be accelerators all the same."""
    place, source = Subject("Cluster", "accelerator nodes"), "labels, capacity, ResourceSlices and policy"
    message = "no source calls any node an accelerator node, so nothing about devices can be judged"
    offering = {node.name: offers for node in scope.snapshot.nodes if (offers := unlisted_offers(scope, node))}
    if offering:
        first = min(offering)
        return undecided(place, message=f"{message}, but {first} may be one: {offering[first]}", source=source)
    observed = f"0 of {len(scope.snapshot.nodes)} nodes"
    return bad(place, cause="NoAcceleratorNode", observed=observed, expected="at least one", source=source, message=message)


def _judge_sources(scope: Scope, name: str, row: dict[str, bool]) -> Finding:
    subject = Subject("Node", name)
    node = scope.snapshot.node_by_name.get(name)
    observed = ", ".join(f"{source}: {'yes' if yes else 'no'}" for source, yes in sorted(row.items()))
    about = About(subject, "node labels", "all sources agree", observed)
    if node is None:
        return about.bad(
            "the policy expects this node and it is gone",
            cause="ExpectedNodeGone",
            observed="no such node",
            expected="a node of this name",
            source="policy accelerators.expectedNodes",
        )
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: no agent of this cluster labels it")
    owned = name in scope.policy.accelerators.expected_nodes and not vm_devices(
        scope, node
    )  # a label is no excuse for what the owner expects
    if not row[ADVERTISED] and not owned and (reason := withheld(scope, node)):
        if gone := vm_devices_gone(scope, node):
            message = f"{reason}, and {gone} is 0: no virtual machine can have one"
            return about.bad(message, cause="DevicesNotOffered", source="node labels, status.capacity")
        return about.not_judged(reason)
    if not row[ADVERTISED] and (offers := unlisted_offers(scope, node)):
        message = f"{offers}: whether these are its devices is not known"
        return about.undecided(message, source="node labels and status.capacity")
    if not any(row.values()):
        return _marked(subject, scope.accelerators.marks[name], _consequence(scope, node))
    if len(row) < 2:
        only = next(iter(row))
        return about.not_judged(f"one source only ({only}): there is nothing to compare it with", source="node labels and status.capacity")
    if all(row.values()):
        return about.ok(source="node labels, status.capacity, ResourceSlices")
    yes, no = ([source for source, value in sorted(row.items()) if value is wanted] for wanted in (True, False))
    if no == [ADVERTISED]:
        zero = [resource for resource, count in scope.device_capacity(node).items() if not whole(count)]
        why = f"{', '.join(zero)} is 0" if zero else "no device resource is in its capacity and no ResourceSlice has a device of it"
        message = f"it is an accelerator node by {', '.join(yes)}, but {why}: {_consequence(scope, node)}"
    else:
        message = f"it is an accelerator node by {', '.join(yes)} and not by {', '.join(no)}: programs treat it differently"
    return about.bad(
        message,
        cause="DevicesNotOffered" if no == [ADVERTISED] else "NodeMarksDisagree",
        source="node labels, status.capacity, ResourceSlices",
    )


def _consequence(scope: Scope, node: Node) -> str:
    """What follows for a node that offers no device of its own."""
    if pools := shared_pools(scope, node):
        return f"only devices of {listed(pools)} can be had here, which several nodes can reach and which count for no node"
    return "its devices cannot be scheduled"


def _marked(subject: Subject, marks: tuple[str, ...], consequence: str) -> Finding:
    """A node that no source names and marks do: its devices went, or never came."""
    observed, source = ", ".join(marks[:5]), "node labels, taints and status.capacity"
    about = About(subject, source, "", observed)
    if is_faint(marks):
        return about.not_judged(f"{observed}, and nothing else calls it an accelerator node: there is nothing to compare")
    message = f"it has {observed}, and neither capacity nor a ResourceSlice offers a device of its own: {consequence}"
    return about.bad(message, cause="DevicesNotOffered", expected="a device in capacity or in a ResourceSlice")


_EXPECTED = "Ready, not cordoned, devices that pods can ask for, no taint that probes do not tolerate"
_ALLOW = "accelerators.allowNotJudged"
_STATE = "node.spec, node.status"


def check_judged(scope: Scope, fields: FieldsByNode | None = None, *, probing: bool = True) -> Iterator[Finding]:
    """One finding per accelerator node: judged, left out as the policy allows, or left out although it should not be.

    ``probing`` is False where the run may create no pods: then a node is judged by reading alone, and what would keep probes
    away keeps nothing away. ``fields`` are managedFields of nodes, which tell the ages of cordons and taints.
    """
    held = held_nodes(scope, fields or {})
    for node in scope.accelerator_nodes:
        finding = _left_out(scope, node, probing, held.get(node.name, []))
        if finding is not None and matches(node.name, scope.policy.accelerators.allow_not_judged):
            reason = finding.observed or finding.message
            finding = allowed(finding.subject, message=f"{reason}; the policy allows it", source="policy accelerators.allowNotJudged")
        yield finding or _reached(scope, node, probing)
    yield from _lost(scope)
    yield from _unclear(scope)


def _unclear(scope: Scope) -> Iterator[Finding]:
    """Nodes of which only a label for graphics tells, and no node like them has a card of that maker."""
    for name, labels in sorted(scope.accelerators.unclear_graphics.items()):
        message = (
            f"it has {listed(labels)}, and no node like it offers a card of that maker: a card that nobody offers has this label, and so "
            f"do the CPU's own graphics; if it has no card, name the node in {_ALLOW}"
        )
        yield _unless_allowed(
            scope, name, f"it has {listed(labels)}", undecided(Subject("Node", name), message=message, source="node labels")
        )


def _lost(scope: Scope) -> Iterator[Finding]:
    """Nodes that offer nothing and have no mark, where a pod of an accelerators' DRA driver still runs."""
    pods, named = DriverPods(scope), set[str]()
    drivers = {entry.driver for entry in scope.slices.every} | {name for known in scope.claims.classes.values() for name in known.drivers}
    for driver in sorted(name for name in drivers if scope.kind_of(name) is DriverKind.ACCELERATOR):
        for name, pod in sorted(pods.without_devices(driver).items()):
            if name in named or name not in scope.snapshot.node_by_name:
                continue
            named.add(name)
            message = (
                f"{pod.namespace}/{pod.name} of DRA driver {driver} runs here, and nothing else calls it an accelerator node: "
                f"its devices are lost, or it never had any; if that is intended, name the node in {_ALLOW}"
            )
            found = undecided(Subject("Node", name), message=message, source="pods, ResourceSlices", cause="DevicesNotOffered")
            yield _unless_allowed(scope, name, f"it offers no device to {driver}", found)


def _unless_allowed(scope: Scope, node: str, what: str, found: Finding) -> Finding:
    """The finding on a node, or that the policy allows it to go unjudged."""
    if not matches(node, scope.policy.accelerators.allow_not_judged):
        return found
    return allowed(found.subject, message=f"{what}; the policy allows it", source=f"policy {_ALLOW}")


def _left_out(scope: Scope, node: Node, probing: bool, held: list[Hold]) -> Finding | None:
    """Why a node was left out although its devices may be free; None when it was not."""
    place, state = subject(node), scope.why_not_judged(node)
    about = About(place, _STATE)
    if virtual := scope.virtual(node):
        message = (
            f"{virtual}: its devices are those of another cluster or service; name the node in accelerators.allowNotJudged to accept that"
        )
        return about.undecided(message, source="node labels")
    if state == "NotReady":
        if moving := rebooting(node, scope.policy, scope.snapshot.taken_at):
            return about.undecided(moving, cause=CHANGE_UNDER_WAY)
        message = "NotReady: its status is outdated and nothing runs on it, so the run's verdict does not cover it"
        return missed(place, cause="NodeNotReady", observed=state, expected=_EXPECTED, source=_STATE, message=message)
    cordon = next((hold for hold in held if hold.of_cordon), None)
    if state and probing and cordon is not None:
        if moving := _in_motion(scope, cordon):
            return about.undecided(f"{state}: {moving}", cause=CHANGE_UNDER_WAY)
        state += f" {age_words(scope, cordon.since)}, owner {cordon.owner or 'not known'}"
        message = f"{state}: no probe ran on this node, so the run's verdict does not cover it"
        return missed(place, cause="NodeHeld", observed=state, expected=_EXPECTED, source=_STATE, message=message)
    if state:
        return about.undecided(f"{state}: no probe could run there", cause="NodeHeld")
    if reason := without_devices(scope, node):
        if vm_devices(scope, node):
            return allowed(place, message=f"{reason}; containers cannot ask for them", source="node.status.capacity")
        return about.undecided(f"{reason}; if that is intended, name the node in accelerators.allowNotJudged", cause="DevicesNotOffered")
    if probing and (taints := foreign_taints(scope, node)):
        reason = f"has the taint {', '.join(taints)}, which probes do not tolerate"
        by_taint = {hold.name.removeprefix("taint "): hold for hold in held}
        changes = [_in_motion(scope, by_taint[taint]) if taint in by_taint else "" for taint in taints]
        if all(changes):
            return about.undecided(f"{reason}: {changes[0]}", cause=CHANGE_UNDER_WAY, source="node.spec.taints")
        message = f"{reason}: no probe ran on this node, so the run's verdict does not cover it"
        return missed(place, cause="TaintKeepsProbesAway", observed=reason, expected=_EXPECTED, source="node.spec.taints", message=message)
    return None


def _in_motion(scope: Scope, hold: Hold) -> str:
    """Why a hold is a change under way, and when to ask again; empty if it is not known to be one."""
    owner = f"owner {hold.owner}" if hold.owner else "owner not known"
    if is_young(scope, hold.since):
        return f"{hold.name} {age_words(scope, hold.since)}, {owner}: {again(scope, hold.since)}"
    if hold.since.latest is None and (hold.notice or (hold.of_cordon and (hold.owner or hold.doubt))):
        return f"{hold.name} {age_words(scope, hold.since)}, {owner}: ask again when the owner is done"
    return ""


def _reached(scope: Scope, node: Node, probing: bool) -> Finding:
    """A node that can be judged; a busy one by reading alone."""
    place, held = subject(node), busy(scope, node) if probing else ""
    about = About(place)
    if not held:
        how = "Ready and schedulable" if probing else "Ready; judged by reading, because this run may create no pods"
        return about.ok(how, expected=_EXPECTED if probing else "Ready, not cordoned, devices that pods can ask for", source=_STATE)
    if scope.policy.accelerators.allow_busy:
        message = f"all its devices are in use ({held}), so no probe ran; accelerators.allowBusy of the policy allows that"
        return allowed(place, message=message, source="requests of bound pods")
    message = f"all its devices are in use ({held}), so no probe ran and the run's verdict does not cover it"
    return missed(
        place, cause="NoFreeDevice", observed=f"busy: {held}", expected="a free device", source="requests of bound pods", message=message
    )


_SOURCE = "NodeFeatures, SriovNetworkNodeStates, NodeClaims, ResourceSlices"
_STAND_INS_EXPECTED = "a node of its name"
_JOINING = 15 * 60
"""Seconds after which Karpenter gives a machine up that has not joined."""

_READING = 5 * 60
"""Seconds within which a large cluster is read, kind after kind."""

_FEW = 0.1
"""The share of a kind's objects that may be of nodes that went since its collector last came, and one object in any case."""


def check_stand_ins(scope: Scope) -> Iterator[Finding]:
    """One finding per object that stands for a node, and one per accelerator node that lacks what its peers have."""
    found = {key: list(stand_ins(scope, key)) for key in KINDS_OF_NODES}
    if not any(found.values()):
        raise NotApplicable("NoStandIn", "the cluster has no object that stands for a node")
    for some in found.values():
        left = [one for one in some if one.node and one.node not in scope.snapshot.node_by_name]
        few = len(left) <= max(1, _FEW * len(some))
        for one in some:
            yield _judge(scope, one, left=one in left, few=few)
    yield from _lacking(scope, {key: {one.node for one in found[key]} for key in (FEATURES, ADAPTERS)})


def _judge(scope: Scope, one: StandIn, *, left: bool, few: bool) -> Finding:
    about = About(one.place, _SOURCE, _STAND_INS_EXPECTED, observed=f"node {one.node or 'not joined'}")
    if one.key == CLAIMS and not one.node:
        late = overdue(about, one.since, scope.snapshot.taken_at, _JOINING, "its machine has not joined", cause="NodeNotJoined")
        if isinstance(late, Finding):
            return late
        return about.bad("its machine has not joined as a node: it costs money and serves nothing", cause="NodeNotJoined")
    if not left:
        return about.ok()
    if one.since is not None and scope.snapshot.taken_at - one.since < _READING:
        return about.undecided("it is new: its node may have joined after the nodes were read", cause=CHANGE_UNDER_WAY)
    if one.going or (few and one.collected_late):
        return about.not_judged(f"its node {one.node} is gone, and its collector comes once an hour")
    message = f"its node {one.node} is gone: whoever reads such objects works through it, and may take the node for one that is there"
    return about.bad(message, cause="LeftOfDeletedNode")


def _lacking(scope: Scope, have: dict[str, set[str]]) -> Iterator[Finding]:
    for pool in pools_of_peers(scope):
        for key, nodes in have.items():
            without = [node for node in pool if node.name not in nodes]
            if 0 < len(without) < len(pool) / 2:
                for node in without:
                    kind = KINDS_OF_NODES[key]
                    if not node.ready:
                        yield not_judged(subject(node), message=f"it is not Ready, and has no {kind}", source=_SOURCE)
                        continue
                    about = About(subject(node), _SOURCE, f"a {kind}, as {len(pool) - len(without)} nodes of its pool have")
                    message = f"it has no {kind}, and {len(pool) - len(without)} of {len(pool)} nodes of its pool do: its labels grow old"
                    yield about.bad(message, cause="StandInMissing", observed=f"no {kind}")
