"""A plugin that is away is named as such: capacity stays and nothing is allocatable."""

from typing import Any

from conformance.adv.checks import check_allocatable
from conformance.req.checks import check_not_overcommitted
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_pod, a_scope
from tests.tables import each_row

GPU = "nvidia.com/gpu"
FOLDER = [{"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
READY: Json = {"conditions": [{"type": "Ready", "status": "True"}]}
CRASHES: Json = {"containerStatuses": [{"name": "p", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
AWAY = a_node(allocatable={GPU: "0"})


def a_plugin(node: str = "gpu-0", *, image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", status: Json | None = None) -> Pod:
    name, containers = f"plugin-{node}", [{"name": "p", "image": image}]
    return a_pod(name, "gpu-operator", node=node, containers=containers, volumes=FOLDER, status=status or {})


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
