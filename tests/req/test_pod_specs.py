"""REQ-08, 10, 16 and 17: CPU and memory, names that go together, images and priorities of tenants' device pods."""

from collections.abc import Callable, Iterator

import msgspec
import pytest

from conformance.req.pod_specs import check_cpu_and_memory, check_images, check_names_together, check_priorities
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_pod, a_policy, a_scope, a_spec, a_workload
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
