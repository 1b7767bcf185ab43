"""What a real kube-apiserver v1.37.2 says of slices, classes, claims and device taints, read off it by tests/simulator/fidelity."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.simulator.admission.validation.claims import check_claim, claim_defaults
from fixtures.simulator.admission.validation.devices import check_class, check_slice, check_taint_rule
from fixtures.simulator.admission.validation.field import Field

Json = dict[str, Any]

SLICE: Json = {"driver": "gpu.nvidia.com", "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1}, "nodeName": "node-0"}


def found(check: Any, spec: Json) -> list[tuple[str, str]]:
    place = Field(spec, "spec")
    check(place)
    return [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in place.causes]


def test_a_slice_of_a_driver_is_accepted() -> None:
    device: Json = {
        "name": "gpu-0",
        "attributes": {"uuid": {"string": "GPU-1"}, "gpu.nvidia.com/driver": {"version": "580.95.5"}},
        "capacity": {"memory": {"value": "80Gi"}},
        "taints": [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}],
        "consumesCounters": [{"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}],
    }
    assert found(check_slice, {**SLICE, "devices": [device]}) == []
    assert found(check_slice, {**SLICE, "sharedCounters": [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]}) == []


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"driver": ""}, [("spec.driver", "Required")]),
        ({"driver": "x" * 64}, [("spec.driver", "TooLong")]),
        ({"pool": {"name": "a//b"}}, [("spec.pool.name", "Invalid"), ("spec.pool.resourceSliceCount", "Invalid")]),
        ({"allNodes": True}, [("spec", "Invalid")]),
        ({"nodeName": None}, [("spec", "Required")]),
        ({"nodeName": ""}, [("spec.nodeName", "Invalid"), ("spec", "Required")]),
        ({"devices": [{"name": "a"}], "sharedCounters": []}, [("spec", "Invalid")]),
        ({"devices": [{"name": f"gpu-{number}"} for number in range(129)]}, [("spec.devices", "TooMany")]),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, [("spec.devices[1]", "Duplicate")]),
        ({"devices": [{"name": "a", "nodeName": "b"}]}, [("spec.devices[0]", "Invalid")]),
        ({"devices": [{"name": "a", "attributes": {"model": {}}}]}, [("spec.devices[0].attributes[model]", "Invalid")]),
        ({"devices": [{"name": "a", "attributes": {"1st": {"int": 1}}}]}, [("spec.devices[0].attributes", "Invalid")]),
        ({"devices": [{"name": "a", "attributes": {"v": {"version": "1.2"}}}]}, [("spec.devices[0].attributes[v].version", "Invalid")]),
        ({"devices": [{"name": "a", "taints": [{"key": "k"}]}]}, [("spec.devices[0].taints[0].effect", "Required")]),
        ({"devices": [{"name": "a", "bindingConditions": ["b"]}]}, [("spec.devices[0].bindingFailureConditions", "Invalid")]),
        (
            {"devices": [{"name": "a", "capacity": {"m": {"value": "1", "requestPolicy": {}}}}]},
            [("spec.devices[0].capacity[m].requestPolicy", "Forbidden")],
        ),
        (
            {"devices": [{"name": "a", "consumesCounters": [{}]}]},
            [("spec.devices[0].consumesCounters[0].counterSet", "Required"), ("spec.devices[0].consumesCounters[0].counters", "Required")],
        ),
    ],
)
def test_slices_are_refused_for_each_field(change: Json, causes: list[tuple[str, str]]) -> None:
    assert found(check_slice, {**SLICE, **change}) == causes


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"extendedResourceName": "nvidia.com/gpu", "selectors": [{"cel": {"expression": "true"}}]}, []),
        ({"extendedResourceName": "gpu"}, [("spec.extendedResourceName", "Invalid")]),
        ({"extendedResourceName": "kubernetes.io/gpu"}, [("spec.extendedResourceName", "Invalid")]),
        ({"selectors": [{}]}, [("spec.selectors[0].cel", "Required")]),
        ({"selectors": [{"cel": {"expression": "device.driver == ('a'"}}]}, [("spec.selectors[0].cel.expression", "Invalid")]),
        ({"config": [{}]}, [("spec.config[0].opaque", "Required")]),
        ({"config": [{"opaque": {"driver": "a", "parameters": []}}]}, [("spec.config[0].opaque.parameters", "Invalid")]),
        ({"config": [{"opaque": {"driver": "a", "parameters": {"t": "x" * 10240}}}]}, [("spec.config[0].opaque.parameters", "TooLong")]),
    ],
)
def test_classes(spec: Json, causes: list[tuple[str, str]]) -> None:
    assert found(check_class, spec) == causes


def test_taint_rules_name_devices_and_an_effect() -> None:
    taint = {"key": "example.com/health", "effect": "NoExecute"}
    assert found(check_taint_rule, {"deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node-0"}, "taint": taint}) == []
    assert found(check_taint_rule, {"taint": {**taint, "effect": "PreferNoSchedule"}}) == [("spec.taint.effect", "NotSupported")]
    assert found(check_taint_rule, {"deviceSelector": {"device": "A"}, "taint": taint}) == [("spec.deviceSelector.device", "Invalid")]


def claim(**more: Any) -> Json:
    wish = {"deviceClassName": "gpu.nvidia.com"}
    return {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "small", **wish}]}], **more}}


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (claim(constraints=[{"requests": ["gpu", "gpu/small"], "matchAttribute": "gpu.nvidia.com/model"}]), []),
        (
            claim(constraints=[{"requests": ["gpu/large"], "matchAttribute": "a/b"}]),
            [("spec.devices.constraints[0].requests[0]", "Invalid")],
        ),
        (claim(constraints=[{}]), [("spec.devices.constraints[0]", "Required")]),
        (claim(constraints=[{"matchAttribute": "model"}]), [("spec.devices.constraints[0].matchAttribute", "Invalid")]),
        (
            claim(config=[{"requests": ["other"]}]),
            [("spec.devices.config[0].requests[0]", "Invalid"), ("spec.devices.config[0].opaque", "Required")],
        ),
        (claim(requests=[{"name": "gpu"}]), [("spec.devices.requests[0]", "Required")]),
        (claim(requests=[{"name": "gpu", "exactly": {"deviceClassName": "a"}}] * 2), [("spec.devices.requests[1]", "Duplicate")]),
    ],
)
def test_claims(spec: Json, causes: list[tuple[str, str]]) -> None:
    claim_defaults({"spec": spec})
    assert found(check_claim, spec) == causes


def test_a_toleration_without_operator_compares_values() -> None:
    spec: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "a", "tolerations": [{"key": "k"}]}}]}}
    claim_defaults({"spec": spec})
    assert found(check_claim, spec) == []
    assert spec["devices"]["requests"][0]["exactly"]["tolerations"] == [{"key": "k", "operator": "Equal"}]
