"""INV-05: versions of kubelets, API server and drivers."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from conformance.inv.versions import check_skew, check_versions
from conformance.probes.node_documents import NodeDocument, NodeDocuments
from fixtures.kubernetes.models import DaemonSet, Json, Node, NodeInfo
from fixtures.model.cluster import Scope
from fixtures.nodeprobe.document import Driver, Host
from fixtures.policy.model import Accelerators, Policy
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Outcome
from tests.builders import a_daemonset, a_node, a_scope, a_workload
from tests.dra import a_device, a_slice
from tests.findings import by_name, messages
from tests.hw.documents import of_driver
from tests.tables import each_row


def at(kubelet: str, **labels: str) -> Node:
    node = a_node("gpu-0", labels={key.replace("__", "/"): value for key, value in labels.items()})
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, node_info=NodeInfo(kubelet_version=kubelet)))


def judged(node: Node, server: str = "v1.36.3", slices: list[Json] | None = None) -> Outcome:
    scope = a_scope(nodes=[node], resourceslices=slices or [])
    listings = [scope.snapshot.listing(key) for key in ("nodes", "resource.k8s.io/resourceslices", "resource.k8s.io/devicetaintrules")]
    return by_name(check_skew(Scope(Snapshot(listings, taken_at=0, version=server), scope.policy)))["gpu-0"]


@each_row
def test_kubelets_keep_the_skew(kubelet: str, server: str, outcome: Outcome) -> None:
    assert judged(at(kubelet), server) is outcome


def a_published(version: str) -> list[Json]:
    device = a_device("gpu-0")
    device["attributes"] |= {"driverVersion": {"version": version}} if version else {}
    return [a_slice("gpu-0", devices=[device])]


@each_row
def test_nodes_that_offer_devices_by_claim_need_more(kubelet: str, version: str, outcome: Outcome) -> None:
    assert judged(at(kubelet), slices=a_published(version)) is outcome


def test_labels_tell_the_driver_where_slices_do_not() -> None:
    assert judged(at("v1.36.3", **{"nvidia.com__cuda.driver.major": "570"}), slices=a_published("")) is Outcome.BAD


def test_other_vendors_drivers_have_no_floor_here() -> None:
    amd = a_device("gpu-0")
    amd["attributes"] |= {"driverVersion": {"version": "6.12.12"}}
    assert judged(at("v1.36.3"), slices=[a_slice("gpu-0", "gpu.amd.com", [amd])]) is Outcome.OK


FOLDER = [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
POLICY: Json = {"metadata": {"name": "cluster-policy"}, "spec": {"cdi": {"enabled": True}}, "status": {"state": "ready"}}


def a_plugin(**env: str) -> DaemonSet:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    return a_daemonset(owner="", volumes=FOLDER, containers=[{"name": "p", "image": "plugin:1", "env": listed}])


def an_operator(tag: str) -> Json:
    spec = {"template": {"spec": {"containers": [{"name": "o", "image": f"nvcr.io/nvidia/gpu-operator:{tag}"}]}}}
    return a_workload("Deployment", "gpu-operator", spec, "gpu-operator")


BY_CRI = a_plugin(DEVICE_LIST_STRATEGY="cdi-annotations,cdi-cri")


@each_row
def test_a_kubelet_that_passes_no_cdi_device_on_is_bad(kubelet: str, strategy: str, outcome: Outcome) -> None:
    node = at(kubelet)
    node.status.node_info.container_runtime_version = "containerd://2.1.4"
    scope = a_scope(nodes=[node], daemonsets=[a_plugin(DEVICE_LIST_STRATEGY=strategy)])
    scope.snapshot.version = "v1.30.1"
    assert by_name(check_skew(scope))["gpu-0"] is outcome


@each_row
def test_a_runtime_that_is_too_old_for_cdi_is_bad_where_devices_are_handed_out_by_it(
    runtime: str, world: dict[str, Any], outcome: Outcome
) -> None:
    node = at("v1.36.3", **{"nvidia.com__cuda.driver-version.full": "580.95.05"})
    node.status.node_info.container_runtime_version = runtime
    assert by_name(check_skew(a_scope(nodes=[node], **world)))["gpu-0"] is outcome


# -- INV-04: versions of a pool, and of one node by several sources


DRIVER = "nvidia.com/cuda.driver-version.full"
OLD = {"nvidia.com/cuda.driver.major": "570", "nvidia.com/cuda.driver.minor": "86", "nvidia.com/cuda.driver.rev": "15"}


def a_pool(*labels: Mapping[str, str], kernels: Mapping[int, str] | None = None) -> list[Node]:
    nodes = [a_node(f"gpu-{number}", labels=own) for number, own in enumerate(labels)]
    for number, node in enumerate(nodes):
        node.status.node_info.kernel_version = (kernels or {}).get(number, "6.8.0-87-generic")
    return nodes


def a_probe(driver: str, kernel: str = "6.8.0-87-generic", cuda: str = "13.0") -> NodeDocument:
    return of_driver(Driver(vendor="nvidia", way="nvml", version=driver, cuda=cuda), host=Host(kernel=kernel))  # type: ignore[arg-type]


def in_sandbox(probe: NodeDocument, *, boot: str = "", handler: str = "") -> NodeDocument:
    probe.node.status.node_info.boot_id, probe.document.host.boot_id = "b1" if boot else "", boot
    return msgspec.structs.replace(probe, handler=handler)


NEW = {DRIVER: "580.95.05", "nvidia.com/cuda.runtime-version.full": "13.0"}
CASES = [
    # incident I38: one node of a pool with driver 570 among 580, and all its labels agree with each other
    ("left behind", a_pool(NEW, NEW, {DRIVER: "570.86.15"}), None, {"gpu-2": Outcome.BAD}, "gpu-2 has driver 570.86.15"),
    ("old labels in parts", a_pool(NEW, NEW, OLD), None, {"gpu-2": Outcome.BAD}, "570.86.15"),
    ("only the kernel", a_pool(NEW, NEW, NEW, kernels={1: "6.8.0-31-generic"}), None, {"gpu-1": Outcome.ADVISED}, "kernel 6.8.0-31"),
    ("only CUDA", a_pool(NEW, NEW, {**NEW, "nvidia.com/cuda.runtime-version.full": "12.8"}), None, {"gpu-2": Outcome.ADVISED}, "CUDA 12.8"),
    ("alike", a_pool(NEW, NEW), None, {}, ""),
    # versions of slices have no zeros in front, and labels may say less than the driver
    ("alike, said otherwise", a_pool(NEW, {**NEW, DRIVER: "580.95.05"}), a_probe("580.95.5"), {}, ""),
    ("stale label", a_pool(NEW, NEW), a_probe("590.44.01"), {"gpu-0": Outcome.BAD}, "node probe say 590.44.01 and labels 580.95.05"),
    (
        "booted another kernel",
        a_pool(NEW, NEW),
        a_probe("580.95.05", "6.8.0-90-generic"),
        {"gpu-0": Outcome.BAD},
        "kernel: status.nodeInfo",
    ),
    # a sandbox has a kernel of its own, and by its virtual machine another driver: gVisor names 4.4.0, Kata the guest's
    ("in gVisor", a_pool(NEW, NEW), in_sandbox(a_probe("580.95.05", "4.4.0"), handler="runsc"), {}, ""),
    ("in Kata by its class", a_pool(NEW, NEW), in_sandbox(a_probe("570.86.15", "6.12.42"), handler="kata-qemu-nvidia-gpu"), {}, ""),
    ("in Kata by default", a_pool(NEW, NEW), in_sandbox(a_probe("570.86.15", "6.12.42"), boot="b2"), {}, ""),
    (
        "on the host's kernel",
        a_pool(NEW, NEW),
        in_sandbox(a_probe("590.44.01"), boot="b1", handler="nvidia"),
        {"gpu-0": Outcome.BAD},
        "590",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/391: the label names a CUDA that the driver is not of
    ("CUDA of the label", a_pool(NEW, NEW), a_probe("580.95.05", cuda="12.9"), {"gpu-0": Outcome.BAD}, "CUDA: node probe say 12.9"),
    # https://github.com/NVIDIA/gpu-operator/issues/38, #1622: one host was installed anew, and has a newer kernel
    ("a newer kernel", a_pool(NEW, NEW, NEW, kernels={2: "6.12.40-cloud-amd64"}), None, {"gpu-2": Outcome.ADVISED}, "kernel 6.12.40"),
    # https://github.com/NVIDIA/gpu-feature-discovery/issues/75: labels of one node are missing, which contradicts nobody
    ("labels missing on one", a_pool(NEW, NEW, {}), None, {"gpu-2": Outcome.NOT_JUDGED}, "no source names its driver"),
    ("alone", a_pool(NEW), None, {"gpu-0": Outcome.NOT_JUDGED}, "only node of its pool"),
    ("alone, and probed", a_pool(NEW), a_probe("580.95.05"), {}, ""),
    ("no driver is named", a_pool({}, {}), None, {"gpu-0": Outcome.NOT_JUDGED, "gpu-1": Outcome.NOT_JUDGED}, "no source names its driver"),
]


@pytest.mark.parametrize(("nodes", "probe", "expected", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_versions_are_compared_in_the_pool_and_among_sources(
    nodes: list[Node], probe: NodeDocument | None, expected: dict[str, Outcome], words: str
) -> None:
    documents = NodeDocuments(by_node={"gpu-0": probe} if probe else {})
    findings = list(check_versions(a_scope(nodes=nodes), documents))
    assert by_name(findings) == {**dict.fromkeys((node.name for node in nodes), Outcome.OK), **expected}
    assert words in messages(findings)


def test_a_difference_that_the_policy_allows_is_none() -> None:
    policy = Policy(accelerators=Accelerators(allowed_differences=("driver",)))
    assert set(by_name(check_versions(a_scope(nodes=CASES[0][1], policy=policy), NodeDocuments())).values()) == {Outcome.OK}
