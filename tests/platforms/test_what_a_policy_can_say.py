"""What platforms need to be said in a policy, and that it exempts no more than that."""

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.fence.checks import check_fenced, check_intruders
from conformance.net.advertising import check_advertised
from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from conformance.psa.standards import check_standards
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import physical_counts
from fixtures.model.devices.node_advertisement import advertisement
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_cpu_node, a_namespace, a_node, a_pod, a_policy, a_scope
from tests.findings import about
from tests.tables import each_row

# -- RDMA through the host -----------------------------------------------------------------------------


def host_pod(devices: int = 8, namespace: str = "training", *, host: bool = True) -> Pod:
    amounts = {"nvidia.com/gpu": str(devices)}
    made = a_container(devices=amounts, securityContext={"privileged": True})
    return a_pod("job", namespace, node="gpu-0", containers=[made], hostNetwork=host)


def host_scope(pod: Pod) -> Scope:
    policy = a_policy(tenants={"hostRdma": ["training"]})
    spaces = [a_namespace(name, {"pod-security.kubernetes.io/enforce": "privileged"}) for name in ("training", "web")]
    return a_scope(policy, nodes=[a_node()], pods=[pod], namespaces=spaces)


def test_whole_nodes_of_a_named_tenant_may_go_through_the_host() -> None:
    scope = host_scope(host_pod())
    assert about(check_bypass(scope), "job").outcome is Outcome.ALLOWED
    assert about(check_standards(scope), "job").outcome is Outcome.ALLOWED
    assert about(check_enforcement(scope), "training").outcome is Outcome.ALLOWED
    assert about(check_enforcement(scope), "web").outcome is Outcome.BAD


@pytest.mark.parametrize("pod", [host_pod(devices=4), host_pod(namespace="web"), host_pod(host=False)])
def test_a_part_of_a_node_another_tenant_or_no_host_network_may_not(pod: Pod) -> None:
    assert about(check_bypass(host_scope(pod)), "job").outcome is Outcome.BAD
    assert about(check_standards(host_scope(pod)), "job").outcome is Outcome.BAD


# -- fences --------------------------------------------------------------------------------------------


@each_row
def test_a_taint_by_the_name_of_a_device_resource_fences(taint: str, expected: Outcome) -> None:
    node = a_node(resource="gpu.intel.com/i915", taints=[taint])
    assert about(check_fenced(a_scope(nodes=[node, a_cpu_node()])), "gpu-0").outcome is expected


@each_row
def test_a_single_box_needs_no_fence_where_the_policy_says_so(fence: Mapping[str, Any], others: int, expected: Outcome) -> None:
    nodes = [a_node(taints=()), *(a_cpu_node(f"cpu-{index}") for index in range(others))]
    scope = a_scope(a_policy(fence=dict(fence)), nodes=nodes, pods=[a_pod("web", node="gpu-0")])
    assert about(check_fenced(scope), "gpu-0").outcome is expected
    assert about(check_intruders(scope), "web").outcome is expected


# -- fabric and counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("elsewhere", "expected"), [("0", Outcome.NOT_JUDGED), ("1", Outcome.BAD)])
def test_a_fabric_resource_that_machines_of_a_kind_never_had_is_not_missing(elsewhere: str, expected: Outcome) -> None:
    key = "vpc.amazonaws.com/efa"
    nodes = [a_node(capacity={key: "0"}), a_node("gpu-1", capacity={key: elsewhere})]
    assert about(check_advertised(a_scope(nodes=nodes)), "gpu-0").outcome is expected


def test_devices_per_node_are_reported_by_instance_type_too() -> None:
    node = a_node(labels={"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": ""})
    (count,) = physical_counts(node, advertisement(node.metadata.label), a_policy(advertisement={"devicesPerNode": {"p5.*": 8}}), [])
    assert count.devices == 8


# -- OpenShift -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "expected"), [({"node.openshift.io/os_id": "rhel"}, Outcome.NOT_JUDGED), ({}, Outcome.BAD)])
def test_only_a_node_makes_a_cluster_openshift_whose_constraints_admit_pods(labels: dict[str, str], expected: Outcome) -> None:
    spaces = [a_namespace("team-a"), a_namespace("openshift-config", {"node.openshift.io/os_id": "rhel"})]
    scope = a_scope(nodes=[a_node(labels=labels)], namespaces=spaces)
    assert about(check_enforcement(scope), "team-a").outcome is expected
