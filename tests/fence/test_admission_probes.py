"""FENCE-07, FENCE-11 and REQ-09: what is made of the API server's answers."""

import msgspec
import pytest

from conformance.fence.admission_probes import judge_tolerations
from conformance.probes.admission import Refusal, judge_refusals
from conformance.req.device_policy import cases
from fixtures.cluster.client import Answer
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope, a_taint
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
