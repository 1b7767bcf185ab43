"""Agents and device plugins: who is missing where, and what a plugin that is away leaves behind."""

from typing import Any

import pytest

from conformance.adv.checks import check_allocatable
from conformance.ops.rollout import check_rolled_out
from conformance.ops.versions import check_pinned
from conformance.req.checks import check_not_overcommitted
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.platform.agents import agents
from fixtures.model.platform.containers import unpinned
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_cpu_node, a_daemonset, a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.tables import each_row

PLUGIN = "nvidia-device-plugin-daemonset"
FOLDER = [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}]
DIGEST = "sha256:" + "a" * 64


def pod_on(node: str, *, ready: bool = True, image: str = "registry.example.com/app:1.0", digest: str = DIGEST, **more: Any) -> Pod:
    status = {
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "containerStatuses": [{"name": "main", "imageID": f"registry.example.com/app@{digest}"}] if digest else [],
    }
    containers = [a_container(image=image)]
    return a_pod(f"{PLUGIN}-{node}", "gpu-operator", node=node, owner=f"DaemonSet/{PLUGIN}", status=status, containers=containers, **more)


def rolled_out(*, status: dict[str, int] | None = None, pods: list[Pod] | None = None, **daemonset: Any) -> Finding:
    nodes = [a_node("gpu-0"), a_node("gpu-1"), a_cpu_node()]
    chosen = pods if pods is not None else [pod_on("gpu-0"), pod_on("gpu-1")]
    item = a_daemonset(desired=2, status=status, node_selector={"nvidia.com/gpu.present": "true"}, **daemonset)
    (finding,) = check_rolled_out(a_scope(nodes=nodes, daemonsets=[item], pods=chosen))
    return finding


# -- who is an agent


@each_row
def test_agents_are_known_by_owner_by_mount_or_by_name(daemonset: dict[str, Any], expected: bool) -> None:
    assert bool(agents(a_scope(nodes=[a_node()], daemonsets=[a_daemonset(**daemonset)]))) is expected


# -- OPS-02


@each_row
def test_counts_that_do_not_agree_fail(status: dict[str, int], word: str) -> None:
    finding = rolled_out(status=status)
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


@pytest.mark.parametrize(("nodes", "outcome"), [(["gpu-0"], Outcome.BAD), (["gpu-0", "gpu-1"], Outcome.OK)])
def test_a_low_count_fails_where_a_pod_is_missing(nodes: list[str], outcome: Outcome) -> None:
    """A controller leaves out of its count pods that run where it would make none now (NVIDIA/gpu-operator#2255)."""
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1}
    assert rolled_out(status=counts, pods=[pod_on(node) for node in nodes]).outcome is outcome


def test_pods_that_their_controller_does_not_count_are_of_one_revision() -> None:
    """It replaces none of those, so that its count of updated pods says nothing of them."""
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1}
    pods = [pod_on(node, labels={"controller-revision-hash": hash_}) for node, hash_ in (("gpu-0", "new"), ("gpu-1", "old"))]
    finding = rolled_out(status=counts, pods=pods)
    assert (finding.outcome, finding.cause) == (Outcome.BAD, "AgentNotReady")


@pytest.mark.parametrize("second", [[], [pod_on("gpu-1", ready=False)], [pod_on("gpu-1", phase="Failed")]])
def test_counts_are_not_believed_without_a_ready_pod_on_each_node(second: list[Pod]) -> None:
    finding = rolled_out(pods=[pod_on("gpu-0"), *second])
    assert finding.outcome is Outcome.BAD
    assert "no Ready pod on gpu-1" in finding.message


def test_a_health_monitor_that_watches_no_accelerator_node_fails_unless_a_variant_of_it_does() -> None:
    def monitor(version: str) -> Any:
        return a_daemonset(f"gpu-health-monitor-dcgm-{version}", "nvsentinel", owner="", desired=0, node_selector={"dcgm.version": version})

    (finding,) = check_rolled_out(a_scope(nodes=[a_node()], daemonsets=[monitor("4")]))
    assert finding.outcome is Outcome.BAD
    assert "faults go unseen" in finding.message
    nodes, pair = [a_node(labels={"dcgm.version": "4"})], [monitor("3"), monitor("4")]
    outcomes = {item.subject.name: item.outcome for item in check_rolled_out(a_scope(nodes=nodes, daemonsets=pair))}
    assert outcomes["gpu-health-monitor-dcgm-3"] is Outcome.NOT_JUDGED


def test_agents_may_be_host_services_unless_the_policy_expects_daemonsets() -> None:
    with pytest.raises(NotApplicable):
        list(check_rolled_out(a_scope(nodes=[a_node()])))
    (finding,) = check_rolled_out(a_scope(a_policy(operators={"expectedAgents": ["*/nvidia-device-plugin*"]}), nodes=[a_node()]))
    assert finding.outcome is Outcome.BAD


# -- OPS-04


@each_row
def test_what_pins_an_image(image: str, pinned: bool) -> None:
    assert (unpinned(image, ["latest", "*nightly*"]) == "") is pinned


def pinned(pods: list[Pod], *, image: str = "registry.example.com/app:1.0", nodes: list[Any] | None = None) -> Finding:
    daemonset = a_daemonset(containers=[a_container(image=image)])
    (finding,) = check_pinned(a_scope(nodes=nodes or [a_node("gpu-0"), a_node("gpu-1")], daemonsets=[daemonset], pods=pods))
    return finding


def test_moving_tags_and_differences_between_nodes_fail() -> None:
    assert pinned([], image="registry.example.com/app:latest").outcome is Outcome.BAD
    other = pinned([pod_on("gpu-0"), pod_on("gpu-1", image="registry.example.com/app:0.9")])
    assert other.outcome is Outcome.BAD
    assert "2 images" in other.message
    moved = pinned([pod_on("gpu-0"), pod_on("gpu-1", digest="sha256:" + "b" * 64)])
    assert moved.outcome is Outcome.BAD
    assert "2 digests" in moved.message


def test_architectures_have_digests_of_their_own() -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1", labels={"kubernetes.io/arch": "arm64"})]
    assert pinned([pod_on("gpu-0"), pod_on("gpu-1", digest="sha256:" + "b" * 64)], nodes=nodes).outcome is Outcome.OK


def test_controllers_beside_the_agents_are_judged_and_other_namespaces_are_not() -> None:
    moving = {"template": {"spec": {**a_spec(), "containers": [a_container(image="operator")]}}}
    deployments = [a_workload("Deployment", "gpu-operator", moving, "gpu-operator"), a_workload("Deployment", "web", moving, "team-a")]
    found = {
        f.subject.name: f.outcome for f in check_pinned(a_scope(nodes=[a_node()], daemonsets=[a_daemonset()], deployments=deployments))
    }
    assert found == {"nvidia-device-plugin-daemonset": Outcome.OK, "gpu-operator": Outcome.BAD}


# -- clouds


def test_a_plugin_for_node_images_that_are_not_there_may_select_none() -> None:
    term = {"matchExpressions": [{"key": "cloud.google.com/gke-os-distribution", "operator": "In", "values": ["ubuntu"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    variant = a_daemonset("nvidia-gpu-device-plugin-small-ubuntu", "kube-system", owner="", desired=0, affinity=affinity)
    (finding,) = check_rolled_out(a_scope(nodes=[a_node()], daemonsets=[variant]))
    assert finding.outcome is Outcome.NOT_JUDGED
    (finding,) = check_rolled_out(a_scope(nodes=[a_node(), a_node("gpu-1", capacity={"nvidia.com/gpu": "0"})], daemonsets=[variant]))
    assert finding.outcome is Outcome.BAD
    (finding,) = check_rolled_out(a_scope(nodes=[a_cpu_node()], daemonsets=[variant]))
    assert finding.outcome is Outcome.BAD


def test_deployments_of_a_tenant_beside_a_plugin_are_the_tenant_s() -> None:
    moving = {"template": {"spec": {**a_spec(), "containers": [a_container(image="web")]}}}
    policy = a_policy(operators={"expectedAgents": [f"default/{PLUGIN}"]})
    web = a_workload("Deployment", "web", moving, "default")
    scope = a_scope(policy, nodes=[a_node()], daemonsets=[a_daemonset(namespace="default")], deployments=[web])
    assert [finding.subject.kind for finding in check_pinned(scope)] == ["DaemonSet"]


GPU = "nvidia.com/gpu"
PLUGIN_PODS_FOLDER = [{"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
READY: Json = {"conditions": [{"type": "Ready", "status": "True"}]}
CRASHES: Json = {"containerStatuses": [{"name": "p", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
AWAY = a_node(allocatable={GPU: "0"})


def a_plugin(node: str = "gpu-0", *, image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", status: Json | None = None) -> Pod:
    name, containers = f"plugin-{node}", [{"name": "p", "image": image}]
    return a_pod(name, "gpu-operator", node=node, containers=containers, volumes=PLUGIN_PODS_FOLDER, status=status or {})


def reported(*pods: Pod, **more: Any) -> str:
    (finding,) = check_allocatable(a_scope(nodes=[AWAY], pods=list(pods), **more))
    assert finding.outcome is Outcome.BAD
    return finding.message


@each_row
def test_a_plugin_that_is_away_is_named_with_its_pod(pod: dict[str, Any], words: str) -> None:
    made = a_plugin(**pod)
    assert words in reported(made)
    assert "none of 8 nvidia.com/gpu is allocatable" in reported(made)


def test_pods_that_were_not_read_or_are_of_an_unknown_vendor_claim_nothing() -> None:
    assert "no pod of it" not in reported(trouble={"pods": "Forbidden"})
    node = a_node(resource="amd.example.com/gpu", allocatable={"amd.com/gpu": "0"}, capacity={"amd.com/gpu": "8"})
    (finding, *_) = check_allocatable(a_scope(nodes=[node], pods=[]))
    assert "or calls every device unhealthy" in finding.message


def test_a_resource_that_the_plugin_no_longer_serves_is_no_plugin_that_is_away() -> None:
    """The kubelet remembers the names of an earlier MIG layout."""
    stale = a_node(capacity={"nvidia.com/mig-1g.10gb": "56"}, allocatable={"nvidia.com/mig-1g.10gb": "0"})
    found = {
        finding.subject.name: finding.message for finding in check_allocatable(a_scope(nodes=[stale], pods=[a_plugin(status=CRASHES)]))
    }
    assert "serves nvidia.com/gpu and no longer nvidia.com/mig-1g.10gb" in found["gpu-0 nvidia.com/mig-1g.10gb"]


def test_devices_held_while_the_plugin_is_away_are_not_called_overcommitted() -> None:
    pods = [a_pod(devices=4, node="gpu-0"), a_plugin(status=CRASHES)]
    (finding,) = check_not_overcommitted(a_scope(nodes=[AWAY], pods=pods))
    assert finding.outcome is Outcome.BAD
    assert "hold 4 of its 8 nvidia.com/gpu and the node can allocate none" in finding.message
    assert "is not Ready (CrashLoopBackOff)" in finding.message
    assert "no pod took too many" in finding.message
