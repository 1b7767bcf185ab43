from typing import Any

import pytest

from conformance.inv.judged_nodes import check_agreement
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.sources import sources_by_node
from fixtures.verdict.findings import Outcome
from tests.builders import NFD, a_cpu_node, a_node, a_policy, a_scope
from tests.dra import a_slice
from tests.tables import each_row

_SLICE: Json = a_slice("gpu-1")


def outcomes(**kwargs: Any) -> dict[str, Outcome]:
    return {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(**kwargs))}


def test_devices_offered_by_slices_count_as_offered() -> None:
    by_slice = a_cpu_node("gpu-1", labels={NFD: "true", "nvidia.com/gpu.present": "true"})
    assert outcomes(nodes=[a_node(), by_slice], resourceslices=[_SLICE]) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.OK}


def test_pci_class_labels_are_one_source() -> None:
    other = {NFD: "", "feature.node.kubernetes.io/pci-0302_10de.present": "true"}
    assert outcomes(nodes=[a_node("gpu-0"), a_node("gpu-1", labels=other)]) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.OK}


def test_a_vendor_s_label_says_nothing_about_another_vendor_s_node() -> None:
    labels = {NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": "", "feature.node.kubernetes.io/amd-gpu": "true"}
    amd = a_node("mi300x-0", resource="amd.com/gpu", labels=labels)
    assert outcomes(nodes=[a_node(), amd]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.OK}
    assert "label nvidia.com/gpu.present" not in sources_by_node(a_scope(nodes=[a_node(), amd]))["mi300x-0"]


def test_one_source_alone_is_not_judged() -> None:
    bare = a_node(labels={NFD: "", "nvidia.com/gpu.present": ""})
    assert outcomes(nodes=[bare]) == {"gpu-0": Outcome.NOT_JUDGED}


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.operands=false", "nvidia.com/gpu.workload.config=vm-passthrough"])
def test_devices_withheld_on_purpose_are_not_judged(label: str) -> None:
    key, _, value = label.partition("=")
    withheld = a_cpu_node("vm-0", labels={NFD: "true", key: value})
    assert outcomes(nodes=[a_node(), withheld])["vm-0"] is Outcome.NOT_JUDGED


def test_devices_for_virtual_machines_are_withheld_from_containers() -> None:
    virtual = a_cpu_node("vm-0", labels={NFD: "true"}, capacity={"nvidia.com/GA102GL_A10": "2"})
    assert outcomes(nodes=[a_node(), virtual])["vm-0"] is Outcome.NOT_JUDGED


def test_no_accelerator_node_fails_instead_of_passing() -> None:
    findings = list(check_agreement(a_scope(nodes=[a_cpu_node()])))
    assert [finding.outcome for finding in findings] == [Outcome.BAD]
    assert next(check_agreement(a_scope(a_policy(accelerators={"expectedCount": 0}), nodes=[a_cpu_node()]))).outcome is Outcome.OK


def test_expected_nodes_and_counts() -> None:
    policy = a_policy(accelerators={"expectedNodes": ["gpu-0", "gpu-9"], "expectedCount": 1})
    found = {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(policy, nodes=[a_node()]))}
    assert found == {"gpu-0": Outcome.OK, "gpu-9": Outcome.BAD, "accelerator nodes": Outcome.OK}
    policy = a_policy(accelerators={"expectedCount": 3})
    assert list(check_agreement(a_scope(policy, nodes=[a_node()])))[-1].outcome is Outcome.BAD


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.operands=false", "nvidia.com/gpu.workload.config=vm-passthrough"])
def test_a_label_is_no_excuse_for_a_node_that_the_policy_expects(label: str) -> None:
    key, _, value = label.partition("=")
    policy = a_policy(accelerators={"expectedNodes": ["gpu-0", "vm-0"]})
    withheld = a_cpu_node("vm-0", labels={NFD: "true", key: value})
    found = {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(policy, nodes=[a_node(), withheld]))}
    assert found["vm-0"] is Outcome.BAD


@each_row
def test_a_node_that_only_marks_name_lost_its_devices(labels: dict[str, str], capacity: dict[str, str], outcome: Outcome) -> None:
    assert outcomes(nodes=[a_node(), a_cpu_node("lost", labels=labels, capacity=capacity)])["lost"] is outcome


def test_labels_of_discovery_tell_of_a_vendor_only_where_they_name_some_node_of_it() -> None:
    """AMD's label is that of a rule which AMD's operator brings; labels of NVIDIA's PCI devices come with discovery itself."""
    bare = {NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": ""}
    labelled = {**bare, "feature.node.kubernetes.io/amd-gpu": "true"}
    without = a_node("mi300x-0", resource="amd.com/gpu", labels=bare)
    assert outcomes(nodes=[a_node(), without]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.NOT_JUDGED}
    beside = a_node("mi300x-1", resource="amd.com/gpu", labels=labelled)
    assert outcomes(nodes=[a_node(), without, beside]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.BAD, "mi300x-1": Outcome.OK}
