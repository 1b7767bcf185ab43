"""PSA-07: what controllers of the device stack may do on their node. Their agents work on nodes, controllers talk to the API server."""

from collections.abc import Iterator

from conformance.common_findings import unread
from conformance.psa.host_paths import exposed_by
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.template import Template
from fixtures.model.platform.agents import agents
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

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
