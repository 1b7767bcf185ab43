from typing import Any, cast

import pytest

from conformance.fence.probes import Plan, PodOutcome, judge_device, plan_of, pod_of, probe_devices
from fixtures.kubernetes.models import Pod
from fixtures.model.placement.free_devices import usable_places
from fixtures.probes.pods import probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import H100, a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.tables import each_row

PLAN = Plan(product=H100, node=a_node(), resource="nvidia.com/gpu", labels={"nvidia.com/gpu.product": H100})
ONE = "## devices\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
NO_WORKSPACE = cast(Workspace, None)
"""For questions that are answered before anything is created."""

SCOPE = a_scope(nodes=[a_node(), a_cpu_node()])
RAN = a_pod("fence-device-0", node="gpu-0", phase="Succeeded")


def only(seen: PodOutcome) -> Finding:
    return judge_device(SCOPE, seen)


def pending(message: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return a_pod("fence-device-0", status={"conditions": [condition]})


@each_row
def test_devices_that_cannot_be_counted_are_no_pass(log: str) -> None:
    assert only(PodOutcome(plan=PLAN, pod=RAN, log=log)).outcome is Outcome.UNDECIDED
    assert only(PodOutcome(plan=PLAN, pod=RAN, log_trouble="403")).outcome is Outcome.UNDECIDED


def test_another_vendor_s_pool_passes_by_running() -> None:
    plan = Plan(product="MI300X", node=a_node(resource="amd.com/gpu"), resource="amd.com/gpu")
    assert only(PodOutcome(plan=plan, pod=RAN, log="## placed\n")).outcome is Outcome.OK


@pytest.mark.parametrize(
    "pod",
    [
        pending("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        a_pod(node="gpu-0", phase="Failed", status={"reason": "UnexpectedAdmissionError", "message": "Allocate failed"}),
        a_pod(),
    ],
)
def test_a_pod_that_does_not_run_fails(pod: Pod) -> None:
    assert only(PodOutcome(plan=PLAN, pod=pod)).outcome is Outcome.BAD


def test_a_pod_on_a_node_without_accelerators_fails() -> None:
    assert only(PodOutcome(plan=PLAN, pod=a_pod(node="cpu-0", phase="Succeeded"), log=ONE)).outcome is Outcome.BAD


def test_devices_taken_meanwhile_and_images_out_of_reach_are_undecided() -> None:
    waits = {"name": "probe", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no route"}}}
    pulling = a_pod(node="gpu-0", phase="Pending", status={"containerStatuses": [waits]})
    for pod in (pending("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), pulling, None):
        assert only(PodOutcome(plan=PLAN, pod=pod)).outcome is Outcome.UNDECIDED


def test_a_plan_aims_by_the_product_or_by_the_policy_s_labels() -> None:
    scope = a_scope(nodes=[a_node()])
    plan = plan_of(scope, usable_places(scope)[0])
    assert (plan.product, plan.node.name, plan.resource) == (H100, "gpu-0", "nvidia.com/gpu")
    assert dict(plan.labels) == {"nvidia.com/gpu.product": H100}
    told = a_scope(a_policy(fence={"affinity": {"pool": "gpu"}}), nodes=[a_node()])
    assert dict(plan_of(told, usable_places(told)[0]).labels) == {"pool": "gpu"}


def test_the_pod_asks_for_what_is_advertised_on_that_node_by_its_label() -> None:
    scope = a_scope(nodes=[a_node(gpus=7, resource="nvidia.com/mig-1g.10gb")])
    spec = probe_pod(pod_of(scope, plan_of(scope, usable_places(scope)[0]), 0))["spec"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}]
    assert term["matchExpressions"] == [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [H100]}]


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
    finding = only(PodOutcome(plan=PLAN, pod=a_pod(**pod)))
    assert finding.outcome is Outcome.UNDECIDED
    assert finding.message


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "RunContainerError"])
def test_a_container_that_says_why_it_does_not_start_fails(reason: str) -> None:
    status = {"containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": reason}}}]}
    assert only(PodOutcome(plan=PLAN, pod=a_pod(node="gpu-0", phase="Pending", status=status))).outcome is Outcome.BAD
