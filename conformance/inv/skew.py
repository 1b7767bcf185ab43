"""INV-05: kubelets, control plane, container runtimes and drivers of accelerator nodes go together. Pure.

Facts: docs/facts/kubernetes-versions.md#skew, docs/facts/dra.md#versions-of-drivers.

Facts: docs/facts/container-runtimes.md#cdi.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.kubernetes.images import repository, tag_of
from fixtures.kubernetes.models import DaemonSet, Node
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope, matches, subject
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.agents import full_name, is_agent
from fixtures.model.platform.components import mounts_plugin_folder
from fixtures.model.platform.kubernetes_version import least_server_minor, minor_of, server_minor
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding

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


_OLDER_BY = 3
_DRA_MINOR = 34
_DRA_DRIVER = 580
_NVIDIA = "gpu.nvidia.com"
_LABELS = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
_MAJOR = re.compile(r"(\d{1,4})(?:\D|\Z)")


def check_skew(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node."""
    for node in scope.accelerator_nodes:
        yield _judge(scope, node)


def _judge(scope: Scope, node: Node) -> Finding:
    about = About(subject(node))
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: it has no kubelet of Kubernetes", source="node labels")
    text = node.status.node_info.kubelet_version
    kubelet, server, least = minor_of(text), server_minor(scope), least_server_minor(scope)
    drivers = scope.dra_inventory.get(node.name, [])
    expected = "a kubelet not newer than the API server and at most three minor versions older" + (
        f"; for DRA Kubernetes 1.{_DRA_MINOR} or newer" if drivers else ""
    )
    observed = f"kubelet {text[:60] or 'unknown'}, API server {scope.snapshot.version[:60] or 'unknown'}"
    if kubelet is None:
        return about.undecided(f"its kubelet's version is not known: {text[:60] or 'none'}", source="status.nodeInfo")
    problems = []
    if server is not None and kubelet > server:
        problems.append(f"its kubelet 1.{kubelet} is newer than the API server 1.{server}")
    if least is not None and kubelet < least - _OLDER_BY:
        problems.append(f"its kubelet 1.{kubelet} is more than {_OLDER_BY} minor versions older than the API server 1.{least}")
    if drivers and kubelet < _DRA_MINOR:
        names = listed([item.driver for item in drivers])
        problems.append(
            f"it offers devices of {names} through DRA, which is stable from Kubernetes 1.{_DRA_MINOR} on, and runs 1.{kubelet}"
        )
    unknown = ""
    if any(item.driver == _NVIDIA and any(device.body.type != SHAPE_FOR_MACHINES for device in item.devices) for item in drivers):
        version = driver_version(scope, node)
        major = _MAJOR.match(version)
        observed += f", driver {version[:40] or 'unknown'}"
        expected += f" and NVIDIA driver {_DRA_DRIVER} or newer"
        if major is None:
            unknown = "neither its slices nor its labels tell the version of the NVIDIA driver"
        elif int(major[1]) < _DRA_DRIVER:
            problems.append(f"its NVIDIA driver is {version[:40]}, and devices through DRA need {_DRA_DRIVER} or newer")
    source = "status.nodeInfo, ResourceSlices, node labels"
    broken, doubt = without_cdi(scope, node)
    if broken and not problems:
        runtime = f"{text[:60]}, {node.status.node_info.container_runtime_version[:60]}"
        expected, source = "a kubelet and a container runtime that do CDI", "status.nodeInfo, DaemonSets, ClusterPolicies, ResourceSlices"
        return about.bad(broken, cause="RuntimeWithoutCdi", observed=runtime, expected=expected, source=source)
    problems += [broken] if broken else []
    unknown = unknown or doubt
    if problems:
        return about.bad(listed(problems, 4), cause="VersionsDoNotGoTogether", observed=observed, expected=expected, source=source)
    if unknown:
        return about.undecided(unknown, source=source)
    return about.ok(observed, expected=expected, source=source)


def driver_version(scope: Scope, node: Node) -> str:
    """The oldest version that the node's slices name, else the one of its labels."""
    found = {
        version
        for item in scope.dra_inventory.get(node.name, [])
        if item.driver == _NVIDIA
        for device in item.devices
        if (version := device.body.attribute("driverVersion")) and _MAJOR.match(version)
    }
    if found:
        return min(found, key=lambda version: [int(part) for part in re.findall(r"\d{1,9}", version)])
    return next((value for key in _LABELS if (value := node.metadata.label.get(key, ""))), "")
