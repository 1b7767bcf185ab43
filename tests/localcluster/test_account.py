from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.cluster import Cluster
from fixtures.localcluster.account import shipped, suite_kubeconfig
from fixtures.localcluster.binaries import BinariesMissing, find
from fixtures.localcluster.controlplane import ControlPlane
from fixtures.localcluster.running import Running

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    try:
        binaries = find()
    except BinariesMissing as error:
        pytest.skip(str(error))
    with ControlPlane.start(binaries=binaries, running=Running(tmp_path_factory.mktemp("running"))) as plane:
        yield plane


def test_the_read_only_role_lists_and_changes_nothing(plane: ControlPlane) -> None:
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "read-only"))
    assert cluster.page(cluster.path("nodes"), "").status == 200
    assert cluster.page(cluster.path("secrets"), "").status == 403
    refused = cluster.create("namespaces", NAMESPACE, dry_run=True)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert 'User "system:serviceaccount:gpu-conformance:gpu-conformance" cannot create resource "namespaces"' in refused.message


def test_the_full_role_creates_what_probes_need_and_no_more(plane: ControlPlane) -> None:
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "full"))
    assert cluster.create("namespaces", NAMESPACE).status == 201
    assert cluster.create("secrets", SECRET, namespace="tenant").status == 403
    assert cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, dry_run=True).status == 403


@pytest.mark.parametrize("role", ["read-only", "full"])
def test_what_is_shipped_is_an_account_and_one_role_bound_to_it(role: str) -> None:
    assert [item["kind"] for item in shipped(role)] == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    binding = shipped(role)[-1]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gpu-conformance", "namespace": "gpu-conformance"}]
    assert binding["roleRef"]["name"] == f"gpu-conformance-{role}"
