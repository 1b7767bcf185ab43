"""REQ-01, REQ-04 and REQ-05 where devices are claimed: claims that can never be met, and what the API says of claims."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from conformance.req.amount_probes import claim_cases, judge_amounts
from conformance.req.checks import check_approved_names, check_can_be_offered
from conformance.req.waiting import check_waiting
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import BY_CLASS
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_policy, a_scope, a_snapshot, a_workload
from tests.dra import a_claim, a_class, a_device, a_slice, a_template
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, created
from tests.req.test_waiting import scope
from tests.tables import each_row


def scope_of(claims: list[Json], slices: list[Json] | None = None, **items: Any) -> Scope:
    own = {"resourceslices": slices or [a_slice("gpu-0", devices=2)], "resourceclaims": claims, "deviceclasses": [a_class()]}
    return a_scope(nodes=[a_cpu_node("gpu-0")], **{**own, **items})


def pending(entry: Json, **items: Any) -> tuple[str, str]:
    pod: Pod = a_pod("waits", resourceClaims=[{"name": "own", **entry}])
    found = list(check_can_be_offered(scope_of(items.pop("claims", []), None, pods=[pod], **items)))
    return (str(found[0].outcome), found[0].message) if found else ("none", "")


@each_row
def test_a_pending_claim_can_be_met(template: Json, outcome: str, word: str) -> None:
    found = pending({"resourceClaimTemplateName": "t"}, resourceclaimtemplates=[template])
    assert found[0] == outcome
    assert word in found[1]


@each_row
def test_a_name_of_a_plugin_and_a_class_can_be_met_by_either(count: int, node: str, unread: bool, outcome: Outcome) -> None:
    """Both may serve one name in a cluster, each node by one of them: a plugin offers 8 on a node, a DeviceClass 2 on another one."""
    nodes = [a_node("plugin-0", gpus=8), a_cpu_node("gpu-0")]
    pods = [a_pod("waits", devices=count, nodeSelector={"kubernetes.io/hostname": node} if node else {})]
    slices: dict[str, Any] = {"resourceslices": [] if unread else [a_slice("gpu-0", devices=2)]}
    more: dict[str, Any] = {"trouble": {"resource.k8s.io/resourceslices": "forbidden"}} if unread else {}
    known = {**slices, **more, "deviceclasses": [a_class(extended="nvidia.com/gpu")]}
    [finding] = check_can_be_offered(a_scope(nodes=nodes, pods=pods, **known))
    assert finding.outcome is outcome
    assert ("resourceslices could not be listed" in finding.message) is (outcome is Outcome.UNDECIDED)


@each_row
def test_a_template_that_stays_away_is_a_fault_where_all_claims_are_for_devices(created: int, classes: list[Json], outcome: str) -> None:
    pod = a_pod("waits", resourceClaims=[{"name": "own", "resourceClaimTemplateName": "t"}])
    pod.metadata.creation_timestamp = datetime.fromtimestamp(1_790_000_000 - created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (found,) = check_can_be_offered(scope_of([], None, pods=[pod], deviceclasses=classes))
    assert str(found.outcome) == outcome
    assert "ResourceClaimTemplate t does not exist" in found.message


def asks(name: str, **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **more}}


@each_row
def test_requests_of_one_claim_are_met_by_one_node(second: Json, outcome: str) -> None:
    claim = {**a_claim("c"), "spec": {"devices": {"requests": [asks("a", count=1), second]}}}
    found = pending({"resourceClaimName": "c"}, claims=[claim], deviceclasses=[a_class(), a_class("net", "dra.net")])
    assert found[0] == outcome
    assert (outcome == "bad") is ("its 2 requests claim 3 devices of gpu.nvidia.com together, and the largest node has 2" in found[1])


def test_a_device_that_may_be_shared_can_meet_any_number_of_requests() -> None:
    shared = a_slice("gpu-0", devices=[{**a_device("gpu-0"), "allowMultipleAllocations": True}])
    claim = {**a_claim("c"), "spec": {"devices": {"requests": [asks("a"), asks("b")]}}}
    assert pending({"resourceClaimName": "c"}, claims=[claim], resourceslices=[shared])[0] == "ok"


def test_claims_of_other_things_are_not_judged() -> None:
    claims, classes = [a_claim("c", device_class="net")], [a_class("net", "dra.net")]
    assert pending({"resourceClaimName": "c"}, claims=claims, deviceclasses=classes) == ("none", "")


# -- REQ-01


def answer(status: int, body: Json) -> Answer:
    return Answer(status=status, body=msgspec.json.encode(body))


def refused(field: str, text: str) -> Answer:
    causes = [{"reason": "FieldValueInvalid", "message": text, "field": field}]
    return answer(422, {"kind": "Status", "reason": "Invalid", "message": text, "details": {"causes": causes}, "code": 422})


def judged(case: int, given: Answer) -> Outcome:
    (finding,) = judge_amounts(f"{BY_CLASS}gpu.nvidia.com", [(claim_cases(f"{BY_CLASS}gpu.nvidia.com", "v1")[case], given)])
    return finding.outcome


def accepted(count: object) -> Answer:
    return answer(201, {"spec": {"devices": {"requests": [{"exactly": {"count": count}}]}}})


@each_row
def test_what_the_api_says_of_claims_is_judged(case: int, given: Answer, outcome: Outcome) -> None:
    assert judged(case, given) is outcome


def test_a_refused_control_decides_nothing() -> None:
    with pytest.raises(Inconclusive):
        judged(0, refused("spec", "no"))


# -- REQ-05


@each_row
def test_classes_in_use_are_approved(driver: str, approved: list[str], found: dict[str, Outcome]) -> None:
    pod = a_pod("p", node="gpu-0", resourceClaims=[{"name": "own", "resourceClaimTemplateName": "t"}])
    items: Json = {"resourceclaimtemplates": [a_template("t", "c")], "deviceclasses": [a_class("c", driver)]}
    scope = a_scope(a_policy(requests={"approved": approved}), nodes=[a_cpu_node("gpu-0")], pods=[pod], **items)
    assert {finding.subject.name: finding.outcome for finding in check_approved_names(scope)} == found


def test_a_class_of_networks_is_no_device_name() -> None:
    pod = a_pod("p", node="gpu-0", resourceClaims=[{"name": "own", "resourceClaimName": "c"}])
    scope = a_scope(nodes=[], pods=[pod], resourceclaims=[a_claim("c", device_class="net")], deviceclasses=[a_class("net", "dra.net")])
    with pytest.raises(NotApplicable):
        list(check_approved_names(scope))


GROVE, KUEUE, VOLCANO = "grove.io/podgang-pending-creation", "kueue.x-k8s.io/admission", "scheduling.volcano.sh/queue-allocation-gate"


def gated(gate: str = KUEUE, *, age: float = 6 * HOUR, name: str = "train-0", **more: Any) -> Pod:
    return created(a_pod(name, devices=1, schedulingGates=[{"name": gate}], **more), age)


def workload(
    *held: str, age: float = HOUR, owner: str = "uid-team-a-train-0", active: bool = True, name: str = "train", **status: Any
) -> Json:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": ago(age)} for kind in held]
    meta = {"name": name, "namespace": "team-a", "ownerReferences": [{"kind": "Pod", "uid": owner}]}
    return {"kind": "Workload", "metadata": meta, "spec": {"active": active}, "status": {"conditions": conditions, **status}}


def of_kueue(*workloads: Json) -> dict[str, Any]:
    return {"kueue_x-k8s_io__workloads": list(workloads)}


def outcome(*pods: Pod, nodes: Any = None, **items: Any) -> Outcome:
    findings = list(check_waiting(scope(*pods, nodes=nodes, **items), NOW))
    return next(finding.outcome for finding in findings if "train" in finding.subject.name)


@pytest.mark.parametrize("gate", [GROVE, KUEUE, VOLCANO, "acme.example.com/approval", "a"])
@pytest.mark.parametrize("full", [False, True])
def test_a_gate_that_no_object_of_its_owner_excuses_is_bad_after_the_age(gate: str, full: bool) -> None:
    held = [a_pod("other", node="gpu-0", devices=8)] if full else []
    assert outcome(gated(gate), *held) is Outcome.BAD
    assert outcome(gated(gate, age=MINUTE), *held) is Outcome.NOT_JUDGED
    unknown = gated(gate)
    unknown.metadata.creation_timestamp = None
    assert outcome(unknown) is Outcome.UNDECIDED


@each_row
def test_a_gate_of_kueue_is_excused_by_a_workload_that_waits(workloads: list[Json], expected: Outcome) -> None:
    assert outcome(gated(), **of_kueue(*workloads)) is expected


def test_a_workload_of_the_pods_group_or_of_its_job_excuses_it() -> None:
    assert outcome(gated(labels={"kueue.x-k8s.io/pod-group-name": "train"}), **of_kueue(workload(owner="uid-x"))) is Outcome.NOT_JUDGED
    assert outcome(gated(owner="Job/train"), **of_kueue(workload(owner="uid-train"))) is Outcome.NOT_JUDGED


def test_where_the_workload_of_a_pod_cannot_be_found_or_was_not_saved_nothing_is_known() -> None:
    assert outcome(gated(owner="Custom/train"), **of_kueue(workload(owner="uid-x"))) is Outcome.UNDECIDED
    saved = a_snapshot(offline=True, nodes=[a_node()], pods=[gated()])
    (finding,) = check_waiting(Scope(saved, Policy()), NOW)
    assert finding.outcome is Outcome.UNDECIDED


def test_a_gate_without_a_name_holds_its_pod_all_the_same() -> None:
    pod = created(a_pod("train-0", devices=1, schedulingGates=[{}]), DAY)
    assert (pod.gates, outcome(pod)) == (["(no name)"], Outcome.BAD)


def test_a_second_gate_waits_with_the_first() -> None:
    both = created(a_pod(devices=1, schedulingGates=[{"name": "acme.example.com/topology"}, {"name": KUEUE}]), DAY)
    assert outcome(both, **of_kueue(workload())) is Outcome.NOT_JUDGED
    assert outcome(both, **of_kueue(workload("Admitted"))) is Outcome.BAD


@each_row
def test_grove_keeps_scaled_pods_until_their_base_is_ready(labels: dict[str, str], base_ready: str, expected: Outcome) -> None:
    status = {"conditions": [{"type": "Ready", "status": base_ready}]}
    base = a_pod("base-0", node="gpu-0", devices=1, labels={"grove.io/podgang": "base"}, status=status)
    assert outcome(gated(GROVE, labels=labels), base) is expected


@each_row
def test_a_gate_of_volcano_is_excused_by_a_full_queue(phase: str, message: str, expected: Outcome) -> None:
    group = a_workload("PodGroup", "train", {"queue": "gpu", "minMember": 1}, status={"phase": phase})
    group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": message}] if message else []
    pod = gated(VOLCANO, annotations={"scheduling.k8s.io/group-name": "train"}, schedulerName="volcano")
    assert outcome(pod, scheduling_volcano_sh__podgroups=[group]) is expected
