"""Nodes of every vendor and cloud, judged with the arithmetic of ADV."""

import json
from collections.abc import Mapping

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import node_text
from conformance.outputs.captured_text import Unreadable
from tests.tables import table

TABLE = table(__file__)
NODES: list[tuple[str, dict[str, str], dict[str, str]]] = [(name, *row) for name, row in TABLE["NODES"].items()]
LABELS = {name: labels for name, labels, _ in NODES}
AMD, AUTO = LABELS["amd"], LABELS["eks-auto"]
IDS = [row[0] for row in NODES]


def node(labels: Mapping[str, str], capacity: Mapping[str, str] | None, allocatable: Mapping[str, str] | None = None) -> str:
    cpu = {"cpu": "96", "memory": "1Gi", "pods": "110"}
    status: dict[str, object] = {}
    if capacity is not None:
        status = {"capacity": cpu | dict(capacity), "allocatable": {"cpu": "95"} | dict(capacity if allocatable is None else allocatable)}
    metadata = {"name": "n-1", "labels": {"kubernetes.io/os": "linux"} | dict(labels), "annotations": {"amd.com/gpu": "no-label"}}
    return json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": status})


def describe(labels: Mapping[str, str], capacity: Mapping[str, str], allocatable: Mapping[str, str] | None = None) -> str:
    """What ``kubectl describe node`` prints."""
    rows = [f"{key}={value}" for key, value in ({"kubernetes.io/os": "linux"} | dict(labels)).items()]
    lines = ["Name:               n-1", "Roles:              <none>", f"Labels:             {rows[0]}"]
    lines += [f"{'':20}{row}" for row in rows[1:]]
    lines += ["Annotations:        amd.com/gpu: none", "Taints:             nvidia.com/gpu=present:NoSchedule", "Capacity:", "  cpu:  96"]
    lines += [f"  {name}:  {units}" for name, units in capacity.items()]
    lines += ["Allocatable:", "  cpu:  95", *(f"  {name}:  {units}" for name, units in (allocatable or capacity).items())]
    lines += ["System Info:", "  Kernel Version:  6.8", "Allocated resources:", *(f"  {name}  1  1" for name in capacity)]
    return "\n".join(lines) + "\n"


def judged(text: str) -> tuple[str, str]:
    result = inspect("node", text)
    return result.verdict.value, result.reason_code


@pytest.mark.parametrize(("name", "labels", "capacity"), NODES, ids=IDS)
@pytest.mark.parametrize("form", [node, describe])
def test_a_healthy_node_is_good(name: str, labels: dict[str, str], capacity: dict[str, str], form: object) -> None:
    assert callable(form)
    result = inspect("node", form(labels, capacity))
    assert (result.kind, result.verdict) == ("node", "good"), name
    assert result.reason_code in ("CONSISTENT", "ADVERTISED")
    found = result.facts["acceleratorNodes"]
    assert isinstance(found, list)
    (facts,) = found
    assert {key: str(units) for key, units in facts["capacity"].items()} == {k: v for k, v in capacity.items() if "monitoring" not in k}


@pytest.mark.parametrize(("name", "labels", "capacity"), NODES, ids=IDS)
@pytest.mark.parametrize("form", [node, describe])
def test_less_allocatable_than_capacity_is_bad(name: str, labels: dict[str, str], capacity: dict[str, str], form: object) -> None:
    assert callable(form)
    first = next(iter(capacity))
    short = capacity | {first: str(int(capacity[first]) - 1)}
    result = inspect("node", form(labels, capacity, short))
    assert (result.verdict, result.reason_code) == ("bad", "INCONSISTENT"), name
    assert f"allocatable {first} {short[first]}, expected {capacity[first]}" in result.message


@pytest.mark.parametrize(("name", "labels", "capacity"), NODES, ids=IDS)
@pytest.mark.parametrize("form", [node, describe])
def test_a_plugin_that_is_away_is_bad(name: str, labels: dict[str, str], capacity: dict[str, str], form: object) -> None:
    assert callable(form)
    gone = dict.fromkeys(capacity, "0")
    assert judged(form(labels, gone)) == ("bad", "NOT_ADVERTISED"), name
    result = inspect("node", form(labels, {"x.y/z": "1"}))
    assert (result.verdict, result.reason_code) == ("bad", "NOT_ADVERTISED")
    assert "no plugin has registered" in result.message


COUNTED = [row for row in NODES if row[0] not in ("gaudi", "neuron", "aks", "intel-shared")]


@pytest.mark.parametrize(("name", "labels", "capacity"), COUNTED, ids=[row[0] for row in COUNTED])
def test_a_device_that_is_lost_whole_is_bad_where_something_counts_devices(
    name: str, labels: dict[str, str], capacity: dict[str, str]
) -> None:
    first = next(iter(capacity))
    lost = capacity | {first: str(int(capacity[first]) - 1)}
    assert judged(node(labels, lost)) == ("bad", "INCONSISTENT"), name


def test_a_label_that_graphics_of_a_cpu_have_too_proves_no_card() -> None:
    label = {"feature.node.kubernetes.io/pci-1002.present": "true"}
    assert judged(node(label, {"cpu": "16"})) == ("undecidable", "NO_DEVICE_COUNT")
    assert judged(node(label | {"amd.com/gpu.vram": "192G"}, {"cpu": "16"})) == ("bad", "NOT_ADVERTISED")
    assert judged(node({"feature.node.kubernetes.io/pci-1200_1002.present": "true"}, {"cpu": "16"})) == ("bad", "NOT_ADVERTISED")


def test_partitions_of_amd() -> None:
    assert judged(node(AMD | {"amd.com/gpu.compute-memory-partition": "dpx_nps2"}, {"amd.com/gpu": "16"})) == ("good", "CONSISTENT")
    assert judged(node(AMD | {"amd.com/gpu.compute-memory-partition": "dpx_nps2"}, {"amd.com/gpu": "12"})) == ("bad", "INCONSISTENT")


def test_sources_that_count_differently() -> None:
    found = {"nvidia.com/gpu.count": "3", "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.replicas": "1"}
    result = inspect("node", node(AUTO | found, {"nvidia.com/gpu": "3"}))
    assert (result.verdict, result.reason_code) == ("bad", "INCONSISTENT")
    assert "3 by label nvidia.com/gpu.count, 4 by label eks.amazonaws.com/instance-gpu-count" in result.message


def test_a_fabric_that_is_partly_away() -> None:
    capacity = {"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "0"}
    assert judged(node(AUTO, capacity)) == ("good", "CONSISTENT")
    assert judged(node(AUTO, capacity, capacity | {"vpc.amazonaws.com/efa": "31"})) == ("bad", "INCONSISTENT")


@pytest.mark.parametrize("label", [{"nvidia.com/dra-kubelet-plugin": "true"}, {"nvidia.com/gpu.deploy.dra-driver": "true"}])
def test_devices_by_claim_are_not_missing(label: dict[str, str]) -> None:
    counted = {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.present": "true"}
    assert judged(node(counted | label, {})) == ("undecidable", "OFFERED_ELSEWHERE")
    assert judged(node({"nvidia.com/gpu.present": "true"} | label, {})) == ("undecidable", "OFFERED_ELSEWHERE")
    assert judged(node(counted, {})) == ("bad", "INCONSISTENT")


def test_devices_of_virtual_machines_are_not_missing() -> None:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.workload.config": "vm-passthrough"}
    assert judged(node(labels, {"nvidia.com/GA102GL_A10": "2"})) == ("undecidable", "OFFERED_ELSEWHERE")


def test_what_the_text_does_not_hold_is_not_judged() -> None:
    assert judged(node(AMD, None)) == ("undecidable", "NO_CAPACITY")
    assert judged(json.dumps(AMD)) == ("undecidable", "NO_CAPACITY")
    assert judged("Name:  cpu-1\nLabels:  kubernetes.io/os=linux\nCapacity:\n  cpu:  4\n") == ("undecidable", "NO_DEVICES")


def test_sections_of_a_description_do_not_leak_into_each_other() -> None:
    (view,) = node_text.parse_nodes(describe(AMD, {"amd.com/gpu": "8"}))
    assert view.capacity == {"amd.com/gpu": "8"}
    assert "amd.com/gpu" not in view.labels
    assert view.labels["amd.com/gpu.vram"] == "192G"


@pytest.mark.parametrize("resource", ["gpu.intel.com/i915", "amd.com/gpu", "nvidia.com/gpu", "aws.amazon.com/neuroncore"])
def test_lines_that_grep_found(resource: str) -> None:
    grepped = "$ kubectl describe node | grep devices\n  {0}:  8\n  {0}:  {1}   # the second is allocatable\n  {0}  0  0\n"
    assert judged(grepped.format(resource, 8)) == ("good", "ADVERTISED")
    assert judged(grepped.format(resource, 7)) == ("bad", "INCONSISTENT")
    two = grepped.format(resource, 8) + grepped.format(resource, 0)
    assert judged(two) == ("bad", "INCONSISTENT")
    assert len(node_text.parse_nodes(two)) == 2
    assert judged(f"{resource}: 8\n")[0] == "undecidable"


@pytest.mark.parametrize("resource", ["habana.ai/gaudi", "nvidia.com/gpu"])
def test_what_a_pod_asks_for_is_nothing_that_a_node_has(resource: str) -> None:
    described = f"    Limits:\n      {resource}:  8\n      memory:  1Gi\n    Requests:\n      {resource}:  8\n    Environment:  <none>\n"
    template = f"  resources:\n    limits:\n      {resource}: 1\n    requests:\n      {resource}: 1\n"
    for text in (described, template):
        with pytest.raises(Unreadable):
            node_text.parse_nodes(text)


def test_what_jq_leaves_of_a_node() -> None:
    amounts = {"cpu": "8", "memory": "1Gi", "amd.com/gpu": "8"}
    both = {"capacity": amounts, "allocatable": amounts}
    assert judged(json.dumps(both)) == ("good", "ADVERTISED")
    assert judged(json.dumps(both | {"allocatable": amounts | {"amd.com/gpu": "6"}})) == ("bad", "INCONSISTENT")
    assert judged(json.dumps(amounts)) == ("undecidable", "NO_DEVICE_COUNT")
    stream = "\n".join(json.dumps(item, indent=2) for item in (both, both | {"allocatable": {}}))
    assert judged(stream) == ("bad", "INCONSISTENT")
