from typing import Any

import pytest

from conformance.ops.custom_resources import check_configured
from conformance.ops.rollout import check_one_plugin
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding
from tests.builders import a_container, a_cpu_node, a_daemonset, a_node, a_pod, a_scope, a_workload
from tests.tables import each_row

POLICY: Json = {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy", "uid": "u"}, "status": {"state": "ready"}}


def an_operator(image: str = "nvcr.io/nvidia/gpu-operator:v26.7.0", namespace: str = "gpu-operator", **spec: Any) -> Json:
    template = {"template": {"spec": {"containers": [{**a_container(), "image": image}]}}, **spec}
    return a_workload("Deployment", "gpu-operator", template, namespace)


def findings(**world: Any) -> list[Finding]:
    return list(check_configured(a_scope(**{"nodes": [a_node()], **world})))


def outcomes(**world: Any) -> list[str]:
    return [finding.outcome.value for finding in findings(**world)]


def test_an_operator_or_agents_without_the_object_fail() -> None:
    (finding,) = findings(apps__deployments=[an_operator()])
    assert finding.outcome.value == "bad"
    assert "no ClusterPolicy or GPUCluster" in finding.message
    ignored = {**POLICY, "status": {"state": "ignored"}}
    assert outcomes(
        apps__deployments=[an_operator("mirror.local:5000/nvidia/gpu-operator:v25.3")], nvidia_com__clusterpolicies=[ignored]
    ) == ["bad"]
    assert outcomes(apps__daemonsets=[a_daemonset()]) == ["bad"]
    amd = an_operator("docker.io/rocm/gpu-operator:v1.4.0", "kube-amd-gpu")
    assert [str(one.subject) for one in findings(apps__deployments=[amd])] == ["Operator AMD's GPU operator"]


def test_an_operator_that_wants_no_pod_or_is_a_tenants_copy_is_no_trace() -> None:
    assert outcomes(apps__deployments=[an_operator(replicas=0), an_operator(namespace="team-a")]) == []


def test_a_cluster_without_devices_needs_no_object() -> None:
    assert outcomes(nodes=[a_cpu_node()], apps__deployments=[an_operator()]) == ["not_judged"]


def test_an_operator_that_was_installed_a_moment_ago_is_asked_again() -> None:
    fresh = an_operator()
    fresh["metadata"]["creationTimestamp"] = "2100-01-01T00:00:00Z"
    (finding,) = findings(apps__deployments=[fresh])
    assert finding.outcome.value == "undecided"
    assert "ask again" in finding.message


NETWORK = an_operator("nvcr.io/nvidia/cloud-native/network-operator:v26.7.0", "nvidia-network-operator")
ADAPTER = a_node(labels={"feature.node.kubernetes.io/pci-15b3.present": "true"})


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ({"nodes": [ADAPTER]}, "bad"),
        ({"nodes": [a_node(capacity={"rdma/hca": "0"})]}, "bad"),
        ({"nodes": [a_node()]}, "not_judged"),
        ({"nodes": [ADAPTER], "sriovnetworknodepolicies": [{"metadata": {"name": "rail-0"}}]}, "not_judged"),
        ({"nodes": [ADAPTER], "sriovnetworknodepolicies": [{"metadata": {"name": "default"}}]}, "bad"),
        ({"nodes": [a_node()], "daemonsets": [a_daemonset("rdma", "nvidia-network-operator", owner="NicClusterPolicy/x")]}, "bad"),
    ],
)
def test_the_network_operator_needs_its_object_where_there_are_adapters_that_nothing_else_configures(world: Json, expected: str) -> None:
    assert outcomes(deployments=[NETWORK], **world) == [expected]


# -- device plugins


FOLDER = [{"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]


def a_plugin(name: str, image: str, namespace: str = "gpu-operator", **more: Any) -> Pod:
    return a_pod(
        f"{name}-x7k2p",
        namespace,
        node="gpu-0",
        owner=f"DaemonSet/{name}",
        containers=[{"name": "p", "image": image}],
        volumes=FOLDER,
        **more,
    )


OPERATORS = a_plugin("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")


def outcome(*pods: Pod, **node: Any) -> str:
    (finding,) = check_one_plugin(a_scope(nodes=[a_node(**node)], pods=[*pods]))
    return finding.outcome.value


@each_row
def test_two_plugins_of_one_vendor_fail_by_both_names(second: dict[str, Any]) -> None:
    made = a_plugin(**second)
    (finding,) = check_one_plugin(a_scope(nodes=[a_node()], pods=[OPERATORS, made]))
    assert finding.outcome.value == "bad"
    assert "nvidia-device-plugin-daemonset" in finding.message
    assert made.metadata.owners[0].name in finding.message


def test_plugins_of_two_vendors_may_share_a_node() -> None:
    assert outcome(OPERATORS, a_plugin("amd-gpu-device-plugin", "docker.io/rocm/k8s-device-plugin:1.31.0", "kube-amd-gpu")) == "ok"


def test_a_pod_that_is_replaced_or_deleted_or_finished_is_no_second_plugin() -> None:
    again = a_plugin("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")
    assert outcome(OPERATORS, again) == "ok"
    done = a_plugin("nvdp-nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", phase="Failed")
    assert outcome(OPERATORS, done) == "ok"


def test_eks_auto_mode_has_a_plugin_that_no_pod_shows() -> None:
    """A GPU operator installed there left allocatable at 0 (awsdocs/amazon-eks-user-guide#914)."""
    assert outcome(OPERATORS, labels={"eks.amazonaws.com/compute-type": "auto"}) == "bad"
