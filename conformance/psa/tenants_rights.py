"""PSA-06: which tenants may make or enter pods where pods may be privileged."""

from collections import defaultdict
from collections.abc import Iterator

from fixtures.kubernetes.podsecurity import Level, policy_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.access import CLUSTER_BINDINGS, Grant, tenants_grants
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive

_ROOT = "a privileged pod there is root of its node, with every device on it"


def check_tenants_rights(scope: Scope) -> Iterator[Finding]:
    """One finding per namespace of the platform that admits privileged pods.

    Raises :class:`Inconclusive` where the cluster has no binding at all: then something else than RBAC decides.
    """
    if not scope.snapshot.objects(CLUSTER_BINDINGS):
        raise Inconclusive("NoEvidence", "no ClusterRoleBinding is there: the API server decides by something else than RBAC")
    grants: dict[str, list[Grant]] = defaultdict(list)
    for grant in tenants_grants(scope):
        grants[grant.namespace].append(grant)
    for namespace in scope.snapshot.namespaces:
        if not scope.is_infrastructure(namespace.name) or policy_of(namespace.metadata.label)[0].enforce.level is not Level.PRIVILEGED:
            continue
        about = About(subject(namespace), "RoleBindings and ClusterRoleBindings", "no tenant may make or enter pods")
        if not (found := [*grants[namespace.name], *grants[""]]):
            yield about.ok("no binding of a tenant")
            continue
        ways = listed(dict.fromkeys(f"{one.holder} by {one.binding} ({listed(one.may, 2)})" for one in found), 3)
        advice = next((words for one in found if (words := scope.platform.advice(one.home))), "")
        yield about.bad(f"{ways}: {_ROOT}{advice}", cause="TenantsInPrivilegedNamespace", observed=ways[:300])
