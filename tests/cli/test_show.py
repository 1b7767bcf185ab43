"""What ``show`` says of nodes, pods and devices: the answer first, then rows with source and time."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.cli.main import main
from fixtures.kubernetes.models import Json
from tests.builders import H100
from tests.simulated import simulated
from tests.tables import each_row

HEARTBEAT = "2026-03-01T11:55:00Z"
"""The snapshot counts as taken five minutes later: at noon."""
OWN = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-03-01T09:00:00Z"}


def a_node(name: str = "gpu-0", *, taints: Sequence[Json] = (), labels: Json | None = None, spec: Json | None = None, **meta: Any) -> Json:
    """A Ready node with eight devices, as kubectl prints it."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": HEARTBEAT, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": H100, **(labels or {})},
            **meta,
        },
        "spec": {"taints": [OWN, *taints], **(spec or {})},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def written_by(manager: str, *path: str) -> Json:
    """managedFields by which a manager wrote one field three hours ago."""
    fields: Json = {}
    for name in reversed(path):
        fields = {name: fields}
    return {"managedFields": [{"manager": manager, "operation": "Update", "time": "2026-03-01T09:00:00Z", "fieldsV1": fields}]}


def says(kind: str, status: str = "True", **more: str) -> Json:
    node = a_node()
    node["status"]["conditions"].append({"type": kind, "status": status, "lastTransitionTime": "2026-03-01T08:00:00Z", **more})
    return node


def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str, *objects: Json) -> Json:
    """The answer of ``show … --json`` over a snapshot of these objects."""
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    code = main(["show", kind, name, "--snapshot", str(tmp_path), "--json"])
    found = capsys.readouterr()
    assert code == 0, found.err
    answer: Json = json.loads(found.out)
    return answer


def rows(answer: Json, about: str) -> dict[str, str]:
    return {fact["name"]: fact["value"] for fact in answer["facts"] if fact["about"] == about}


UNSCHEDULABLE = ("f:spec", "f:unschedulable")
NODES = {
    "in service": (a_node(), "may take work", "gpu-0 may take work"),
    "cordoned by a person": (
        a_node(spec={"unschedulable": True}, taints=[CORDON], **written_by("alice", *UNSCHEDULABLE)),
        "may not take work",
        "cordoned by alice for 3 h (spec.unschedulable, timeAdded of taint node.kubernetes.io/unschedulable)",
    ),
    "cordoned by NVSentinel": (
        a_node(spec={"unschedulable": True}, taints=[CORDON], **written_by("fault-quarantine", *UNSCHEDULABLE)),
        "may not take work",
        "cordoned by NVSentinel for 3 h",
    ),
    "tainted for an Xid": (
        a_node(taints=[{"key": "nvidia.com/gpu-xid-error", "effect": "NoSchedule", "timeAdded": "2026-03-01T11:00:00Z"}]),
        "may not take work",
        "has the taint nvidia.com/gpu-xid-error:NoSchedule for 1 h (spec.taints[nvidia.com/gpu-xid-error]",
    ),
    "a fault that keeps no pod away": (
        says("GPUMissing"),
        "may not take work",
        "for 4 h (node.status.conditions, condition GPUMissing); sche",
    ),
    "an announced end": (says("VMEventScheduled"), "may take work", "gpu-0 may take work, but it has VMEventScheduled=True"),
    "its MIG mode changes": (a_node(labels={"nvidia.com/mig.config.state": "pending"}), "may not take work", "its MIG manager is at work"),
    "hostile words": (says("GPUMissing", message="\x1b[2J" + "x" * 9000 + "\n##[error]"), "may not take work", "GPUMissing=True"),
}


@pytest.mark.parametrize(("node", "state", "words"), NODES.values(), ids=NODES)
def test_a_node_is_answered_in_one_sentence(node: Json, state: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(tmp_path, capsys, "node", "gpu-0", node, a_node("gpu-1"))
    assert (answer["state"], answer["kind"], answer["name"]) == (state, "Node", "gpu-0")
    assert words in answer["answer"]
    assert answer["answer"].isprintable()
    assert len(answer["answer"]) < 2000
    assert bool(rows(answer, "against it")) == ("may not" in state or "but" in words)
    assert all(fact["source"] for fact in answer["facts"])
    assert "the snapshot holds no pods" in answer["notRead"], "and what pods hold is not shown as nothing"
    assert rows(answer, "devices")["nvidia.com/gpu"] == "8 capacity, 8 allocatable, held: not known"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_devices_are_counted_with_who_holds_them(resource: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = a_node()
    node["status"]["capacity"] = node["status"]["allocatable"] = {"cpu": "64", "pods": "110", resource: "8"}
    held, other = (a_pod(name, f"gpu-{at}", 3, resource=resource) for at, name in enumerate(("train-0", "other")))
    answer = asked(tmp_path, capsys, "node", "gpu-0", node, a_node("gpu-1"), held, other)
    assert answer["answer"] == f"gpu-0 may take work; free: 5 of 8 {resource}"
    assert rows(answer, "devices")[resource] == "8 capacity, 8 allocatable, 3 held, 5 free"
    assert rows(answer, "pods") == {"team-a/train-0": f"holds 3 {resource}"}


@pytest.mark.parametrize("columns", [80, 160])
def test_a_table_is_as_wide_as_asked_and_says_the_same(columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_node(), a_node("gpu-1")]}))
    assert main(["show", "node", "gpu-0", "--snapshot", str(tmp_path), "--columns", str(columns)]) == 0
    text = capsys.readouterr().out
    table = text.partition("\n\n")[2].partition("Not known")[0]
    assert max(map(len, table.splitlines())) <= columns
    assert all(words in text for words in ("may take work", H100, "metadata.creationTimestamp", "59 days ago"))


def a_pod(
    name: str, node: str = "", devices: int = 1, *, resource: str = "nvidia.com/gpu", status: Json | None = None, **spec: Any
) -> Json:
    amounts = {resource: str(devices)}
    containers = [{"name": "main", "image": "a", "resources": {"limits": amounts, "requests": amounts}}]
    own = {"containers": containers, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "creationTimestamp": "2026-03-01T09:00:00Z"},
        "spec": own | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending", **(status or {})},
    }


@each_row
def test_what_cannot_be_shown_ends_with_its_reason(
    words: list[str], code: int, reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, item in (("DIR", a_node()), ("EMPTY", a_pod("train-0"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.json").write_text(json.dumps(item))
    paths = {name: str(tmp_path / name) for name in ("DIR", "EMPTY")}
    assert main(["show", *(paths.get(word, word) for word in words)]) == code
    assert reported in capsys.readouterr().err


def a_claim(name: str, device: str = "", pod: str = "") -> Json:
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-0", "device": device}
    status: Json = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}]}
    wanted = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    return {**of("resource.k8s.io/v1", "ResourceClaim", name, namespace="team-a"), "spec": wanted, "status": status if device else {}}


def of(version: str, kind: str, name: str, **meta: str) -> Json:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-02-01T00:00:00Z", **meta},
    }


TAINT = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": "2026-03-01T10:00:00Z"}
DEVICES: list[Json] = [
    {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-aaaa"}, "type": {"string": "gpu"}}},
    {"name": "gpu-1", "attributes": {"uuid": {"string": "GPU-bbbb"}, "type": {"string": "gpu"}}, "taints": [TAINT]},
    {"name": "gpu-2", "attributes": {"uuid": {"string": "GPU-cccc"}, "type": {"string": "gpu"}}},
]
SLICE = {"driver": "gpu.nvidia.com", "nodeName": "gpu-0", "pool": {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}}
CLASS = {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}
DRA: list[Json] = [
    {**of("resource.k8s.io/v1", "ResourceSlice", "slice"), "spec": {**SLICE, "devices": DEVICES}},
    {**of("resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com"), "spec": CLASS},
    a_claim("mine", "gpu-0", "train-0"),
    a_claim("waiting"),
]
ENTRY: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
XID = {"key": "nvidia.com/gpu-xid-error", "effect": "NoSchedule"}
SAID = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}]}

PODS = {
    "it runs": (a_pod("train-0", "gpu-0", 2), [], "runs", "team-a/train-0 runs on gpu-0 and holds 2 nvidia.com/gpu"),
    "it has ended": (a_pod("train-0", "gpu-0", status={"phase": "Failed", "reason": "Evicted"}), [], "has ended", "as Failed (Evicted)"),
    "it does not start": (
        a_pod("train-0", "gpu-0", status={"phase": "Pending"}),
        [],
        "starts",
        "is bound to gpu-0, holds 1 nvidia.com/gpu",
    ),
    "more than a node has": (a_pod("train-0", devices=16), [], "waits", "it asks for 16 nvidia.com/gpu and the largest node has 8"),
    "not so many are free": (
        a_pod("train-0", devices=4),
        [a_pod("other", "gpu-0", 6)],
        "waits",
        "nvidia.com/gpu: at most 2 free on a node",
    ),
    "a taint": (a_pod("train-0", tolerations=[]), [], "waits", "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule"),
    "a selector": (a_pod("train-0", nodeSelector={"pool": "b"}), [], "waits", "its own selector or affinity excludes every node"),
    "a gate": (
        a_pod("train-0", schedulingGates=[{"name": "acme.example/go"}]),
        [],
        "waits",
        "has waited 3 h behind the scheduling gate acme.example/go",
    ),
    "no claim": (
        a_pod("train-0", devices=0, resourceClaims=[{"name": "gpu", "resourceClaimName": "none"}]),
        DRA,
        "waits",
        "ResourceClaim none does not",
    ),
    "no class": (
        a_pod("train-0", devices=0, resourceClaims=[{"name": "gpu", "resourceClaimName": "waiting"}]),
        [DRA[0], DRA[3], {**DRA[1], "metadata": {"name": "other"}}],
        "waits",
        "DeviceClass gpu.nvidia.com, which does not exist",
    ),
    "it holds a claim": (
        a_pod("train-0", "gpu-0", 0, **ENTRY),
        DRA,
        "runs",
        "holds 1 of gpu.nvidia.com, allocated: gpu.nvidia.com/gpu-0/gpu-0",
    ),
}


@pytest.mark.parametrize(("pod", "others", "state", "words"), PODS.values(), ids=PODS)
def test_a_pod_is_answered_with_why_it_got_no_device(
    pod: Json, others: list[Json], state: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not pod["spec"].get("nodeName"):
        pod = {**pod, "status": {"phase": "Pending", **SAID}}
    answer = asked(tmp_path, capsys, "pod", "train-0", a_node(), pod, *others)
    assert (answer["state"], answer["name"]) == (state, "team-a/train-0")
    assert words in answer["answer"]
    waits = rows(answer, "why it waits")
    assert (waits.get("default-scheduler says") == "0/2 nodes are available") == (state == "waits")


def test_a_pods_devices_are_named_where_the_cluster_knows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(tmp_path, capsys, "pod", "team-a/train-0", a_node(), a_pod("train-0", "gpu-0", 0, **ENTRY), *DRA)
    assert rows(answer, "holds") == {"GPU-aaaa": "by its claim"}
    quota = {
        **of("v1", "ResourceQuota", "gpus", namespace="team-a"),
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
        "status": {"used": {"requests.nvidia.com/gpu": "6"}},
    }
    answer = asked(tmp_path, capsys, "pod", "train-0", a_node(), a_pod("train-0", "gpu-0"), quota)
    assert rows(answer, "quota") == {"requests.nvidia.com/gpu": "8, used: 6"}
    assert "only the kubelet does (PodResources)" in rows(answer, "holds")["which devices"]


@each_row
def test_a_device_is_answered_with_who_holds_it(
    name: str, state: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-dddd"}]}
    stated = a_pod("told", "gpu-0", status={"containerStatuses": [{"name": "main", "allocatedResourcesStatus": [row]}]})
    node = a_node(spec={"unschedulable": True})
    answer = asked(tmp_path, capsys, "device", name, node, a_pod("train-0", "gpu-0", 0, **ENTRY), stated, *DRA)
    assert answer["state"] == state
    assert words in answer["answer"]
    assert answer["answer"].endswith("; gpu-0: cordoned") == (name != "GPU-dddd")
    assert rows(answer, "taints") == ({"by its driver": "gpu.nvidia.com/xid=79:NoSchedule"} if name == "gpu-0/1" else {})


@pytest.mark.test_all
def test_a_live_cluster_is_asked_with_the_rights_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(tmp_path, "dra") as kubeconfig:
        assert main(["show", "device", "h100-0/0", "--kubeconfig", str(kubeconfig)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("*** SIMULATED CLUSTER")
    holder = re.search(r"is held: claim (\S+) for pod (\S+)", text)
    assert holder is not None
    assert main(["show", "node", "h100-0", "--simulate", "healthy,inv-may-not-list-pods", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert any("pods is forbidden" in text for text in answer["notRead"])
    assert "held: not known" in rows(answer, "devices")["nvidia.com/gpu"]
    assert main(["show", "pod", "train-0", "--simulate", "healthy,inv-may-not-list-pods"]) == 10
    assert 'cannot list resource "pods"' in capsys.readouterr().err
