"""PSA-06 and 07: which tenants may make or enter pods where pods may be privileged, and what controllers of the stack may do on their node.

Agents work on nodes, controllers talk to the API server.
"""

from collections import defaultdict
from collections.abc import Iterator

from conformance.common_findings import unread
from conformance.psa.host_paths import exposed_by
from fixtures.kubernetes.podsecurity import Level, policy_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.template import Template
from fixtures.model.platform.access import CLUSTER_BINDINGS, Grant, tenants_grants
from fixtures.model.platform.agents import agents
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable

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


_KINDS = ("apps/deployments", "apps/statefulsets")
_SHARED = ("kube-system", "default")


def check_controllers(scope: Scope) -> Iterator[Finding]:
    """One finding per controller in a namespace of the stack's own. Raises :class:`NotApplicable` where there is none.

    A webhook behind an overlay network is on its host's, and /etc/os-release is mounted to read it: neither gives a controller its node.
    """
    homes = {agent.daemonset.namespace for agent in agents(scope) if scope.platform.of(agent.daemonset.namespace).components}
    homes -= set(_SHARED)
    found = [one for one in templates(scope) if one.key in _KINDS and (one.trouble or one.namespace in homes)]
    if not any(not one.trouble for one in found):
        raise NotApplicable("NoControllers", "no controller is in a namespace of the device stack's own")
    for template in found:
        yield unread(template) if template.trouble else _controller(template)


def _controller(template: Template) -> Finding:
    about = About(template.place, f"{template.path}.hostPID, .hostIPC, .*.securityContext, .volumes", "no rights on its node")
    mounts = [f"hostPath {path} ({opens})" for path, writable in template.host_mounts if (opens := exposed_by(path, writable=writable))]
    if found := listed(dict.fromkeys([*template.host_rights, *mounts]), 3):
        message = f"it has {found}: whoever takes over the controller has the node it runs on, and its account in the whole cluster"
        return about.bad(message, cause="ControllerOnHost", observed=found)
    return about.ok("none")
