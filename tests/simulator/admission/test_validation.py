"""Refusals of what the comparison with a real API server leaves out, and that wild objects never get past admission as a crash."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.admission.interface import ApiError
from fixtures.simulator.api.resources import Resource
from tests.simulator.admission.cluster import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    Objects,
    admit,
    container,
    deployment,
    namespace,
    refusal,
    request,
)


def test_selector_must_match_the_template() -> None:
    asked = deployment({"containers": [container()]})
    asked["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    expected = 'spec.template.metadata.labels: Invalid value: {"app":"train"}: `selector` does not match template `labels`'
    assert refusal(request(asked, DEPLOYMENTS)).message == f'Deployment.apps "train" is invalid: {expected}'
    bare = refusal(request({"metadata": {"name": "train"}}, DEPLOYMENTS)).message
    assert "spec.selector: Required value" in bare
    assert "spec.template.spec.containers: Required value" in bare


def test_node_taints() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    admit(request({"metadata": {"name": "n"}, "spec": {"taints": [taint]}}, NODES))
    bad = [taint, {**taint, "value": "absent"}, {"key": "a b", "effect": "NoRun"}]
    error = refusal(request({"metadata": {"name": "n"}, "spec": {"taints": bad}}, NODES))
    assert error.details is not None
    assert [c["reason"] for c in error.details["causes"]] == ["FieldValueDuplicate", "FieldValueInvalid", "FieldValueNotSupported"]
    assert error.details["causes"][0]["message"].endswith("taints must be unique by key and effect pair")


def test_node_capacity_becomes_allocatable_and_canonical() -> None:
    stored, _ = admit(request({"metadata": {"name": "n"}, "status": {"capacity": {"memory": "2048Mi", "nvidia.com/gpu": 8}}}, NODES))
    assert stored["status"]["allocatable"] == {"memory": "2Gi", "nvidia.com/gpu": "8"}


WORDS = [
    "metadata", "name", "labels", "annotations", "spec", "status", "template", "selector", "matchLabels", "jobTemplate", "containers",
    "initContainers", "image", "resources", "limits", "requests", "nvidia.com/gpu", "cpu", "volumes", "hostPath", "tolerations", "key",
    "operator", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "taints", "capacity",
    "hard", "ports", "containerPort", "securityContext", "livenessProbe", "httpGet", "strategy", "rollingUpdate", "ownerReferences",
    "secret", "nfs", "path",
]  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.sampled_from(["", "1", "0.5", "x", "Exists", "A b", "Never"])
WILD = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5), max_leaves=30
)
KINDS = st.sampled_from([PODS, DEPLOYMENTS, JOBS, CRON_JOBS, NAMESPACES, NODES, QUOTAS])


@pytest.mark.test_all
@settings(max_examples=100, deadline=None)
@given(KINDS, st.dictionaries(st.sampled_from(WORDS), WILD, max_size=6))
def test_wild_objects_are_admitted_or_refused(resource: Resource, obj: dict[str, Any]) -> None:
    try:
        admit(request(obj, resource), Objects())
        code = 200
    except ApiError as error:
        code = error.code
    assert code in (200, 400, 403, 422)


@pytest.mark.test_all
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(WORDS), WILD, max_size=6))
def test_wild_pod_specs_are_refused_where_nothing_fits(spec: dict[str, Any]) -> None:
    full = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": {"requests.cpu": "1", "pods": "0"}}}
    restrictive = Objects().put("namespaces", namespace("team", enforce="restricted")).put("resourcequotas", full)
    with pytest.raises(ApiError) as refused:
        admit({"metadata": {"name": "x", "namespace": "team"}, "spec": spec}, restrictive)
    assert refused.value.code in (400, 403, 422)
