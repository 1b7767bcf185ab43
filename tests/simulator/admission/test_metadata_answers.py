"""What a real kube-apiserver v1.37.2 says of bad metadata and missing accounts, read off it by tests/simulator/fidelity."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.admission.cluster import Objects, admit, namespace, pod, refusal

Json = dict[str, Any]

NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
KEY = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


def causes(meta: Json, **spec: Any) -> list[str]:
    found = pod(**spec)
    found["metadata"] |= meta
    error = refusal(found)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details is not None
    return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("/", ["prefix part must be non-empty", "name part must be non-empty", NAME_PART]),
        ("", ["name part must be non-empty", NAME_PART]),
        ("a/b/c", [KEY]),
    ],
)
def test_keys_of_annotations_and_labels(key: str, problems: list[str]) -> None:
    for field in ("annotations", "labels"):
        assert causes({field: {key: "v"}}) == [f'metadata.{field}: Invalid value: "{key}": {problem}' for problem in problems]


@pytest.mark.parametrize(
    ("owner", "found"),
    [
        ({"apiVersion": "a/b/c"}, ['apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>']),
        ({"apiVersion": ""}, ["apiVersion: Required value: must not be empty"]),
        (
            {"kind": "", "name": "", "uid": ""},
            [f"{field}: Required value: must not be empty" for field in ("kind", "name", "uid")],
        ),
    ],
)
def test_owners_are_named_with_their_index(owner: Json, found: list[str]) -> None:
    good = {"apiVersion": "apps/v1", "kind": "Pod", "name": "x", "uid": "u"}
    assert causes({"ownerReferences": [{**good, **owner}]}) == [f"metadata.ownerReferences[0].{cause}" for cause in found]


def test_finalizers_are_qualified_or_kubernetes_own() -> None:
    text = "name is neither a standard finalizer name nor is it fully qualified"
    assert causes({"finalizers": ["example.com/x", "hold"]}) == [f'metadata.finalizers[1]: Invalid value: "hold": {text}']
    assert causes({"finalizers": ["a/b/c"]}) == [f'metadata.finalizers: Invalid value: "a/b/c": {KEY}']


def test_metadata_and_spec_are_told_together() -> None:
    found = causes({"annotations": {"": "v"}}, dnsPolicy="Other")
    assert [cause.partition(":")[0] for cause in found] == ["metadata.annotations", "metadata.annotations", "spec.dnsPolicy"]


def test_a_pod_needs_the_account_that_it_names_before_it_is_validated() -> None:
    error = refusal(pod(serviceAccountName="none", dnsPolicy="Other"))
    wanted = 'pods "train" is forbidden: error looking up service account team/none: serviceaccount "none" not found'
    assert (error.code, error.reason, error.message) == (403, "Forbidden", wanted)
    accounts = Objects().put("serviceaccounts", {"metadata": {"name": "none", "namespace": "team"}})
    assert admit(pod(serviceAccountName="none"), accounts)[0]["spec"]["serviceAccountName"] == "none"


@pytest.mark.parametrize("spec", [{}, {"serviceAccountName": "default"}])
def test_the_default_account_of_a_new_namespace_is_as_good_as_there(spec: Json) -> None:
    assert admit(pod(**spec))[0]["spec"]["serviceAccountName"] == "default"


def test_warnings_are_told_beside_a_refusal() -> None:
    error = refusal(pod(name="a.b"), Objects().put("namespaces", namespace("team", enforce="restricted")))
    assert error.code == 403
    assert [text.partition(": ")[0] for text in error.warnings] == ["metadata.name"]


@pytest.mark.parametrize("key", ["container.apparmor.security.beta.kubernetes.io/main", "seccomp.security.alpha.kubernetes.io/pod"])
def test_annotations_that_name_profiles_are_not_implemented(key: str) -> None:
    found = pod()
    found["metadata"]["annotations"] = {key: "unconfined"}
    assert (refusal(found).code, refusal(found).reason) == (501, "NotImplemented")
