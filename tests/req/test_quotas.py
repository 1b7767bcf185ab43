"""REQ-06. The reports behind the cases are in the tests' docstrings."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from conformance.req.quotas import check_tenants_have_quotas
from fixtures.kubernetes.models import Json, Pod, ResourceQuota
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_container, a_namespace, a_pod, a_scope
from tests.dra import DRIVER, a_claim, a_class, a_slice
from tests.tables import each_row

KEY = "requests.nvidia.com/gpu"


def a_quota(*keys: str, namespace: str = "team-a", **spec: Any) -> ResourceQuota:
    document = {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": dict.fromkeys(keys, "8"), **spec}}
    return msgspec.convert(document, ResourceQuota)


def of_class(*names: str, operator: str = "In") -> Json:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(names)}]}}


def judged(pods: Iterable[Pod], *quotas: ResourceQuota, **more: Any) -> list[Finding]:
    return list(check_tenants_have_quotas(a_scope(namespaces=[a_namespace("team-a")], pods=pods, resourcequotas=quotas, **more)))


def train(**more: Any) -> Pod:
    return a_pod("train", devices=1, node="gpu-0", **more)


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "limits.nvidia.com/gpu"])
def test_a_key_that_counts_nothing_is_no_quota(key: str) -> None:
    """kubeflow/website#2460: the bare key is accepted and does nothing. NVIDIA/k8s-device-plugin#211: so are limits."""
    (finding,) = judged([train()], a_quota(key))
    assert finding.outcome is Outcome.BAD
    assert f"names {key}, which counts nothing; the key is {KEY}" in finding.message


@each_row
def test_a_quota_with_scopes_counts_the_pods_that_they_select(spec: Json, priority: str, outcome: Outcome) -> None:
    """GPU quotas per PriorityClass are common. A pod of another class is counted by none of them."""
    (finding,) = judged([train(priorityClassName=priority)], a_quota(KEY, **spec))
    assert finding.outcome is outcome
    if outcome is Outcome.BAD:
        assert "have scopes that leave out pod train" in finding.message


def test_a_pod_without_cpu_and_memory_is_best_effort_though_it_has_a_device() -> None:
    assert judged([train()], a_quota(KEY, scopes=["NotBestEffort"]))[0].outcome is Outcome.BAD
    container = a_container(resources={"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}})
    pod = a_pod("train", node="gpu-0", containers=[container])
    assert judged([pod], a_quota(KEY, scopes=["NotBestEffort"]))[0].outcome is Outcome.OK


def test_namespaces_without_living_device_pods_and_the_platforms_are_no_subjects() -> None:
    pods = [a_pod("web"), a_pod("done", devices=1, phase="Succeeded"), a_pod("plugin", devices=1, namespace="kube-system")]
    assert judged(pods) == []


def test_a_claim_that_cannot_be_followed_leaves_the_namespace_undecided() -> None:
    pod = a_pod("train", resourceClaims=[{"name": "gpu", "resourceClaimName": "gone"}])
    (finding,) = judged([pod], a_quota(KEY))
    assert finding.outcome is Outcome.UNDECIDED
    assert "pod train" in finding.message


def claiming(extended: str = "nvidia.com/gpu", **more: Any) -> dict[str, Any]:
    classes = [a_class(extended=extended)]
    claims = [a_claim("mine", namespace="team-a")]
    return {"deviceclasses": classes, "resourceslices": [a_slice("gpu-0")], "resourceclaims": claims, **more}


BY_CLAIM = a_pod("train", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
CLASS_KEY = f"{DRIVER}.deviceclass.resource.k8s.io/devices"


PLAIN = {"extended": ""}


@pytest.mark.parametrize(
    ("pod", "key", "dra", "expected", "words"),
    [
        (train(), KEY, {}, Outcome.OK, ""),
        (train(), CLASS_KEY, {}, Outcome.OK, ""),
        (BY_CLAIM, CLASS_KEY, PLAIN, Outcome.OK, ""),
        (BY_CLAIM, KEY, PLAIN, Outcome.BAD, CLASS_KEY),
        (BY_CLAIM, "count/resourceclaims.resource.k8s.io", PLAIN, Outcome.BAD, f"up to 32 devices; the key is {CLASS_KEY}"),
    ],
)
def test_which_key_counts_devices_of_a_class(pod: Pod, key: str, dra: Any, expected: Outcome, words: str) -> None:
    (finding,) = judged([pod], a_quota(key), **claiming(**dra))
    assert finding.outcome is expected
    assert words in finding.message


def test_another_classs_extended_resource_counts_nothing() -> None:
    newer = a_class("newer", extended="nvidia.com/gpu")
    newer["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    dra = claiming()
    dra["deviceclasses"].append(newer)
    assert judged([BY_CLAIM], a_quota(KEY), **dra)[0].outcome is Outcome.BAD


@pytest.mark.parametrize("spec", [{"scopes": ["NotTerminating"]}, of_class("training")])
def test_a_quota_with_scopes_counts_no_claims(spec: Json) -> None:
    pod = a_pod("train", priorityClassName="training", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    (finding,) = judged([pod], a_quota(CLASS_KEY, **spec), **claiming())
    assert finding.outcome is Outcome.BAD
    assert "a quota with scopes counts no claims" in finding.message
