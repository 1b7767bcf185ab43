"""Lists over all namespaces whose objects are said to be in namespaces that the cluster does not have."""

from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import WORKLOAD_KEYS
from fixtures.snapshot.collect import MOST_ASKED, collect
from fixtures.snapshot.custom_kinds import DEFINITIONS
from fixtures.snapshot.state import Snapshot
from tests.chaos.ledger.simulated_cluster import namespace, objects
from tests.core.test_custom_kinds import a_definition, an_object
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served

KEYS = ["pods", "namespaces", "configmaps", DEFINITIONS, *WORKLOAD_KEYS]
TRUE = {"pods": 2, "configmaps": 1, "apps/deployments": 1, "kubeflow.org/mxjobs": 1}
"""How many objects of a kind the cluster holds."""

REFUSED = effects.refused(403, "Forbidden")


def pod(name: str, namespace: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}


def without(name: str) -> Effect:
    """A list that lacks an object: it was read before the object was made."""

    def change(document: dict[str, Any]) -> None:
        document["items"] = [item for item in document["items"] if item["metadata"]["name"] != name]

    return effects.rewritten(effects.in_json(change))


def all_in(namespace: str) -> Effect:
    """A list whose objects are all said to be in a namespace."""

    def change(document: dict[str, Any]) -> None:
        for item in document["items"]:
            item["metadata"]["namespace"] = namespace

    return effects.rewritten(effects.in_json(change))


def a_fault(effect: Effect, resource: str, *, verb: str = "list", skip: int = 0, times: int = ALWAYS) -> Fault:
    return Fault(name="a fault", verb=verb, resource=resource, effect=effect, skip=skip, times=times)


def read(folder: Path, *faults: Fault, extra: tuple[dict[str, Any], ...] = ()) -> tuple[Snapshot, dict[str, int]]:
    """What is read through these faults, and how often which kind was asked for."""
    cluster_objects = [*objects(), a_definition(), an_object(), namespace("default"), *extra]
    with served(folder, cluster_objects), through(folder / "kubeconfig", folder / "proxied", list(faults)):
        cluster = Cluster.from_kubeconfig(folder / "proxied")
        return collect(cluster, KEYS, version="v1"), dict(cluster.requests().by_verb_and_resource)


def troubles(snapshot: Snapshot) -> dict[str, str]:
    return {key: snapshot.listing(key).trouble for key in ("namespaces", *TRUE) if snapshot.listing(key).trouble}


def test_an_honest_cluster_is_asked_for_each_kind_once(tmp_path: Path) -> None:
    snapshot, requests = read(tmp_path)
    assert troubles(snapshot) == {}
    assert {key: len(snapshot.listing(key).items) for key in TRUE} == TRUE
    assert {count for asked, count in requests.items() if asked.startswith("list ")} == {1}


@pytest.mark.parametrize("key", TRUE)
@pytest.mark.parametrize("refused", [{}, {"namespaces": "Forbidden"}], ids=["", "namespaces refused"])
def test_a_kind_in_namespaces_that_are_not_there_is_not_judged(tmp_path: Path, key: str, refused: dict[str, str]) -> None:
    lie = a_fault(effects.rewritten(effects.elsewhere), key.rpartition("/")[2])
    snapshot, _ = read(tmp_path, lie, *(a_fault(REFUSED, "namespaces", times=1) for _ in refused))
    assert troubles(snapshot) == refused | {key: "Unreadable"}
    assert "in namespace another; the cluster has neither" in snapshot.listing(key).message


def test_no_kind_is_judged_where_every_list_is_false(tmp_path: Path) -> None:
    snapshot, _ = read(tmp_path, a_fault(effects.rewritten(effects.elsewhere), "*"))
    assert troubles(snapshot) == dict.fromkeys(TRUE, "Unreadable")


@pytest.mark.parametrize("here", [True, False], ids=["living", "ended"])
def test_a_namespace_younger_than_the_list_of_namespaces_is_no_trouble(tmp_path: Path, here: bool) -> None:
    """Whether or not the pod that was listed still lives."""
    faults = [a_fault(without("young"), "namespaces", times=1)]
    if not here:
        faults.append(a_fault(without("short"), "pods", skip=1))
    snapshot, _ = read(tmp_path, *faults, extra=(namespace("young"), pod("short", "young")))
    assert troubles(snapshot) == {}
    assert "short" in {item.name for item in snapshot.pods}


def test_an_object_that_outlived_its_namespace_is_no_trouble(tmp_path: Path) -> None:
    """Who takes the finalizer off a namespace that will not go leaves its objects behind, and lists go on to show them."""
    snapshot, _ = read(tmp_path, extra=(pod("orphan", "gone"), {**an_object(), "metadata": {"name": "left", "namespace": "gone"}}))
    assert troubles(snapshot) == {}
    assert "orphan" in {item.name for item in snapshot.pods}


def test_a_kind_that_cannot_be_asked_for_again_is_not_judged(tmp_path: Path) -> None:
    lie, refused = a_fault(effects.rewritten(effects.elsewhere), "pods", times=1), a_fault(REFUSED, "pods")
    assert troubles(read(tmp_path, lie, refused)[0]) == {"pods": "Forbidden"}


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "..", "../../nodes", "?limit=1", "#", "%2e", "A", "-", "é", "\u202e", "a\r\nb", "\x00", "x" * 70_000]
)
def test_no_path_is_made_of_what_cannot_be_a_namespace(tmp_path: Path, name: str) -> None:
    snapshot, requests = read(tmp_path, a_fault(all_in(name), "pods"))
    assert troubles(snapshot) == {"pods": "Unreadable"}
    assert snapshot.listing("pods").message.isprintable()
    assert len(snapshot.listing("pods").message) < 4_000
    assert requests["list pods"] == 1


def test_few_questions_are_asked_of_many_namespaces(tmp_path: Path) -> None:
    snapshot, requests = read(
        tmp_path, a_fault(REFUSED, "namespaces", times=1), extra=tuple(pod(f"p{number}", f"team-{number}") for number in range(50))
    )
    assert troubles(snapshot) == {"namespaces": "Forbidden"}
    assert 1 < requests["list pods"] <= 1 + MOST_ASKED


def test_it_is_asked_with_the_right_to_list_alone(tmp_path: Path) -> None:
    lie = a_fault(effects.rewritten(effects.elsewhere), "pods", times=1)
    _, requests = read(tmp_path, lie)
    assert [asked for asked in requests if asked.startswith("get ") and "/" not in asked] == []
