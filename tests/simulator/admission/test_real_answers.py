"""Answers that a real kube-apiserver v1.37.2 gave to the same pods, read off it by the comparison in tests/simulator/fidelity."""

from __future__ import annotations

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
            {"topologySpreadConstraints": [{}]},
            [
                f"{SPREAD}[0].maxSkew: Invalid value: 0: must be greater than zero",
                f"{SPREAD}[0].topologyKey: Required value: can not be empty",
                f'{SPREAD}[0].whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"',
            ],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}] * 2},
            [
                f'{SPREAD}[0].{{topologyKey, whenUnsatisfiable}}: Duplicate value: "{{k, ScheduleAnyway}}"',
                f"{SPREAD}[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                f"{SPREAD}[1].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        ({"schedulingGroup": {}}, ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
        (
            {"tolerations": [{"key": "a", "operator": "Lt", "value": "10"}]},
            ['spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"'],
        ),
        (
            {"tolerations": [{"key": "a", "operator": "In"}]},
            ['spec.tolerations[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"'],
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
            {"hostPID": True, "shareProcessNamespace": True},
            ["spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"],
        ),
        ({"hostUsers": False, "hostIPC": True}, ["spec.HostIPC: Forbidden: when `hostUsers` is false"]),
        ({"dnsPolicy": "None"}, ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        ({"os": {"name": "plan9"}}, ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
        (
            {"volumes": [{"name": "a", "secret": {}}, {"name": "b", "hostPath": {"path": "/a/../b"}}]},
            [
                "spec.volumes[0].secret.secretName: Required value",
                "spec.volumes[1].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ],
        ),
        (
            {"resources": {"limits": {"cpu": "-1"}}},
            [
                'spec.resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
                'spec.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
        (
            {"resourceClaims": [{"name": "main"}]},
            [
                'spec.resourceClaims[0]: Invalid value: {"Name":"main","ResourceClaimName":null,"ResourceClaimTemplateName":null}: '
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ],
        ),
    ],
)
def test_bad_specs_get_the_causes_of_the_real_server(spec: Json, causes: list[str]) -> None:
    error = refusal(pod(**spec))
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details is not None
    assert [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]] == causes


def test_names_are_counted_in_characters_and_prefixes_of_keys_in_bytes() -> None:
    assert (
        f'spec.containers[0].name: Invalid value: "{"x" * 64}": must be no more than 63 characters'
        in refusal(pod(container("x" * 64))).message
    )
    assert "name part must be no more than 63 bytes" in refusal(pod(nodeSelector={"x" * 64: ""})).message


def test_a_runtime_class_has_to_exist() -> None:
    assert refusal(pod(runtimeClassName="nvidia")).message == 'pods "train" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    nvidia = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    admit(pod(runtimeClassName="nvidia"), Objects().put("node.k8s.io/runtimeclasses", nvidia))
    runtime_classes = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
    assert refusal(request({**nvidia, "overhead": {"podFixed": {"cpu": "1"}}}, runtime_classes)).code == 501
    assert "Pod Overhead set without corresponding RuntimeClass" in refusal(pod(overhead={"cpu": "1"})).message


def test_what_is_fractional_or_no_host_name_is_warned_of() -> None:
    _, warnings = admit(pod(container(resources={"requests": {"memory": "1500m"}}), name="a.b"))
    assert warnings == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: "
        "[must not contain dots]",
        'spec.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer',
    ]


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
