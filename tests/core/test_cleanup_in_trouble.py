"""Nothing of a run stays while the API is in trouble, nothing else goes, and what stays is named."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import load_catalogue
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.probes.namespace_limits import NETWORK_POLICIES
from fixtures.probes.workspace import Workspace
from tests.definitions import definitions
from tests.served import served
from tests.tables import each_row
from tests.troubles import Trouble
from tests.watching import PATIENCE

RUN = "20261121-100000-test"
FLAVORS = "kueue.x-k8s.io/resourceflavors"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}}


def a_configmap(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


@contextmanager
def a_workspace(folder: Path, *ordered: Trouble) -> Iterator[tuple[Workspace, Callable[[], list[Trouble]]]]:
    """A workspace on a served API, and what begins the trouble."""
    troubles = [dataclasses.replace(trouble, times=0) for trouble in ordered]

    def begin() -> list[Trouble]:
        for trouble, wanted in zip(troubles, ordered, strict=True):
            trouble.times = wanted.times
        return troubles

    with served(folder, definitions("kueue"), troubles) as (cluster, _):
        yield Workspace(cluster, RUN), begin


def left(cluster: Cluster) -> list[owned.Leftover]:
    """What is labelled as the run's, besides what vouches for it."""
    return [item for item in owned.find(cluster, RUN) if item.key != owned.PRIORITY_CLASSES]


def names(cluster: Cluster, key: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.request("GET", cluster.path(key)).json()["items"]]


def answerless(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, key: str, before: Callable[[], object] = lambda: None) -> None:
    """The next creation of a kind takes place, and its answer is a 500."""
    plain = cluster.request
    path, calls = cluster.path(key), [0]

    def request(method: str, where: str, **more: Any) -> Answer:
        answer = plain(method, where, **more)
        if method == "POST" and where.endswith(path.rpartition("/")[2]) and not calls[0]:
            calls[0] = 1
            before()
            raise ApiTrouble("InternalError", f"POST {where}: 500 etcdserver: request timed out")
        return answer

    monkeypatch.setattr(cluster, "request", request)


@each_row
def test_clearing_rides_out_passing_trouble(tmp_path: Path, ordered: list[Trouble]) -> None:
    with a_workspace(tmp_path, *ordered) as (workspace, begin):
        for name in ("one", "two"):
            workspace.create("configmaps", a_configmap(name), workspace.namespace())
        troubles = begin()
        workspace.clear(seconds=PATIENCE)
        assert [trouble.times for trouble in troubles] == [0] * len(troubles)
        assert workspace.residue == []
        assert names(workspace.cluster, "configmaps") == []


@pytest.mark.parametrize("status", [409, 500], ids=str)
def test_what_clearing_could_not_remove_goes_with_its_namespace(tmp_path: Path, status: int | str) -> None:
    with a_workspace(tmp_path, Trouble("delete", "configmaps", status, 10_000)) as (workspace, begin):
        workspace.create("configmaps", a_configmap("stuck"), workspace.namespace())
        begin()
        workspace.clear(seconds=2)
        assert ["stuck" in line for line in workspace.residue] == [True]
        workspace.close()
        assert workspace.residue == []
        assert owned.find(workspace.cluster, RUN) == []
        assert names(workspace.cluster, "configmaps") == []


@pytest.mark.parametrize("status", [403, 409], ids=str)
def test_a_namespace_that_cannot_be_removed_is_residue(tmp_path: Path, status: int | str) -> None:
    with a_workspace(tmp_path, Trouble("delete", "namespaces", status, 10_000)) as (workspace, begin):
        name = workspace.namespace()
        begin()
        workspace.close()
        namespace, proof = workspace.residue
        assert name in namespace
        assert "it is the proof of what is left" in proof


def test_a_cluster_scoped_object_that_stays_is_residue_and_is_tried_again(tmp_path: Path) -> None:
    with a_workspace(tmp_path, Trouble("delete", FLAVORS, 403, 2)) as (workspace, begin):
        workspace.create(FLAVORS, FLAVOR)
        begin()
        workspace.clear()
        workspace.close()
        flavor, proof = workspace.residue
        assert FLAVORS in flavor
        assert "403" in flavor
        assert "it is the proof of what is left" in proof
        workspace.close()
        assert workspace.residue == []
        assert names(workspace.cluster, FLAVORS) == []


@pytest.mark.parametrize(("key", "obj"), [("configmaps", a_configmap("f")), (FLAVORS, FLAVOR)], ids=["namespaced", "cluster-scoped"])
def test_what_was_created_without_an_answer_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, obj: dict[str, Any]
) -> None:
    with a_workspace(tmp_path) as (workspace, _):
        namespace = workspace.namespace() if KINDS[key].namespaced else ""
        answerless(monkeypatch, workspace.cluster, key)
        with pytest.raises(ApiTrouble):
            workspace.create(key, obj, namespace)
        assert names(workspace.cluster, key) == ["f"]
        workspace.clear()
        assert names(workspace.cluster, key) == []
        assert workspace.residue == []


def test_a_creation_that_did_not_take_place_leaves_another_owners_object_alone(tmp_path: Path) -> None:
    with a_workspace(tmp_path, Trouble("create", FLAVORS, 500, 1)) as (workspace, begin):
        assert workspace.cluster.create(FLAVORS, FLAVOR).ok
        begin()
        with pytest.raises(ApiTrouble):
            workspace.create(FLAVORS, FLAVOR)
        workspace.close()
        assert names(workspace.cluster, FLAVORS) == ["f"]
        assert workspace.residue == []


def test_a_namespace_that_was_created_without_an_answer_is_used_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_workspace(tmp_path) as (workspace, _):
        answerless(monkeypatch, workspace.cluster, "namespaces")
        with pytest.raises(ApiTrouble):
            workspace.namespace()
        name = workspace.namespace()
        workspace.create("configmaps", a_configmap("one"), name)
        workspace.close()
        assert workspace.residue == []
        assert owned.find(workspace.cluster, RUN) == []


def test_a_namespace_without_an_answer_is_removed_though_it_was_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_workspace(tmp_path) as (workspace, _):
        answerless(monkeypatch, workspace.cluster, "namespaces")
        with pytest.raises(ApiTrouble):
            workspace.namespace()
        workspace.close()
        assert owned.find(workspace.cluster, RUN) == []


# -- ownership ----------------------------------------------------------------------------------------


@each_row
def test_removing_rides_out_passing_trouble(tmp_path: Path, ordered: list[Trouble]) -> None:
    with a_workspace(tmp_path, *ordered) as (workspace, begin):
        workspace.namespace()
        workspace.create(FLAVORS, FLAVOR)
        found = left(workspace.cluster)
        assert {item.key for item in found} == {"namespaces", FLAVORS}
        troubles = begin()
        assert owned.remove(workspace.cluster, found, seconds=PATIENCE) == []
        assert [trouble.times for trouble in troubles] == [0] * len(troubles)
        assert left(workspace.cluster) == []


def test_an_object_that_took_the_name_is_left_alone(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, _):
        workspace.create(FLAVORS, FLAVOR)
        [item] = left(workspace.cluster)
        assert workspace.cluster.delete(FLAVORS, "f").ok
        assert workspace.cluster.create(FLAVORS, FLAVOR).ok
        assert owned.remove(workspace.cluster, [item], seconds=PATIENCE) == []
        workspace.clear()
        assert workspace.residue == []
        assert names(workspace.cluster, FLAVORS) == ["f"]


def test_one_that_is_held_by_a_finalizer_stays_and_does_not_keep_the_others(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, _):
        held = {**FLAVOR, "metadata": {"name": "f", "finalizers": ["example.com/held"]}}
        workspace.create(FLAVORS, held)
        workspace.namespace()
        found = left(workspace.cluster)
        assert [item.key for item in owned.remove(workspace.cluster, found, seconds=1)] == [FLAVORS]
        assert [item.key for item in left(workspace.cluster)] == [FLAVORS]
        workspace.clear(seconds=0.5)
        assert ["did not go away" in line for line in workspace.residue] == [True]


def test_kinds_that_discovery_did_not_show_are_not_asked_for(tmp_path: Path) -> None:
    refused = [Trouble("list", "kueue.x-k8s.io/clusterqueues", 403, 99), Trouble("list", FLAVORS, 403, 99)]
    with a_workspace(tmp_path, *refused) as (workspace, begin):
        begin()
        with pytest.raises(ApiTrouble):
            owned.find(workspace.cluster, RUN)
        workspace.cluster.learn_versions({"namespaces": "v1", "pods": "v1"})
        workspace.namespace()
        assert [item.key for item in left(workspace.cluster)] == ["namespaces"]
        assert workspace.cluster.serves("example.com/unheard-of"), "discovery was not asked about kinds the suite does not read"


def test_every_cluster_scoped_kind_that_the_suite_creates_is_looked_for() -> None:
    created = {right.partition(" ")[2] for item in load_catalogue().by_id.values() for right in item.writes if right.startswith("create ")}
    scoped = {key for key in created if key not in KINDS or not KINDS[key].namespaced} - {NETWORK_POLICIES}
    assert {"namespaces", FLAVORS, "kueue.x-k8s.io/clusterqueues"} <= scoped
    assert scoped <= set(owned.CLUSTER_SCOPED_KEYS)
