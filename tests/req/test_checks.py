import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted, check_whole_devices
from fixtures.kubernetes.models import Json
from fixtures.model.demand.amounts import held_by, is_extended, looks_like_device, problem
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.placement.fitting import requests_of
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_cpu_node, a_node, a_pod, a_pod_spec, a_policy, a_scope, a_spec, a_workload
from tests.findings import by_name, messages
from tests.tables import each_row

GPU = "nvidia.com/gpu"


def ray(resources: Json, **more: Any) -> Json:
    container = {"name": "worker", "image": "ray:2", "resources": resources}
    return a_workload(
        "RayCluster", "r", {"workerGroupSpecs": [{"groupName": "g", "template": {"spec": {"containers": [container], **more}}}]}
    )


# -- REQ-02


@each_row
def test_what_the_api_would_refuse(request_: str | int | None, limit: str | int | None, word: str) -> None:
    text = problem(GPU, request_, limit)
    assert (word in text) if word else text == ""


@pytest.mark.parametrize("group", ["initContainers", "ephemeralContainers"])
def test_every_kind_of_container_counts(group: str) -> None:
    wrong = {"name": "x", "image": "i", "resources": {"requests": {GPU: "1"}}, "restartPolicy": "Always"}
    (finding,) = check_whole_devices(a_scope(rayclusters=[ray({}, **{group: [wrong]})]))
    assert finding.outcome is Outcome.BAD
    assert f"{group}[0]" in finding.message


def test_templates_without_devices_are_no_subject_and_live_pods_are() -> None:
    web = a_workload("Deployment", "web", {"template": {"spec": a_spec()}})
    train = a_workload("TrainJob", "t", {"trainer": {"resourcesPerNode": {"limits": {GPU: 8}}}})
    found = by_name(check_whole_devices(a_scope(deployments=[web], trainjobs=[train], pods=[a_pod("live", devices=2, node="gpu-0")])))
    assert found == {"t spec.trainer": Outcome.OK, "live": Outcome.OK}


# -- REQ-03


@each_row
def test_how_much_pods_may_hold(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], expected: dict[str, Outcome]) -> None:
    """DeviceClasses serve the name of GPUs: DRA allocates those that no node has."""
    made = [a_node(**{"taints": [], **node}) for node in nodes]
    classes = [{"spec": {"extendedResourceName": GPU}}, {"spec": None}]
    found = check_not_overcommitted(a_scope(nodes=made, pods=[a_pod(node="gpu-0", **pod) for pod in pods], deviceclasses=classes))
    assert by_name(found) == expected


# -- REQ-04


@each_row
def test_what_some_node_could_offer(pods: list[dict[str, Any]], policy: Json, expected: dict[str, Outcome], says: str) -> None:
    """``made``: when a pod was."""
    made = []
    for row in pods:
        created = row.pop("made", None)
        made.append(a_pod(**row))
        made[-1].metadata.creation_timestamp = created
    nodes = [a_node("gpu-0"), a_node("gpu-1", gpus=4, product="NVIDIA-L4", capacity={"rdma/ib": "8"}), a_cpu_node()]
    findings = list(check_can_be_offered(a_scope(a_policy(requests=policy), nodes=nodes, pods=made)))
    assert by_name(findings) == expected
    assert says in messages(findings)


def test_pods_that_select_alike_are_held_against_the_nodes_once() -> None:
    nodes = [a_node(f"gpu-{at}") for at in range(800)]
    pods = [a_pod(f"train-{at}", devices=1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-B200"}) for at in range(3000)]
    scope, started = a_scope(nodes=nodes, pods=pods), time.monotonic()
    assert set(by_name(check_can_be_offered(scope)).values()) == {Outcome.BAD}
    assert time.monotonic() - started < 3


# -- REQ-05


def test_names_of_devices_misspelt_ones_included() -> None:
    scope = a_scope()
    assert all(
        looks_like_device(scope, name) for name in (GPU, "nvidia.com/gpus", "amd.com/gpu", "huawei.com/Ascend910", "nvidia.com/gpumem")
    )
    assert not any(
        looks_like_device(scope, name)
        for name in (
            "cpu",
            "rdma/ib",
            "nvidia.com/hostdev",
            "nvidia.com/nvswitch",
            "nvidia.com/bf3-p0-vfs",
            "hugepages-2Mi",
            "example.org/x",
        )
    )
    assert not is_extended("kubernetes.io/foo")
    assert not is_extended("gpu")


def test_the_policy_may_approve_fewer_names() -> None:
    policy = a_policy(requests={"approved": ["nvidia.com/mig-*"]})
    assert by_name(check_approved_names(a_scope(policy, pods=[a_pod(devices=1)]))) == {GPU: Outcome.BAD}


# -- What a pod counts for, held_by against the scheduler's rule: the containers, or any init container with the sidecars before it


NAMES = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "rdma/ib")
_AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=3)
_INIT = st.tuples(st.booleans(), _AMOUNTS)


@given(st.lists(_INIT, max_size=5), st.lists(_AMOUNTS, max_size=3))
def test_every_pod_counts_for_the_larger_of_its_containers_and_its_start(
    init: list[tuple[bool, dict[str, int]]], main: list[dict[str, int]]
) -> None:
    starting = [
        {**a_container(f"i{number}", devices=own), **({"restartPolicy": "Always"} if sidecar else {})}
        for number, (sidecar, own) in enumerate(init)
    ]
    spec = a_pod_spec(initContainers=starting, containers=[a_container(f"c{number}", devices=own) for number, own in enumerate(main)])
    for name in NAMES:
        sidecars = [own.get(name, 0) * sidecar for sidecar, own in init]
        starts = [own.get(name, 0) + sum(sidecars[:number]) for number, (sidecar, own) in enumerate(init) if not sidecar]
        wanted = max([sum(sidecars) + sum(own.get(name, 0) for own in main), *starts])
        assert held_by(spec).get(name, 0) == wanted
        assert requests_of(spec).get(name, 0) == wanted


@each_row
def test_what_a_pod_asks_for_has_one_answer_and_what_the_api_refuses_is_not_none(amount: Any, count: int) -> None:
    """Chaos keeps away from what is busy, requirements count what is free: both by the same reader."""
    pod = a_pod(node="gpu-0", devices={"nvidia.com/gpu": 0})
    pod.spec.containers[0].resources.limits = pod.spec.containers[0].resources.requests = {"nvidia.com/gpu": amount}
    assert held_by(pod.spec) == {"nvidia.com/gpu": count}
    assert requests_of(pod.spec).get("nvidia.com/gpu", 0) == count
    asked = {"resources": {"limits": {"nvidia.com/gpu": amount}}}
    assert requested_devices({"spec": {"containers": [asked]}}, lambda _: True).get("nvidia.com/gpu", 0) == count
    scope = a_scope(nodes=[a_node()], pods=[pod])
    assert scope.device_demand_of(pod).devices is (count > 0)
    refused = count == 1
    found = [finding.outcome for finding in check_whole_devices(scope)]
    assert found == [Outcome.BAD if refused else Outcome.OK]
