from __future__ import annotations

from typing import Any

from conformance.ops.installed_stack import check_configured
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding
from tests.builders import a_container, a_cpu_node, a_daemonset, a_node, a_scope, a_workload

POLICY: Json = {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy", "uid": "u"}, "status": {"state": "ready"}}


def an_operator(image: str = "nvcr.io/nvidia/gpu-operator:v26.7.0", namespace: str = "gpu-operator", **spec: Any) -> Json:
    template = {"template": {"spec": {"containers": [{**a_container(), "image": image}]}}, **spec}
    return a_workload("Deployment", "gpu-operator", template, namespace)


def findings(**world: Any) -> list[Finding]:
    return list(check_configured(a_scope(**{"nodes": [a_node()], **world})))


def outcomes(**world: Any) -> list[str]:
    return [finding.outcome.value for finding in findings(**world)]


def test_an_operator_with_its_object_passes_and_without_traces_nothing_is_judged() -> None:
    assert outcomes(apps__deployments=[an_operator()], nvidia_com__clusterpolicies=[POLICY]) == ["ok"]
    assert outcomes() == []


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


def test_the_network_operator_may_run_for_other_networks_alone() -> None:
    network = an_operator("nvcr.io/nvidia/cloud-native/network-operator:v26.7.0", "nvidia-network-operator")
    assert outcomes(apps__deployments=[network]) == ["not_judged"]
    left = a_daemonset("rdma-shared-dp-ds", "nvidia-network-operator", owner="NicClusterPolicy/nic-cluster-policy")
    assert outcomes(apps__deployments=[network], apps__daemonsets=[left]) == ["bad"]
