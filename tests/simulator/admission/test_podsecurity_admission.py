"""Whom Pod Security admission refuses, warns and exempts (docs/facts/pod-security.md#who-is-refused)."""

from tests.simulator.admission.cluster import (
    DEPLOYMENTS,
    NAMESPACES,
    Objects,
    admit,
    container,
    deployment,
    namespace,
    pod,
    refusal,
    request,
)


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
