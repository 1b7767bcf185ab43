"""UPG-04: parts of GPU nodes support the Kubernetes version that runs, and the one that is next."""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.platform.kubernetes_version import least_server_minor, minor_of
from fixtures.model.platform.versions import Installed, on_nodes, version_of
from fixtures.tables.rows import SUPPORT
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject


def check_support(scope: Scope) -> Iterator[Finding]:
    """One finding per node and part of which the table knows a limit."""
    parts = [one for one in on_nodes(scope) if any(row.part == one.part for row in SUPPORT.rows)]
    if not parts:
        raise NotApplicable("NoKnownPart", "no part is installed of which a limit is known")
    running = least_server_minor(scope)
    target = minor_of(scope.policy.upgrade.target) or running
    if target is None:
        raise Inconclusive("NotUnderstood", "no API server and no kubelet tells its version, and the policy names no upgrade.target")
    for one in parts:
        yield _judge(one, max(target, running or 0))


def _judge(one: Installed, target: int) -> Finding:
    source = f"status.nodeInfo, tables of {SUPPORT.table.date}"
    place = Subject(one.place.kind, f"{one.place.name} {one.part}", one.place.namespace)
    expected = f"a version that supports Kubernetes 1.{target}"
    about = About(place, source, expected, observed=f"{one.part} {one.text or 'of no version'}")
    if one.version is None:
        return about.undecided(f"the version of {one.part} is not known: {one.text or 'it is empty'}")
    for row in SUPPORT.rows:
        limit = version_of(row.below)
        if row.part == one.part and limit and one.version < limit and target > row.until:
            message = (
                f"{one.part} {one.text} supports Kubernetes up to 1.{row.until}, and 1.{target} runs or is next: its kubelet will not start"
            )
            return about.bad(message, cause="NotSupportedByTarget")
    return about.ok()
