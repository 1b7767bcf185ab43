"""Which namespaces are the platform's, and what proves it.

A namespace is the platform's by the policy, or by what tenants cannot write: an operator's own resource, the cluster's version, a
PriorityClass, or the marks of a product whose usual name it has. Why nothing else counts: docs/decisions/platform-namespaces.md.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from conformance.policy.default_namespaces import OF_KUBERNETES, PRODUCT_OF, Product
from conformance.policy.marks import Shown
from conformance.policy.model import Tenants
from fixtures.kubernetes.models import Json, Namespace
from fixtures.kubernetes.untyped import mapping
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof_record import proofs_of

CLUSTER_POLICIES = "nvidia.com/clusterpolicies"
NIC_CLUSTER_POLICIES = "mellanox.com/nicclusterpolicies"
OPERATORS = (CLUSTER_POLICIES, NIC_CLUSTER_POLICIES)
"""Cluster-scoped kinds that configure the operators of device stacks."""

CLUSTER_VERSIONS = "config.openshift.io/clusterversions"
"""Served on OpenShift only: a tenant can add no kind to a cluster."""

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
_UNREAD = "a default name, and what would prove its product was not read"
_NOTHING_READ = Shown()
_NEWEST = "~"
"""Later than every timestamp."""


def is_heeded(item: Json) -> bool:
    """Whether the operator of a resource acts upon it."""
    return str(mapping(item, "status").get("state")) not in IGNORED


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's own cluster-scoped resource, and where it says that the operator runs. Empty is what it does not say.

    ``release`` is the Helm release that made it, name and namespace.
    """

    kind: str
    name: str
    uid: str
    namespace: str = ""
    release: tuple[str, str] = ("", "")

    @property
    def homes(self) -> dict[str, str]:
        """``{namespace: the clause that proves it}``."""
        proofs = ((self.release[1], "belongs to a Helm release of that namespace"), (self.namespace, "says that its operator runs there"))
        return {namespace: f"{self.kind} {self.name} {words}" for namespace, words in proofs if namespace}


class PlatformNamespaces:
    """Namespaces that are no tenant's. ``proven`` maps names to the sentence that says what proves them.

    ``shown`` is what proves that the products of default names are installed. ``operators``, ``daemonsets`` (namespace and name) and
    ``since`` (when namespaces that are in use were made) say that a product runs elsewhere. What is not given was not read, and
    disproves nothing.
    """

    def __init__(
        self,
        tenants: Tenants,
        proven: Mapping[str, str] | None = None,
        *,
        openshift: bool = False,
        shown: Shown = _NOTHING_READ,
        operators: Iterable[Operator] = (),
        daemonsets: Iterable[tuple[str, str]] = (),
        since: Mapping[str, str] | None = None,
    ) -> None:
        usual = Tenants().infrastructure
        by_default = usual if tenants.infrastructure[: len(usual)] == usual else ()
        self._defaults = frozenset(by_default)
        self._of_owner = (*tenants.infrastructure[len(by_default) :], *tenants.more_infrastructure)
        self._proven = dict(proven or {})
        self.openshift = openshift
        self._reserved = _RESERVED_BY_OPENSHIFT if openshift else ()
        self._shown = shown
        self._at_home = {operator.kind for operator in operators if operator.homes}
        self._daemonsets = list(daemonsets)
        self._since = since or {}
        self._known: dict[str, str] = {}

    def why(self, namespace: str) -> str:
        """Why a namespace is the platform's, as a clause; empty for every other, and for a default name whose product is not there."""
        if namespace not in self._known:
            self._known[namespace] = self._surely(namespace) or self._by_product(namespace)
        return self._known[namespace]

    def _surely(self, namespace: str) -> str:
        if self.is_of_owner(namespace):
            return "named as the platform's by the policy"
        if _matches(namespace, self._reserved):
            return "reserved by OpenShift for itself"
        if namespace in OF_KUBERNETES and namespace in self._defaults:
            return "made by Kubernetes itself"
        return self._proven.get(namespace, "")

    def _by_product(self, namespace: str) -> str:
        if namespace not in self._defaults:
            return ""
        product = PRODUCT_OF[namespace]
        if product.operator in self._at_home or self._runs_elsewhere(product, namespace):
            return ""
        if reason := next(self._shown.reasons(product.marks), ""):
            return f"its product is installed: {reason}"
        return _UNREAD if self._shown.may_hide(product.marks) else ""

    def _runs_elsewhere(self, product: Product, namespace: str) -> bool:
        """Whether an older namespace of a product that has one is in use, or another namespace of the platform runs its agents."""
        own = self._since.get(namespace, _NEWEST)
        if product.one_of and any(self._since.get(name, own) < own for name in product.namespaces):
            return True
        homes = {at for at, name in self._daemonsets if at not in product.namespaces and _matches(name, product.agents)}
        return any(self.is_proven(at) for at in homes if not (at in self._defaults and PRODUCT_OF.get(at, product).agents))

    def is_proven(self, namespace: str) -> bool:
        """Whether a namespace is surely the platform's: no tenant makes pods there."""
        return self.why(namespace) not in ("", _UNREAD)

    def is_default_name(self, namespace: str) -> bool:
        """Whether a default name alone makes a namespace the platform's, because what would prove its product was not read."""
        return self.why(namespace) == _UNREAD

    def has_usual_name_only(self, namespace: str) -> bool:
        """Whether nothing but its default name says that a product's namespace is this one, be the product installed or not."""
        return namespace in self._defaults and not self._surely(namespace)

    def is_free(self, namespace: str) -> bool:
        """Whether a namespace has a default name whose product is not installed, or runs elsewhere: any tenant may have taken it."""
        return namespace in self._defaults and not self.why(namespace)

    def is_of_owner(self, namespace: str) -> bool:
        """Whether the policy's owner has named a namespace as the platform's: the default names are nobody's word."""
        return _matches(namespace, self._of_owner)

    def advice(self, namespace: str) -> str:
        """What to do about a namespace whose name sounds like the platform's and that nothing proves to be; else empty.

        A clause to be added to a finding.
        """
        if not namespace or self.why(namespace) or not (self.is_free(namespace) or _matches(namespace, _LOOKS_LIKE_ONE)):
            return ""
        return f"; a name proves nothing: if {namespace} is the platform's, name it in the policy's tenants.moreInfrastructure"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def operators_of(resources: Iterable[tuple[str, Json]]) -> list[Operator]:
    """Operators by their resources, pairs of kind and object. One that its operator ignores says nothing."""
    found = []
    for kind, item in resources:
        meta, status = mapping(item.get("metadata")), mapping(item.get("status"))
        if str(status.get("state")) in IGNORED:
            continue
        found.append(
            Operator(
                kind=kind,
                name=_text(meta.get("name")),
                uid=_text(meta.get("uid")),
                namespace=_text(status.get("namespace")),
                release=release_of(meta),
            )
        )
    return found


def release_of(meta: Json) -> tuple[str, str]:
    """Name and namespace of the Helm release that an object says it is of; empty where it does not."""
    annotations = mapping(meta.get("annotations"))
    return _text(annotations.get(RELEASE)), _text(annotations.get(RELEASE_NAMESPACE))


def proven_by_operators(operators: Iterable[Operator]) -> dict[str, str]:
    """The namespaces that belong to operators alone. ``default`` belongs to everybody, even if an operator runs in it."""
    homes = {namespace: words for operator in operators for namespace, words in operator.homes.items()}
    return {namespace: words for namespace, words in homes.items() if namespace != _SHARED_BY_ALL}


def namespaces_of_runs(classes: Iterable[Json], namespaces: Iterable[Namespace]) -> dict[str, str]:
    """Namespaces that runs of this suite created, as the runs' PriorityClasses prove by UID: ``{namespace: what proves it}``."""
    proofs = proofs_of(classes)
    return {
        item.name: f"created by run {view.run_id} of this suite"
        for item in namespaces
        for view in proofs.values()
        if view.created_here("namespaces", item.name, item.metadata.uid)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
