"""Quota on devices (docs/facts/admission.md#quota)."""

from typing import Any

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.pods.amounts import pod_total, texts
from tests.simulator.admission.cluster import CLAIMS, GPU, QUOTAS, Objects, admit, container, gpu, gpu_pod, pod, refusal, request
from tests.tables import each_row


def quota(name: str = "gpus", **fields: object) -> Json:
    spec = {"hard": {f"requests.{GPU}": "8"}, **fields}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def running(devices: str, name: str, phase: str = "Running") -> Json:
    return {**gpu_pod(devices, devices), "metadata": {"name": name, "namespace": "team"}, "status": {"phase": phase}}


def with_quota(*quotas: Json, pods: tuple[Json, ...] = ()) -> Objects:
    return Objects().put("resourcequotas", *quotas).put("pods", *pods)


def test_one_device_over_is_refused_and_within_is_accepted() -> None:
    pods = (running("4", "a"), running("3", "b", "Pending"), running("8", "done", "Succeeded"))
    error = refusal(gpu_pod("2"), with_quota(quota(), pods=pods))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'pods "train" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=7, limited: requests.nvidia.com/gpu=8"
    )
    admit(gpu_pod("1"), with_quota(quota(), pods=pods))
    admit(gpu_pod("2"), with_quota(quota(), pods=pods), Behaviour(enforces_quota=False))
    admit(pod(), with_quota(quota(), pods=pods))


def test_compute_quota_makes_containers_say_what_they_need() -> None:
    compute = quota(hard={"requests.cpu": "4", "limits.memory": "8Gi"})
    asked = pod(container("b"), container("a", resources={"requests": {"cpu": "1"}}))
    expected = "failed quota: gpus: must specify limits.memory for: a,b; requests.cpu for: b"
    assert refusal(asked, with_quota(compute)).message == f'pods "train" is forbidden: {expected}'


def test_object_counts() -> None:
    count = quota(hard={"count/resourceclaims.resource.k8s.io": "1", "count/pods": "1"})
    claim = {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": {"requests": []}}}
    admit(request(claim, CLAIMS), with_quota(count))
    objects = with_quota(count, pods=(running("1", "done", "Succeeded"),)).put("resource.k8s.io/resourceclaims", claim)
    assert (
        "requested: count/resourceclaims.resource.k8s.io=1, used: count/resourceclaims.resource.k8s.io=1"
        in refusal(request(claim, CLAIMS), objects).message
    )
    assert "used: count/pods=1, limited: count/pods=1" in refusal(pod(), objects).message


def test_claims_are_charged_by_class_and_by_extended_name() -> None:
    device = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": GPU}}
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}]}},
    }
    objects = with_quota(quota()).put("resource.k8s.io/deviceclasses", device)
    assert "requested: requests.nvidia.com/gpu=9, used: requests.nvidia.com/gpu=0" in refusal(request(claim, CLAIMS), objects).message
    by_class = quota(hard={"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "8"})
    assert refusal(request(claim, CLAIMS), with_quota(by_class)).code == 403


@each_row
def test_scopes(scopes: dict[str, Any], spec: dict[str, Any], refused: bool) -> None:
    asked = pod(container(resources=gpu("9")), **spec)
    objects = with_quota(quota(**scopes))
    if refused:
        assert refusal(asked, objects).message.startswith('pods "train" is forbidden: exceeded quota')
    else:
        admit(asked, objects)


def test_init_containers_share_and_sidecars_add() -> None:
    spec = {
        "containers": [container(resources=gpu("2", "2"))],
        "initContainers": [
            container("one", resources=gpu("3", "3")),
            container("side", resources=gpu("1", "1"), restartPolicy="Always"),
            container("two", resources=gpu("4", "4")),
        ],
    }
    assert texts(pod_total(spec, "requests")) == {GPU: "5"}


def test_quota_keys() -> None:
    """Only names without a domain are held against the list: ``limits.nvidia.com/gpu`` is accepted and limits nothing."""
    stored, _ = admit(request(quota(hard={f"limits.{GPU}": "0"}), QUOTAS))
    admit(gpu_pod("4"), with_quota(stored))
    error = refusal(request(quota(hard={"gpu": "1", f"requests.{GPU}": "8", "pods": "-1"}), QUOTAS))
    assert error.details is not None
    assert [(c["field"], c["message"].rpartition(": ")[2]) for c in error.details["causes"]] == [
        ("spec.hard[gpu]", "must be a standard resource type or fully qualified"),
        ("spec.hard[gpu]", "must be a standard resource for quota"),
        ("spec.hard[pods]", "must be greater than or equal to 0"),
    ]
