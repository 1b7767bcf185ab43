"""INV-04: versions of a pool, and of one node by several sources."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from conformance.inv.versions import check_versions
from conformance.policy.model import Accelerators, Policy
from conformance.probes.node_documents import NodeDocument, NodeDocuments
from fixtures.kubernetes.models import Node
from fixtures.nodeprobe.document import Driver, Host
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_scope
from tests.findings import by_name, messages
from tests.hw.documents import of_driver

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
    ("alone", a_pool(NEW), None, {"gpu-0": Outcome.NOT_JUDGED}, "only node of its pool"),
    ("alone, and probed", a_pool(NEW), a_probe("580.95.05"), {}, ""),
    ("no driver is told", a_pool({}, {}), None, {"gpu-0": Outcome.NOT_JUDGED, "gpu-1": Outcome.NOT_JUDGED}, "no source tells its driver"),
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
