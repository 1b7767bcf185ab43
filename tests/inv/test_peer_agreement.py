from typing import Any

import msgspec
import pytest

from conformance.common_findings import unless_settling
from conformance.inv.versions import check_peers
from conformance.probes.node_documents import NodeDocuments
from fixtures.kubernetes.models import Node
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.hw.documents import a_document
from tests.nodeprobe.tables import Table
from tests.tables import each_row

EFA = "vpc.amazonaws.com/efa"


def findings(*nodes: Node, **more: Any) -> dict[str, Finding]:
    scope = a_scope(nodes=list(nodes), **more)
    return {finding.subject.name: finding for finding in unless_settling(scope, check_peers(scope, NodeDocuments()))}


def outcomes(*nodes: Node, **more: Any) -> dict[str, str]:
    return {name: finding.outcome.value for name, finding in findings(*nodes, **more).items()}


def some(count: int, first: int = 0, **more: Any) -> list[Node]:
    return [a_node(f"gpu-{first + n}", **more) for n in range(count)]


def created(node: Node, text: str) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, creation_timestamp=text))


def kernel(node: Node, version: str) -> Node:
    info = msgspec.structs.replace(node.status.node_info, kernel_version=version)
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, node_info=info))


def test_a_node_whose_discovery_labels_went_is_compared_with_those_that_are_like_it() -> None:
    bare = a_node("gpu-2", gpus=4, product="")
    assert outcomes(*some(2), bare)["gpu-2"] == "bad"


@pytest.mark.parametrize("product", ["", "NVIDIA-H100-80GB-HBM3"])
def test_nodes_of_two_vendors_are_no_peers_though_only_their_resources_tell(product: str) -> None:
    intel = [a_node(f"intel-{n}", gpus=0, product="", capacity={"gpu.intel.com/i915": "4"}) for n in range(2)]
    assert set(outcomes(*some(2, product=product), *intel).values()) == {"ok"}
    lame = a_node("intel-2", gpus=0, product="", capacity={"gpu.intel.com/i915": "3"})
    assert [name for name, outcome in outcomes(*some(2, product=product), *intel, lame).items() if outcome == "bad"] == ["intel-2"]


def test_a_node_that_lost_its_only_resource_is_compared_with_those_that_are_like_it() -> None:
    lost = a_node("gpu-2", gpus=0, product="", labels={"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"})
    assert outcomes(*some(2, product=""), lost) == {"gpu-0": "ok", "gpu-1": "ok", "gpu-2": "bad"}


@each_row
def test_nodes_that_somebody_set_up_otherwise_are_no_peers(labels: dict[str, str]) -> None:
    labels = {key: value or "true" for key, value in labels.items()}
    usual = {key: "another" for key in labels if "role" not in key}
    nodes = [*some(2, labels=usual, capacity={EFA: "32"}), *some(2, first=2, gpus=1, labels=labels)]
    assert set(outcomes(*nodes).values()) == {"ok"}


def test_a_label_that_names_each_node_names_no_pool() -> None:
    nodes = [a_node(f"gpu-{n}", gpus=7 if n == 2 else 8, labels={"example.com/pool": f"gpu-{n}"}) for n in range(3)]
    assert outcomes(*nodes)["gpu-2"] == "bad"


def test_devices_that_are_withheld_on_purpose_are_not_missed() -> None:
    off = a_node("gpu-2", gpus=7, labels={"nvidia.com/gpu.deploy.operands": "false"}, capacity={"nvidia.com/gpu": "0"})
    assert outcomes(*some(2), off) == {"gpu-0": "ok", "gpu-1": "ok"}


def test_versions_that_differ_are_advice() -> None:
    nodes = [kernel(node, "6.8.0-45") for node in some(2)] + [kernel(a_node("gpu-2"), "6.8.0-31")]
    found = findings(*nodes)
    assert found["gpu-2"].outcome is Outcome.ADVISED
    assert "gpu-2 has kernel 6.8.0-31, the others of its pool 6.8.0-45" in found["gpu-2"].message
    driver = {"nvidia.com/cuda.driver.major": "580", "nvidia.com/cuda.driver.minor": "82"}
    older = {**driver, "nvidia.com/cuda.driver.major": "570"}
    assert outcomes(*some(2, labels=driver), a_node("gpu-2", labels=older))["gpu-2"] == "advised"
    assert (
        outcomes(*some(3, labels={"amd.com/gpu.firmware": "1.2"}), a_node("gpu-3", labels={"amd.com/gpu.firmware": "1.1"}))["gpu-3"]
        == "advised"
    )


def test_images_of_agents_that_two_daemonsets_run_in_one_pool_are_compared_but_not_in_a_roll_out() -> None:
    def world(**status: int) -> dict[str, Any]:
        sets = [a_daemonset(name, desired=2 if name == "driver-a" else 1, status=dict(status)) for name in ("driver-a", "driver-b")]
        images = {"gpu-0": "driver-a", "gpu-1": "driver-a", "gpu-2": "driver-b"}
        pods = [
            a_pod(
                f"{name}-{node}",
                "gpu-operator",
                node=node,
                owner=f"DaemonSet/{name}",
                containers=[{"name": "driver", "image": f"nvcr.io/nvidia/driver:{'580' if name == 'driver-a' else '570'}"}],
                status={"conditions": [{"type": "Ready", "status": "True"}]},
            )
            for node, name in images.items()
        ]
        return {"apps__daemonsets": sets, "pods": pods}

    assert outcomes(*some(3), **world())["gpu-2"] == "advised"
    assert outcomes(*some(3), **world(updatedNumberScheduled=0))["gpu-2"] == "ok"


def test_a_node_that_joined_a_minute_ago_or_is_being_changed_is_asked_again() -> None:
    young = created(a_node("gpu-2", gpus=0, labels={"nvidia.com/gpu.present": "true"}), "2100-01-01T00:00:00Z")
    found = findings(*some(2), young)
    assert found["gpu-2"].outcome is Outcome.UNDECIDED
    assert "ask again" in found["gpu-2"].message
    for label in ({"nvidia.com/mig.config.state": "rebooting"}, {"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}):
        assert outcomes(*some(2), a_node("gpu-2", gpus=7, labels=label))["gpu-2"] == "undecided"
    waiting = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}
    assert outcomes(*some(2), a_node("gpu-2", gpus=7, labels=waiting))["gpu-2"] == "bad"


def test_the_policy_allows_differences_by_name() -> None:
    policy = a_policy(accelerators={"allowedDifferences": ["nvidia.com/gpu"]})
    assert outcomes(*some(2), a_node("gpu-2", gpus=7), policy=policy)["gpu-2"] == "ok"


@pytest.mark.parametrize(
    ("models", "outcome"),
    [
        ([{}, {}, {"3.memory.total": 40 << 30}], "bad"),
        ([{}, {}, {"3.name": "NVIDIA H100 PCIe"}], "bad"),
        ([{}, {"3.memory.total": 40 << 30}, {"3.memory.total": 40 << 30}], "ok"),  # such boards are usual here
        ([{}, {}, {"3.memory.total": (80 << 30) - (9 << 20)}], "ok"),  # what a driver keeps for itself
        ([{}, {"3.memory.total": 40 << 30}], "ok"),  # of two, nobody tells which is unlike
    ],
)
def test_a_board_of_another_model_or_size_differs_from_its_pool(models: list[Table], outcome: str) -> None:
    read = {f"gpu-{n}": a_document(faults=faults, name=f"gpu-{n}") for n, faults in enumerate(models)}
    scope = a_scope(nodes=some(len(models)))
    found = {one.subject.name: one.outcome.value for one in check_peers(scope, NodeDocuments(by_node=read))}
    assert found[f"gpu-{len(models) - 1}"] == outcome
