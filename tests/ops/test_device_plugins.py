from typing import Any

import pytest

from conformance.ops.device_plugins import check_one_plugin
from fixtures.kubernetes.models import Pod
from tests.builders import a_node, a_pod, a_scope

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


@pytest.mark.parametrize(
    "second",
    [
        a_plugin("nvidia-gpu-device-plugin-large-cos", "gke.gcr.io/nvidia-gpu-device-plugin@sha256:aa", "kube-system"),
        a_plugin("nvdp-nvidia-device-plugin", "registry.example:5000/k8s-device-plugin:v0.17.0", "kube-system"),
        a_plugin("hami-device-plugin", "docker.io/projecthami/hami:v2.7.0", "kube-system"),
        a_plugin("volcano-device-plugin", "docker.io/volcanosh/volcano-vgpu-device-plugin:v1.11.0", "kube-system"),
    ],
)
def test_two_plugins_of_one_vendor_fail_by_both_names(second: Pod) -> None:
    (finding,) = check_one_plugin(a_scope(nodes=[a_node()], pods=[OPERATORS, second]))
    assert finding.outcome.value == "bad"
    assert "nvidia-device-plugin-daemonset" in finding.message
    assert second.metadata.owners[0].name in finding.message


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
