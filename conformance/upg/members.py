"""UPG-03: the control plane can lose a member, as it does in each upgrade."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.platform.control_plane import Members, members, zones
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "static pods of kube-system, labels of nodes"


def check_members(scope: Scope) -> Iterator[Finding]:
    """One finding for etcd and one for the API servers, where the cluster shows them."""
    found = members(scope)
    if not found:
        raise NotApplicable("ControlPlaneNotShown", "the cluster shows no member of its control plane: whoever runs it answers for it")
    spread = zones(scope, frozenset(node.name for node in scope.accelerator_nodes))
    for one in found:
        yield _judge(scope, one, spread)


def _judge(scope: Scope, one: Members, spread: set[str]) -> Finding:
    count, ready = one.count, len(one.ready)
    expected = "an odd number of members, at least 3, of which one can be lost" if one.part == "etcd" else "2 API servers, Ready"
    about = About(
        Subject("ControlPlane", one.part), _SOURCE, expected, observed=f"{ready} of {count} Ready: {listed(sorted(one.ready), 5)}"
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
