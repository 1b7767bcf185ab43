"""The 422 of malformed objects, and that wild ones never get past admission as a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.admission import AdmissionSwitches
from fixtures.simulator.admission.interface import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.api.resources import Resource
from tests.simulator.admission.cluster import (
    CLAIMS,
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


def affinity(**term: object) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", **term}]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
ROWS = [
    (pod(name="Train"), "metadata.name", "FieldValueInvalid"),
    ({"metadata": {}, "spec": {"containers": [container()]}}, "metadata.name", "FieldValueRequired"),
    ({"metadata": {"name": "x"}, "spec": {}}, "spec.containers", "FieldValueRequired"),
    (pod({"image": "i"}), "spec.containers[0].name", "FieldValueRequired"),
    (pod({"name": "c"}), "spec.containers[0].image", "FieldValueRequired"),
    (pod(container("a.b")), "spec.containers[0].name", "FieldValueInvalid"),
    (pod(container("a"), container("a")), "spec.containers[1].name", "FieldValueDuplicate"),
    (pod(container("a"), initContainers=[container("a")]), "spec.initContainers[0].name", "FieldValueDuplicate"),
    (pod(tolerations=[{"key": "a", "operator": "Near"}]), "spec.tolerations[0].operator", "FieldValueNotSupported"),
    (pod(tolerations=[{"operator": "Equal"}]), "spec.tolerations[0].operator", "FieldValueInvalid"),
    (pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "spec.tolerations[0].operator", "FieldValueInvalid"),
    (pod(tolerations=[{"key": "a", "tolerationSeconds": 1}]), "spec.tolerations[0].effect", "FieldValueInvalid"),
    (pod(tolerations=[{"key": "a", "effect": "Never"}]), "spec.tolerations[0].effect", "FieldValueNotSupported"),
    (pod(affinity=affinity(operator="In")), f"{TERM}.values", "FieldValueRequired"),
    (pod(affinity=affinity(operator="Exists", values=["a"])), f"{TERM}.values", "FieldValueForbidden"),
    (pod(affinity=affinity(operator="Gt", values=["1", "2"])), f"{TERM}.values", "FieldValueRequired"),
    (pod(affinity=affinity(operator="Is", values=["a"])), f"{TERM}.operator", "FieldValueInvalid"),
    (pod(nodeSelector={"bad key": "v"}), "spec.nodeSelector", "FieldValueInvalid"),
    (pod(restartPolicy="Sometimes"), "spec.restartPolicy", "FieldValueNotSupported"),
    (pod(container(volumeMounts=[{"name": "v", "mountPath": "/v"}])), "spec.containers[0].volumeMounts[0].name", "FieldValueNotFound"),
    (pod(container(resources={"claims": [{"name": "g"}]})), "spec.containers[0].resources.claims[0]", "FieldValueNotFound"),
    (pod(resourceClaims=[{"name": "g"}]), "spec.resourceClaims[0]", "FieldValueInvalid"),
    (pod(ephemeralContainers=[container("d")]), "spec.ephemeralContainers", "FieldValueForbidden"),
]


@pytest.mark.parametrize(("asked", "field", "reason"), ROWS, ids=[f"{number}-{row[1]}" for number, row in enumerate(ROWS)])
def test_bad_pods(asked: dict[str, Any], field: str, reason: str) -> None:
    error = refusal(asked)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details is not None
    assert (field, reason) in [(c["field"], c["reason"]) for c in error.details["causes"]]


def test_label_syntax() -> None:
    asked = pod()
    asked["metadata"]["labels"] = {"app": "not valid"}
    assert 'metadata.labels: Invalid value: "not valid": a valid label must be an empty string or consist of' in refusal(asked).message


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


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (pod({"name": 3, "image": "i"}), "cannot unmarshal number into Go struct field Container.spec.containers.name of type string"),
        ({"metadata": {"name": "x"}, "spec": []}, "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (pod(hostNetwork="yes"), "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (pod(tolerations={}), "cannot unmarshal object into Go struct field PodSpec.spec.tolerations of type []v1.Toleration"),
    ],
    ids=["name", "spec", "bool", "list"],
)
def test_wrong_types_are_bad_requests(asked: dict[str, Any], text: str) -> None:
    error = refusal(asked)
    assert error.code == 400
    assert error.message == f'Pod in version "v1" cannot be handled as a Pod: json: {text}'


def test_nulls_count_as_absent() -> None:
    stored, _ = admit(pod(container(securityContext=None), tolerations=None, nodeSelector=None))
    assert "securityContext" not in stored["spec"]["containers"][0]
    assert "nodeSelector" not in stored["spec"]


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


@settings(max_examples=100, deadline=None)
@given(KINDS, st.dictionaries(st.sampled_from(WORDS), WILD, max_size=6))
def test_wild_objects_are_admitted_or_refused(resource: Resource, obj: dict[str, Any]) -> None:
    try:
        admit(request(obj, resource), Objects())
        code = 200
    except ApiError as error:
        code = error.code
    assert code in (200, 400, 403, 422)


@pytest.mark.parametrize(
    ("volume", "code"),
    [
        ({"metadata": True}, 422),
        ({"name": "v", "secret": True}, 400),
        ({"name": "v", "nfs": {"path": 3}}, 400),
        ({"name": "v", "nfs": {}}, 422),
    ],
)
def test_a_volume_of_the_wrong_shape_is_refused(volume: dict[str, Any], code: int) -> None:
    with pytest.raises(ApiError) as refused:
        admit(pod(container(), volumes=[volume]))
    assert refused.value.code == code


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(WORDS), WILD, max_size=6))
def test_wild_pod_specs_are_refused_where_nothing_fits(spec: dict[str, Any]) -> None:
    full = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": {"requests.cpu": "1", "pods": "0"}}}
    restrictive = Objects().put("namespaces", namespace("team", enforce="restricted")).put("resourcequotas", full)
    with pytest.raises(ApiError) as refused:
        admit({"metadata": {"name": "x", "namespace": "team"}, "spec": spec}, restrictive)
    assert refused.value.code in (400, 403, 422)


def an_admin_claim(*, admin: bool = True) -> Json:
    exactly = {"deviceClassName": "gpu.nvidia.com", "adminAccess": admin}
    requests = [{"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com"}}, {"name": "b", "exactly": exactly}]
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": {"requests": requests}}}


def test_admin_access_needs_the_label_of_its_namespace() -> None:
    error = refusal(request(an_admin_claim(), CLAIMS))
    text = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
    assert error.message == f'ResourceClaim.resource.k8s.io "c" is invalid: spec.devices.requests[1].adminAccess: Forbidden: {text}'
    labelled = {"metadata": {"name": "team", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    admit(request(an_admin_claim(), CLAIMS), Objects().put("namespaces", labelled))
    admit(request(an_admin_claim(admin=False), CLAIMS))
    admit(request(an_admin_claim(), CLAIMS), switches=AdmissionSwitches(admin_access=False))
