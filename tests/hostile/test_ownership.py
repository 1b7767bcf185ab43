"""What the suite takes for its own: what its proof knows by UID, and never what carries its name, its labels or its annotations."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.leftovers import find_leftovers, remove
from fixtures.ownership.proof_record import PROOF
from fixtures.ownership.read_proofs import read_proofs
from fixtures.probes.workspace import Workspace
from fixtures.text import limits
from tests.definitions import definitions
from tests.served import served
from tests.troubles import Trouble

RUN = "20261121-100000-test"
OTHER = "20261121-100000-else"
NAMESPACE = f"gpu-conformance-{RUN}-rest"
CLASSES = owned.PRIORITY_CLASSES
FLAVORS = "kueue.x-k8s.io/resourceflavors"


def a_namespace(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **meta}}


@contextmanager
def a_workspace(folder: Path, *troubles: Trouble) -> Iterator[tuple[Workspace, Cluster]]:
    with served(folder, definitions("kueue"), troubles) as (cluster, _):
        yield Workspace(cluster, RUN, folder=folder), cluster


def copied(cluster: Cluster) -> dict[str, Any]:
    """Labels and annotations of the run's namespace, as a tenant may read and write them."""
    meta = cluster.get("namespaces", NAMESPACE).json()["metadata"]
    return {"labels": meta["labels"], "annotations": meta["annotations"]}


# -- before use ---------------------------------------------------------------------------------------


FORGED = [
    {},
    {"labels": owned.labels(RUN)},
    {"labels": owned.labels(RUN), "annotations": {PROOF: "0" * 32}},
    {"labels": owned.labels(OTHER)},
]


@pytest.mark.parametrize("meta", FORGED, ids=["name", "labels", "token", "another run"])
def test_a_namespace_that_is_there_already_is_not_used(tmp_path: Path, meta: dict[str, Any]) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        assert cluster.create("namespaces", a_namespace(NAMESPACE, **meta)).ok
        before = cluster.get("namespaces", NAMESPACE).json()
        name = workspace.namespace()
        assert re.fullmatch(f"{NAMESPACE}-[0-9a-f]{{8}}", name)
        assert workspace.namespace() == name
        assert read_proofs(cluster)[RUN].names == (("namespaces", name),)
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("namespaces", name).status == 404
        assert cluster.get("namespaces", NAMESPACE).json() == before


def test_a_namespace_that_somebody_put_in_the_place_of_the_run_s_is_left_alone(tmp_path: Path) -> None:
    """He knows everything that can be read of it, the token included."""
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        known = copied(cluster)
        assert cluster.delete("namespaces", NAMESPACE).ok
        assert cluster.create("namespaces", a_namespace(NAMESPACE, **known)).ok
        views = read_proofs(cluster)
        found = find_leftovers(cluster, views)
        assert [item.name for item in found.unproven] == [NAMESPACE]
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("namespaces", NAMESPACE).ok


def test_nothing_is_created_before_the_proof_knows_of_it(tmp_path: Path) -> None:
    with a_workspace(tmp_path, Trouble("patch", CLASSES, 403, 9)) as (workspace, cluster):
        with pytest.raises(ApiTrouble, match="could not be written"):
            workspace.namespace()
        assert "create namespaces" not in cluster.requests().by_verb_and_resource
        workspace.close()
        assert (workspace.residue, find_leftovers(cluster, read_proofs(cluster)).runs) == ([], frozenset())


def test_each_object_is_in_the_proof_by_its_uid_before_it_is_used(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        workspace.create(FLAVORS, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}})
        view = read_proofs(cluster)[RUN]
        for key, name in (("namespaces", NAMESPACE), (FLAVORS, "f")):
            assert view.created_here(key, name, cluster.get(key, name).json()["metadata"]["uid"])
        workspace.clear()
        assert read_proofs(cluster)[RUN].names == (("namespaces", NAMESPACE),)
        workspace.close()
        assert read_proofs(cluster) == {}
        assert list(tmp_path.glob("created*.json")) == []


# -- afterwards ---------------------------------------------------------------------------------------


def test_what_lost_its_labels_is_still_the_run_s(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        assert cluster.patch("namespaces", NAMESPACE, {"metadata": {"labels": dict.fromkeys(owned.labels(RUN))}}).ok
        views = read_proofs(cluster)
        found = find_leftovers(cluster, views, RUN)
        assert [(item.name, item.run_id) for item in found.objects] == [(NAMESPACE, RUN)]
        assert remove(cluster, found, views) == []
        assert cluster.get("namespaces", NAMESPACE).status == 404
        assert read_proofs(cluster) == {}
        workspace.close()


def test_namespaces_filled_to_the_brim_hide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's namespaces of the suite's labels may make the list larger than one answer may be."""
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        for number in range(8):
            labelled = {"labels": owned.labels(RUN), "annotations": {"a": "x" * 5_000}}
            assert cluster.create("namespaces", a_namespace(f"full-{number}", **labelled)).ok
        views = read_proofs(cluster)
        monkeypatch.setattr(limits, "BODY_BYTES", 20_000)
        monkeypatch.setattr(owned, "_PAGE", 2)
        found = find_leftovers(cluster, views, RUN, keys=("namespaces",))
        assert [item.name for item in found.objects] == [NAMESPACE]
        assert len(found.unproven) == 8
        workspace.clear()
        workspace.close()


@pytest.mark.parametrize("finalizers", [[], ["kueue.x-k8s.io/managed"]], ids=["free", "held"])
def test_a_namespace_goes_where_workloads_are_not_listed_and_one_that_they_hold_is_told(tmp_path: Path, finalizers: list[str]) -> None:
    """Discovery may be silent about Kueue where there is none: a list of its Workloads is then an error, not an empty one."""
    pod = {"metadata": {"name": "p", "finalizers": finalizers}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    with a_workspace(tmp_path, Trouble("list", "kueue.x-k8s.io/workloads", 503, 99)) as (workspace, cluster):
        workspace.namespace()
        assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=NAMESPACE).ok
        found = find_leftovers(cluster, read_proofs(cluster), RUN, keys=("namespaces",)).objects
        assert [item.name for item in owned.remove(cluster, list(found), seconds=1.0)] == [NAMESPACE] * len(finalizers)
        if finalizers:
            assert cluster.patch("pods", "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE).ok
        workspace.close()
        assert workspace.residue == []
