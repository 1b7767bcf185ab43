"""``chaos recover`` on a cluster that serves an older version of a kind than the suite prefers."""

from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import namespaces
from chaos.ledger.undos.objects import AbsentArgs
from chaos.surface.cli import main
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, RUN, ledger, world
from tests.definitions import definitions

QUEUES = "kueue.x-k8s.io/clusterqueues"
NAME = namespaces.of_run(RUN)
OLD = ("v1beta1",)
BOTH = ("v1beta1", "v1beta2")


def kueue(*served: str) -> list[dict[str, Any]]:
    """The definitions of Kueue, in these versions alone."""
    found = definitions("kueue")
    for definition in found:
        spec = definition["spec"]
        spec["versions"] = [{**one, "storage": one["name"] == served[-1]} for one in spec["versions"] if one["name"] in served]
    return found


def killed(folder: Path, cluster: Cluster, version: str, *, created: bool) -> None:
    """A run that was killed after it wrote down that it would create a queue, or after it had created the queue."""
    cluster.learn_versions({QUEUES: version})
    book = ledger(folder, cluster, experiment="S2")
    book.arm("object.absent", AbsentArgs(key=QUEUES, name=NAME, run_id=RUN))
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    token = proof.will_create(QUEUES, NAME)
    if created:
        meta = {"name": NAME, "labels": owned.labels(RUN), "annotations": token}
        queue = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue", "metadata": meta, "spec": {}}
        answer = cluster.create(QUEUES, queue)
        assert answer.ok, answer.message
        proof.created(QUEUES, NAME, answer.json()["metadata"]["uid"])


def recover(folder: Path) -> int:
    words = ["chaos", "recover", "--kubeconfig", str(folder / "kubeconfig"), "--chaos-cluster", KUBE_SYSTEM, "--yes", "--seconds", "5"]
    return main(words)


@pytest.mark.test_all
@pytest.mark.parametrize("created", [False, True], ids=["before it was created", "after it was created"])
@pytest.mark.parametrize("served", [OLD, BOTH], ids=["older version", "both versions"])
def test_what_a_killed_run_created_is_removed_in_a_version_that_is_served(
    tmp_path: Path, served: tuple[str, ...], created: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path, extra=kueue(*served)) as (cluster, _):
        killed(tmp_path, cluster, served[-1], created=created)
        assert recover(tmp_path) == 0, capsys.readouterr()
        assert "1 changes of 1 runs put back" in capsys.readouterr().out
        assert cluster.find(QUEUES, NAME) is None
        assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0


def test_where_discovery_does_not_tell_nothing_is_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The version is guessed, and the guess is not served."""

    def silent(cluster: Cluster, path: str, *, accept: str = "") -> dict[str, Any]:
        raise ApiTrouble("ServiceUnavailable", f"discovery {path}: 503 by the test")

    with world(tmp_path, extra=kueue(*OLD)) as (cluster, _):
        killed(tmp_path, cluster, *OLD, created=True)
        monkeypatch.setattr("fixtures.cluster.discovery._document", silent)
        assert recover(tmp_path) != 0
        assert "put back" not in capsys.readouterr().out
        assert cluster.find(QUEUES, NAME) is not None
