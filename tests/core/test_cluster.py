import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.cluster.watch import Observation
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.collect import collect
from tests.served import kubeconfig, served
from tests.troubles import Trouble
from tests.watching import PATIENCE


def a_node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}


def a_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_configmap(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}


def test_one_list_per_kind_and_page(tmp_path: Path) -> None:
    with served(tmp_path, [a_node(f"n{index:04}") for index in range(1001)]) as (cluster, _):
        snapshot = collect(cluster, ["nodes", "pods"], version="v1.36.3")
        assert [node.name for node in snapshot.nodes][:2] == ["n0000", "n0001"]
        assert len(snapshot.nodes) == 1001
        counts = cluster.requests().by_verb_and_resource
        assert counts["list nodes"] == 3
        assert counts["list pods"] == 1


RACE = 'Operation cannot be fulfilled on resourcequotas "limits": the object has been modified; please apply your changes'


def test_a_creation_that_lost_the_race_for_a_quota_is_sent_again(tmp_path: Path) -> None:
    with served(tmp_path, troubles=[Trouble("create", "configmaps", 409, 3, message=RACE)]) as (cluster, _):
        assert cluster.create("configmaps", a_configmap("c"), namespace="default").ok
        assert cluster.requests().by_verb_and_resource["create configmaps"] == 4


def test_a_creation_that_loses_every_race_ends_with_that_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.client._pause", lambda _: None)
    with served(tmp_path, troubles=[Trouble("create", "configmaps", 409, 99, message=RACE)]) as (cluster, _):
        answer = cluster.create("configmaps", a_configmap("c"), namespace="default")
        assert (answer.status, answer.reason) == (409, "Conflict")
        assert cluster.requests().by_verb_and_resource["create configmaps"] == 9


def test_retry_after_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("fixtures.cluster.client._pause", pauses.append)
    with served(tmp_path, [a_node("n")], [Trouble("list", "nodes", 429, 1, 1)]) as (cluster, _):
        assert len(collect(cluster, ["nodes"], version="").nodes) == 1
    assert pauses == [1.0]


PLUGIN = """#!/bin/sh
echo x >> "$0.calls"
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status":' \
  "{\\"token\\": \\"t$(grep -c x "$0.calls")\\", \\"expirationTimestamp\\": \\"2020-01-01T00:00:00Z\\"}}"
"""


def test_a_token_that_ends_is_renewed_but_not_looked_after_for_each_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "users": [{"name": "served", "user": user}]}))
    cluster = Cluster.from_kubeconfig(path)
    first = cluster._authorization()
    assert first["authorization"].startswith("Bearer t")
    assert cluster._authorization() == first
    monkeypatch.setattr("fixtures.cluster.client.CREDENTIALS_SECONDS", 0.0)
    second, third = cluster._authorization(), cluster._authorization()
    assert len({str(headers) for headers in (first, second, third)}) == 3


def test_an_expired_continue_token_begins_the_list_anew(tmp_path: Path) -> None:
    with served(tmp_path, [a_node(f"n{index:04}") for index in range(600)]) as (cluster, _):
        page = cluster.page("/api/v1/nodes", "").json()
        assert len(page["items"]) == 500
    # a 410 on the second page only: the first trouble lets one list through by never matching it
    trouble = Trouble("list", "nodes", 410, 1)
    with served(tmp_path, [a_node(f"n{index:04}") for index in range(600)]) as (cluster, _):
        original = cluster.page

        def page_once_expired(path: str, token: str, limit: int = 500, *, fields: str = "") -> Any:
            answer = original(path, token, limit=limit, fields=fields)
            if token and trouble.times:
                trouble.times -= 1
                return type(answer)(status=410, body=b'{"reason":"Expired"}')
            return answer

        cluster.page = page_once_expired  # type: ignore[method-assign]
        assert len(collect(cluster, ["nodes"], version="").nodes) == 600


def test_a_write_that_broke_is_not_repeated(tmp_path: Path) -> None:
    with served(tmp_path, [a_namespace("default")], [Trouble("create", "configmaps", "drop", 5)]) as (cluster, _):
        with pytest.raises(ApiTrouble):
            cluster.create("configmaps", a_configmap("x"), namespace="default")
        assert cluster.requests().by_verb_and_resource["create configmaps"] == 1


def test_a_watch_sees_changes_and_survives_a_drop(tmp_path: Path) -> None:
    troubles = [Trouble("watch", "configmaps", "drop", 1)]
    with served(tmp_path, [a_namespace("default")], troubles) as (cluster, _):
        seen: list[int] = []
        with Observation(cluster, "configmaps", "default") as observation:
            created = 0
            for objects in observation.until(time.monotonic() + PATIENCE):
                seen.append(len(objects))
                if created < 3 and len(objects) == created:
                    created += 1
                    cluster.create("configmaps", a_configmap(f"x{created}"), namespace="default")
                if len(objects) == 3:
                    break
        assert seen[-1] == 3


class _Silence(queue.Queue[Any]):
    """What a stream gives whose connection is dead and does not know it."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Nothing arrives."""


def test_an_absence_is_not_concluded_from_a_dead_watch(tmp_path: Path) -> None:
    with served(tmp_path, [a_namespace("default")]) as (cluster, _), Observation(cluster, "configmaps", "default") as observation:
        observation._events = _Silence()
        assert cluster.create("configmaps", a_configmap("unseen"), namespace="default").ok
        seen = [sorted(objects) for objects in observation.until(time.monotonic() + 0.2)]
        assert seen == [[], ["default/unseen"]]
        assert cluster.create("configmaps", a_configmap("later"), namespace="default").ok
        again = next(objects for objects in observation.until(time.monotonic() + PATIENCE) if len(objects) == 2)
        assert sorted(again) == ["default/later", "default/unseen"]


def test_an_absence_is_not_concluded_while_the_api_is_away(tmp_path: Path) -> None:
    trouble = Trouble("list", "configmaps", 500, 0)
    with (
        served(tmp_path, [a_namespace("default")], [trouble]) as (cluster, _),
        Observation(cluster, "configmaps", "default") as observation,
    ):
        trouble.times = 100
        with pytest.raises(ApiTrouble):
            list(observation.until(time.monotonic() + 0.1))


def test_a_password_in_the_server_s_address_is_shown_to_nobody(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://admin:hunter2@127.0.0.1:1/base")
    cluster = Cluster.from_kubeconfig(file)
    assert cluster.shown_server == "http://127.0.0.1:1/base"
    with pytest.raises(ClusterUnreachable) as raised:
        cluster.probe()
    assert "hunter2" not in str(raised.value)


# -- A caller with a right less: nothing is created that could not be removed, and what is refused says so at once


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
