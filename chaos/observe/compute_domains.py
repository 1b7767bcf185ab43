"""ComputeDomains, and the DaemonSet that runs the IMEX daemons of each (docs/facts/dra.md#compute-domains).

Which DaemonSet is a domain's is told by the domain's UID and by the driver's namespace. Names and images prove nothing.
"""

from __future__ import annotations

from chaos.observe.view import View, dig, full_name, labels_of, namespace_of, text_of, uid_of
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


def daemon_sets(view: View, namespace: str) -> list[Json]:
    """The driver's DaemonSets of daemons that run on some node: those of a Ready domain first, then by its name.

    Raises :class:`NoData`.
    """
    found = []
    for item in view.select(DAEMON_SETS):
        if namespace_of(item) == namespace and dig(item, "status").get("desiredNumberScheduled"):
            domain = domain_of(view, item)
            if domain is not None:
                found.append((text_of(dig(domain, "status").get("status")) != "Ready", full_name(domain), item))
    return [item for *_, item in sorted(found, key=lambda one: one[:2])]
