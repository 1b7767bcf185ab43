"""Shapes of real clusters that once misled the scope: networks with DRA drivers, sidecars that hold devices, platform namespaces."""

from __future__ import annotations

import pytest

from fixtures.kubernetes.models import Json
from tests.builders import a_cpu_node, a_node, a_pod_spec, a_scope


def a_slice(node: str, driver: str) -> Json:
    return {
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        },
    }


@pytest.mark.parametrize("driver", ["dra.net", "networking.gke.io", "sriovnetwork.k8snetworkplumbingwg.io", "dra.cpu", "None"])
def test_a_slice_of_something_else_makes_no_accelerator_node(driver: str) -> None:
    scope = a_scope(nodes=[a_node(), a_cpu_node()], resourceslices=[a_slice("gpu-0", driver), a_slice("cpu-0", driver)])
    assert [node.name for node in scope.accelerator_nodes] == ["gpu-0"]


@pytest.mark.parametrize(("amount", "asks"), [("0", False), ("0k", False), ("1", True), ("500m", True), ("many", True)])
def test_a_pod_that_asks_for_none_asks_for_no_device(amount: object, asks: bool) -> None:
    scope = a_scope(nodes=[])
    assert scope.device_demand(a_pod_spec(devices={"nvidia.com/gpu": amount}), "team-a").devices is asks


@pytest.mark.parametrize("namespace", ["gpu-resources", "dra-driver-nvidia-gpu", "amazon-cloudwatch", "karpenter"])
def test_namespaces_that_platforms_bring_are_no_tenants(namespace: str) -> None:
    assert not a_scope(nodes=[]).is_tenant(namespace)
