"""UPG-06: roll-outs of drivers take few nodes of a pool, and one pool at a time."""

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.nodes.changes import being_changed
from fixtures.model.nodes.holds import is_cordoned
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "node labels of upgrades, node.spec.unschedulable, conditions"


def check_roll_outs(scope: Scope) -> Iterator[Finding]:
    """One finding per pool of accelerator nodes. Raises :class:`NotApplicable` without one."""
    pools = pools_of_peers(scope)
    if not pools:
        raise NotApplicable("NoAcceleratorNode", "no node has devices that are its pool's")
    at_work = [[node.name for node in pool if being_changed(node)] for pool in pools]
    others = [names for names in at_work if names]
    for pool, names in zip(pools, at_work, strict=True):
        yield _judge(scope, pool, names, [other for other in others if other is not names])


def _judge(scope: Scope, pool: list[Node], names: list[str], others: list[list[str]]) -> Finding:
    most = max(1, int(scope.policy.upgrade.most_unavailable * len(pool)))
    expected = f"at most {most} of {len(pool)} nodes without devices, in one pool at a time"
    about = About(Subject("Pool", f"of {pool[0].name}"), _SOURCE, expected)
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
