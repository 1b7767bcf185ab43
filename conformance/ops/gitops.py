"""OPS-09: what Argo CD and Flux deliver of the stack is in the cluster as it stands in its source."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.model.cluster import Scope
from fixtures.model.platform.gitops import deliveries
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable


def check_deliveries(scope: Scope) -> Iterator[Finding]:
    """One finding per Application, HelmRelease or Kustomization of the stack."""
    found = list(deliveries(scope))
    if not found:
        raise NotApplicable("NoDelivery", "no object of Argo CD or Flux delivers a part of the stack")
    for one in found:
        about = About(one.place, "status", "Synced and Healthy (Argo CD), Ready True (Flux)", observed=one.observed)
        if one.suspended:
            yield about.advised("it is suspended: what somebody changes in the cluster stays changed", cause="DeliverySuspended")
        elif one.unknown:
            yield about.undecided(f"{one.observed}: its controller cannot compare it or does not know its health")
        elif one.good and one.follows:
            message = f"it follows {listed(one.follows)}: the next release is installed when it appears, and may drain nodes at work"
            yield about.advised(message, cause="VersionNotPinned", observed=listed(one.follows))
        elif one.good:
            yield about.ok()
        else:
            limit, now = scope.policy.operators.rollout_minutes * 60, scope.snapshot.taken_at
            late = overdue(about, one.since, now, limit, one.observed, cause="NotAsDelivered") if one.good is None else None
            message = f"{one.observed}: {one.fault}"
            yield late if isinstance(late, Finding) else about.bad(message, cause="NotAsDelivered")
