"""REQ-08, 10, 16 and 17: CPU and memory, names that go together, images and priorities of tenants' device pods."""

import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from conformance.req.pod_specs import check_cpu_and_memory, check_images, check_names_together, check_priorities, check_shared_memory
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.findings import by_name
from tests.tables import each_row

CHECKS: dict[str, Callable[[Scope], Iterator[Finding]]] = {
    "REQ-08": check_cpu_and_memory,
    "REQ-10": check_names_together,
    "REQ-16": check_images,
    "REQ-17": check_priorities,
}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A live pod of tenant team-a with one device by what it has, and what its requirement finds."""

    id: str
    outcome: str
    resources: dict[str, str] = {}
    container: Json = {}
    spec: Json = {}
    status: Json = {}
    policy: Json = {}
    cause: str = ""
    observed: str = ""


@each_row
def test_a_live_device_pod(row: Row) -> None:
    container = a_container(devices={"nvidia.com/gpu": "1", **row.resources}, **row.container)
    pod = a_pod(namespace="team-a", containers=[container], node="gpu-0", status=row.status, **row.spec)
    (finding,) = CHECKS[row.id](a_scope(a_policy(requests=row.policy), pods=[pod]))
    assert (finding.outcome, finding.cause) == (Outcome(row.outcome), row.cause)
    assert row.observed in finding.observed


@pytest.mark.parametrize("id_", ["REQ-08", "REQ-16"])
def test_pods_of_the_platform_and_pods_without_devices_are_left_out(id_: str) -> None:
    mine = a_pod("dcgm-diag", "gpu-operator", devices=1, containers=[a_container(devices=1, image="diag")])
    assert list(CHECKS[id_](a_scope(pods=[mine, a_pod("web", containers=[a_container(image="web")])]))) == []


def test_a_limit_range_completes_a_template_so_its_live_pods_alone_are_judged_for_requests() -> None:
    deployment = a_workload("Deployment", "llm", {"template": {"spec": a_spec(devices=1)}})
    assert list(check_cpu_and_memory(a_scope(deployments=[deployment]))) == []


def test_an_image_may_be_pinned_by_a_webhook_in_the_live_pods_of_its_template() -> None:
    labels = {"app": "llm"}
    spec = a_spec(containers=[a_container(devices=1, image="vllm/vllm-openai:latest")])
    deployment = a_workload("Deployment", "llm", {"template": {"metadata": {"labels": labels}, "spec": spec}})
    pod = a_pod("llm-0", labels=labels, containers=[a_container(devices=1, image=f"vllm/vllm-openai@sha256:{'a' * 64}")])
    assert by_name(check_images(a_scope(deployments=[deployment], pods=[pod]))) == {"llm": Outcome.NOT_JUDGED, "llm-0": Outcome.OK}
    assert by_name(check_images(a_scope(deployments=[deployment]))) == {"llm": Outcome.BAD}


def test_two_containers_of_a_pod_may_ask_for_a_slice_and_for_a_whole_device() -> None:
    both = [a_container("one", devices=1), a_container("other", devices={"nvidia.com/mig-1g.10gb": 1})]
    assert by_name(check_names_together(a_scope(pods=[a_pod(containers=both)]))) == {"train-0": Outcome.OK}


def test_amounts_beside_devices_in_custom_resources_are_judged_as_the_api_server_would_judge_their_pods() -> None:
    worker = {"name": "w", "image": "x:1", "resources": {"limits": {"rdma/hca": "1500m"}, "requests": {"rdma/hca": "1500m"}}}
    cluster = a_workload("RayCluster", "ray", {"headGroupSpec": {"template": {"spec": {"containers": [worker]}}}})
    (finding,) = check_names_together(a_scope(rayclusters=[cluster]))
    assert (finding.outcome, finding.cause) == (Outcome.BAD, "AmountsMalformed")


def test_without_a_class_in_the_policy_no_priority_is_judged() -> None:
    with pytest.raises(NotApplicable):
        check_priorities(a_scope(pods=[a_pod(devices=1)]))


def test_a_template_without_a_class_gets_the_default_one_and_one_with_a_class_is_judged() -> None:
    jobs = [
        a_workload("Job", name, {"template": {"spec": a_spec(devices=1, priorityClassName=class_)}})
        for name, class_ in (("plain", ""), ("own", "high"))
    ]
    scope = a_scope(a_policy(requests={"priorityClasses": ["train"]}), jobs=jobs)
    assert by_name(check_priorities(scope)) == {"plain": Outcome.NOT_JUDGED, "own": Outcome.BAD}


class SharedMemoryRow(msgspec.Struct, forbid_unknown_fields=True):
    """A pod of two devices by what it has at /dev/shm, and what is found of it."""

    outcome: str
    mount: Json | None = None
    volume: Json | None = None
    spec: Json = {}
    annotations: Json = {}
    observed: str = ""


@each_row
def test_a_pod_of_two_devices(row: SharedMemoryRow) -> None:
    container = a_container(devices=2, volumeMounts=[{"mountPath": "/dev/shm", "name": "shm", **row.mount}] if row.mount else [])
    volumes = [{"name": "shm", **row.volume}] if row.volume else []
    pod = a_pod(annotations=row.annotations, containers=[container], volumes=volumes, node="gpu-0", **row.spec)
    (finding,) = check_shared_memory(a_scope(nodes=[a_node()], pods=[pod]))
    assert (finding.outcome, row.observed in finding.observed) == (Outcome(row.outcome), True)
    assert finding.cause == ("SharedMemorySmall" if row.outcome == "bad" else "")


def test_members_of_a_job_count_with_one_device_each_and_others_do_not() -> None:
    group = a_workload("PodGroup", "train", {"minMember": 2})
    marks = {"scheduling.k8s.io/group-name": "train"}
    members = [a_pod(f"train-{index}", devices=1, node="gpu-0", annotations=marks) for index in range(2)]
    other = [a_pod("one", devices=1, node="gpu-0"), a_pod("web", node="gpu-0")]
    scope = a_scope(nodes=[a_node()], pods=[*members, *other], scheduling_volcano_sh__podgroups=[group])
    assert by_name(check_shared_memory(scope)) == {"train-0": Outcome.BAD, "train-1": Outcome.BAD}


def test_a_webhook_may_complete_what_a_template_lacks() -> None:
    labels = {"app": "llm"}
    template = {"metadata": {"labels": labels}, "spec": a_spec(devices=4)}
    deployment = a_workload("Deployment", "llm", {"replicas": 1, "template": template})
    pod = a_pod("llm-0", devices=4, labels={**labels, "pod-template-hash": "x"}, hostIPC=True)
    assert by_name(check_shared_memory(a_scope(deployments=[deployment], pods=[pod]))) == {"llm": Outcome.NOT_JUDGED, "llm-0": Outcome.OK}
    assert by_name(check_shared_memory(a_scope(deployments=[deployment]))) == {"llm": Outcome.BAD}


def test_pods_of_many_templates_are_looked_up_by_their_labels() -> None:
    many = [
        a_workload("Deployment", f"llm-{at}", {"template": {"metadata": {"labels": {"app": f"llm-{at}"}}, "spec": a_spec(devices=4)}})
        for at in range(300)
    ]
    scope, started = a_scope(deployments=many, pods=[a_pod(labels={"app": "web"})] * 30_000), time.monotonic()
    assert set(by_name(check_shared_memory(scope)).values()) == {Outcome.BAD}
    assert time.monotonic() - started < 3


def test_what_a_controller_completes_is_not_judged_for_what_it_lacks() -> None:
    train = a_workload("TrainJob", "t", {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}})
    assert by_name(check_shared_memory(a_scope(trainjobs=[train]))) == {"t spec.trainer": Outcome.NOT_JUDGED}


def test_amounts_of_a_scheduler_and_pods_of_the_platform_are_no_several_devices() -> None:
    share = a_pod("share", devices={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
    diagnosis = a_pod("dcgm-diag", "gpu-operator", devices=8)
    with pytest.raises(NotApplicable):
        list(check_shared_memory(a_scope(nodes=[a_node()], pods=[share, diagnosis])))


def test_claims_count_as_devices() -> None:
    asked = [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
    claim = a_workload("ResourceClaimTemplate", "pair", {"spec": {"devices": {"requests": asked}}})
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    devices = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [selector]}}
    pod = a_pod("claims", resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "pair"}])
    (finding,) = check_shared_memory(a_scope(pods=[pod], resourceclaimtemplates=[claim], deviceclasses=[devices]))
    assert finding.outcome is Outcome.BAD


def test_tpus_exchange_nothing_by_shared_memory() -> None:
    with pytest.raises(NotApplicable):
        list(check_shared_memory(a_scope(pods=[a_pod(devices={"google.com/tpu": 4})])))
