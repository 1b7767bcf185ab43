"""What kubelets say of who holds which device: their PodResources, read by a pod of the run on the node.

The socket is root's and on the host. So a pod reads it only where the policy lets a privileged one look (``probes.wholeNodes``), in the
image of the suite, which has the program. Facts: docs/facts/kubelet.md#podresources.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.probes.running import pinned_pod, run_pods
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.pod_resources import PROGRAM, SOCKET, PodResources
from fixtures.model.cluster import Scope
from fixtures.model.devices.given import listed_by_kubelet
from fixtures.probes.workspace import Workspace
from fixtures.text import json_text

_FOLDER = SOCKET.rpartition("/")[0]
_LIMITS = {"cpu": "500m", "memory": "192Mi"}


def read_kubelets(scope: Scope, workspace: Workspace, nodes: Sequence[Node]) -> dict[tuple[str, str], set[str]]:
    """UUIDs of what pods hold on these nodes, by namespace and name. A kubelet that gives no answer says nothing of its pods."""
    probes = scope.policy.probes
    if probes.whole_nodes != "privileged" or not probes.suite_image or not nodes:
        return {}
    pods = [_reader(scope, node, f"obs-09-kubelet-{number}") for number, node in enumerate(nodes)]
    ran = run_pods(workspace, pods, probes.start_seconds, workspace.namespace("privileged"))
    found: dict[tuple[str, str], set[str]] = {}
    for one in ran.values():
        try:
            document: PodResources = json_text.decode(one.logs.get("probe", "").encode(), PodResources)
        except json_text.NotJson:
            continue
        found |= listed_by_kubelet(document, scope.is_device)
    return found


def _reader(scope: Scope, node: Node, name: str) -> Json:
    pod = pinned_pod(scope, node, name, PROGRAM, image=scope.policy.probes.suite_image, limits=_LIMITS)
    pod["spec"]["securityContext"] = {"runAsUser": 0}
    pod["spec"]["volumes"] = [{"name": "pod-resources", "hostPath": {"path": _FOLDER, "type": "Directory"}}]
    container = pod["spec"]["containers"][0]
    container["securityContext"] = {"privileged": True}  # where SELinux is enforced, the socket is closed to any other
    container["volumeMounts"] = [{"name": "pod-resources", "mountPath": _FOLDER}]
    return pod
