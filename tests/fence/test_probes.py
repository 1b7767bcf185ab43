"""FENCE: what admission, the scheduler and devices answer to probe pods."""

from typing import Any, cast

import msgspec
import pytest

from conformance.fence.admission_probes import judge_tolerations
from conformance.fence.probes import Attempt, PodOutcome, judge_device, judge_fence, pair, pod_of, probe_devices, targets
from conformance.probes.admission import Refusal, judge_refusals
from conformance.probes.running import CEILING, absence_seconds
from conformance.req.device_policy import cases
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.placement.free_devices import usable_places
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import FENCE, H100, a_cpu_node, a_node, a_pod, a_policy, a_scope, a_taint
from tests.tables import each_row

GPU = "nvidia.com/gpu"


def answered(status: int, message: str = "", tolerations: list[str] | None = None) -> Answer:
    pod = msgspec.json.encode(a_pod(tolerations=tolerations or []))
    body = pod if status < 300 else msgspec.json.encode({"kind": "Status", "message": message, "reason": "x", "code": status})
    return Answer(status=status, body=body)


class Refused(msgspec.Struct, forbid_unknown_fields=True):
    """What the API answers to a pod that a policy has to refuse, and what is found."""

    outcome: str
    status: int = 422
    message: str = ""
    cause: str = ""


@each_row
def test_a_refusal_counts_in_the_words_of_a_policy(refused: Refused) -> None:
    refusal = Refusal(what="nine", body={}, key="admission.maxDevices")
    (finding,) = judge_refusals(answered(201), [(refusal, answered(refused.status, refused.message))])
    assert (finding.outcome.value, finding.cause) == (refused.outcome, refused.cause)


def test_a_webhook_that_nobody_answers_for_is_a_fault_and_another_refusal_of_what_is_allowed_proves_nothing() -> None:
    dead = answered(
        500, 'Internal error occurred: failed calling webhook "policy.example.com": no endpoints available for service "policy"'
    )
    (finding,) = judge_refusals(dead, [])
    assert (finding.outcome, finding.cause) == (Outcome.BAD, "PolicyUnreachable")
    with pytest.raises(Inconclusive):
        list(judge_refusals(answered(403, 'pods is forbidden: User "suite" cannot create resource "pods"'), []))


def test_each_rule_is_tried_by_a_pod_that_breaks_it_alone() -> None:
    rules = {"names": True, "maxDevices": 4, "profiles": ["1g.10gb"], "tolerations": True, "runtimeClass": "nvidia"}
    control, refusals = cases(a_scope(a_policy(admission=rules), nodes=[a_node()]))
    assert control["spec"]["runtimeClassName"] == "nvidia"
    assert control["spec"]["tolerations"]
    asked = [next(name for name in one.body["spec"]["containers"][0]["resources"]["limits"] if "/" in name) for one in refusals]
    assert asked == ["nvidia.com/unapproved-device", GPU, "nvidia.com/mig-9g.999gb", GPU, GPU]
    assert refusals[1].body["spec"]["containers"][0]["resources"]["limits"][GPU] == "5"
    assert ["runtimeClassName" in one.body["spec"] for one in refusals] == [True, True, True, True, False]
    assert [bool(one.body["spec"].get("tolerations")) for one in refusals] == [True, True, True, False, True]


def test_without_a_rule_nothing_is_tried() -> None:
    with pytest.raises(NotApplicable):
        cases(a_scope(nodes=[a_node()]))


class Tolerated(msgspec.Struct, forbid_unknown_fields=True):
    """What the policy says of device pods, the tolerations that the API returns, and what is found at the taint ``nvidia.com/gpu``."""

    says: str
    outcome: str
    given: list[str] = []
    status: int = 201
    message: str = ""
    cause: str = ""


@each_row
def test_tolerations_that_admission_gives(tolerated: Tolerated) -> None:
    scope = a_scope(a_policy(fence={"devicePods": tolerated.says}), nodes=[a_node()])
    answer = answered(tolerated.status, tolerated.message, tolerated.given)
    finding = judge_tolerations(scope, GPU, [a_taint("nvidia.com/gpu=present:NoSchedule")], answer)
    assert (finding.outcome.value, finding.cause) == (tolerated.outcome, tolerated.cause)


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


OLD = "0/5 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 4 node(s) didn't match Pod's node affinity."
NEW = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector. preemption: none."
FULL = "0/5 nodes are available: 1 Insufficient cpu, 4 node(s) didn't match Pod's node affinity/selector."


def waiting(message: str, reason: str = "Unschedulable") -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return a_pod("fence-victim-0", status={"conditions": [condition]})


def attempt(control: Pod | None, victim: Pod | None) -> Attempt:
    return Attempt(node=a_node(), control=control, victim=victim, watched_seconds=31.0, control_seconds=1.5)


RAN_BY_FENCE = a_pod("fence-control-0", node="gpu-0", phase="Succeeded")


def only_about(item: Attempt) -> Finding:
    (finding,) = judge_fence([item])
    return finding


@pytest.mark.parametrize("message", [OLD, NEW])
def test_pending_for_a_taint_beside_a_running_control_passes_in_both_wordings(message: str) -> None:
    finding = only_about(attempt(RAN_BY_FENCE, waiting(message)))
    assert finding.outcome is Outcome.OK
    assert "untolerated taint" in finding.observed
    assert "31.0 s watched" in finding.observed


def test_a_placed_pod_fails_even_when_the_control_was_not() -> None:
    placed = a_pod("fence-victim-0", node="gpu-0")
    assert only_about(attempt(RAN_BY_FENCE, placed)).outcome is Outcome.BAD
    assert only_about(attempt(None, placed)).outcome is Outcome.BAD


@each_row
def test_pending_for_another_reason_proves_nothing(victim: Pod | None) -> None:
    assert only_about(attempt(RAN_BY_FENCE, victim)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("control", [None, waiting(FULL), a_pod(node="gpu-0", phase="Failed")])
def test_a_control_that_was_not_placed_is_inconclusive(control: Pod | None) -> None:
    with pytest.raises(Inconclusive) as caught:
        list(judge_fence([attempt(control, waiting(OLD))]))
    assert caught.value.code == "PositiveControlFailed"


def test_a_control_that_is_bound_proves_the_fence_while_its_image_is_pulled() -> None:
    assert only_about(attempt(a_pod(node="gpu-0", phase="Pending"), waiting(OLD))).outcome is Outcome.OK


def test_the_window_follows_the_control_within_bounds() -> None:
    scope = a_scope(a_policy(probes={"windowSeconds": 20}), nodes=[a_node()])
    assert absence_seconds(scope, 0.3) == 20
    assert absence_seconds(scope, 8.0) == 40
    assert absence_seconds(scope, 100.0) == CEILING
    patient = a_scope(a_policy(probes={"windowSeconds": 300}), nodes=[a_node()])
    assert absence_seconds(patient, 100.0) == 300


def test_the_weakest_fence_of_each_pool_is_probed_and_every_open_node() -> None:
    nodes = [
        a_node("a-0"),
        a_node("a-1", taints=[]),
        a_node("a-2", taints=["nvidia.com/gpu:PreferNoSchedule"]),
        a_node("b-0", product="NVIDIA-L4"),
        a_node("c-0", product="NVIDIA-A10", cordoned=True),
        a_node("d-0", product="NVIDIA-T4", taints=[FENCE, "repair:NoSchedule"]),
        a_cpu_node(),
    ]
    assert [node.name for node in targets(a_scope(nodes=nodes))] == ["a-1", "b-0", "a-2"]


def test_without_nodes_to_probe_nothing_is_claimed() -> None:
    with pytest.raises(NotApplicable):
        targets(a_scope(nodes=[a_cpu_node()]))
    with pytest.raises(Inconclusive):
        targets(a_scope(nodes=[a_node(ready=False)]))


def test_the_pair_differs_by_the_fence_s_toleration_alone() -> None:
    policy = a_policy(probes={"tolerations": [{"operator": "Exists"}, {"key": "spot", "operator": "Exists"}]})
    control, victim = pair(a_scope(policy, nodes=[a_node()]), a_node(), 0)

    def without(pod: Json) -> Json:
        return {key: value for key, value in pod["spec"].items() if key != "tolerations"}

    assert without(control) == without(victim)
    assert victim["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    taint = a_taint(FENCE)
    assert {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect} in control["spec"]["tolerations"]
    assert not any("/" in name for name in victim["spec"]["containers"][0]["resources"]["requests"])
