from typing import Any

from conformance.net.advertising import check_jobs
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_scope, a_workload

RDMA = "rdma/a"
BARE = {"nvidia.com/gpu": "8"}
NODES = [a_node(name, capacity={RDMA: "63"}) for name in ("gpu-0", "gpu-1")]


def a_job(parallelism: int = 2) -> Json:
    job = a_workload("Job", "train", {"parallelism": parallelism, "completions": parallelism})
    job["metadata"]["uid"] = "uid-train"
    return job


def a_member(index: int, devices: dict[str, str], node: str = "", **more: Any) -> Pod:
    return a_pod(f"train-{index}", devices=devices, node=node, owner="Job/train", **more)


def judged(*pods: Pod, nodes: Any = NODES, parallelism: int = 2) -> list[Finding]:
    return list(check_jobs(a_scope(nodes=nodes, pods=pods, batch__jobs=[a_job(parallelism)])))


def test_a_pending_job_that_no_node_could_hold_counts() -> None:
    assert [finding.outcome for finding in judged(a_member(0, BARE), a_member(1, BARE))] == [Outcome.BAD]


def test_a_job_on_one_node_is_not_looked_at() -> None:
    small = {"nvidia.com/gpu": "2"}
    assert judged(a_member(0, small, "gpu-0"), a_member(1, small, "gpu-0")) == []


def test_a_job_on_nodes_without_fabric_is_not_judged() -> None:
    nodes = [*NODES, a_node("old-0"), a_node("old-1")]
    assert [finding.outcome for finding in judged(a_member(0, BARE, "old-0"), a_member(1, BARE, "old-1"), nodes=nodes)] == [
        Outcome.NOT_JUDGED
    ]


def test_the_hosts_network_needs_no_resource() -> None:
    pods = [a_member(index, BARE, f"gpu-{index}", hostNetwork=True) for index in range(2)]
    assert [finding.outcome for finding in judged(*pods)] == [Outcome.NOT_JUDGED]


def test_claims_may_bring_fabric_devices() -> None:
    pods = [a_member(index, BARE, f"gpu-{index}", resourceClaims=[{"name": "nics"}]) for index in range(2)]
    assert [finding.outcome for finding in judged(*pods)] == [Outcome.NOT_JUDGED]


def test_zero_units_are_no_request() -> None:
    pods = [a_member(index, {**BARE, RDMA: "0"}, f"gpu-{index}") for index in range(2)]
    assert [finding.outcome for finding in judged(*pods)] == [Outcome.BAD]
