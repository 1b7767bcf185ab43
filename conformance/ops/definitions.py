"""OPS-08: definitions of the stack's kinds are established, and each version in which objects are stored is served."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.platform.definitions import Definition, definitions
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "customresourcedefinitions: spec.versions, status.storedVersions, status.conditions"


def check_definitions(scope: Scope) -> Iterator[Finding]:
    """One finding per definition of a group of the stack."""
    found = list(definitions(scope))
    if not found:
        raise NotApplicable("NoDefinition", "no custom kind of the stack is defined")
    for one in found:
        yield _judge(scope, one)


def _judge(scope: Scope, one: Definition) -> Finding:
    observed = f"served: {listed(list(one.served), 5) or 'none'}; stored: {listed(list(one.stored), 5) or 'none'}"
    expected = "Established, names accepted, and every stored version served"
    about = About(Subject("CustomResourceDefinition", one.name), _SOURCE, expected, observed=observed)
    if not one.conditions:
        return about.undecided("the API server has not looked at it yet: it has no conditions")
    for kind in ("NamesAccepted", "Established"):
        if one.state(kind) in ("False", "Unknown"):
            state = f"condition {kind} is {one.state(kind)} {one.words(kind)}".rstrip()
            since, limit = unix(one.turned(kind) or one.created), scope.policy.operators.rollout_minutes * 60
            late = overdue(about, since, scope.snapshot.taken_at, limit, state, cause="DefinitionNotEstablished")
            if isinstance(late, Finding):
                return late
            return about.bad(
                f"{state}: the API server does not serve the kind, and its controller cannot start", cause="DefinitionNotEstablished"
            )
    if stale := [version for version in one.stored if version not in one.served]:
        message = (
            f"objects may be stored as {listed(stale)}, which is not served: the API server refuses the release that drops the version"
        )
        return about.bad(message, cause="StoredVersionNotServed")
    return about.ok()
