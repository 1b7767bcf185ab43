"""Patterns of the policy that match nothing in the cluster.

A pattern that says what is to be judged and matches nothing leaves a requirement without subjects, and nobody notices a typing
error: it is a shortfall. One that only exempts something leaves nothing unjudged when it matches nothing: it is a note. One that
makes every tenant the platform's leaves the rules for tenants without subjects: it is a shortfall too.
Patterns that are defaults suit many clusters and none of them needs to match.
"""

from collections.abc import Iterable, Iterator

import msgspec

from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import Namespace, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import model_of
from fixtures.policy.model import Policy
from fixtures.snapshot.state import Listing
from fixtures.text.globs import matches
from fixtures.text.sentences import in_order, listed

_DEFAULT = "default"
_LEVELS = ("privileged", "baseline", "restricted")


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern, the policy's key that has it, and the kind of thing that it names."""

    key: str
    pattern: str
    what: str

    def __str__(self) -> str:
        return f"the policy's {self.key} has {self.pattern!r}, and no {self.what} matches it"


def shortfalls(scope: Scope) -> Iterator[str]:
    """Sentences about patterns that say what is to be judged and match nothing."""
    if not scope.policy.tenants.namespaces:
        yield "the policy's tenants.namespaces is empty, so no namespace is a tenant's and nothing of tenants was judged"
    yield from map(str, (*_namespaces(scope), *_resources(scope), *_nodes(scope), *_drivers(scope)))
    if not _tenants_left(scope) and (why := _swallowed(scope) or _passed_over(scope)):
        yield f"the policy leaves no tenant namespace, so nothing of tenants was judged: {why}"


def notes(scope: Scope) -> Iterator[str]:
    """Sentences about patterns that exempt something and match nothing, or that take namespaces with devices from the tenants."""
    yield from map(str, _exemptions(scope))
    left = _tenants_left(scope)
    if swallowed := _swallowed(scope):
        if left:
            yield f"Tenant rules were skipped where a pattern of the policy makes a namespace the platform's: {swallowed}"
    elif left and (passed := _passed_over(scope)):
        yield f"Tenant rules were skipped where pods run or ask for devices: {passed}"
    elif not left and (named := _taken(scope)):
        yield f"no namespace is a tenant's: tenants.infrastructure and moreInfrastructure name {listed(named)}"


def _namespaces(scope: Scope) -> Iterator[Unmatched]:
    names = _names(scope.snapshot.listing("namespaces"))
    if names is None:
        return
    tenants, default = scope.policy.tenants, Policy().tenants
    own = [name for name in names if scope.is_tenant(name)]
    yield from _idle("tenants.namespaces", _written(tenants.namespaces, default.namespaces), own, "tenant namespace")
    yield from _idle("tenants.isolated", tenants.isolated, own, "tenant namespace")
    stricter = [name for name, level in tenants.pod_security_exceptions.items() if _is_stricter(level, tenants.pod_security)]
    for name in stricter:
        if name not in names:
            yield Unmatched(key="tenants.podSecurityExceptions", pattern=name, what="namespace")


def _tenants_left(scope: Scope) -> bool:
    """Whether any namespace is a tenant's, or namespaces could not be read. Every cluster has ``default``, and it may hold no pod."""
    names = _names(scope.snapshot.listing("namespaces"))
    if names is None:
        return True
    pods = scope.snapshot.listing("pods")
    read = pods.known
    used = {pod.namespace for pod in pods.items}
    unused = read and _DEFAULT not in used and _DEFAULT not in scope.policy.tenants.namespaces
    return any(scope.is_tenant(name) and not (name == _DEFAULT and unused) for name in names)


def _taken(scope: Scope) -> list[str]:
    """Namespaces that would be tenants' if the owner had written nothing about the platform's."""
    tenants, default = scope.policy.tenants, Policy().tenants
    usual = msgspec.structs.replace(tenants, infrastructure=default.infrastructure, more_infrastructure=())
    before = Scope(scope.snapshot, msgspec.structs.replace(scope.policy, tenants=usual))
    names = _names(scope.snapshot.listing("namespaces")) or []
    return sorted(name for name in names if before.is_tenant(name) and not scope.is_tenant(name))


def _swallowed(scope: Scope) -> str:
    """Clauses about wildcards that make the platform's what is probably a tenant's; empty where none does.

    A wildcard may match more than its author thought of: it is doubted where it matches every name, or a namespace whose pods ask for
    devices. An exact name is the owner's word, even if devices are used there.
    """
    tenants, default = scope.policy.tenants, Policy().tenants
    written = (
        ("tenants.infrastructure", _written(tenants.infrastructure, default.infrastructure)),
        ("tenants.moreInfrastructure", tenants.more_infrastructure),
    )
    exact = {pattern for _, patterns in written for pattern in patterns}
    taken = [name for name in _taken(scope) if name not in exact]
    if not taken:
        return ""
    pods = scope.snapshot.listing("pods")
    using = {pod.namespace for pod in scope.device_pods} if pods.known else set()
    clauses = []
    for key, patterns in written:
        for pattern in patterns:
            users = [name for name in taken if name in using and matches(name, (pattern,))]
            if users:
                clauses.append(f"{key} has {pattern!r}, and pods in {listed(users)} ask for devices")
            elif not pattern.strip("*?"):
                clauses.append(f"{key} has {pattern!r}, which matches every name")
    return f"{'; '.join(clauses)}; write exact names of the platform's namespaces" if clauses else ""


def _passed_over(scope: Scope) -> str:
    """A clause about tenants.namespaces that leave out every namespace in use: each whose pods ask for devices, or each with pods.

    Empty where they match no namespace at all, which another sentence says.
    """
    names, pods = _names(scope.snapshot.listing("namespaces")), scope.snapshot.listing("pods")
    tenants, default = scope.policy.tenants, Policy().tenants
    if names is None or not pods.known or not _written(tenants.namespaces, default.namespaces):
        return ""
    if not any(map(scope.is_tenant, names)):
        return ""
    every = msgspec.structs.replace(tenants, namespaces=default.namespaces)
    theirs = set(filter(Scope(scope.snapshot, msgspec.structs.replace(scope.policy, tenants=every)).is_tenant, names))
    using = theirs & {pod.namespace for pod in scope.device_pods}
    used = using or theirs & {pod.namespace for pod in pods.items}
    if not used or any(map(scope.is_tenant, used)):
        return ""
    what = "where pods ask for devices" if using else "where pods are"
    patterns = " and ".join(map(repr, tenants.namespaces))
    return f"tenants.namespaces has {patterns}, which matches none of {listed(in_order(used))}, {what}; name the tenants' namespaces"


def _is_stricter(level: str, usual: str) -> bool:
    return _LEVELS.index(level) > _LEVELS.index(usual)


def _resources(scope: Scope) -> Iterator[Unmatched]:
    if _names(scope.snapshot.listing("nodes")) is None:
        return
    offered = {name for node in scope.snapshot.nodes for name in (*node.status.capacity, *node.status.allocatable)}
    policy, default = scope.policy, Policy()
    written = _written(policy.accelerators.resources, default.accelerators.resources)
    yield from _idle("accelerators.resources", written, offered, "resource of a node")
    yield from _idle("network.resources", _written(policy.network.resources, default.network.resources), offered, "resource of a node")


def _nodes(scope: Scope) -> Iterator[Unmatched]:
    if _names(scope.snapshot.listing("nodes")) is None:
        return
    policy, default = scope.policy, Policy()
    labels = {f"{key}={value}" for node in scope.snapshot.nodes for key, value in node.metadata.label.items()}
    for text in _written(policy.accelerators.node_labels, default.accelerators.node_labels):
        if text not in labels:
            yield Unmatched(key="accelerators.nodeLabels", pattern=text, what="label of a node")
    yield from _idle("accelerators.marks", _written(policy.accelerators.marks, default.accelerators.marks), labels, "label of a node")
    keys = {text.partition("=")[0] for text in labels}
    pools = _written(policy.accelerators.pool_labels, default.accelerators.pool_labels)
    yield from _idle("accelerators.poolLabels", pools, keys, "key of a node's label")
    products = {
        product
        for node in scope.snapshot.nodes
        for product in (model_of(node), *map(node.metadata.label.get, ("nvidia.com/gpu.product", INSTANCE_TYPE)))
        if product
    }
    yield from _idle("advertisement.devicesPerNode", policy.advertisement.devices_per_node, products, "product or instance type of a node")


def _drivers(scope: Scope) -> Iterator[Unmatched]:
    listing = scope.snapshot.listing("resource.k8s.io/resourceslices")
    if not listing.known:
        return
    drivers = {str((item.get("spec") or {}).get("driver")) for item in listing.objects}
    written = _written(scope.policy.accelerators.drivers, Policy().accelerators.drivers)
    yield from _idle("accelerators.drivers", written, drivers, "driver of a ResourceSlice")


def _exemptions(scope: Scope) -> Iterator[Unmatched]:
    tenants, policy = scope.policy.tenants, scope.policy
    nodes, namespaces = _names(scope.snapshot.listing("nodes")), _names(scope.snapshot.listing("namespaces"))
    if nodes is not None:
        yield from _idle("accelerators.allowNotJudged", policy.accelerators.allow_not_judged, nodes, "node")
    if namespaces is not None:
        looser = [name for name, level in tenants.pod_security_exceptions.items() if not _is_stricter(level, tenants.pod_security)]
        yield from _idle("tenants.podSecurityExceptions", looser, namespaces, "namespace")
        yield from _idle("tenants.ipcLock", tenants.ipc_lock, namespaces, "namespace")
        yield from _idle("fence.allowedNamespaces", policy.fence.allowed_namespaces, namespaces, "namespace")
        yield from _idle(
            "tenants.infrastructure", _written(tenants.infrastructure, Policy().tenants.infrastructure), namespaces, "namespace"
        )


def _idle(key: str, patterns: Iterable[str], names: Iterable[str], what: str) -> Iterator[Unmatched]:
    known = list(names)
    for pattern in patterns:
        if not any(matches(name, (pattern,)) for name in known):
            yield Unmatched(key=key, pattern=pattern, what=what)


def _written(patterns: Iterable[str], default: Iterable[str]) -> list[str]:
    """The patterns that the owner wrote."""
    known = set(default)
    return [pattern for pattern in patterns if pattern not in known]


def _names(listing: Listing[Node | Namespace]) -> list[str] | None:
    """Names of all objects of a kind; None where they were not read, so that nothing can be said of them."""
    if not (listing.known and listing.served):
        return None
    return [item.metadata.name for item in listing.items]
