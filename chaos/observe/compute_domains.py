"""ComputeDomains, and the DaemonSet that runs the IMEX daemons of each (docs/facts/dra.md#compute-domains).

Which DaemonSet is a domain's is told by the domain's UID and by the driver's namespace. Names and images prove nothing.
"""

from __future__ import annotations

from chaos.observe.view import View, dig, full_name, labels_of, namespace_of, uid_of
from fixtures.kubernetes.models import Json

COMPONENT = "compute-domain-daemon"
DOMAINS = "resource.nvidia.com/computedomains"
DAEMON_SETS = "apps/daemonsets"
LABEL = "resource.nvidia.com/computeDomain"


def domain_of(view: View, daemon_set: Json) -> Json | None:
    """The domain whose daemons the DaemonSet runs: it and its pods carry the domain's UID. Raises :class:`NoData`."""
    uid = labels_of(daemon_set).get(LABEL, "")
    if not uid or dig(daemon_set, "spec", "template", "metadata", "labels").get(LABEL) != uid:
        return None
    return next((domain for domain in view.select(DOMAINS) if uid_of(domain) == uid), None)


def daemon_sets(view: View, namespace: str) -> list[tuple[Json, Json]]:
    """The driver's DaemonSets of daemons that run on some node, each with its domain, by the names of both. Raises :class:`NoData`."""
    found = []
    for item in view.select(DAEMON_SETS):
        if namespace_of(item) == namespace and dig(item, "status").get("desiredNumberScheduled"):
            domain = domain_of(view, item)
            if domain is not None:
                found.append((item, domain))
    return sorted(found, key=lambda one: (full_name(one[1]), full_name(one[0])))
