"""Minor versions of Kubernetes, as the API server and the kubelets say them. Pure."""

from __future__ import annotations

import re

from conformance.scope.scope import Scope

_MINOR = re.compile(r"v?1\.(\d{1,3})(?:\D|\Z)")


def minor_of(version: str) -> int | None:
    """``36`` of ``v1.36.3``, ``1.36`` or ``v1.36.3-gke.100``; None for what is no such version."""
    found = _MINOR.match(version)
    return int(found[1]) if found else None


def server_minor(scope: Scope) -> int | None:
    """The API server's own; None where a saved snapshot does not tell."""
    return minor_of(scope.snapshot.version)


def least_server_minor(scope: Scope) -> int | None:
    """The API server's own, else the newest kubelet's, which is never newer than the server (docs/facts/kubernetes-versions.md#skew)."""
    return scope.cached(_least_server_minor)


def _least_server_minor(scope: Scope) -> int | None:
    kubelets = [minor_of(node.status.node_info.kubelet_version) for node in scope.snapshot.listing("nodes").items]
    return server_minor(scope) or max((minor for minor in kubelets if minor), default=None)
