"""INV-07: objects that stand for a node have their node, and each accelerator node has those of its peers."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.model.cluster import Scope, subject
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.model.nodes.stand_ins import ADAPTERS, CLAIMS, FEATURES, KINDS_OF_NODES, StandIn, stand_ins
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable

_SOURCE = "NodeFeatures, SriovNetworkNodeStates, NodeClaims, ResourceSlices"
_EXPECTED = "a node of its name"
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
    about = About(one.place, _SOURCE, _EXPECTED, observed=f"node {one.node or 'not joined'}")
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
