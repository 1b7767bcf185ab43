"""Stock kubectl against the simulated API server."""

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kubernetes import protobuf
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


@pytest.mark.test_all
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


@pytest.mark.test_all
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


MADE = [
    "namespace {}",
    "serviceaccount {}",
    "deployment {} --image=nginx --replicas=0 --port=80",
    "quota {} --hard=cpu=2,requests.nvidia.com/gpu=1 --scopes=BestEffort",
    "configmap {} --from-literal=a=b",
    "secret generic {} --from-literal=a=b",
    "service clusterip {} --tcp=80:http",
    "job {} --image=busybox -- sh -c date",
    "cronjob {} --image=busybox --schedule=@daily -- date",
    "role {} --verb=get,list --resource=pods",
    "clusterrolebinding {} --clusterrole=view --user=x",
    "priorityclass {} --value=-7",
    "poddisruptionbudget {} --selector=app=web --min-available=50%",
]
"""What stock kubectl makes itself, and sends as protobuf."""


@pytest.mark.test_all
@pytest.mark.parametrize("line", MADE)
def test_what_kubectl_makes_itself_is_what_it_would_print(kubectl: Kubectl, line: str) -> None:
    kubectl("create", *line.format("sent").split())
    made, separator, command = line.format("read").partition(" -- ")
    printed = kubectl("create", *made.split(), "--dry-run=client", "-o", "json", *(separator + command).split())
    kubectl("create", "-f", "-", stdin=printed.stdout)
    kind = line.split()[0]
    sent, read = (json.loads(kubectl("get", kind, name, "-o", "json").stdout.replace(name, "NAME")) for name in ("sent", "read"))
    for one in (sent, read):
        labels = one.pop("metadata").get("labels")
        one.pop("status", None)
        one["labels"] = labels
        one.get("spec", {}).pop("clusterIP", None)
        one.get("spec", {}).pop("clusterIPs", None)
    assert without_uids(sent) == without_uids(read)


def without_uids(obj: object) -> str:
    return re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", json.dumps(obj, sort_keys=True))


def test_kubectl_asks_for_rights_in_protobuf(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "list", "pods").stdout == "yes\n"


@pytest.mark.test_all
@given(st.binary(max_size=200))
def test_other_bytes_are_no_protobuf(data: bytes) -> None:
    head = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12" + bytes([len(data) & 0x7F])
    for body in (data, b"k8s\0" + data, head + data):
        with suppress(protobuf.NotProtobuf):
            assert protobuf.decode(body)["kind"]


@pytest.mark.test_all
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


@pytest.mark.test_all
def test_custom_resources(kubectl: Kubectl) -> None:
    widget: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(widget))
    assert kubectl("get", "wd").stdout.split()[:3] == ["NAME", "AGE", "w"]
    widget["spec"]["size"] = 4
    assert kubectl("apply", "-f", "-", stdin=yaml.safe_dump(widget)).stdout == "widget.example.com/w configured\n"
