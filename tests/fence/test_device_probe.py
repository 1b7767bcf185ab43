from __future__ import annotations

import pytest

from conformance.fence.device_probe import Plan, Seen, judge_devices, plans, pod_of
from fixtures.evidence import Finding, NotApplicable, Outcome
from fixtures.models import Pod
from fixtures.probes.pods import probe_pod
from tests.builders import H100, a_cpu_node, a_node, a_pod, a_policy, a_scope

PLAN = Plan(product=H100, node=a_node(), resource="nvidia.com/gpu", labels={"nvidia.com/gpu.product": H100})
ONE = "## devices\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
SCOPE = a_scope(nodes=[a_node(), a_cpu_node()])
RAN = a_pod("fence-device-0", node="gpu-0", phase="Succeeded")


def only(seen: Seen) -> Finding:
    (finding,) = judge_devices(SCOPE, [seen])
    return finding


def pending(message: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return a_pod("fence-device-0", status={"conditions": [condition]})


def test_a_pod_that_ran_and_counted_passes() -> None:
    finding = only(Seen(plan=PLAN, pod=RAN, log=ONE))
    assert finding.outcome is Outcome.OK
    assert "devices seen: 1" in finding.observed


@pytest.mark.parametrize(
    "log", ["", "\x00", "## devices\nnvidia-smi: not found\nexit=127\n", "Failed to initialize NVML: Unknown Error\nexit=255"]
)
def test_devices_that_cannot_be_counted_are_no_pass(log: str) -> None:
    assert only(Seen(plan=PLAN, pod=RAN, log=log)).outcome is Outcome.UNDECIDED
    assert only(Seen(plan=PLAN, pod=RAN, log_trouble="403")).outcome is Outcome.UNDECIDED


def test_another_vendor_s_pool_passes_by_running() -> None:
    plan = Plan(product="MI300X", node=a_node(resource="amd.com/gpu"), resource="amd.com/gpu")
    assert only(Seen(plan=plan, pod=RAN, log="## placed\n")).outcome is Outcome.OK


@pytest.mark.parametrize(
    "pod",
    [
        pending("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        a_pod(node="gpu-0", phase="Failed", status={"reason": "UnexpectedAdmissionError", "message": "Allocate failed"}),
        a_pod(),
    ],
)
def test_a_pod_that_does_not_run_fails(pod: Pod) -> None:
    assert only(Seen(plan=PLAN, pod=pod)).outcome is Outcome.BAD


def test_a_pod_on_a_node_without_accelerators_fails() -> None:
    assert only(Seen(plan=PLAN, pod=a_pod(node="cpu-0", phase="Succeeded"), log=ONE)).outcome is Outcome.BAD


def test_devices_taken_meanwhile_and_images_out_of_reach_are_undecided() -> None:
    waits = {"name": "probe", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no route"}}}
    pulling = a_pod(node="gpu-0", phase="Pending", status={"containerStatuses": [waits]})
    for pod in (pending("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), pulling, None):
        assert only(Seen(plan=PLAN, pod=pod)).outcome is Outcome.UNDECIDED


def test_plans_take_a_free_device_of_each_pool_and_aim_by_its_product() -> None:
    nodes = [a_node("a-0"), a_node("a-1"), a_node("b-0", gpus=1, product="NVIDIA-L4")]
    pods = [a_pod("x", devices=8, node="a-0"), a_pod("y", devices=1, node="b-0")]
    found = {plan.product: plan for plan in plans(a_scope(nodes=nodes, pods=pods))}
    first = found[H100]
    assert first.node is not None
    assert (first.node.name, first.resource, dict(first.labels)) == ("a-1", "nvidia.com/gpu", {"nvidia.com/gpu.product": H100})
    assert "1 of 1 nvidia.com/gpu held" in found["NVIDIA-L4"].obstacle


def test_the_resource_is_the_one_that_is_advertised() -> None:
    mig = a_node(gpus=7, resource="nvidia.com/mig-1g.10gb")
    (plan,) = plans(a_scope(nodes=[mig]))
    pod = probe_pod(pod_of(a_scope(nodes=[mig]), plan, 0))
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"


def test_labels_of_the_policy_that_reach_no_node_fail_before_anything_is_created() -> None:
    policy = a_policy(fence={"affinity": {"nvidia.com/gpu.product": "other"}})
    (plan,) = plans(a_scope(policy, nodes=[a_node()]))
    assert plan.node is None
    assert only(Seen(plan=plan, pod=None)).outcome is Outcome.BAD


def test_pools_without_device_resources_are_not_judged() -> None:
    (plan,) = plans(a_scope(nodes=[a_cpu_node("gpu-0", labels={"nvidia.com/gpu.present": "true"})]))
    assert only(Seen(plan=plan, pod=None)).outcome is Outcome.NOT_JUDGED
    with pytest.raises(NotApplicable):
        plans(a_scope(nodes=[a_cpu_node()]))


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for a pod of more priority"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty gates"}


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(node="gpu-0", phase="Failed", status={"conditions": [DISRUPTED]}),
        a_pod(node="gpu-0", phase="Failed", status={"reason": "Evicted", "message": "The node was low on resource: memory"}),
        a_pod(node="gpu-0", phase="Failed", status={"reason": "DeadlineExceeded"}),
        a_pod(status={"conditions": [GATED]}),
        a_pod(node="gpu-0", phase="Pending"),
        a_pod(
            node="gpu-0",
            phase="Pending",
            status={"containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
        ),
    ],
    ids=["preempted", "evicted", "deadline", "gated", "accepted", "pulling"],
)
def test_a_pod_that_others_hold_back_or_end_is_no_failure_of_the_fence(pod: Pod) -> None:
    finding = only(Seen(plan=PLAN, pod=pod))
    assert finding.outcome is Outcome.UNDECIDED
    assert finding.message


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "RunContainerError"])
def test_a_container_that_says_why_it_does_not_start_fails(reason: str) -> None:
    status = {"containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": reason}}}]}
    assert only(Seen(plan=PLAN, pod=a_pod(node="gpu-0", phase="Pending", status=status))).outcome is Outcome.BAD
