"""What the API answers to extended resources, row by row (docs/facts/admission.md#extended-resources)."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.simulator.admission import AdmissionSwitches
from tests.samples import sample
from tests.simulator.admission.cluster import (
    CRON_JOBS,
    DEPLOYMENTS,
    GPU,
    JOBS,
    admit,
    container,
    deployment,
    gpu,
    gpu_pod,
    pod,
    refusal,
    request,
    template,
)

AT = "spec.containers[0].resources"


def causes(error: Any) -> list[tuple[str, str, str]]:
    return [(c["reason"], c["field"], c["message"]) for c in error.details["causes"]]


def test_a_limit_becomes_the_request() -> None:
    asked = pod(container(resources=gpu("2")), initContainers=[container("prepare", resources=gpu("1"))])
    stored, warnings = admit(asked)
    assert stored["spec"]["containers"][0]["resources"] == {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    assert stored["spec"]["initContainers"][0]["resources"]["requests"] == {GPU: "1"}
    assert warnings == []


def test_request_is_not_limit() -> None:
    error = refusal(gpu_pod("2", "1"))
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == f'Pod "train" is invalid: {AT}.requests: Invalid value: "1": must be equal to {GPU} limit of 2'
    assert causes(error) == [("FieldValueInvalid", f"{AT}.requests", f'Invalid value: "1": must be equal to {GPU} limit of 2')]
    assert error.details == {"name": "train", "kind": "Pod", "causes": error.details["causes"]} if error.details else False


def test_request_without_limit() -> None:
    error = refusal(pod(container(resources=gpu(request="1"))))
    text = "Required value: Limit must be set for non overcommitable resources"
    assert causes(error) == [("FieldValueRequired", f"{AT}.limits", text)]


@pytest.mark.parametrize("amount", ["0.5", "500m", "0.50"])
def test_a_fraction_has_two_causes(amount: object) -> None:
    error = refusal(gpu_pod(amount))
    text = 'Invalid value: "500m": must be an integer'
    assert causes(error) == [
        ("FieldValueInvalid", f"{AT}.limits[{GPU}]", text),
        ("FieldValueInvalid", f"{AT}.requests[{GPU}]", text),
    ]
    assert error.message == f'Pod "train" is invalid: [{AT}.limits[{GPU}]: {text}, {AT}.requests[{GPU}]: {text}]'


def test_the_fraction_of_a_capture() -> None:
    """The bullet lines that kubectl prints are our causes, path and all."""
    lines = [line[2:] for line in sample("pod-invalid-1").splitlines() if line.startswith("* ")]
    assert [f"{field}: {text}" for _, field, text in causes(refusal(gpu_pod("0.5")))] == lines


def test_negative() -> None:
    error = refusal(gpu_pod("-1"))
    assert causes(error)[0] == ("FieldValueInvalid", f"{AT}.limits[{GPU}]", 'Invalid value: "-1": must be greater than or equal to 0')


def test_unqualified_name() -> None:
    texts = [text for _, field, text in causes(refusal(gpu_pod("1", resource="gpu"))) if field == f"{AT}.limits[gpu]"]
    assert texts == [
        'Invalid value: "gpu": must be a standard resource type or fully qualified',
        'Invalid value: "gpu": must be a standard resource for containers',
    ]


def test_names_of_kubernetes_are_not_extended() -> None:
    stored, _ = admit(pod(container(resources=gpu("2", "1", "kubernetes.io/foo"))))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"kubernetes.io/foo": "1"}
    error = refusal(gpu_pod("1", resource="requests.nvidia.com/gpu"))
    assert causes(error)[0][2].endswith("doesn't follow extended resource name standard")


def test_cpu_may_request_less_than_its_limit_but_not_more() -> None:
    admit(pod(container(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}})))
    error = refusal(pod(container(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "3"}})))
    assert causes(error)[0][2] == 'Invalid value: "3": must be less than or equal to cpu limit of 2'


def test_no_extended_resources_at_pod_level() -> None:
    error = refusal(pod(resources={"limits": {GPU: "1"}}))
    assert causes(error)[0][0] == "FieldValueNotSupported"
    assert causes(error)[0][1] == f"spec.resources.limits[{GPU}]"


def test_text_that_is_no_quantity_is_a_bad_request() -> None:
    error = refusal(gpu_pod("one"))
    assert (error.code, error.reason) == (400, "BadRequest")
    assert error.message.startswith('Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression')


def test_templates_are_validated_but_requests_not_defaulted() -> None:
    path = "spec.template.spec.containers[0].resources"
    error = refusal(request(deployment({"containers": [container(resources=gpu("0.5"))]}), DEPLOYMENTS))
    assert error.message.startswith('Deployment.apps "train" is invalid: ')
    assert [field for _, field, _ in causes(error)] == [f"{path}.limits[{GPU}]"]
    stored, _ = admit(request(deployment({"containers": [container(resources=gpu("1"))]}), DEPLOYMENTS))
    assert "requests" not in stored["spec"]["template"]["spec"]["containers"][0]["resources"]


def test_job_and_cron_job_templates() -> None:
    spec = {"containers": [container(resources=gpu("2", "1"))], "restartPolicy": "Never"}
    job = {"metadata": {"name": "j", "namespace": "team"}, "spec": {"template": template(spec)}}
    assert refusal(request(job, JOBS)).message.startswith('Job.batch "j" is invalid: spec.template.spec.containers[0].resources.requests')
    cron = {"metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template(spec)}}}}
    fields = [field for _, field, _ in causes(refusal(request(cron, CRON_JOBS)))]
    assert fields == ["spec.jobTemplate.spec.template.spec.containers[0].resources.requests"]
    always = {"metadata": {"name": "j"}, "spec": {"template": template({"containers": [container()]})}}
    text = 'Unsupported value: "Always": supported values: "OnFailure", "Never"'
    assert causes(refusal(request(always, JOBS))) == [("FieldValueNotSupported", "spec.template.spec.restartPolicy", text)]


@pytest.mark.parametrize("bad", [gpu_pod("2", "1"), gpu_pod("0.5"), pod(container(resources=gpu(request="1")))])
def test_an_api_without_the_checks_accepts_them(bad: dict[str, Any]) -> None:
    stored, _ = admit(bad, switches=AdmissionSwitches(quantities=False))
    assert stored["spec"]["containers"][0]["resources"]["requests"]
