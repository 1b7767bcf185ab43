"""OPS-14: agents' pods would be admitted again."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.agent_admission import admissions
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_SOURCE = "spec.template, labels and quotas of the namespace, PriorityClasses"


def check_admission(scope: Scope) -> Iterator[Finding]:
    """One finding per agent DaemonSet."""
    found = list(admissions(scope))
    if not found:
        raise NotApplicable("NoAgent", "no agent of the stack is installed")
    for one in found:
        about = About(subject(one.agent.daemonset), _SOURCE, f"a template that {one.level}, its priority class and the quotas admit")
        if one.violations:
            words = listed(list(one.violations), 3)
            message = f"its namespace enforces {one.level}, which refuses its next pod: {words}; pods that run stay until they are replaced"
            yield about.bad(message[:600], cause="AgentNotAdmitted", observed=words[:600])
        elif one.missing:
            message = f"PriorityClass {one.missing} is not there, so that its next pod is refused"
            yield about.bad(message, cause="AgentNotAdmitted", observed=f"no PriorityClass {one.missing}")
        elif one.full:
            message = f"there is no room for another pod of it: {one.full}; a node that joins gets none"
            yield about.bad(message[:600], cause="AgentNotAdmitted", observed=one.full[:600])
        else:
            yield about.ok()
