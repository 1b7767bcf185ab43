"""Answers that a real kube-apiserver v1.37.2 gave to the same pods, read off it by the comparison in tests/simulator/fidelity."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.simulator.api.resources import Resource
from tests.simulator.admission.cluster import Objects, admit, pod, refusal, request

Json = dict[str, Any]

ANSWERS = yaml.safe_load(Path(__file__).with_name("real_answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("spec", "causes"), ANSWERS)
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
