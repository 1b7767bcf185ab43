"""Stock kubectl against the simulated API server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.kubectl import KUBECTL, needs_kubectl
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import PODS, Web, pod
from tests.watching import PATIENCE

pytestmark = needs_kubectl

Kubectl = Callable[..., subprocess.CompletedProcess[str]]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p1, namespace: default, labels: {app: one}}
spec:
  containers:
  - name: main
    image: registry.example/app:1
    resources: {limits: {nvidia.com/gpu: "1"}}
"""


@pytest.fixture
def kubectl(background: BackgroundServer, tmp_path: Path) -> Kubectl:
    def run(*arguments: str, stdin: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "KUBECONFIG": "/dev/null"}
        command = [str(KUBECTL), "-s", background.url, "--request-timeout=60s", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False)
        assert done.returncode == status, (command, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture
def node(web: Web) -> str:
    status = {
        "capacity": {"nvidia.com/gpu": "8", "cpu": "96"},
        "allocatable": {"nvidia.com/gpu": "8", "cpu": "96"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    }
    labels = {"nvidia.com/gpu.present": "true", "node-role.kubernetes.io/worker": ""}
    web.post("/api/v1/nodes", {"metadata": {"name": "gpu-0", "labels": labels}, "status": status})
    return "gpu-0"


def test_reading(kubectl: Kubectl, web: Web, node: str) -> None:
    web.post(PODS, pod("free", labels={"app": "one"}))
    web.post(PODS, pod("bound", node=node))
    assert kubectl("version").stdout.splitlines()[-1] == "Server Version: v1.37.2+simulated"
    assert kubectl("get", "nodes").stdout.splitlines()[1].split()[:3] == ["gpu-0", "Ready", "worker"]
    assert "CONTAINER-RUNTIME" in kubectl("get", "no", "-o", "wide").stdout
    assert [line.split()[:2] for line in kubectl("get", "pods", "-A").stdout.splitlines()[1:]] == [
        ["default", "bound"],
        ["default", "free"],
    ]
    assert kubectl("get", "po", "-l", "app=one", "-o", "name").stdout == "pod/free\n"
    assert kubectl("get", "po", "--field-selector", "spec.nodeName=gpu-0", "-o", "name").stdout == "pod/bound\n"
    assert msgspec.json.decode(kubectl("get", "pod", "free", "-o", "json").stdout)["kind"] == "Pod"
    assert yaml.safe_load(kubectl("get", "pods", "-o", "yaml").stdout)["kind"] == "List"
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").stdout == "gpu-0"
    assert 'pods "none" not found' in kubectl("get", "pod", "none", status=1).stderr
    described = kubectl("describe", "node", node).stdout
    assert "nvidia.com/gpu:  8" in described
    assert "default                     bound" in described
    assert "Node:         gpu-0/" in kubectl("describe", "pod", "bound").stdout


def test_client_side_apply(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=POD).stdout == "pod/p1 created\n"
    assert kubectl("apply", "-f", "-", stdin=POD).stdout == "pod/p1 unchanged\n"
    changed = POD.replace("app: one", "app: two").replace("app:1", "app:2")
    assert kubectl("apply", "-f", "-", stdin=changed).stdout == "pod/p1 configured\n"
    assert kubectl("get", "pod", "p1", "-o", "jsonpath={.metadata.labels.app} {.spec.containers[0].image}").stdout.endswith(
        "two registry.example/app:2"
    )
    assert kubectl("apply", "--dry-run=server", "-f", "-", stdin=POD).stdout == "pod/p1 configured (server dry run)\n"
    assert "Forbidden: pod updates may not change fields" in kubectl("apply", "-f", "-", stdin=POD.replace('"1"', '"2"'), status=1).stderr


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '%s'}\n"
    assert kubectl("apply", "--server-side", "-f", "-", stdin=config % "1").stdout == "configmap/c serverside-applied\n"
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=config % "2", status=1).stderr
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=config % "2")
    assert kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}").stdout == "2"
    kubectl("create", "-f", "-", stdin=POD)
    taken = kubectl("apply", "--server-side", "-f", "-", stdin=POD)
    assert taken.stdout == "pod/p1 serverside-applied\n"


def test_metadata_verbs(kubectl: Kubectl, web: Web, node: str) -> None:
    assert kubectl("label", "node", node, "zone=a").stdout == "node/gpu-0 labeled\n"
    assert kubectl("annotate", "node", node, "note=x").stdout == "node/gpu-0 annotated\n"
    assert kubectl("taint", "node", node, "nvidia.com/gpu=present:NoSchedule").stdout == "node/gpu-0 tainted\n"
    body = web.get(f"/api/v1/nodes/{node}").body
    assert body["spec"]["taints"] == [{"effect": "NoSchedule", "key": "nvidia.com/gpu", "value": "present"}]
    assert kubectl("taint", "node", node, "nvidia.com/gpu-").stdout == "node/gpu-0 untainted\n"
    assert kubectl("cordon", node).stdout == "node/gpu-0 cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", node).stdout
    kubectl("patch", "node", node, "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/zone"}]')
    kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", '{"status":{"capacity":{"nvidia.com/gpu":"7"}}}')
    body = web.get(f"/api/v1/nodes/{node}").body
    assert ("zone" in body["metadata"]["labels"], body["status"]["capacity"]["nvidia.com/gpu"]) == (False, "7")


def test_verbs_that_send_protobuf_are_told_what_is_read(kubectl: Kubectl) -> None:
    for arguments in (("create", "namespace", "team"), ("auth", "can-i", "list", "pods")):
        refused = kubectl(*arguments, status=1).stderr
        assert "accepted media types include: application/json, application/yaml" in refused


def test_columns_of_quotas(kubectl: Kubectl, web: Web) -> None:
    web.post("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    assert "requests.nvidia.com/gpu: 0/8" in kubectl("get", "quota").stdout


def test_deleting_and_waiting(kubectl: Kubectl, web: Web, node: str) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    assert kubectl("delete", "pod", "p1", "--wait").stdout == 'pod "p1" deleted\n'
    web.post(PODS, pod("bound", node=node))
    kubectl("delete", "pod", "bound", "--wait=false")
    assert "Terminating" in kubectl("get", "pod", "bound").stdout
    kubectl("delete", "pod", "bound", "--force", "--grace-period=0")
    kubectl("wait", "--for=delete", "pod/bound", "--timeout=60s")
    kubectl("apply", "-f", "-", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: team}")
    assert kubectl("delete", "namespace", "team", "--wait").stdout == 'namespace "team" deleted\n'


def test_discovery(kubectl: Kubectl) -> None:
    listed = {line.split()[-1] for line in kubectl("api-resources").stdout.splitlines()[1:]}
    assert {"Pod", "Node", "DaemonSet", "ResourceSlice", "CustomResourceDefinition", "PodDisruptionBudget"} <= listed
    assert "apps/v1" in kubectl("api-versions").stdout.splitlines()


def test_custom_resources(kubectl: Kubectl) -> None:
    widget: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(widget))
    assert kubectl("get", "wd").stdout.split()[:3] == ["NAME", "AGE", "w"]
    widget["spec"]["size"] = 4
    assert kubectl("apply", "-f", "-", stdin=yaml.safe_dump(widget)).stdout == "widget.example.com/w configured\n"


def test_watching(kubectl: Kubectl, web: Web) -> None:
    web.post(PODS, pod("a"))
    lines = kubectl("get", "pods", "-w", "--request-timeout=3s").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "a"]
