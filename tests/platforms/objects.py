"""Objects of small healthy clusters, short to write: what is not said is what every healthy cluster has."""

from collections.abc import Mapping, Sequence
from typing import Any

from fixtures.kubernetes.models import Json

OLD = "2026-10-01T08:00:00Z"
SECURE: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PSA = "pod-security.kubernetes.io/"


def meta(name: str, namespace: str = "", **more: Any) -> Json:
    uid = f"uid-{namespace}-{name}"
    return {"name": name, **({"namespace": namespace} if namespace else {}), "uid": uid, "creationTimestamp": OLD, **more}


def taint(text: str) -> Json:
    """``key=value:Effect`` or ``key:Effect``."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(
    name: str,
    devices: Mapping[str, int | str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    *,
    allocatable: Mapping[str, int | str] | None = None,
    annotations: Mapping[str, str] | None = None,
    kubelet: str = "v1.34.2",
    system: str = "Ubuntu 22.04.5 LTS",
    provider: str = "",
) -> Json:
    """A node that is Ready and old."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", **{key: str(value) for key, value in (devices or {}).items()}}
    info = {
        "kubeletVersion": kubelet,
        "osImage": system,
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.8.0-60-generic",
        "architecture": "amd64",
        "operatingSystem": "linux",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": OLD, "lastHeartbeatTime": "2026-11-21T11:58:00Z"}
    offered = {**amounts, **{key: str(value) for key, value in (allocatable or {}).items()}}
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=own, annotations=dict(annotations or {})),
        "spec": {"taints": [taint(text) for text in taints], **({"providerID": provider} if provider else {})},
        "status": {"capacity": amounts, "allocatable": offered, "conditions": [ready], "nodeInfo": info},
    }


def namespace(name: str, level: str = "restricted", **labels: str) -> Json:
    """A namespace that enforces a level of Pod Security; ``""``: none."""
    enforced = {f"{PSA}{mode}": level for mode in ("enforce", "warn", "audit")} if level else {}
    pinned = {f"{PSA}enforce-version": "v1.34"} if level else {}
    every = {"kubernetes.io/metadata.name": name, **enforced, **pinned, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, labels=every)}


def container(name: str = "main", devices: Mapping[str, int | str] | None = None, *, image: str = "", **more: Any) -> Json:
    amounts = {key: str(value) for key, value in (devices or {}).items()}
    resources = {"requests": {"cpu": "1", "memory": "1Gi", **amounts}, "limits": {"cpu": "1", "memory": "1Gi", **amounts}}
    return {"name": name, "image": image or f"registry.example.com/{name}:v1.2.3", "resources": resources, **more}


def toleration(text: str) -> Json:
    """``key:Effect``, or ``*`` for everything."""
    key, _, effect = text.partition(":")
    return {"operator": "Exists", **({} if key == "*" else {"key": key}), **({"effect": effect} if effect else {})}


def running(*containers: Json) -> Json:
    """``status`` of a pod that has run for long."""
    states = [
        {"name": item["name"], "ready": True, "restartCount": 0, "image": item["image"], "state": {"running": {"startedAt": OLD}}}
        for item in containers
    ]
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": OLD} for kind in ("PodScheduled", "Initialized", "Ready")]
    return {"phase": "Running", "startTime": OLD, "containerStatuses": states, "conditions": conditions}


def pod(
    name: str,
    space: str,
    where: str,
    *containers: Json,
    tolerations: Sequence[str] = (),
    owner: Json | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod that runs on a node."""
    own = meta(name, space, labels=dict(labels or {}), annotations=dict(annotations or {}))
    if owner:
        own["ownerReferences"] = [{**owner, "controller": True}]
    made = list(containers) or [container()]
    body = {"containers": made, "nodeName": where, "tolerations": [toleration(text) for text in tolerations], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": body, "status": running(*made)}


def job(
    name: str,
    space: str,
    where: str,
    devices: Mapping[str, int | str],
    *,
    select: Mapping[str, str],
    tolerations: Sequence[str] = (),
    security: Json | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A tenant's pod with devices that satisfies ``restricted``."""
    shared = {"name": "shm", "mountPath": "/dev/shm"}
    main = container("train", devices, securityContext=SECURE if security is None else security, volumeMounts=[shared])
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, *spec.pop("volumes", ())]
    return pod(
        name,
        space,
        where,
        main,
        tolerations=tolerations,
        labels=labels,
        annotations=annotations,
        nodeSelector=dict(select),
        volumes=volumes,
        **spec,
    )


def daemonset(
    name: str,
    space: str,
    nodes: Sequence[str],
    *,
    image: str,
    select: Mapping[str, str],
    tolerations: Sequence[str] = ("*",),
    owner: Json | None = None,
    mounts: Mapping[str, str] | None = None,
    **more: Any,
) -> list[Json]:
    """An agent that is rolled out, with its pods. ``mounts`` are folders of the host by the name of their volume."""
    made = container(name, image=image, **more)
    body: Json = {"containers": [made], "nodeSelector": dict(select), "tolerations": [toleration(text) for text in tolerations]}
    if mounts:
        body["volumes"] = [{"name": volume, "hostPath": {"path": path}} for volume, path in mounts.items()]
    selector = {"app": name}
    own = meta(name, space, generation=1, labels=selector)
    if owner:
        own["ownerReferences"] = [{**owner, "controller": True}]
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
    item = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": own,
        "spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": selector}, "spec": body}},
        "status": {**dict.fromkeys(numbers, len(nodes)), "observedGeneration": 1, "numberMisscheduled": 0},
    }
    volumes = {"volumes": body["volumes"]} if mounts else {}
    by = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": own["uid"]}
    pods = [
        pod(f"{name}-{index}", space, where, made, owner=by, labels=selector, tolerations=tolerations, nodeSelector=dict(select), **volumes)
        for index, where in enumerate(nodes)
    ]
    return [item, *pods]


def definition(plural: str, group: str, kind: str, scope: str = "Cluster") -> Json:
    """A CustomResourceDefinition that is established."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta(f"{plural}.{group}"),
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def quota(space: str, resource: str, name: str) -> Json:
    """A quota of devices."""
    key = resource if resource.endswith("/devices") else f"requests.{resource}"
    spec, status = {"hard": {key: "10000"}}, {"hard": {key: "10000"}, "used": {key: "0"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta(name, space), "spec": spec, "status": status}


def base(*, kubelet: str = "v1.34.2", system: str = "Ubuntu 22.04.5 LTS", provider: str = "", **labels: str) -> list[Json]:
    """What every cluster has: its own namespaces, a node without devices and CoreDNS on it, and the first right of RBAC."""
    spaces = [namespace(name, "") for name in ("default", "kube-node-lease", "kube-public", "kube-system")]
    cpu = node("cpu-0", labels=labels, kubelet=kubelet, system=system, provider=provider)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}
    rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": meta("cluster-admin")}
    return [*spaces, cpu, pod("coredns-0", "kube-system", "cpu-0"), {**rights, "roleRef": role, "subjects": [group]}]
