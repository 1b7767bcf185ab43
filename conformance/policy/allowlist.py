"""Which clusters may be changed: those whose UID their owner has written down, in the policy or on the command line."""

from __future__ import annotations

from collections.abc import Collection

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.text.sentences import plain

OPTION = "--chaos-cluster"


def cluster_uid(cluster: Cluster) -> str:
    """The cluster's identity: the UID of its namespace kube-system. Raises :class:`ApiTrouble` when it cannot be read.

    By a list: the shipped roles let the suite list namespaces, and get none.
    """
    found = cluster.find("namespaces", "kube-system")
    uid = found["metadata"].get("uid") if found is not None else None
    if not isinstance(uid, str) or not uid:
        raise ApiTrouble("NotFound", "namespace kube-system: the list of namespaces shows none with a UID")
    return uid


def another_cluster(cluster: Cluster, uid: str) -> str:
    """One sentence if the address now leads to another cluster than the one of this UID, else empty. Raises :class:`ApiTrouble`."""
    return is_another(cluster_uid(cluster), uid)


def is_another(found: str, uid: str) -> str:
    """One sentence if the UIDs are of two clusters, else empty."""
    return "" if found == uid else f"the address now leads to cluster {plain(found)}, and this was begun on cluster {plain(uid)}"


def not_allowed(uid: str, context: str, allowed: Collection[str]) -> str:
    """Why the cluster may not be changed, with what was expected; empty when it may.

    A context's name says nothing: two kubeconfigs may give one name to two clusters.
    """
    if uid and uid in allowed:
        return ""
    name = f"cluster {uid or '(unknown)'} ({context or 'no name'}) is not allow-listed"
    expected = f"expected {OPTION} {uid or 'UID'}, or this UID in the policy's chaos.clusters"
    by_name = f"; {context} is a context's name, which alone is not enough" if context and context in allowed else ""
    return f"{name}; {expected}{by_name}"
