"""OPS-01 and OPS-13: objects of operators that run."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance.net.advertising import check_nic_cluster_policy
from conformance.ops.custom_resources import check_configured, check_ready
from conformance.ops.rollout import check_one_plugin
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
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


@each_row
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


def ago(minutes: float) -> str:
    return datetime.fromtimestamp(a_scope().snapshot.taken_at - minutes * 60, UTC).isoformat()


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}


READY = [condition("Ready", "True", "Reconciled"), condition("Error", "False", "Ready")]


def an_object(name: str = "cluster-policy", state: str = "ready", conditions: list[Json] | None = None, **status: object) -> Json:
    return {
        "metadata": {"name": name, "generation": 1},
        "status": {"state": state, "conditions": READY if conditions is None else conditions, **status},
    }


def by_name(findings: Iterable[Finding]) -> dict[str, Outcome]:
    return {str(finding.subject): finding.outcome for finding in findings}


def messages(findings: Iterable[Finding]) -> str:
    return "\n".join(finding.message for finding in findings if finding.outcome is Outcome.BAD)


@each_row
def test_states_and_reasons_that_are_not_ready(state: str, conditions: list[Json], word: str) -> None:
    findings = list(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object(state=state, conditions=conditions)])))
    assert by_name(findings)["ClusterPolicy cluster-policy"] is Outcome.BAD
    assert word in messages(findings)


@pytest.mark.parametrize(
    ("ready", "error", "expected"),
    [([3], 3, "undecided"), ([20], 20, "bad"), ([600], 3, "bad"), ([3], None, "undecided"), ([3, 600], None, "undecided")],
)
def test_an_object_that_became_unready_a_moment_ago_is_asked_again(ready: list[float], error: float | None, expected: str) -> None:
    conditions = [{**condition("Ready", "False", "OperandNotReady"), "lastTransitionTime": ago(at)} for at in ready]
    if error:
        conditions.append({**condition("Error", "True", "OperandNotReady"), "lastTransitionTime": ago(error)})
    policy = an_object(state="notReady", conditions=conditions)
    scope = a_scope(nodes=[a_node()], clusterpolicies=[policy], nicclusterpolicies=[{**policy, "metadata": {"name": "nic-cluster-policy"}}])
    found = [*check_ready(scope), *check_nic_cluster_policy(scope)]
    assert [one.outcome.value for one in found if one.subject.name in ("cluster-policy", "nic-cluster-policy")] == [expected] * 3


def test_an_object_waits_for_an_agent_of_its_own_that_rolls_out() -> None:
    def judged(minutes: float) -> Outcome:
        pod = a_pod("plugin", "gpu-operator", node="gpu-0", owner="DaemonSet/nvidia-device-plugin-daemonset")
        pod.metadata.creation_timestamp = ago(minutes)
        policy = an_object(state="notReady", conditions=[])
        policy["metadata"]["uid"] = "uid-cluster-policy"
        daemonset = a_daemonset(status={"numberReady": 0, "numberAvailable": 0})
        return by_name(check_ready(a_scope(nodes=[a_node()], pods=[pod], daemonsets=[daemonset], clusterpolicies=[policy])))[
            "ClusterPolicy cluster-policy"
        ]

    assert (judged(3), judged(40)) == (Outcome.UNDECIDED, Outcome.BAD)


def test_without_conditions_readiness_needs_an_accelerator_node() -> None:
    old = an_object(conditions=[])
    assert by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[old])))["ClusterPolicy cluster-policy"] is Outcome.OK
    assert by_name(check_ready(a_scope(nodes=[a_cpu_node()], clusterpolicies=[old])))["ClusterPolicy cluster-policy"] is Outcome.BAD


def test_exactly_one_that_is_not_ignored() -> None:
    ignored = an_object("second", state="ignored")
    found = by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object(), ignored])))
    assert found == {"ClusterPolicy *": Outcome.OK, "ClusterPolicy cluster-policy": Outcome.OK, "ClusterPolicy second": Outcome.NOT_JUDGED}
    for policies in ([an_object(), an_object("second")], [ignored]):
        assert by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=policies)))["ClusterPolicy *"] is Outcome.BAD


def test_a_cluster_policy_and_a_gpu_cluster_exclude_each_other() -> None:
    findings = list(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object()], gpuclusters=[an_object("gpu-cluster")])))
    assert "exist together" in messages(findings)
    (count, alone) = check_ready(a_scope(nodes=[a_node()], gpuclusters=[an_object("gpu-cluster")]))
    assert {count.outcome, alone.outcome} == {Outcome.OK}


def test_a_status_of_an_older_generation_fails() -> None:
    stale = {**an_object("d", observedGeneration=1), "metadata": {"name": "d", "generation": 4}}
    assert "generation 1 and its spec of 4" in messages(check_ready(a_scope(nodes=[a_node()], nvidiadrivers=[stale])))


def test_drivers_and_network_policies_are_judged_too() -> None:
    scope = a_scope(
        nodes=[a_node()],
        nvidiadrivers=[an_object("a"), an_object("b", state="notReady", conditions=[])],
        nicclusterpolicies=[an_object("nic", state="notReady", conditions=[]), an_object("extra", state="ignore")],
    )
    assert by_name(check_ready(scope)) == {
        "NVIDIADriver a": Outcome.OK,
        "NVIDIADriver b": Outcome.BAD,
        "NicClusterPolicy *": Outcome.OK,
        "NicClusterPolicy nic": Outcome.BAD,
        "NicClusterPolicy extra": Outcome.NOT_JUDGED,
    }


@each_row
def test_a_device_config_is_judged_by_its_counts(matching: int, desired: int, available: int, outcome: Outcome) -> None:
    counts = {"nodesMatchingSelectorNumber": matching, "desiredNumber": desired, "availableNumber": available}
    item = {"metadata": {"name": "default", "namespace": "kube-amd-gpu"}, "status": {"devicePlugin": counts, "driver": {}}}
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[item]))
    assert finding.outcome is outcome
    through_dra = {**item, "spec": {"devicePlugin": {"enableDevicePlugin": False}}}
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[through_dra]))
    assert finding.outcome is (Outcome.OK if not desired else outcome)
    not_ready = {**item, "status": {**item["status"], "conditions": [condition("Ready", "False", "Error", "no driver")]}}  # type: ignore[dict-item]
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[not_ready]))
    assert finding.outcome is Outcome.BAD


def test_without_an_operator_nothing_is_judged_and_a_refused_list_is_inconclusive() -> None:
    with pytest.raises(NotApplicable):
        list(check_ready(a_scope(nodes=[a_node()])))
    with pytest.raises(NotApplicable):
        list(check_ready(a_scope(offline=True, nodes=[a_node()])))
    with pytest.raises(Inconclusive):
        list(check_ready(a_scope(nodes=[a_node()], trouble={"nvidia.com/clusterpolicies": "Forbidden"})))
