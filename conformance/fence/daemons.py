"""Whether a DaemonSet's pod is an agent's, which may be on an accelerator node without a device, or a tenant's."""

from __future__ import annotations

import msgspec

from conformance.scope.agents import is_agent
from conformance.scope.scope import Scope, host_access
from fixtures.kubernetes.models import DaemonSet, Pod


class Daemon(msgspec.Struct, frozen=True):
    """What is known of the DaemonSet that made a pod. All are clauses, and empty where there is nothing to say.

    ``agent``: why its pods may be there; ``unclear``: why nobody can tell; ``word``: what made the pod, followed by a comma.
    """

    agent: str = ""
    unclear: str = ""
    word: str = ""


_NO_DAEMON = Daemon()


class Daemons:
    """DaemonSets by namespace and UID."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._listing = scope.snapshot.listing("apps/daemonsets")
        self._known: dict[tuple[str, str], DaemonSet] = {(item.namespace, item.metadata.uid): item for item in self._listing.items}

    def of(self, pod: Pod) -> Daemon:
        """What is known of the DaemonSet that made a pod, by the UID of its owner. Anybody may write an owner of that kind."""
        owner = pod.controller
        if owner is None or owner.kind != "DaemonSet" or self._scope.is_infrastructure(pod.namespace):
            return _NO_DAEMON
        if self._listing.trouble or not self._listing.collected:
            return Daemon(unclear=f"whether DaemonSet {owner.name} is an agent is not known, because apps/daemonsets were not read")
        found = self._known.get((pod.namespace, owner.uid))
        if found is None:
            return _NO_DAEMON
        if is_agent(self._scope, found):
            return Daemon(agent=f"agent {found.name}")
        if access := host_access(pod.spec):
            advice = "if the platform runs it, name the namespace in the policy's tenants.moreInfrastructure or fence.allowedNamespaces"
            where = f"nothing proves its namespace {pod.namespace} to be the platform's"
            return Daemon(unclear=f"DaemonSet {found.name} has {access} as agents of nodes have, and {where}; {advice}")
        return Daemon(word=f"DaemonSet {found.name} puts a pod on every node that it tolerates, ")
