"""A list that is older than what the server has shown before is trouble, and a healthy server never gives one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.observe.sample import NoData, Reading
from chaos.observe.view import View
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from tests.chaos.ledger.simulated_cluster import plan, world
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, said

pytestmark = pytest.mark.test_all

PODS = "/api/v1/namespaces/default/pods"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def of_version(document: dict[str, Any], version: str) -> Said:
    document["metadata"]["resourceVersion"] = version
    return said(document)


def in_turn(*versions: str) -> Callable[[Asked], Said]:
    """Lists of pods of these versions, one after the other; what is created has version 50."""
    left = iter(versions)

    def answer(asked: Asked) -> Said:
        if asked.method == "POST":
            return of_version(an_object("Pod", "p"), "50")
        return of_version(a_list("Pod", token="more" * (asked.query.get("limit") == "1" and "continue" not in asked.query)), next(left))

    return answer


def listed(cluster: Cluster, **query: str) -> None:
    cluster.request("GET", PODS, query=query)


@pytest.mark.parametrize("write", [False, True])
def test_a_list_older_than_what_was_shown_is_trouble(tmp_path: Path, write: bool) -> None:
    with lying(tmp_path, in_turn("40", "40", "39", "50")) as (cluster, _):
        listed(cluster)
        listed(cluster, labelSelector="app")  # another selection of the same resource, at the same moment
        if write:
            cluster.create("pods", POD, namespace="default")
        with pytest.raises(ApiTrouble, match="list of version 39, older than version") as trouble:
            listed(cluster)
        assert trouble.value.code == "Stale"
        listed(cluster)


@pytest.mark.parametrize(
    ("versions", "query"),
    [
        (("40", "9007199254740993"), {}),
        (("40", "7"), {"continue": "more", "limit": "1"}),  # pages are of the version of the first
        (("40", "7"), {"resourceVersion": "7", "resourceVersionMatch": "Exact"}),
        (("40", "7:9"), {}),  # an aggregated API's, which nobody can compare
        (("40", ""), {}),
        (("9" * 39, "40"), {}),  # no API server's either: if it counted, every later list were older
        ((str(2**64), "40"), {}),
    ],
    ids=["later", "page", "version", "no number", "none", "39 digits", "65 bits"],
)
def test_what_a_healthy_server_may_answer_is_no_trouble(tmp_path: Path, versions: tuple[str, ...], query: dict[str, str]) -> None:
    with lying(tmp_path, in_turn(*versions)) as (cluster, _):
        listed(cluster)
        listed(cluster, **query)


def told(*versions: str) -> Callable[[Asked], Said]:
    """Answers of these versions, whatever is asked for."""
    left = iter(versions)

    def answer(asked: Asked) -> Said:
        return of_version(an_object("Pod", "p") if asked.method == "PATCH" else a_list("Pod"), next(left))

    return answer


def changed(cluster: Cluster) -> None:
    assert cluster.patch("pods", "p", {}, "default").ok


@pytest.mark.parametrize("false", [2**64 - 1, 2**63 - 1, 2**31 - 1])
@pytest.mark.parametrize("liar", [changed, listed], ids=["write", "list"])
@pytest.mark.parametrize("before", ["", "40"], ids=["at first", "later"])
def test_one_false_version_makes_no_list_old(tmp_path: Path, false: int, liar: Callable[[Cluster], None], before: str) -> None:
    """A gateway filled in the highest number that it knows."""
    with lying(tmp_path, told(*filter(None, [before]), str(false), "51", "52", "60", "59", "60")) as (cluster, _):
        if before:
            listed(cluster)
        liar(cluster)
        listed(cluster)
        listed(cluster)
        changed(cluster)
        with pytest.raises(ApiTrouble, match="list of version 59, older than version 60"):
            listed(cluster)
        listed(cluster)


def test_versions_of_an_old_cluster_may_be_far_apart(tmp_path: Path) -> None:
    """Nobody has written the first object for years."""
    with lying(tmp_path, told("12", "9000000050", "9000000049", "9000000050", "9000000049")) as (cluster, _):
        changed(cluster)
        changed(cluster)
        with pytest.raises(ApiTrouble, match="older than version 9000000050"):
            listed(cluster)
        listed(cluster)
        with pytest.raises(ApiTrouble, match="older than version 9000000050"):
            listed(cluster)


def test_another_resource_may_be_in_another_etcd(tmp_path: Path) -> None:
    with lying(
        tmp_path, lambda asked: of_version(a_list("Pod" if "pods" in asked.path else "Node"), "9" * (1 + ("pods" in asked.path)))
    ) as (
        cluster,
        _,
    ):
        listed(cluster)
        cluster.request("GET", "/api/v1/nodes")


def test_a_list_that_a_write_overtakes_is_no_trouble(tmp_path: Path) -> None:
    clusters: list[Cluster] = []

    def answer(asked: Asked) -> Said:
        if asked.method == "GET":
            clusters[0].create("pods", POD, namespace="default")  # while the list is under way
            return of_version(a_list("Pod"), "40")
        return of_version(an_object("Pod", "p"), "50")

    with lying(tmp_path, answer) as (cluster, _):
        clusters.append(cluster)
        listed(cluster)


def test_a_sample_of_an_old_list_has_no_data(tmp_path: Path) -> None:
    """Otherwise an experiment would pass on nodes as they were before its fault."""
    kept = Fault(name="kept", verb="list", resource="nodes", effect=effects.kept, times=ALWAYS)
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [kept]):
        memories: dict[Cluster, dict[str, Any]] = {cluster: {}, Cluster.from_kubeconfig(tmp_path / "proxied"): {}}
        honest, proxied = memories

        def faults(of: Cluster) -> list[object]:
            return [node["metadata"]["labels"].get("fault") for node in View.at(Reading(of, plan(), memories[of])).select("nodes")]

        assert faults(honest) == faults(proxied) == [None, None]
        assert faults(proxied) == [None, None]  # nothing was written since
        for number, one in enumerate((proxied, honest)):
            assert one.patch("nodes", "gpu-1", {"metadata": {"labels": {"fault": str(number)}}}).ok
        assert faults(honest) == ["1", None]
        with pytest.raises(NoData, match="older than version") as said:
            faults(proxied)
        assert said.value.code == "Stale"
        with pytest.raises(NoData, match="older than version"):
            View.of(proxied).select("nodes")
