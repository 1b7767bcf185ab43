"""Answers that a real kube-apiserver v1.37.2 gave to the same pods, read off it by the comparison in tests/simulator/fidelity."""

from typing import Any

import pytest

from fixtures.simulator.api.resources import Resource
from tests.simulator.admission.cluster import Objects, admit, container, pod, refusal, request

Json = dict[str, Any]

SPREAD = "spec.topologySpreadConstraints"


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, ['spec.schedulingGates[1]: Duplicate value: "a"']),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}] * 2},
            [
                f'{SPREAD}[0].{{topologyKey, whenUnsatisfiable}}: Duplicate value: "{{k, ScheduleAnyway}}"',
                f"{SPREAD}[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                f"{SPREAD}[1].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "X"}, "runAsUser": -1}},
            [
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                'spec.securityContext.appArmorProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", '
                '"Unconfined"',
            ],
        ),
        (
            {"initContainers": [container(name, ports=[{"containerPort": 80, "hostPort": 80}] * 2) for name in ("a", "b")]},
            ['spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//80"'],
        ),
        (
            {"resources": {"limits": {"cpu": "-1"}}},
            [
                'spec.resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
                'spec.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
    ],
)
def test_bad_specs_get_the_causes_of_the_real_server(spec: Json, causes: list[str]) -> None:
    error = refusal(pod(**spec))
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details is not None
    assert [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]] == causes


def test_a_runtime_class_that_exists_is_taken_and_one_with_overhead_is_not_simulated() -> None:
    nvidia = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    admit(pod(runtimeClassName="nvidia"), Objects().put("node.k8s.io/runtimeclasses", nvidia))
    runtime_classes = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
    assert refusal(request({**nvidia, "overhead": {"podFixed": {"cpu": "1"}}}, runtime_classes)).code == 501


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        ({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, "Guaranteed"),
        ({}, "BestEffort"),
    ],
)
def test_the_qos_class_of_pod_level_resources(spec: Json, expected: str) -> None:
    assert admit(pod(**spec))[0]["status"]["qosClass"] == expected
