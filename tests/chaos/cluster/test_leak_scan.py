"""The leak scan names each kind of leak, and nothing that changes by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.cluster import leak_scan
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import RUN, Json, fetch, world
from tests.troubles import Trouble


def labelled(kind: str, name: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": owned.labels(RUN)}}


def label(cluster: Cluster) -> None:
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {"nvidia.com/gpu.product": None}}})


def annotation(cluster: Cluster) -> None:
    cluster.patch("nodes", "gpu-1", {"metadata": {"annotations": {"x": "y"}}})


def cordon(cluster: Cluster) -> None:
    cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": True}})


def taint(cluster: Cluster) -> None:
    cluster.patch("nodes", "gpu-1", {"spec": {"taints": None}})


def device(cluster: Cluster) -> None:
    cluster.patch("nodes", "gpu-1", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}}, subresource="status")


def replicas(cluster: Cluster) -> None:
    cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator")


def created(cluster: Cluster) -> None:
    cluster.create("configmaps", labelled("ConfigMap", "left"), namespace="gpu-operator")


def kept(cluster: Cluster) -> None:
    cluster.create("namespaces", labelled("Namespace", "left"))


LEAKS = [
    (label, "node gpu-1 label nvidia.com/gpu.product: 'H100' → absent"),
    (annotation, "node gpu-1 annotation x: absent → 'y'"),
    (cordon, "node gpu-1 unschedulable: 'false' → 'true'"),
    (taint, "node gpu-1 taint nvidia.com/gpu:NoSchedule: 'present' → absent"),
    (device, "node gpu-1 allocatable nvidia.com/gpu: '8' → '7'"),
    (replicas, "apps/deployments gpu-operator/gpu-operator replicas: '1' → '0'"),
    (created, "left by the suite: configmaps gpu-operator/left: absent → 'there'"),
    (kept, "left by the suite: namespaces left: absent → 'there'"),
]


@pytest.mark.parametrize(("leak", "line"), LEAKS, ids=[leak.__name__ for leak, _ in LEAKS])
def test_a_leak_is_one_readable_line(tmp_path: Path, leak: Callable[[Cluster], object], line: str) -> None:
    with world(tmp_path) as (cluster, _):
        before = leak_scan.scan(cluster)
        leak(cluster)
        assert before.differences(leak_scan.scan(cluster)) == [line]


def test_what_changes_by_itself_is_no_leak(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, store):
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
