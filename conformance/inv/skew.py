"""INV-05: kubelets, control plane, container runtimes and drivers of accelerator nodes go together. Pure.

Facts: docs/facts/kubernetes-versions.md#skew, docs/facts/dra.md#versions-of-drivers.

Facts: docs/facts/container-runtimes.md#cdi.
"""

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.nodes.peers import MAJOR, NVIDIA, driver_version
from fixtures.model.platform.kubernetes_version import least_server_minor, minor_of, server_minor
from fixtures.model.platform.plugin_settings import without_cdi
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding

_OLDER_BY = 3
_DRA_MINOR = 34
_DRA_DRIVER = 580


def check_skew(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node."""
    for node in scope.accelerator_nodes:
        yield _judge(scope, node)


def _judge(scope: Scope, node: Node) -> Finding:
    about = About(subject(node))
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: it has no kubelet of Kubernetes", source="node labels")
    text = node.info.kubelet_version
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
    if any(item.driver == NVIDIA and any(device.body.type != SHAPE_FOR_MACHINES for device in item.devices) for item in drivers):
        version = driver_version(scope, node)
        major = MAJOR.match(version)
        observed += f", driver {version[:40] or 'unknown'}"
        expected += f" and NVIDIA driver {_DRA_DRIVER} or newer"
        if major is None:
            unknown = "neither its slices nor its labels tell the version of the NVIDIA driver"
        elif int(major[1]) < _DRA_DRIVER:
            problems.append(f"its NVIDIA driver is {version[:40]}, and devices through DRA need {_DRA_DRIVER} or newer")
    source = "status.nodeInfo, ResourceSlices, node labels"
    broken, doubt = without_cdi(scope, node)
    if broken and not problems:
        runtime = f"{text[:60]}, {node.info.container_runtime_version[:60]}"
        expected, source = "a kubelet and a container runtime that do CDI", "status.nodeInfo, DaemonSets, ClusterPolicies, ResourceSlices"
        return about.bad(broken, cause="RuntimeWithoutCdi", observed=runtime, expected=expected, source=source)
    problems += [broken] if broken else []
    unknown = unknown or doubt
    if problems:
        return about.bad(listed(problems, 4), cause="VersionsDoNotGoTogether", observed=observed, expected=expected, source=source)
    if unknown:
        return about.undecided(unknown, source=source)
    return about.ok(observed, expected=expected, source=source)
