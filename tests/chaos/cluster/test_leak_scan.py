"""The leak scan names each kind of leak, and nothing that changes by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.simulator.server.store import Store
from tests.chaos import leak_scan
from tests.chaos.ledger.simulated_cluster import RUN, Json, fetch, world
from tests.troubles import Trouble


def labelled(kind: str, name: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": owned.labels(RUN)}}


def on_node(patch: Json, subresource: str = "") -> Callable[[Cluster], object]:
    return lambda cluster: cluster.patch("nodes", "gpu-1", patch, subresource=subresource)


LEAKS: list[tuple[Callable[[Cluster], object], str]] = [
    (on_node({"metadata": {"labels": {"nvidia.com/gpu.product": None}}}), "node gpu-1 label nvidia.com/gpu.product: 'H100' → absent"),
    (on_node({"metadata": {"annotations": {"x": "y"}}}), "node gpu-1 annotation x: absent → 'y'"),
    (on_node({"spec": {"unschedulable": True}}), "node gpu-1 unschedulable: 'false' → 'true'"),
    (on_node({"spec": {"taints": None}}), "node gpu-1 taint nvidia.com/gpu:NoSchedule: 'present' → absent"),
    (on_node({"status": {"allocatable": {"nvidia.com/gpu": "7"}}}, "status"), "node gpu-1 allocatable nvidia.com/gpu: '8' → '7'"),
    (
        lambda cluster: cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator"),
        "apps/deployments gpu-operator/gpu-operator replicas: '1' → '0'",
    ),
    (
        lambda cluster: cluster.create("configmaps", labelled("ConfigMap", "left"), namespace="gpu-operator"),
        "left by the suite: configmaps gpu-operator/left: absent → 'there'",
    ),
    (lambda cluster: cluster.create("namespaces", labelled("Namespace", "left")), "left by the suite: namespaces left: absent → 'there'"),
]


@pytest.mark.parametrize(("leak", "line"), LEAKS, ids=[line for _, line in LEAKS])
def test_a_leak_is_one_readable_line(cluster: Cluster, leak: Callable[[Cluster], object], line: str) -> None:
    before = leak_scan.scan(cluster)
    leak(cluster)
    assert before.differences(leak_scan.scan(cluster)) == [line]


def test_what_changes_by_itself_is_no_leak(cluster: Cluster, store: Store) -> None:
    before = leak_scan.scan(cluster)
    by_controllers = {"labels": {"nvidia.com/gfd.timestamp": "1"}, "annotations": {"node.alpha.kubernetes.io/ttl": "15"}}
    cluster.patch("nodes", "gpu-1", {"metadata": by_controllers})
    cluster.patch(
        "nodes",
        "gpu-1",
        {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T00:00:00Z"}]}},
        subresource="status",
    )
    cluster.delete("pods", "plugin-1", "gpu-operator", grace_seconds=0)
    pod = fetch(cluster, "pods", "plugin-2", "gpu-operator")
    pod["metadata"] = {"name": "plugin-3", "namespace": "gpu-operator", "labels": pod["metadata"]["labels"]}
    store.put_initial(pod)
    assert before.differences(leak_scan.scan(cluster)) == []


def test_a_list_that_is_refused_is_no_clean_cluster(tmp_path: Path) -> None:
    with world(tmp_path, Trouble("list", "nodes", 403, 1)) as (cluster, _):
        with pytest.raises(ApiTrouble, match="nodes"):
            leak_scan.scan(cluster)
