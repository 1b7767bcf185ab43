"""The devices of a report's inventory: by slice, with claims and owners."""

from typing import Any

import msgspec

from conformance.catalogue import load_catalogue
from conformance.known.inventory import inventory
from conformance.plugin.opening import OpenTarget, WorkerHandover
from conformance.plugin.options import Options
from conformance.plugin.session import State
from conformance.plugin.verdict import conclude
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Evidence, bad, ok
from fixtures.verdict.record import DeviceClaim, PublishedSlice, Target, TargetKind, decode_report, encode
from fixtures.verdict.subjects import Subject
from reports import phrases
from tests.builders import a_cpu_node, a_node, a_pod, a_scope, a_snapshot
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.reports.sample_report import sample_report

TAINT = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}


def used(name: str, device: str, *pods: str, **more: Any) -> Json:
    claim = a_claim(name, device=device, **more)
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-team-a-{pod}"} for pod in pods]
    return claim


def scope_of(*slices: Json, **items: Any) -> Scope:
    return a_scope(nodes=[a_cpu_node("gpu-0"), a_cpu_node("cpu-0")], resourceslices=slices, deviceclasses=[a_class()], **items)


def slices_of(scope: Scope) -> list[PublishedSlice]:
    (row,) = inventory(scope)
    return row.slices


def test_a_slice_lists_its_devices_with_claims_and_their_owners() -> None:
    devices = [a_device("gpu-0"), a_device("gpu-1", taints=[TAINT])]
    pods = [a_pod("train-0", node="gpu-0", owner="Job/train")]
    claims = [used("claim", "gpu-0", "train-0"), used("monitor", "gpu-1", "dcgm", adminAccess=True)]
    (found,) = slices_of(scope_of(a_slice("gpu-0", devices=devices, name="slice-a", generation=3), pods=pods, resourceclaims=claims))
    assert (found.name, found.driver, found.pool, found.generation, found.left_out) == ("slice-a", "gpu.nvidia.com", "gpu-0", 3, 0)
    whole, tainted = found.devices
    assert (whole.name, whole.type, whole.uuid, whole.product) == ("gpu-0", "gpu", "GPU-gpu-0", "NVIDIA H100 80GB HBM3")
    assert whole.claims == [DeviceClaim(namespace="team-a", name="claim", used_by=["train-0"], owner="Job/train")]
    assert (tainted.taint, tainted.claims) == ("gpu.nvidia.com/xid=79:NoSchedule", [])


def test_shares_of_a_device_name_every_claim() -> None:
    device = {**a_device("gpu-0"), "allowMultipleAllocations": True}
    claims = [used(name, "gpu-0", name, shareID=name, consumedCapacity={"shares": "1"}) for name in ("a", "b")]
    (found,) = slices_of(scope_of(a_slice("gpu-0", devices=[device]), resourceclaims=claims))
    assert [(claim.name, claim.used_by, claim.owner, claim.share) for claim in found.devices[0].claims or ()] == [
        ("a", ["a"], "", True),
        ("b", ["b"], "", True),
    ]


def unhealthy(name: str, resource: str, *ids: str, **more: Any) -> Pod:
    report = {"name": resource, "resources": [{"resourceID": one, "health": "Unhealthy"} for one in ids]}
    status = {"name": "main", "state": {"running": {}}, "allocatedResourcesStatus": [report]}
    return a_pod(name, node="gpu-0", status={"containerStatuses": [status]}, **more)


def test_devices_are_held_by_pods_and_by_claims() -> None:
    plugin = a_scope(nodes=[a_node("gpu-0")], pods=[a_pod("a", devices=3, node="gpu-0")])
    assert [(row.held, row.sick) for row in inventory(plugin)] == [(3, 0)]
    devices = [a_device("gpu-0"), a_device("gpu-1")]
    claimed = scope_of(a_slice("gpu-0", devices=devices), resourceclaims=[used("claim", "gpu-0", "train-0")], pods=[])
    assert [(row.held, row.sick) for row in inventory(claimed)] == [(1, 0)]


def test_a_device_is_sick_by_its_plugin_its_taint_its_kubelet_or_its_node() -> None:
    gpu = "nvidia.com/gpu"
    withheld = a_node("gpu-0", allocatable={gpu: "7"})
    told = a_node("gpu-0", labels={"nvidia.com/gpu.health": "degraded"})
    for node, pods, sick in (
        (withheld, [], 1),
        (withheld, [unhealthy("a", gpu, "GPU-1", devices=1)], 1),  # the same device, as far as anybody knows
        (withheld, [unhealthy("a", gpu, "GPU-1", "GPU-2", devices=2)], 2),
        (a_node("gpu-0"), [unhealthy("a", gpu, "0::1", devices=1)], 1),
        (told, [], 1),
    ):
        assert [row.sick for row in inventory(a_scope(nodes=[node], pods=pods))] == [sick]
    entries = [{"name": "gpus", "resourceClaimName": "claim"}]
    pod = unhealthy("train-0", "claim:gpus/one", "k8s.gpu.nvidia.com/claim=a-gpu-0", resourceClaims=entries)
    claims = [used("claim", "gpu-0", "train-0")]
    assert [row.sick for row in inventory(scope_of(a_slice("gpu-0"), pods=[pod], resourceclaims=claims))] == [1]
    tainted = [a_device("gpu-0", taints=[TAINT]), a_device("gpu-1")]
    assert [row.sick for row in inventory(scope_of(a_slice("gpu-0", devices=tainted)))] == [1]


def test_an_earlier_pod_of_that_name_is_no_owner() -> None:
    claim = used("claim", "gpu-0", "train-0")
    claim["status"]["reservedFor"][0]["uid"] = "of an earlier pod"
    pods = [a_pod("train-0", node="gpu-0", owner="Job/train")]
    (found,) = slices_of(scope_of(a_slice("gpu-0"), pods=pods, resourceclaims=[claim]))
    assert [claim.owner for claim in found.devices[0].claims or ()] == [""]


def test_the_report_keeps_them_and_says_them_in_a_line() -> None:
    devices = [a_device("gpu-0"), a_device("gpu-1", taints=[TAINT])]
    rows = inventory(scope_of(a_slice("gpu-0", devices=devices), resourceclaims=[used("claim", "gpu-0", "train-0")]))
    report = decode_report(encode(msgspec.structs.replace(sample_report(), inventory=rows)))
    assert report.inventory == rows
    assert phrases.published_devices(report) == "Devices by DRA: 2 in 1 slice of gpu.nvidia.com; 1 held by claims, 1 tainted"
    assert phrases.published_devices(msgspec.structs.replace(sample_report(), inventory=[])) == ""


def test_a_row_has_the_name_of_the_nodes_pool_where_a_label_names_pools() -> None:
    key = "cloud.google.com/gke-nodepool"
    pools = {"gpu-0": "large", "gpu-1": "large", "gpu-2": "small", "gpu-3": ""}
    named = [a_node(name, labels={key: pool, "kops.k8s.io/instancegroup": name} if pool else {}) for name, pool in pools.items()]
    assert {row.node: row.pool for row in inventory(a_scope(nodes=named))} == pools, "a label of another value on each node names the node"


def test_a_pod_that_did_not_pass_has_the_name_of_its_controller() -> None:
    web = a_pod("web-x", owner="ReplicaSet/web-5d9c", labels={"pod-template-hash": "5d9c"})
    pods = [a_pod("train-0", owner="Job/train"), web, a_pod("bare"), a_pod("other", owner="ReplicaSet/other-77")]
    state, evidence = State(load_catalogue(), Options(), "r1"), Evidence()
    target = Target(kind=TargetKind.LIVE)
    state.opened = OpenTarget(target, None, Policy(), WorkerHandover(target=target, run_id="r1"))
    state.snapshot = a_snapshot(pods=pods)
    for pod in pods:
        evidence(bad(Subject("Pod", pod.name, pod.namespace), cause="NodeNotFenced", observed="x", expected="y"))
    evidence(bad(Subject("Pod", "web-x container", "team-a"), cause="NodeNotFenced", observed="x", expected="y"))
    evidence(ok(Subject("Pod", "train-0", "elsewhere")))
    found = conclude(load_catalogue().by_id["REQ-01"], evidence, None, 0.0, state)
    assert [(one.name, one.owner, one.node) for one in found.subjects] == [
        ("train-0", "Job/train", ""),
        ("web-x", "Deployment/web", ""),
        ("bare", "", ""),
        ("other", "ReplicaSet/other-77", ""),
        ("web-x container", "Deployment/web", ""),
        ("train-0", "", ""),
    ]
