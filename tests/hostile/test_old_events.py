"""An event of a watch proves nothing: one that can be no news is a broken stream, and a result rests on a list."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster.requests import await_object
from chaos.ledger.undos.agents import AgentRestarted, PublishedArgs, RestartedArgs, SlicesPublished
from chaos.ledger.undos.workloads import PodsReplaced, ReplacedArgs
from chaos.observe.view import NoData, Reading, View
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.ownership import owned, proof
from fixtures.ownership import read_proofs as reading
from fixtures.probes.workspace import Workspace
from tests.chaos.ledger.simulated_cluster import RUN, plan, world
from tests.core.test_cleanup_in_trouble import FLAVOR, FLAVORS
from tests.core.test_proof import ELSEWHERE, at, changed, opened
from tests.definitions import definitions
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, reported
from tests.hostile.test_bounds import at_version, event
from tests.served import served
from tests.tables import each_row
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

HELD = {"finalizers": ["example.com/held"]}
UNCHECKED = pytest.mark.parametrize("checked", [True, False], ids=["old events", "events that look new"])
"""The lists decide in both cases."""


def look_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of a server that lies well enough: nothing shows that they are old."""
    monkeypatch.setattr(Observation, "_is_past", lambda *_: False)


@contextmanager
def stated(tmp_path: Path, *events: bytes, version: str = "9") -> Iterator[tuple[Observation, list[Asked]]]:
    """An observation of pod p, of version 7 and UID ``uid-of-p``, whose first watch tells of these events, and later ones of none."""
    watches, versions = itertools.count(), itertools.chain([version], itertools.repeat("99"))

    def answers(asked: Asked) -> Said:
        if asked.query.get("watch"):
            return Said(b"".join(events) if next(watches) == 0 else b"")
        pods = a_list("Pod", at_version("p", "7"))
        pods["metadata"]["resourceVersion"] = next(versions)
        return reported(pods)

    with lying(tmp_path, answers) as (cluster, asked), Observation(cluster, "pods", "default") as observation:
        yield observation, asked


def states(observation: Observation) -> list[list[tuple[str, str]]]:
    """Name and version of each object, at each look."""
    looks = observation.until(time.monotonic() + 0.4)
    return [[(obj["metadata"]["name"], obj["metadata"]["resourceVersion"]) for obj in objects.values()] for objects in looks]


@each_row
def test_an_event_that_can_be_no_news_changes_nothing_and_is_listed_again(tmp_path: Path, replayed: Json) -> None:
    with stated(tmp_path, event(**replayed)) as (observation, asked):
        assert {tuple(state) for state in states(observation)} == {(("p", "7"),)}
    assert observation.gaps >= 1
    assert sum(not request.query.get("watch") for request in asked) >= 3


def test_an_event_that_is_older_than_the_one_before_is_no_news_either(tmp_path: Path) -> None:
    with stated(tmp_path, event("MODIFIED", at_version("p", "12")), event("MODIFIED", at_version("p", "11"))) as (observation, _):
        seen = states(observation)
    assert [("p", "12")] in seen
    assert [("p", "11")] not in seen


def test_what_an_honest_watch_tells_is_news(tmp_path: Path) -> None:
    lines = [
        event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}}),
        event("MODIFIED", at_version("p", "10")),
        event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "11"}}),
        event("DELETED", at_version("p", "11")),
        event("ADDED", at_version("p", "12", uid="another")),
        event("DELETED", at_version("p", "13", uid="another")),
    ]
    with stated(tmp_path, *lines) as (observation, _):
        assert states(observation)[:5] == [[("p", "7")], [("p", "10")], [], [("p", "12")], []]


@pytest.mark.parametrize("version", ["", "0", "opaque"])
def test_versions_that_cannot_be_compared_are_not(tmp_path: Path, version: str) -> None:
    """A watch of version 0, or of none, begins with all that is there, in any order. Aggregated API servers may number as they like."""
    lines = [event("MODIFIED", at_version("p", "6")), event("ADDED", at_version("q", "3")), event("DELETED", at_version("p", "x"))]
    with stated(tmp_path, *lines, version=version) as (observation, _):
        assert states(observation)[:4] == [[("p", "7")], [("p", "6")], [("p", "6"), ("q", "3")], [("q", "3")]]


def test_a_version_that_is_no_number_is_not_compared_with_one(tmp_path: Path) -> None:
    with stated(tmp_path, event("MODIFIED", at_version("p", "x"))) as (observation, _):
        assert states(observation)[:2] == [[("p", "7")], [("p", "x")]]


# -- waits ---------------------------------------------------------------------------------------------


def replayed(obj: Json, times: int = ALWAYS) -> Fault:
    """Each watch of nodes begins with this state, and is silent then."""
    line = json.dumps({"type": "MODIFIED", "object": {"kind": "Node", "apiVersion": "v1", **obj}}).encode()
    return Fault(name="replayed", verb="watch", resource="nodes", effect=effects.events(line), times=times)


def gone_before(resource: str, times: int = ALWAYS) -> Fault:
    return Fault(name="all is deleted", verb="watch", resource=resource, effect=effects.gone_before, times=times)


def words(ask: Callable[[], str]) -> str:
    """What a wait says, or the trouble that it has met."""
    try:
        return ask()
    except ApiTrouble as trouble:
        return trouble.message


@UNCHECKED
def test_a_wait_that_an_event_misled_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool) -> None:
    if not checked:
        look_new(monkeypatch)
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [gone_before("nodes", times=1)]):
        proxied, seen = Cluster.from_kubeconfig(tmp_path / "proxied"), []

        def differs(node: Json | None) -> str:
            seen.append(node is not None)
            if node is not None and seen.count(True) == 2:  # a list has contradicted the event
                assert cluster.delete("nodes", "gpu-1").ok
            return "it is there" if node else ""

        assert await_object(proxied, "nodes", "gpu-1", "", time.monotonic() + PATIENCE, differs) == ""
        assert cluster.get("nodes", "gpu-1").status == 404
        assert seen[-1] is False


NODE = {"nodeName": "n"}
OWNED = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "uid-of-agent", "controller": True}]}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
DEVICE = {"name": "gpu-0", "attributes": {}}


def an_agent(version: str, status: Json) -> Json:
    pod = at_version("p", version)
    return {
        **pod,
        "metadata": {**pod["metadata"], **OWNED, "labels": {"app": "agent"}},
        "spec": {**NODE, "containers": []},
        "status": status,
    }


def a_slice(version: str, *devices: Json) -> Json:
    meta = {"name": "s", "uid": "uid-of-s", "resourceVersion": version}
    spec = {**NODE, "driver": "gpu.example.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": list(devices)}
    return {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": meta, "spec": spec}


def pods_replaced(cluster: Cluster, deadline: float) -> str:
    args = ReplacedArgs(
        namespace="default", owner_kind="DaemonSet", owner_name="agent", owner_uid="uid-of-agent", node="n", killed=("u",), ready=1
    )
    return PodsReplaced().verify(cluster, args, deadline)


def agent_restarted(cluster: Cluster, deadline: float) -> str:
    args = RestartedArgs(namespace="default", owner="agent", owner_uid="uid-of-agent", selector="app=agent", node="n", uids=("u",))
    return AgentRestarted().verify(cluster, args, deadline)


def slices_published(cluster: Cluster, deadline: float) -> str:
    driver = {"namespace": "default", "owner": "agent", "owner_uid": "uid-of-agent", "selector": "app=agent"}
    args = PublishedArgs(driver="gpu.example.com", node="n", devices=("n/gpu-0",), **driver)
    return SlicesPublished().verify(cluster, args, deadline)


@pytest.mark.parametrize("lied", [True, False], ids=["an event alone", "a list too"])
@each_row
def test_an_undo_is_verified_by_what_a_list_shows(
    tmp_path: Path, verify: Callable[[Cluster, float], str], before: Json, after: Json, lied: bool
) -> None:
    watches, lists = itertools.count(), itertools.count()

    def answers(asked: Asked) -> Said:
        if asked.query.get("watch"):
            return Said(event("MODIFIED", after) if next(watches) == 0 else b"")
        again = next(lists) > 0
        page = a_list(before["kind"], after if again and not lied else before, api_version=before["apiVersion"])
        page["metadata"]["resourceVersion"] = "11" if again else "9"
        return reported(page)

    with lying(tmp_path, answers) as (cluster, _):
        assert bool(words(lambda: verify(cluster, time.monotonic() + 1))) is lied


def test_a_run_is_not_dead_by_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a living run on another machine: what it created would be deleted."""
    look_new(monkeypatch)
    for module in (proof, reading):
        monkeypatch.setattr(module, "RENEW_SECONDS", 0.2)
        monkeypatch.setattr(module, "WRITE_SECONDS", 2.0)
    lie = gone_before("priorityclasses")
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [lie]):
        renewing = opened(cluster, renewing=True)
        try:
            changed(cluster, process=ELSEWHERE, renewed=at(3600))
            views = reading.read_proofs(cluster).values()
            assert reading.living(Cluster.from_kubeconfig(tmp_path / "proxied"), views) == {renewing.run_id}
        finally:
            renewing.stop_renewing()


def lists(cluster: Cluster, resource: str) -> int:
    return cluster.requests().by_verb_and_resource.get(f"list {resource}", 0)


@UNCHECKED
def test_clear_takes_nothing_for_gone_by_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool) -> None:
    if not checked:
        look_new(monkeypatch)
    with served(tmp_path, definitions("kueue")) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [gone_before("*")]):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN)
        name = f"gpu-conformance-{RUN}-f"
        workspace.create(FLAVORS, {**FLAVOR, "metadata": {"name": name, **HELD}})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **HELD}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        workspace.create("pods", pod, workspace.namespace())
        workspace.clear(seconds=0.5)
        assert [line.split()[0] for line in workspace.residue] == ["pods", FLAVORS]
        assert [line.split()[0] for line in workspace.pods_left()] == ["pods"]
        assert any(item.key == FLAVORS for item in owned.find(cluster, RUN))
        assert workspace._opened is not None
        assert (FLAVORS, name) in workspace._opened.view.names, "it is no longer proven to be the run's"


# -- a list that is older than what the server has shown before is trouble, and a healthy server never gives one --


PODS = "/api/v1/namespaces/default/pods"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def of_version(document: dict[str, Any], version: str) -> Said:
    document["metadata"]["resourceVersion"] = version
    return reported(document)


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


@each_row
def test_what_a_healthy_server_may_answer_is_no_trouble(tmp_path: Path, versions: tuple[str, ...], query: dict[str, str]) -> None:
    with lying(tmp_path, in_turn(*versions)) as (cluster, _):
        listed(cluster)
        listed(cluster, **query)


def in_order(*versions: str) -> Callable[[Asked], Said]:
    """Answers of these versions, whatever is asked for."""
    left = iter(versions)

    def answer(asked: Asked) -> Said:
        return of_version(an_object("Pod", "p") if asked.method == "PATCH" else a_list("Pod"), next(left))

    return answer


def written(cluster: Cluster) -> None:
    assert cluster.patch("pods", "p", {}, "default").ok


@pytest.mark.parametrize("false", [2**64 - 1, 2**63 - 1, 2**31 - 1])
@pytest.mark.parametrize("liar", [written, listed], ids=["write", "list"])
@pytest.mark.parametrize("before", ["", "40"], ids=["at first", "later"])
def test_one_false_version_makes_no_list_old(tmp_path: Path, false: int, liar: Callable[[Cluster], None], before: str) -> None:
    """A gateway filled in the highest number that it knows."""
    with lying(tmp_path, in_order(*filter(None, [before]), str(false), "51", "52", "60", "59", "60")) as (cluster, _):
        if before:
            listed(cluster)
        liar(cluster)
        listed(cluster)
        listed(cluster)
        written(cluster)
        with pytest.raises(ApiTrouble, match="list of version 59, older than version 60"):
            listed(cluster)
        listed(cluster)


def test_versions_of_an_old_cluster_may_be_far_apart(tmp_path: Path) -> None:
    """Nobody has written the first object for years."""
    with lying(tmp_path, in_order("12", "9000000050", "9000000049", "9000000050", "9000000049")) as (cluster, _):
        written(cluster)
        written(cluster)
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
        with pytest.raises(NoData, match="older than version") as reported:
            faults(proxied)
        assert reported.value.code == "Stale"
        with pytest.raises(NoData, match="older than version"):
            View.of(proxied).select("nodes")
