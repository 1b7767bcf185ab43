"""Whether a node's container runtime can do CDI where devices are handed out by it: an older one starts the pod without the device.

Nothing else shows it: plugin, capacity and the pod's status are as on any other node. Facts: docs/facts/container-runtimes.md#cdi.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.kubernetes.images import repository, tag_of
from fixtures.kubernetes.models import DaemonSet, Node
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope, matches
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.agents import full_name, is_agent
from fixtures.model.platform.components import mounts_plugin_folder
from fixtures.model.platform.kubernetes_version import minor_of
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded

_LEAST = {"containerd": (1, 7), "cri-o": (1, 23)}
_KUBELET = 29
"""Kubernetes 1.28 has the field of the plugin's answer behind a gate that is off."""
_RUNTIME = re.compile(r"([a-z-]{1,20})://v?(\d{1,4})\.(\d{1,4})")
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_LEAVES_IT_TO_THE_RUNTIME = (25, 10)
"""Since this release the operator leaves CDI to containerd and CRI-O; before, NVIDIA's own runtime did it."""
_OPERATORS = ("*nvidia*/gpu-operator", "gpu-operator", "*/cloud-native/gpu-operator")


def without_cdi(scope: Scope, node: Node) -> tuple[str, str]:
    """Why pods of a node start without their device, or may do so, as clauses of which one at least is empty.

    Its runtime or its kubelet is too old for CDI, by which something hands the node's devices out.
    """
    kubelet = minor_of(node.status.node_info.kubelet_version)
    if kubelet is not None and kubelet < _KUBELET:
        for daemonset, strategy in _by_plugins(scope, node):
            if "cdi-annotations" not in strategy:
                how = f"{full_name(daemonset)} hands devices out by {strategy} alone"
                return f"its kubelet 1.{kubelet} passes CDI devices on from 1.{_KUBELET} on, and {how}: pods start without the device", ""
    version = node.status.node_info.container_runtime_version
    runtime = _RUNTIME.match(version)
    least = _LEAST.get(runtime[1]) if runtime else None
    if runtime is None or least is None or (int(runtime[2]), int(runtime[3])) >= least:
        return "", ""
    words = f"its runtime is {version[:60]}, {runtime[1]} does CDI from {least[0]}.{least[1]} on"
    if how := next(_ways(scope, node), ""):
        return f"{words}, and {how}: pods start without the device", ""
    if asked := _asked(scope, node) if not scope.cached(_releases) else "":
        return "", f"{words}, and {asked}; whether its operator leaves CDI to the runtime, as from 25.10 on, is not known"
    return "", ""


def _ways(scope: Scope, node: Node) -> Iterator[str]:
    """What hands devices of a node out by CDI of the runtime, as clauses."""
    for item in scope.dra_drivers.get(node.name, ()):
        yield f"{item.driver} prepares claims by CDI"
    for daemonset, strategy in _by_plugins(scope, node):
        yield f"{full_name(daemonset)} hands devices out by {strategy}"
    if max(scope.cached(_releases), default=(0, 0)) >= _LEAVES_IT_TO_THE_RUNTIME and (asked := _asked(scope, node)):
        yield asked


def _by_plugins(scope: Scope, node: Node) -> Iterator[tuple[DaemonSet, str]]:
    """Device plugins of a node that hand devices out by CDI alone, and how."""
    yield from ((item, strategy) for item, strategy in scope.cached(_cdi_plugins) if admits(item.spec.template.spec, node))


def _cdi_plugins(scope: Scope) -> list[tuple[DaemonSet, str]]:
    found = [(item, _by_cdi_alone(item)) for item in scope.snapshot.listing("apps/daemonsets").items]
    return [(item, how) for item, how in found if how and mounts_plugin_folder(item.spec.template.spec) and is_agent(scope, item)]


def _asked(scope: Scope, node: Node) -> str:
    """The ClusterPolicy that asks for CDI on a node of NVIDIA's, as a clause, or empty."""
    if any(name.startswith("nvidia.com/") for name in node.status.capacity):
        for item in scope.snapshot.listing(CLUSTER_POLICIES).objects:
            if mapping(item, "spec", "cdi").get("enabled") is True and is_heeded(item):
                return f"ClusterPolicy {text_of(mapping(item, 'metadata').get('name'))} has cdi.enabled: true"
    return ""


def _by_cdi_alone(daemonset: DaemonSet) -> str:
    """The strategies by which a device plugin hands devices out, if all of them are CDI that the runtime has to do; else empty."""
    for container in daemonset.spec.template.spec.containers:
        env = {text_of(entry.get("name")): text_of(entry.get("value")) for entry in container.env or ()}
        strategy = env.get("DEVICE_LIST_STRATEGY", "")
        own_prefix = env.get("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/") != "cdi.k8s.io/"  # NVIDIA's runtime heeds it
        if strategy and not own_prefix and all(part.strip().startswith("cdi-") for part in strategy.split(",")):
            return strategy
    return ""


def _releases(scope: Scope) -> list[tuple[int, int]]:
    """Releases of NVIDIA's operator that run, by the tags of their images."""
    found = []
    for item in scope.snapshot.listing("apps/deployments").objects:
        if scope.platform_workloads.admits(text_of(mapping(item, "metadata").get("namespace"))):
            for container in mappings(mapping(item, "spec", "template", "spec").get("containers")):
                image = text_of(container.get("image"))
                if matches(repository(image), _OPERATORS) and (release := _RELEASE.match(tag_of(image))):
                    found.append((int(release[1]), int(release[2])))
    return found
