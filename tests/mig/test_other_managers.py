"""Managers of vGPU and of AMD's partitions say in a label how far they are. Each case is from their source or from a report."""

from typing import Any

from conformance.mig.managers import check_managers, unsettled
from fixtures.kubernetes.models import ConfigMap, Json, Meta, Node
from tests.adv.built import NOW, verdict
from tests.builders import a_node, a_scope
from tests.tables import each_row

AMD = "dcm.amd.com/gpu-config-profile"
VGPU = "nvidia.com/vgpu.config"


def amd(state: str, profile: str = "cpx-nps4") -> Node:
    return a_node(capacity={"amd.com/gpu": "8"}, labels={AMD: profile} | ({f"{AMD}-state": state} if state else {}))


def vgpu(state: str, config: str = "A10-8Q", **deploy: str) -> Node:
    agents = {f"nvidia.com/gpu.deploy.{key.replace('_', '-')}": value for key, value in deploy.items()}
    return a_node(labels={VGPU: config} | ({f"{VGPU}.state": state} if state else {}) | agents)


def written(key: str, minutes: int) -> dict[str, object]:
    at = f"2026-11-20T{11 - minutes // 60:02d}:{59 - minutes % 60:02d}:00Z"
    entry: Json = {"manager": "manager", "time": at, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {}}}}}
    return {"gpu-0": [entry]}


@each_row
def test_state(subject: Node, fields: dict[str, object], wanted: str) -> None:
    assert verdict(check_managers(a_scope(nodes=[subject]), NOW, fields)) == wanted


def test_a_finding_names_the_manager_and_what_was_asked_for() -> None:
    (finding,) = check_managers(a_scope(nodes=[amd("failure")]), NOW, {})
    assert "AMD's device config manager failed to apply cpx-nps4" in finding.message


def test_only_what_has_an_age_is_asked_for_it() -> None:
    nodes = [amd("failure"), vgpu("pending"), vgpu("failed"), amd("success"), a_node()]
    assert [
        node.metadata.label.get(f"{AMD}-state") or node.metadata.label.get(f"{VGPU}.state") for node in unsettled(a_scope(nodes=nodes))
    ] == [
        "failure",
        "pending",
    ]


PARTITION = "amd.com/gpu.compute-memory-partition"
MODEL = {"amd.com/gpu.product-name": "Instinct_MI300X"}
CPX = '{"gpu-config-profiles": {"small": {"profiles": [{"computePartition": "CPX", "numGPUsAssigned": 8}]}}}'


def partitioned(units: int, profile: str, shown: str = "", *, peer: bool = True, text: str = CPX) -> str:
    """The verdict on a node that says success, beside a peer with eight whole devices."""
    labels = {**MODEL, AMD: profile, f"{AMD}-state": "success", **({PARTITION: shown} if shown else {})}
    nodes = [a_node(resource="amd.com/gpu", gpus=units, labels=labels, product="")]
    nodes += [a_node("peer", resource="amd.com/gpu", labels={**MODEL, PARTITION: "spx_nps1"}, product="")] if peer else []
    config = ConfigMap(metadata=Meta(name="config-manager-config", namespace="kube-amd-gpu"), data={"config.json": text})
    return verdict(check_managers(a_scope(nodes=nodes, configmaps=[config]), NOW, {}))


@each_row
def test_success_needs_the_partitions_of_the_profile(units: int, profile: str, shown: str, more: dict[str, Any], wanted: str) -> None:
    """ROCm/gpu-operator#420 and #382, ROCm/k8s-device-plugin#167."""
    assert partitioned(units, profile, shown, **more) == wanted
