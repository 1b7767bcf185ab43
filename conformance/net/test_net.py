"""NET: RDMA and GPUDirect."""

from functools import partial

import pytest

from conformance.common_findings import unless_settling
from conformance.net.advertising import check_advertised, check_attachments, check_jobs, check_nic_cluster_policy, check_virtual_functions
from conformance.net.figures import figure_of
from conformance.net.judging import judge_bandwidth, judge_transport, of_each, unless_without_figure
from conformance.net.near_devices import check_alignment, near_devices, policies_of_kubelets
from conformance.net.ports import judge_ports
from conformance.net.runs import SharedRuns
from conformance.net.visible_fabric import probe_devices
from conformance.probes.node_documents import NodeDocuments, judged
from conformance.requirement import Asks, requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@pytest.fixture(scope="session")
def shared_runs() -> SharedRuns:
    """The two-node runs of this session, started by the first requirement that asks for it."""
    return SharedRuns()


@requirement("NET-01")
def test_the_nic_cluster_policy_is_ready(judge: Evidence, scope: Scope) -> None:
    """The NicClusterPolicy is ready, and so is every state it applies."""
    judge(check_nic_cluster_policy(scope))
    judge(check_virtual_functions(scope))


@requirement("NET-02")
def test_rdma_nodes_advertise_what_the_policy_configures(judge: Evidence, scope: Scope) -> None:
    """Every RDMA node advertises the resources that the NicClusterPolicy configures."""
    judge(unless_settling(scope, check_advertised(scope)))


@requirement("NET-03")
def test_network_attachments_name_advertised_resources(judge: Evidence, scope: Scope) -> None:
    """Every NetworkAttachmentDefinition names a resource that a node advertises."""
    judge(check_attachments(scope))


@requirement("NET-04", devices=0)
def test_fabric_devices_reach_the_pods_that_asked_and_no_other(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod that asks for the RDMA resource sees an active port, and a pod that does not ask sees no RDMA device."""
    judge(probe_devices(scope, workspace))


@requirement("NET-05")
def test_traffic_between_nodes_goes_by_gpudirect_rdma(judge: Evidence, scope: Scope, workspace: Workspace, shared_runs: SharedRuns) -> None:
    """All NCCL traffic between nodes goes by GPUDirect RDMA, in both directions."""
    accepted = scope.policy.network.accepted
    judge(of_each(shared_runs.get(scope, workspace), lambda run, _: judge_transport(run, accepted)))


@requirement("NET-06")
def test_bus_bandwidth_meets_the_figure(judge: Evidence, scope: Scope, workspace: Workspace, shared_runs: SharedRuns) -> None:
    """The bus bandwidth of a two-node all-reduce is measured, correct and at least the figure for its kind."""
    network = scope.policy.network
    findings = of_each(shared_runs.get(scope, workspace), lambda run, first: judge_bandwidth(run, figure_of(run, network, first=first)))
    judge(unless_without_figure(findings))


@requirement("NET-07")
def test_ports_carry_the_payload_and_count_no_errors(judge: Evidence, scope: Scope, workspace: Workspace, shared_runs: SharedRuns) -> None:
    """During a run over the fabric the ports of both nodes carry its payload and count no errors."""
    judge(of_each(shared_runs.get(scope, workspace), lambda run, _: judge_ports(run)))


@requirement("NET-08")
def test_kubelets_align_devices_and_adapters(judge: Evidence, scope: Scope, asks: Asks) -> None:
    """Kubelets of RDMA nodes give a container devices and adapters of one NUMA node."""
    judge(check_alignment(scope, partial(policies_of_kubelets, asks)))


@requirement("NET-09")
def test_adapters_reach_the_memory_of_devices_directly(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """RDMA adapters reach the memory of devices directly: by peer memory or DMA-BUF, past no redirection, over one switch."""
    judge(judged(scope, documents, near_devices(scope)))


@requirement("NET-10")
def test_multi_node_jobs_ask_for_the_fabric(judge: Evidence, scope: Scope) -> None:
    """Every pod of a device job that spans nodes asks for an RDMA resource."""
    judge(check_jobs(scope))
