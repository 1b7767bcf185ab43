"""A deletion that is answered and does not take place is known by the next list: nobody waits for what nobody deletes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.probes.workspace import Workspace
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.verdict.record import Verdict
from tests.core.test_cleanup_in_trouble import FLAVOR, FLAVORS, RUN, a_configmap, left
from tests.definitions import definitions
from tests.endtoend.runs import run_suite
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

LIES = {
    "success": effects.replaced(200, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'),
    "the object": effects.not_done,
}


@contextmanager
def used(folder: Path, how: str) -> Iterator[tuple[Workspace, Cluster]]:
    """A workspace that holds an object of each sort behind a proxy that lets no deletion pass, and the way past it."""
    lie = Fault(name=how, verb="delete", effect=LIES[how], times=ALWAYS)
    with served(folder, definitions("kueue")) as (cluster, _), through(folder / "kubeconfig", folder / "proxied", [lie]):
        workspace = Workspace(Cluster.from_kubeconfig(folder / "proxied"), RUN)
        workspace.create("configmaps", a_configmap("a"), workspace.namespace())
        workspace.create(FLAVORS, FLAVOR)
        begun = time.monotonic()
        yield workspace, cluster
        assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("how", LIES)
def test_what_is_not_being_deleted_is_not_waited_for(tmp_path: Path, how: str) -> None:
    with used(tmp_path, how) as (workspace, cluster):
        found = left(cluster)
        assert sorted(item.key for item in owned.remove(workspace.cluster, found, seconds=PATIENCE)) == [FLAVORS, "namespaces"]
        assert left(cluster) == found


@pytest.mark.parametrize("how", LIES)
def test_a_workspace_tells_it_at_once(tmp_path: Path, how: str) -> None:
    with used(tmp_path, how) as (workspace, cluster):
        workspace.clear(seconds=PATIENCE)
        assert ["did not go away" in line for line in workspace.residue] == [True, True]
        workspace.close()
        assert {item.key for item in left(cluster)} == {FLAVORS, "namespaces"}
        for key in (FLAVORS, "namespaces", owned.PRIORITY_CLASSES):
            assert any(key in line for line in workspace.residue), key


def test_a_gang_is_not_tried_while_pods_of_the_run_may_hold_its_devices(tmp_path: Path) -> None:
    """It would wait for devices as long as it may, for each of three requirements, and could decide nothing."""
    lie = Fault(name="success", verb="delete", resource="pods", effect=LIES["success"], times=ALWAYS)
    with EmbeddedCluster.start("rdma-training", tmp_path) as cluster, through(cluster.kubeconfig, tmp_path / "proxied", [lie]):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "proxied"), "--only", "ISO-03,GANG-02,GANG-03,GANG-04")
    assert done.result("ISO-03").verdict is Verdict.PASSED
    for id_ in ("GANG-02", "GANG-03", "GANG-04"):
        assert (done.result(id_).verdict, done.result(id_).reason_code) == (Verdict.INCONCLUSIVE, "PodsStay"), id_
        assert "did not go away" in done.result(id_).message


def test_a_pod_that_goes_late_holds_no_devices_any_more(tmp_path: Path) -> None:
    """A node that ends its pods slowly costs no later requirement its verdict."""
    with served(tmp_path) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        namespace = workspace.namespace()
        pod = {"metadata": {"name": "p", "finalizers": ["example.com/held"]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        workspace.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace)
        workspace.clear(seconds=0.5)
        assert ["pods" in line for line in workspace.pods_left()] == [True]
        cluster.patch("pods", "p", {"metadata": {"finalizers": None}}, namespace)
        assert workspace.pods_left() == []
