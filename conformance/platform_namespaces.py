"""Which namespaces are the platform's, and what proves it.

Rules for tenants do not hold in them, so nothing that a tenant can choose may make one: no part of a name, no label, no annotation,
no owner that an object in the namespace claims to have. What counts is an exact name, what the policy names, and what objects say
that tenants cannot write because they are cluster-scoped: an operator's own resource, the cluster's version, a node, a PriorityClass.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.policy import Tenants
from fixtures.models import Json, Namespace
from fixtures.proof import PROOF, proofs_of

CLUSTER_POLICIES = "nvidia.com/clusterpolicies"
NIC_CLUSTER_POLICIES = "mellanox.com/nicclusterpolicies"
OPERATORS = (CLUSTER_POLICIES, NIC_CLUSTER_POLICIES)
"""Cluster-scoped kinds by which operators of device stacks are told what to do."""

CLUSTER_VERSIONS = "config.openshift.io/clusterversions"
"""Served on OpenShift only: a tenant can add no kind to a cluster."""

PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses"
READS = (*OPERATORS, PRIORITY_CLASSES)
"""Kinds that are listed to tell the platform's namespaces."""

IGNORED = frozenset(("ignored", "ignore"))
"""States of a resource that its operator does not act upon."""

RELEASE = "meta.helm.sh/release-name"
RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
OPENSHIFT_NODE = "node.openshift.io/os_id"

_SHARED_BY_ALL = "default"
_RESERVED_BY_OPENSHIFT = ("openshift", "openshift-*", "kube-*")
_LOOKS_LIKE_ONE = (
    "kube-*",
    "*-operator",
    "*-system",
    "openshift",
    "openshift-*",
    "gke-*",
    "gmp-*",
    "nvidia-*",
    "dra-driver-*",
    "cw-*",
    "kai-*",
    "runai-*",
    "cattle-*",
    "gpu-conformance*",
)


class PlatformNamespaces:
    """Namespaces that are no tenant's. ``proven`` maps names to the sentence that says what proves them."""

    def __init__(self, tenants: Tenants, proven: Mapping[str, str] | None = None, *, openshift: bool = False) -> None:
        self._named = (*tenants.infrastructure, *tenants.more_infrastructure)
        self._proven = dict(proven or {})
        self._reserved = _RESERVED_BY_OPENSHIFT if openshift else ()
        self._known: dict[str, str] = {}

    def why(self, namespace: str) -> str:
        """Why a namespace is the platform's, as a clause; empty for every other."""
        if namespace not in self._known:
            self._known[namespace] = self._why(namespace)
        return self._known[namespace]

    def _why(self, namespace: str) -> str:
        if _matches(namespace, self._named):
            return "named as the platform's by the policy"
        if _matches(namespace, self._reserved):
            return "reserved by OpenShift for itself"
        return self._proven.get(namespace, "")

    def advice(self, namespace: str) -> str:
        """What to do about a namespace whose name sounds like the platform's and that nothing proves to be; else empty.

        A clause to be added to a finding.
        """
        if not namespace or self.why(namespace) or not _matches(namespace, _LOOKS_LIKE_ONE):
            return ""
        return f"; a name proves nothing: if {namespace} is the platform's, name it in the policy's tenants.moreInfrastructure"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def operators_namespaces(resources: Iterable[tuple[str, Json]]) -> dict[str, str]:
    """Where operators run, by what their own cluster-scoped resources say: ``{namespace: what proves it}``.

    ``resources`` are pairs of kind and object. A ClusterPolicy's status names the operator's namespace; Helm's annotation names the
    namespace of the release that made an object.
    """
    found: dict[str, str] = {}
    for kind, item in resources:
        meta, status = _mapping(item.get("metadata")), _mapping(item.get("status"))
        if str(status.get("state")) in IGNORED:
            continue
        told = (
            (status.get("namespace"), "says that its operator runs there"),
            (_mapping(meta.get("annotations")).get(RELEASE_NAMESPACE), "belongs to a Helm release of that namespace"),
        )
        for namespace, words in told:
            if isinstance(namespace, str) and namespace:
                found.setdefault(namespace, f"{kind} {meta.get('name')} {words}")
    return found


def exempt(operators: Mapping[str, str]) -> dict[str, str]:
    """The operators' namespaces that are theirs alone. ``default`` is everybody's, whoever else runs in it."""
    return {namespace: words for namespace, words in operators.items() if namespace != _SHARED_BY_ALL}


def namespaces_of_runs(classes: Iterable[Json], namespaces: Iterable[Namespace]) -> dict[str, str]:
    """Namespaces that runs of this suite created, as the runs' PriorityClasses prove: ``{namespace: what proves it}``."""
    proofs = proofs_of(classes)
    return {
        item.name: f"created by run {view.run_id} of this suite"
        for item in namespaces
        for view in proofs.values()
        if view.created_here("namespaces", item.name, item.metadata.uid, item.metadata.annotation.get(PROOF, ""))
    }


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
