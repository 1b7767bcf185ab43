"""OPS-10: the RuntimeClasses that device pods and agents name exist, and the runtimes of their nodes have the handlers."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.platform.runtime_classes import Use, uses
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "runtimeClassName, RuntimeClasses, node.status.runtimeHandlers"


def check_runtime_classes(scope: Scope) -> Iterator[Finding]:
    """One finding per RuntimeClass that a device pod, an agent or the operator's object names."""
    found = uses(scope)
    if not found:
        raise NotApplicable("NoRuntimeClass", "no device pod, no agent and no operator's object names a RuntimeClass")
    for one in found:
        yield _judge(one)


def _judge(one: Use) -> Finding:
    about = About(Subject("RuntimeClass", one.name), _SOURCE, "a RuntimeClass, and its handler on the nodes of its pods")
    users = listed(one.users, 3)
    if one.handler is None:
        message = f"there is no RuntimeClass {one.name}: the API server refuses the pods of {users}"
        return about.bad(message, cause="RuntimeClassMissing", observed=f"named by {users}")
    if one.without:
        nodes = listed(one.without, 4)
        message = f"the container runtime of {nodes} has no handler {one.handler}: pods of {users} stay in ContainerCreating there"
        return about.bad(message, cause="RuntimeHandlerMissing", observed=f"no handler {one.handler} on {nodes}")
    if one.changing:
        message = f"{listed(one.changing, 4)} lacks handler {one.handler} and is being changed: agents add it to a node that joins"
        return about.undecided(message, cause=CHANGE_UNDER_WAY)
    return about.ok(f"handler {one.handler}{f' on {len(one.having)} nodes' if one.having else ''}; named by {users}")
