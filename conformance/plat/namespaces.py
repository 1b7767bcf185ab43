"""PLAT-05: no namespace with devices, claims or agents stays in its deletion."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.model.cluster import Scope
from fixtures.model.platform.going_namespaces import homes
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


def check_namespaces(scope: Scope) -> Iterator[Finding]:
    """One finding per namespace that holds pods with devices, claims, agents or objects of the stack's kinds."""
    found = list(homes(scope))
    if not found:
        raise NotApplicable("NoHome", "no namespace holds devices, claims or agents")
    limit = scope.policy.operators.terminating_minutes * 60
    for one in found:
        about = About(Subject("Namespace", one.name), "metadata.deletionTimestamp, status.conditions", "Active, or gone in time", one.holds)
        if not one.going:
            yield about.ok()
            continue
        cause = "ApiGroupUnanswered" if one.undiscovered else "NamespaceStuck"
        rest = f": {one.kept_by}" if one.kept_by else ""
        late = overdue(about, one.since, scope.snapshot.taken_at, limit, "it is being deleted", cause=cause, rest=rest)
        why = rest or ": nothing says what keeps it"
        message = f"it has been in its deletion for longer than {limit / 60:g} minutes and holds {one.holds}{why}"
        yield late if isinstance(late, Finding) else about.bad(message, cause=cause)
