"""Objects for tests, short to write: what is not said is what a healthy NVIDIA cluster has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import DaemonSet, Json, Namespace, Node, Pod, PodSpec, Taint
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.snapshot.state import Listing, Object, Snapshot

FENCE = "nvidia.com/gpu=present:NoSchedule"
H100 = "NVIDIA-H100-80GB-HBM3"
NFD = "feature.node.kubernetes.io/pci-10de.present"


def a_taint(text: str) -> Taint:
    """``key=value:Effect`` or ``key:Effect``."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return Taint(key=key, value=value, effect=effect)


def a_toleration(text: str) -> Json:
    """``key=value:Effect`` (Equal), ``key:Effect`` (Exists), ``*`` (everything), ``*:Effect``."""
    head, _, effect = text.partition(":")
    key, equal, value = head.partition("=")
    found: Json = {"operator": "Equal" if equal else "Exists"}
    if key != "*":
        found["key"] = key
    if equal:
        found["value"] = value
    if effect:
        found["effect"] = effect
    return found


def a_node(
    name: str = "gpu-0",
    *,
    gpus: int = 8,
    resource: str = "nvidia.com/gpu",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (FENCE,),
    capacity: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    ready: bool = True,
    cordoned: bool = False,
    product: str = H100,
) -> Node:
    """A GPU node; ``gpus=0`` is a CPU node without labels and taints."""
    base = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    own: dict[str, str] = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
    if gpus:
        base[resource] = str(gpus)
        own |= {NFD: "true", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product}
    own |= labels or {}
    full = {**base, **(capacity or {})}
    spec: Json = {"taints": [msgspec.to_builtins(a_taint(text)) for text in taints] if gpus else [], "unschedulable": cordoned}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    status = {"capacity": full, "allocatable": {**full, **(allocatable or {})}, "conditions": conditions}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {key: value for key, value in own.items() if value != ""}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def a_cpu_node(name: str = "cpu-0", **more: Any) -> Node:
    """A node without accelerators."""
    return a_node(name, gpus=0, **more)


def a_container(name: str = "main", *, devices: Mapping[str, Any] | int = 0, **more: Any) -> Json:
    """A container; ``devices`` go into requests and limits alike, a number means ``nvidia.com/gpu``."""
    amounts = {"nvidia.com/gpu": str(devices)} if isinstance(devices, int) and devices else dict(devices or {})
    return {"name": name, "image": "registry.example.com/app:1.0", "resources": {"requests": amounts, "limits": amounts}, **more}


def a_spec(*, devices: Mapping[str, Any] | int = 0, tolerations: Sequence[str] = (), **more: Any) -> Json:
    """A pod spec as JSON; ``more`` are fields by their API names."""
    return {
        "containers": [a_container(devices=devices)],
        "tolerations": [a_toleration(text) for text in tolerations],
        **more,
    }


def a_pod(
    name: str = "train-0",
    namespace: str = "team-a",
    *,
    devices: Mapping[str, Any] | int = 0,
    node: str = "",
    phase: str = "",
    owner: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    tolerations: Sequence[str] = (),
    status: Json | None = None,
    **spec: Any,
) -> Pod:
    """A pod; ``owner`` is ``Kind/name``. Bound pods run, others are pending, unless ``phase`` says otherwise."""
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    metadata |= {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    if owner:
        kind, _, owner_name = owner.partition("/")
        metadata["ownerReferences"] = [{"kind": kind, "name": owner_name, "uid": f"uid-{owner_name}", "controller": True}]
    body = a_spec(devices=devices, tolerations=tolerations, **spec)
    if node:
        body["nodeName"] = node
    whole = {"phase": phase or ("Running" if node else "Pending"), **(status or {})}
    return msgspec.convert({"metadata": metadata, "spec": body, "status": whole}, Pod, strict=False)


def a_pod_spec(**more: Any) -> PodSpec:
    """A decoded pod spec."""
    return msgspec.convert(a_spec(**more), PodSpec, strict=False)


def a_workload(kind: str, name: str, spec: Json, namespace: str = "team-a", **more: Any) -> Json:
    """An object of a kind that is read as a dictionary."""
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec, **more}


def a_daemonset(
    name: str = "nvidia-device-plugin-daemonset",
    namespace: str = "gpu-operator",
    *,
    desired: int = 1,
    owner: str = "ClusterPolicy/cluster-policy",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[str] = ("nvidia.com/gpu:NoSchedule",),
    generation: int = 1,
    status: Json | None = None,
    **spec: Any,
) -> DaemonSet:
    """A rolled-out DaemonSet of the operator."""
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": generation}
    if owner:
        kind, _, owner_name = owner.partition("/")
        metadata["ownerReferences"] = [{"kind": kind, "name": owner_name, "uid": f"uid-{owner_name}", "controller": True}]
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
    whole = {**dict.fromkeys(numbers, desired), "observedGeneration": generation, **(status or {})}
    template = {"spec": a_spec(tolerations=tolerations, nodeSelector=dict(node_selector or {}), **spec)}
    return msgspec.convert({"metadata": metadata, "spec": {"template": template}, "status": whole}, DaemonSet, strict=False)


def a_namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace."""
    return msgspec.convert({"metadata": {"name": name, "labels": dict(labels or {})}}, Namespace)


def a_policy(**sections: Any) -> Policy:
    """A policy from sections by their API names: ``a_policy(fence={"allowedNamespaces": ["web"]})``."""
    return msgspec.convert(sections, Policy)


def a_snapshot(
    *,
    offline: bool = False,
    trouble: Mapping[str, str] | None = None,
    served: Iterable[str] | None = None,
    **items: Iterable[Any],
) -> Snapshot:
    """A snapshot of ``nodes=``, ``pods=`` and other kinds by plural (``batch_jobs`` is ``batch/jobs``, see :func:`key_of`).

    Kinds that are not named are empty lists, or not collected when ``offline``. ``served`` is all that the API server serves, by
    kubectl's names; None where that is not known.
    """
    named = {key_of(name): list(values) for name, values in items.items()}
    listings: list[Listing[Object]] = []
    for key in KINDS:
        if trouble and key in trouble:
            listings.append(Listing(key=key, trouble=trouble[key], message="refused"))
        elif key in named:
            listings.append(Listing(key=key, items=named[key]))
        elif not offline:
            listings.append(Listing(key=key))
    groups = {name.partition(".")[2] for name in served or ()}
    return Snapshot(listings, taken_at=1_790_000_000.0, version="v1.36.3", offline=offline, groups=groups, resources=served)


def key_of(name: str) -> str:
    """The resource key of a keyword: its plural (unique ones), or ``group__plural`` with ``_`` for dots."""
    wanted = [
        key for key, kind in KINDS.items() if kind.plural.replace("-", "_") == name or key.replace("/", "__").replace(".", "_") == name
    ]
    assert wanted, f"no kind {name}"
    return min(wanted, key=lambda key: (key.count("."), key))


def a_scope(policy: Policy | None = None, **items: Any) -> Scope:
    """A scope over :func:`a_snapshot`."""
    return Scope(a_snapshot(**items), policy or Policy())
