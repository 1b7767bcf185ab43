"""Who put a pod on its node, by its managedFields: a real API server and the simulated one keep the same record."""

from collections.abc import Iterator
from typing import Any

import pytest

from conformance.req.placements import By, Placement, placement
from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from tests.served import served

pytestmark = [pytest.mark.xdist_group("fidelity"), pytest.mark.test_all]

SPACE = "default"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


@pytest.fixture(scope="module", params=["simulated", "real"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "simulated":
        with served(tmp_path_factory.mktemp("served")) as (simulated, _):
            yield simulated
        return
    plane: ControlPlane = request.getfixturevalue("newest_plane")
    real = Cluster.from_kubeconfig(plane.kubeconfig)
    yield real
    real.delete("nodes", "n")


def failed(cluster: Cluster, name: str, *, bound: bool) -> Placement:
    """Who put a pod on its node, after a kubelet has refused it."""
    spec: dict[str, Any] = {"schedulerName": "ours", "containers": [{"name": "main", "image": "i"}]}
    if not bound:
        spec["nodeName"] = "n"
    meta = {"name": name, "namespace": SPACE}
    assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace=SPACE).ok
    if bound:
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "n"}}
        assert cluster.request("POST", cluster.path("pods", SPACE, name, "binding"), body=target).ok
    assert cluster.patch("pods", name, {"status": {"phase": "Failed", "reason": "OutOfcpu"}}, SPACE, "status").ok
    return record(cluster, name)


def record(cluster: Cluster, name: str) -> Placement:
    answer = cluster.get("pods", name, SPACE).json()
    assert (answer["spec"]["nodeName"], answer["status"]["phase"]) == ("n", "Failed")
    return placement(answer["metadata"].get("managedFields"))


def test_a_binding_leaves_no_entry_and_a_maker_of_pods_does(cluster: Cluster) -> None:
    cluster.create("nodes", NODE)
    assert failed(cluster, "sent", bound=True).by is By.SCHEDULER
    made = failed(cluster, "made", bound=False)
    assert made.by is By.AUTHOR
    assert made.manager
    assert cluster.patch("pods", "made", {"metadata": {"managedFields": [{}]}}, SPACE).ok
    assert record(cluster, "made").by is By.UNTOLD
