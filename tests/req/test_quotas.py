"""REQ-06. The reports behind the cases are in the tests' docstrings."""

from collections.abc import Iterable
from typing import Any

import msgspec

from conformance.req.quotas import check_tenants_have_quotas
from fixtures.kubernetes.models import Json, Pod, ResourceQuota
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_namespace, a_pod, a_scope
from tests.dra import DRIVER, a_claim, a_class, a_slice
from tests.tables import each_row

KEY = "requests.nvidia.com/gpu"


def a_quota(*keys: str, namespace: str = "team-a", **spec: Any) -> ResourceQuota:
    document = {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": dict.fromkeys(keys, "8"), **spec}}
    return msgspec.convert(document, ResourceQuota)


def judged(pods: Iterable[Pod], *quotas: ResourceQuota, **more: Any) -> list[Finding]:
    return list(check_tenants_have_quotas(a_scope(namespaces=[a_namespace("team-a")], pods=pods, resourcequotas=quotas, **more)))


@each_row
def test_a_quota_with_scopes_counts_the_pods_that_they_select(spec: Json, priority: str, outcome: Outcome) -> None:
    """GPU quotas per PriorityClass are common. A pod of another class is counted by none of them."""
    (finding,) = judged([a_pod("train", devices=1, priorityClassName=priority)], a_quota(KEY, **spec))
    assert finding.outcome is outcome
    if outcome is Outcome.BAD:
        assert "have scopes that leave out pod train" in finding.message


def test_namespaces_without_living_device_pods_and_the_platforms_are_no_subjects() -> None:
    pods = [a_pod("web"), a_pod("done", devices=1, phase="Succeeded"), a_pod("plugin", devices=1, namespace="kube-system")]
    assert judged(pods) == []


@each_row
def test_which_keys_count_the_devices_of_a_pod(
    pod: dict[str, Any], key: str, spec: Json, classes: list[str], outcome: Outcome, words: str
) -> None:
    """``classes``: extended resources of DeviceClasses, the eldest first; its claim ``mine`` is of the first.

    kubeflow/website#2460: the bare key is accepted and does nothing. NVIDIA/k8s-device-plugin#211: so are limits.
    """
    made = [a_class("newer" if at else DRIVER, extended=extended) for at, extended in enumerate(classes)]
    for newer in made[1:]:
        newer["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    dra = {"deviceclasses": made, "resourceslices": [a_slice("gpu-0")], "resourceclaims": [a_claim("mine", namespace="team-a")]}
    (finding,) = judged([a_pod("train", node="gpu-0", **pod)], a_quota(key, **spec), **(dra if classes else {}))
    assert finding.outcome is outcome
    assert words in finding.message
