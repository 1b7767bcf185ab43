"""Leak scan: all that experiments could have changed in a cluster as a flat mapping, to compare before and after.

Left out is what changes by itself: versions, heartbeats, what conditions say, UIDs and names of pods, timestamps that a restarted labeller
writes.
"""

from collections.abc import Iterable, Iterator

import msgspec

from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.quantity import QuantityError, canonical
from fixtures.kubernetes.untyped import mapping
from fixtures.model.objects import (
    VOLATILE_LABELS,
    amounts_of,
    annotations_of,
    conditions_of,
    full_name,
    is_unschedulable,
    labels_of,
    name_of,
    namespace_of,
    taints_of,
)
from fixtures.ownership import owned

VOLATILE_ANNOTATIONS = (
    "node.alpha.kubernetes.io/ttl",
    "volumes.kubernetes.io/",
    "csi.volume.kubernetes.io/",
    "management.cattle.io/",
    "kubeadm.alpha.kubernetes.io/",
    "update.k8s.io/",
)
"""Prefixes of annotations that controllers write at their own pace."""

SCALED = ("apps/deployments", "apps/statefulsets", "apps/daemonsets")
OWNED = (
    "namespaces",
    "pods",
    "configmaps",
    "services",
    "policy/poddisruptionbudgets",
    "batch/jobs",
    "scheduling.k8s.io/priorityclasses",
    "coordination.k8s.io/leases",
)
"""Kinds in which something of the suite could be left."""


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """``values`` by what they belong to: ``node gpu-1 label a`` → ``b``."""

    values: dict[str, str]

    def differences(self, later: "Fingerprint") -> list[str]:
        """What a later moment shows otherwise, a line each."""
        names = sorted({*self.values, *later.values})
        return [
            f"{name}: {_shown(self.values.get(name))} → {_shown(later.values.get(name))}"
            for name in names
            if self.values.get(name) != later.values.get(name)
        ]


def scan(cluster: Cluster, *, ignore: Iterable[str] = ()) -> Fingerprint:
    """The fingerprint now. ``ignore``: namespaces whose objects are not looked at. Raises ApiTrouble when a list is refused."""
    ignored = frozenset(ignore)
    values: dict[str, str] = {}
    for node in cluster.each("nodes"):
        values |= dict(_node(node))
    for key in SCALED:
        for obj in cluster.each(key):
            values |= dict(_workload(key, obj))
    selector = f"{owned.MANAGED_BY}={owned.SUITE}"
    for key in OWNED:
        for obj in cluster.each(key, labels=selector):
            namespace = namespace_of(obj)
            if namespace not in ignored and name_of(obj) not in ignored:
                values[f"left by the suite: {key} {full_name(obj)}"] = "there"
    return Fingerprint(values=values)


def _node(node: Json) -> Iterator[tuple[str, str]]:
    where = f"node {name_of(node)}"
    yield where, "there"
    yield f"{where} unschedulable", str(bool(is_unschedulable(node))).lower()
    for key, value in labels_of(node).items():
        if key not in VOLATILE_LABELS:
            yield f"{where} label {key}", str(value)
    for key, value in annotations_of(node).items():
        if not key.startswith(VOLATILE_ANNOTATIONS):
            yield f"{where} annotation {key}", value
    for taint in taints_of(node):
        yield f"{where} taint {taint.get('key')}:{taint.get('effect')}", str(taint.get("value") or "")
    for condition in conditions_of(node):
        yield f"{where} condition {condition.get('type')}", "there"
    for amounts in ("capacity", "allocatable"):
        for name, amount in amounts_of(node, amounts).items():
            yield f"{where} {amounts} {name}", _canonical(amount)


def _canonical(amount: object) -> str:
    """One spelling of a quantity: the API server keeps what a kubelet wrote until somebody writes it again (2Gi, 2048Mi)."""
    try:
        return canonical(str(amount))
    except QuantityError:
        return str(amount)


def _workload(key: str, obj: Json) -> Iterator[tuple[str, str]]:
    where = f"{key} {full_name(obj)}"
    yield where, "there"
    if (replicas := mapping(obj, "spec").get("replicas")) is not None:
        yield f"{where} replicas", str(replicas)
    yield f"{where} ready", str(mapping(obj, "status").get("numberReady" if key == "apps/daemonsets" else "readyReplicas") or 0)


def _shown(value: str | None) -> str:
    return "absent" if value is None else repr(value)
