"""A caller with a right less: nothing is created that could not be removed, and what is refused says so at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.probes.workspace import Workspace
from tests.served import served

CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}


class Refusing:
    """Allows everybody everything but some (verb, resource)."""

    def __init__(self, *refused: tuple[str, str]) -> None:
        self._refused = refused

    def allowed(self, user: str, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
        return (verb, resource) not in self._refused


@contextmanager
def a_cluster(folder: Path, *refused: tuple[str, str]) -> Iterator[Cluster]:
    with served(folder, authorizer=Refusing(*refused)) as (cluster, _):
        yield cluster


def of_the_run(cluster: Cluster, key: str) -> list[str]:
    names = [item["metadata"]["name"] for item in cluster.request("GET", cluster.path(key)).json()["items"]]
    return [name for name in names if "r1" in name]


@pytest.mark.parametrize("verb", ["delete", "watch"])
def test_no_namespace_is_created_that_could_stay(tmp_path: Path, verb: str) -> None:
    with a_cluster(tmp_path, (verb, "namespaces")) as cluster:
        workspace = Workspace(cluster, "r1")
        with pytest.raises(ApiTrouble, match=f"may not {verb} namespaces"):
            workspace.namespace()
        workspace.close()
        assert (of_the_run(cluster, "namespaces"), workspace.residue) == ([], [])


@pytest.mark.parametrize("verb", ["delete", "list", "watch"])
def test_no_object_is_created_that_could_stay(tmp_path: Path, verb: str) -> None:
    with a_cluster(tmp_path, (verb, "configmaps")) as cluster:
        workspace = Workspace(cluster, "r1")
        namespace = workspace.namespace()
        with pytest.raises(ApiTrouble, match=f"may not {verb} configmaps") as caught:
            workspace.create("configmaps", CONFIGMAP, namespace)
        assert caught.value.code == "Forbidden"
        assert cluster.get("configmaps", "c", namespace).status == 404
        workspace.close()
        assert workspace.residue == []


def test_the_class_is_not_created_either(tmp_path: Path) -> None:
    with a_cluster(tmp_path, ("delete", "priorityclasses")) as cluster:
        with pytest.raises(ApiTrouble, match=r"may not delete scheduling\.k8s\.io/priorityclasses"):
            Workspace(cluster, "r1").priority_class()
        assert of_the_run(cluster, "scheduling.k8s.io/priorityclasses") == []


def test_a_refused_watch_is_not_asked_for_again(tmp_path: Path) -> None:
    with a_cluster(tmp_path, ("watch", "configmaps")) as cluster:
        with pytest.raises(ApiTrouble, match="cannot watch resource") as caught, Observation(cluster, "configmaps", "default"):
            pass
        assert caught.value.code == "Forbidden"
        assert cluster.requests().by_verb_and_resource["watch configmaps"] == 1
