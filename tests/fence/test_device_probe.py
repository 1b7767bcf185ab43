from typing import Any, cast

import pytest

from conformance.fence.probes import PodOutcome, judge_device, pod_of, probe_devices
from fixtures.kubernetes.models import Pod
from fixtures.model.placement.free_devices import usable_places
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import H100, a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.tables import each_row

ONE = "## devices\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
NO_WORKSPACE = cast(Workspace, None)
"""For questions that are answered before anything is created."""

SCOPE = a_scope(nodes=[a_node(), a_cpu_node()])
(PLACE,) = usable_places(SCOPE)
RAN = a_pod("fence-device-0", node="gpu-0", phase="Succeeded")


def only(seen: PodOutcome) -> Finding:
    return judge_device(SCOPE, seen)


def pending(message: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return a_pod("fence-device-0", status={"conditions": [condition]})


@each_row
def test_devices_that_cannot_be_counted_are_no_pass(log: str) -> None:
    assert only(PodOutcome(place=PLACE, pod=RAN, log=log)).outcome is Outcome.UNDECIDED
    assert only(PodOutcome(place=PLACE, pod=RAN, log_trouble="403")).outcome is Outcome.UNDECIDED


def test_another_vendor_s_pool_passes_by_running() -> None:
    (place,) = usable_places(a_scope(nodes=[a_node(resource="amd.com/gpu")]))
    assert only(PodOutcome(place=place, pod=RAN, log="## placed\n")).outcome is Outcome.OK


@each_row
def test_a_pod_that_does_not_run_fails(pod: Pod) -> None:
    assert only(PodOutcome(place=PLACE, pod=pod)).outcome is Outcome.BAD


def test_a_pod_on_a_node_without_accelerators_fails() -> None:
    assert only(PodOutcome(place=PLACE, pod=a_pod(node="cpu-0", phase="Succeeded"), log=ONE)).outcome is Outcome.BAD


def test_devices_taken_meanwhile_and_images_out_of_reach_are_undecided() -> None:
    waits = {"name": "probe", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no route"}}}
    pulling = a_pod(node="gpu-0", phase="Pending", status={"containerStatuses": [waits]})
    for pod in (pending("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), pulling, None):
        assert only(PodOutcome(place=PLACE, pod=pod)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(("affinity", "key", "value"), [({}, "nvidia.com/gpu.product", H100), ({"pool": "gpu"}, "pool", "gpu")])
def test_the_pod_asks_for_what_is_advertised_on_that_node_by_its_labels(affinity: dict[str, str], key: str, value: str) -> None:
    scope = a_scope(a_policy(fence={"affinity": affinity}), nodes=[a_node(gpus=7, resource="nvidia.com/mig-1g.10gb")])
    spec = pod_of(scope, usable_places(scope)[0], 0)["spec"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}]
    assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": [value]}]


def test_labels_of_the_policy_that_reach_no_node_fail_before_anything_is_created() -> None:
    policy = a_policy(fence={"affinity": {"nvidia.com/gpu.product": "other"}})
    findings = list(probe_devices(a_scope(policy, nodes=[a_node("a"), a_node("b")]), NO_WORKSPACE))
    assert [finding.outcome for finding in findings] == [Outcome.BAD, Outcome.BAD]


def test_nodes_without_device_resources_are_not_judged() -> None:
    findings = probe_devices(a_scope(nodes=[a_cpu_node("gpu-0", labels={"nvidia.com/gpu.present": "true"})]), NO_WORKSPACE)
    assert [finding.outcome for finding in findings] == [Outcome.NOT_JUDGED]
    with pytest.raises(NotApplicable):
        list(probe_devices(a_scope(nodes=[a_cpu_node()]), NO_WORKSPACE))


@each_row
def test_a_pod_that_others_hold_back_or_end_is_no_failure_of_the_fence(pod: dict[str, Any]) -> None:
    finding = only(PodOutcome(place=PLACE, pod=a_pod(**pod)))
    assert finding.outcome is Outcome.UNDECIDED
    assert finding.message


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "RunContainerError"])
def test_a_container_that_says_why_it_does_not_start_fails(reason: str) -> None:
    status = {"containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": reason}}}]}
    assert only(PodOutcome(place=PLACE, pod=a_pod(node="gpu-0", phase="Pending", status=status))).outcome is Outcome.BAD
