from typing import Any

import msgspec
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
from tests.findings import by_name
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


def test_finished_pods_hold_nothing_and_withdrawn_resources_are_overcommitted() -> None:
    pods = [a_pod("done", devices=8, node="gpu-0", phase="Succeeded"), a_pod("on", devices={"nvidia.com/mig-1g.10gb": 1}, node="gpu-0")]
    found = by_name(check_not_overcommitted(a_scope(nodes=[a_node()], pods=pods)))
    assert found == {f"gpu-0 {GPU}": Outcome.OK, "gpu-0 nvidia.com/mig-1g.10gb": Outcome.BAD}


def test_names_that_dra_serves_are_not_judged_by_allocatable() -> None:
    node = a_cpu_node("gpu-0", labels={"nvidia.com/gpu.present": "true"})
    classes = [{"spec": {"extendedResourceName": GPU}}, {"spec": None}]
    found = by_name(check_not_overcommitted(a_scope(nodes=[node], pods=[a_pod(devices=1, node="gpu-0")], deviceclasses=classes)))
    assert found == {f"gpu-0 {GPU}": Outcome.NOT_JUDGED}
    stale = a_node(allocatable={GPU: "0"}, capacity={GPU: "0"})
    found = by_name(check_not_overcommitted(a_scope(nodes=[stale], pods=[a_pod(devices=1, node="gpu-0")], deviceclasses=classes)))
    assert found == {f"gpu-0 {GPU}": Outcome.NOT_JUDGED}


# -- REQ-04


@each_row
def test_what_no_node_could_ever_offer_is_named(devices: Json, word: str) -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1", gpus=4, capacity={"rdma/ib": "8"})]
    (finding,) = check_can_be_offered(a_scope(nodes=nodes, pods=[a_pod(devices=devices)]))
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


def test_a_selector_that_excludes_every_node_with_the_devices_is_named_once_no_node_came() -> None:
    nodes = [a_node("gpu-0"), a_cpu_node()]
    waiting = a_pod(devices=1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-B200"})
    (finding,) = check_can_be_offered(a_scope(nodes=nodes, pods=[waiting]))
    assert finding.outcome is Outcome.BAD
    assert "its own selector or affinity excludes every node that has nvidia.com/gpu 1 (gpu-0)" in finding.message
    fitting = a_pod(devices=1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    young = msgspec.structs.replace(waiting, metadata=msgspec.structs.replace(waiting.metadata, creation_timestamp="2100-01-01T00:00:00Z"))
    for pod, outcome in ((fitting, Outcome.OK), (young, Outcome.UNDECIDED)):
        (finding,) = check_can_be_offered(a_scope(nodes=nodes, pods=[pod]))
        assert finding.outcome is outcome


def test_waiting_for_capacity_is_no_fault() -> None:
    pods = [
        a_pod("waits", devices=8),
        a_pod("full", devices=8, node="gpu-0"),
        a_pod("cpu"),
        a_pod("gated", devices=1, schedulingGates=[{"name": "k"}]),
    ]
    assert by_name(check_can_be_offered(a_scope(nodes=[a_node()], pods=pods))) == {"waits": Outcome.OK, "gated": Outcome.OK}


def test_resources_that_come_with_new_nodes_are_left_to_the_autoscaler() -> None:
    policy = a_policy(requests={"autoscaled": ["nvidia.com/mig-*"]})
    (finding,) = check_can_be_offered(a_scope(policy, nodes=[a_node()], pods=[a_pod(devices={"nvidia.com/mig-3g.40gb": 1})]))
    assert finding.outcome is Outcome.NOT_JUDGED


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
