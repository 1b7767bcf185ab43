"""Refusals of what the comparison with a real API server leaves out, and that wild objects never get past admission as a crash."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.admission.interface import ApiError
from fixtures.simulator.api.resources import Resource, built_in
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
    pod,
    refusal,
    request,
)
from tests.tables import each_row


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


REQUEST = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com"}}


@each_row
def test_fields_that_nothing_acts_on_are_refused(plural: str, spec: dict[str, Any], field: str) -> None:
    kind = next(one for one in built_in() if one.plural == plural)
    spec = {"devices": {"requests": [REQUEST], **spec}} if plural == "resourceclaims" else spec
    error = refusal(request({"metadata": {"name": "x"}, "spec": spec}, kind))
    assert (error.code, error.message) == (501, f"nothing in the simulated cluster acts on spec.{field}")


@each_row
def test_empty_fields_are_as_absent_ones(plural: str, spec: dict[str, Any], refused: str) -> None:
    asked = request({"metadata": {"name": "x"}, "spec": spec}, next(one for one in built_in() if one.plural == plural))
    if refused:
        assert refusal(asked).message.endswith(refused)
    else:
        admit(asked)


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
    assert code in (200, 400, 403, 422, 501)


@pytest.mark.test_all
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(WORDS), WILD, max_size=6))
def test_wild_pod_specs_are_refused_where_nothing_fits(spec: dict[str, Any]) -> None:
    full = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": {"requests.cpu": "1", "pods": "0"}}}
    restrictive = Objects().put("namespaces", namespace("team", enforce="restricted")).put("resourcequotas", full)
    with pytest.raises(ApiError) as refused:
        admit({"metadata": {"name": "x", "namespace": "team"}, "spec": spec}, restrictive)
    assert refused.value.code in (400, 403, 422, 501)


# -- what admission writes into a pod: docs/facts/admission.md#default-tolerations, #priority -----------


def test_default_tolerations() -> None:
    tolerations = admit(pod())[0]["spec"]["tolerations"]
    assert [(t["key"], t["tolerationSeconds"]) for t in tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    everything = pod(tolerations=[{"operator": "Exists"}])
    assert admit(everything)[0]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_pod_defaults() -> None:
    stored, _ = admit(pod(container(image="registry.example:5000/team/app", ports=[{"containerPort": 80}])))
    spec = stored["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"]) == (30, True)
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_quantities_are_stored_in_canonical_form() -> None:
    resources = {"limits": {"cpu": "2000m", "memory": "1024Mi"}}
    stored, _ = admit(pod(container(resources=resources)))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert stored["status"]["qosClass"] == "Guaranteed"


def test_priority_classes() -> None:
    classes = Objects().put(
        "scheduling.k8s.io/priorityclasses",
        {"metadata": {"name": "batch"}, "value": -5, "preemptionPolicy": "Never", "globalDefault": True},
        {"metadata": {"name": "high"}, "value": 1000},
    )
    spec = admit(pod(priorityClassName="high"), classes)[0]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    spec = admit(pod(), classes)[0]["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("batch", -5, "Never")
    assert admit(pod(priorityClassName="system-node-critical"))[0]["spec"]["priority"] == 2_000_001_000
    error = refusal(pod(priorityClassName="urgent"), classes)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == 'pods "train" is forbidden: no PriorityClass with name urgent was found'
    assert "must not be provided in pod spec" in refusal(pod(priorityClassName="high", priority=7), classes).message


# -- whom Pod Security refuses, warns and exempts: docs/facts/pod-security.md#who-is-refused ------------


def enforcing(level: str = "restricted", **labels: str) -> Objects:
    return Objects().put("namespaces", namespace("team", enforce=level, **labels))


def test_workloads_are_warned_never_refused() -> None:
    asked = request(deployment({"containers": [container()]}), DEPLOYMENTS)
    stored, warnings = admit(asked, enforcing())
    assert stored["spec"]["replicas"] == 1
    assert warnings[0].startswith('would violate PodSecurity "restricted:latest": ')
    privileged_warn = Objects().put("namespaces", namespace("team", enforce="restricted", warn="privileged"))
    assert admit(request(deployment({"containers": [container()]}), DEPLOYMENTS), privileged_warn)[1] == []


def test_updates_count_when_containers_or_images_change() -> None:
    old, _ = admit(pod())
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert admit(request(relabelled, verb="update", old=old), enforcing())[1] == []
    newer = pod(container(image="registry.example/cuda:12.5"))
    assert refusal(request(newer, verb="update", old=old), enforcing()).code == 403


def test_bad_namespace_labels_are_invalid() -> None:
    error = refusal(request(namespace("team", enforce="strict", warn_version="1.30"), NAMESPACES))
    assert (error.code, error.reason) == (422, "Invalid")
    field = "metadata.labels[pod-security.kubernetes.io/enforce]"
    assert error.details is not None
    assert error.details["causes"][0] == {
        "reason": "FieldValueInvalid",
        "field": field,
        "message": 'Invalid value: "strict": must be one of privileged, baseline, restricted',
    }
    assert error.details["causes"][1]["message"] == 'Invalid value: "1.30": must be "latest" or "v1.x"'


Json = dict[str, Any]

# -- answers of a real kube-apiserver v1.37.2, read off it by the comparison in tests/simulator/fidelity --


@each_row
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
