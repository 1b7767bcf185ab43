import json
from typing import Any

import pytest

from conformance.req.amount_probes import (
    CONTROL,
    COPIED,
    QUOTA,
    Case,
    QuotaOutcome,
    counted_resource,
    judge_amounts,
    judge_quota,
    pod_cases,
)
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_cpu_node, a_node, a_scope
from tests.tables import each_row

GPU = "nvidia.com/gpu"
CASES = {case.name: case for case in pod_cases(a_scope(nodes=[a_node()]), GPU)}


def answer(status: int, body: Json) -> Answer:
    return Answer(status=status, body=json.dumps(body).encode())


def accepted(requests: Json | None = None) -> Answer:
    return answer(201, {"spec": {"containers": [{"resources": {"requests": requests or {GPU: "1"}}}]}})


def invalid(*causes: tuple[str, str]) -> Answer:
    listed = [{"reason": "FieldValueInvalid", "field": field, "message": text} for field, text in causes]
    return answer(422, {"reason": "Invalid", "message": "Pod is invalid", "details": {"causes": listed}})


def refused(case: Case) -> Answer:
    return invalid(*((field, f"Invalid value: {text} of 2") for field, text in case.causes))


def healthy() -> list[tuple[Case, Answer]]:
    return [(case, refused(case) if case.causes else accepted()) for case in CASES.values()]


def outcome_of(name: str, given: Answer) -> Outcome:
    answers = [(case, given if case.name == name else good) for case, good in healthy()]
    return next(finding.outcome for finding in judge_amounts(GPU, answers) if finding.subject.name.endswith(name))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.causes])
def test_each_mistake_must_be_refused_for_its_own_field(name: str) -> None:
    assert outcome_of(name, accepted()) is Outcome.BAD
    assert outcome_of(name, invalid(("spec.containers[0].image", "Required value"))) is Outcome.BAD
    assert outcome_of(name, answer(403, {"reason": "Forbidden", "message": "no"})) is Outcome.UNDECIDED
    assert outcome_of(name, answer(500, {"message": "webhook timeout"})) is Outcome.UNDECIDED
    denied = 'admission webhook "pods.example.com" denied the request: whole devices only'
    assert outcome_of(name, answer(422, {"reason": "Invalid", "message": denied})) is Outcome.UNDECIDED


def test_half_a_device_must_be_refused_in_limits_and_requests() -> None:
    assert outcome_of("half a device", invalid(CASES["half a device"].causes[0])) is Outcome.BAD


@pytest.mark.parametrize("given", [accepted({"cpu": "1"}), accepted({GPU: "2"}), answer(201, {}), answer(422, {})])
def test_the_limit_must_come_back_as_request(given: Answer) -> None:
    assert outcome_of(COPIED, given) is Outcome.BAD


def test_half_an_answer_says_nothing_about_requests() -> None:
    with pytest.raises(Inconclusive):
        outcome_of(COPIED, Answer(status=201, body=b"["))


def test_a_refused_control_makes_refusals_worthless() -> None:
    with pytest.raises(Inconclusive) as caught:
        outcome_of(CONTROL, answer(403, {"message": "forbidden"}))
    assert caught.value.code == "PositiveControlFailed"


def test_the_pods_differ_in_the_device_alone() -> None:
    found = [case.body["spec"]["containers"][0]["resources"] for case in CASES.values()]
    assert all(resources["requests"]["cpu"] == resources["limits"]["cpu"] for resources in found)
    assert [(r["requests"].get(GPU), r["limits"].get(GPU)) for r in found] == [
        ("1", "1"),
        ("1", "2"),
        ("1", None),
        ("500m", "500m"),
        (None, "1"),
    ]


def test_the_commonest_advertised_resource_is_asked() -> None:
    nodes = [a_node("a", gpus=2), a_node("b", gpus=7, resource="nvidia.com/mig-1g.10gb")]
    assert counted_resource(a_scope(nodes=nodes)) == "nvidia.com/mig-1g.10gb"
    with pytest.raises(NotApplicable):
        counted_resource(a_scope(nodes=[a_cpu_node()]))


# -- REQ-07

EXCEEDED = answer(
    403,
    {
        "reason": "Forbidden",
        "message": f'pods "quota-2" is forbidden: exceeded quota: {QUOTA}, requested: requests.{GPU}=2, '
        f"used: requests.{GPU}=0, limited: requests.{GPU}=1",
    },
)


def quota(beyond: Answer, within: Answer | None = None, *, published: bool = True) -> QuotaOutcome:
    return QuotaOutcome(resource=GPU, published=published, within=within or accepted(), beyond=beyond)


def test_acceptance_over_the_quota_fails_and_says_when_the_controller_is_off() -> None:
    (finding,) = judge_quota(quota(accepted(), published=False))
    assert finding.outcome is Outcome.BAD
    assert "never published" in finding.message


@each_row
def test_refusals_for_another_reason_prove_nothing(beyond: dict[str, Any]) -> None:
    (finding,) = judge_quota(quota(answer(**beyond)))
    assert finding.outcome is Outcome.UNDECIDED


def test_a_refused_control_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        list(judge_quota(quota(EXCEEDED, answer(403, {"message": "status unknown for quota"}))))
