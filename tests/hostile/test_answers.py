"""A good status over something else than what was asked for is trouble, for every caller."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster.requests import read
from chaos.safety import lease
from fixtures.cluster import access
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import look
from fixtures.cluster.kinds import BUILT_IN, KINDS, WORKLOAD_KEYS
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.snapshot.collect import collect
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.subjects import Inconclusive
from tests.hostile.lying import SIGN_IN, Asked, Said, a_list, an_object, lying, reported, status
from tests.tables import each_row, table

TABLE = table(__file__)

NO_ANSWERS: dict[str, Said] = {
    "sign-in page": Said(SIGN_IN, headers={"Content-Type": "text/html"}),
    "sign-in page called JSON": Said(SIGN_IN),
    "empty body": Said(b""),
    "null": Said(b"null"),
    "array": Said(b"[]"),
    "empty object": Said(b"{}"),
    "cut": Said(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"na'),
    "not text": Said(b"\xff\xfe\x00"),
    "success": reported({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
    "redirection": Said(b"", 302, {"Location": "https://login.example.com/"}),
    "another kind": reported(a_list("Secret", an_object("Secret", "s"))),
    "another version": reported({**a_list("Pod"), "apiVersion": "v2"}),
    "list without items": reported({"kind": "PodList", "apiVersion": "v1", "metadata": {}}),
    "list without metadata": reported({"kind": "PodList", "apiVersion": "v1", "items": []}),
    "items that are a mapping": reported({**a_list("Pod"), "items": {}}),
    "items that are not objects": reported(a_list("Pod", 1)),
    "items without metadata": reported(a_list("Pod", {"spec": {}})),
    "items whose metadata is true": reported(a_list("Pod", {"metadata": True})),
    "items without a name": reported(a_list("Pod", {"metadata": {"uid": "u", "resourceVersion": "1"}})),
    "items with odd labels": reported(a_list("Pod", {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "labels": [1]}})),
    "items of another kind": reported(a_list("Pod", an_object("Secret", "p"))),
    "items of another version": reported(a_list("Pod", an_object("Pod", "p", "v2"))),
    "items with an odd spec": reported(a_list("Pod", {**an_object("Pod", "p"), "spec": "x"})),
    "page that says not found": Said(b"<html>default backend - 404</html>", 404, {"Content-Type": "text/html"}),
    "text that says not found": Said(b"404 page not found\n", 404, {"Content-Type": "text/plain"}),
    "list that is not there": status(404, "NotFound"),
    "204": Said(b"", 204),
}


def every(answer: Said) -> Callable[[Asked], Said]:
    return lambda asked: answer


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_no_caller_takes_it_for_an_empty_list(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(NO_ANSWERS[name])) as (cluster, _):
        with pytest.raises(ApiTrouble):
            cluster.find("pods", "p", "default")
        with pytest.raises(ApiTrouble), Observation(cluster, "pods", "default"):
            pass
        with pytest.raises(ApiTrouble):
            owned.find(cluster, keys=("pods",))
        snapshot = collect(cluster, ["pods"], version="")
        with pytest.raises(Inconclusive):
            _ = snapshot.pods


ELSEWHERE = an_object("Pod", "p", namespace="another")
NOWHERE = an_object("Pod", "p", namespace="")


@pytest.mark.parametrize("pod", [ELSEWHERE, NOWHERE])
def test_what_is_not_in_the_namespace_is_no_answer_to_it(tmp_path: Path, pod: dict[str, Any]) -> None:
    with lying(tmp_path, every(reported(a_list("Pod", pod)))) as (cluster, _):
        with pytest.raises(ApiTrouble, match="not in namespace default"):
            cluster.find("pods", "p", "default")
        with pytest.raises(ApiTrouble, match="not in namespace default"), Observation(cluster, "pods", "default"):
            pass
    with lying(tmp_path, every(reported(pod))) as (cluster, _), pytest.raises(ApiTrouble, match="not in namespace default"):
        read(cluster, "pods", "p", "default")


@pytest.mark.parametrize(
    ("key", "item"),
    TABLE["an_item_that_is_none_of_the_kind_is_no_part_of_the_list"],
)
def test_an_item_that_is_none_of_the_kind_is_no_part_of_the_list(tmp_path: Path, key: str, item: dict[str, Any]) -> None:
    group, _, plural = key.rpartition("/")
    version = "nvidia.com/v1" if group else "v1"
    kind = KINDS[key].kind
    change = at(f"/apis/{version}/{plural}" if group else f"/api/v1/{plural}", reported(a_list(kind, item, api_version=version)))
    with pytest.raises(Inconclusive, match="a list that holds"):
        discovered(tmp_path, change, [key]).items(key)


DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
@pytest.mark.parametrize("key", ["nodes", "pods", "configmaps", DEFINITIONS, "nvidia.com/clusterpolicies"])
def test_what_no_api_server_stored_is_no_part_of_a_list(tmp_path: Path, key: str, field: str) -> None:
    kind = KINDS[key]
    api_version = f"{kind.group}/v1".removeprefix("/")
    item = an_object(kind.kind, "n", api_version, namespace="default" * kind.namespaced, spec={}, status={})
    assert len(discovered(tmp_path, nothing, [key], lists={kind.plural: [item]}).items(key)) == 1
    del item["metadata"][field]
    with pytest.raises(Inconclusive, match=r"a list that holds an object without metadata\."):
        discovered(tmp_path, nothing, [key], lists={kind.plural: [item]}).items(key)


@pytest.mark.parametrize("key", ["nodes", "pods", DEFINITIONS])
def test_items_need_not_say_of_what_kind_they_are_and_nothing_of_it_is_kept(tmp_path: Path, key: str) -> None:
    """API servers say it in the list, and of custom resources in the items too."""
    kind = KINDS[key]
    reported_so = an_object(kind.kind, "a", f"{kind.group}/v1".removeprefix("/"), namespace="default" * kind.namespaced)
    silent = {field: value for field, value in reported_so.items() if field == "metadata"}
    [first] = discovered(tmp_path, nothing, [key], lists={kind.plural: [reported_so]}).items(key)
    [second] = discovered(tmp_path, nothing, [key], lists={kind.plural: [silent]}).items(key)
    assert first == second
    if not isinstance(first, dict):
        assert (first.kind, first.api_version, first.metadata.resource_version) == ("", "", "")


@pytest.mark.parametrize(("kind", "trouble"), [("MXJob", ""), ("Secret", "Unreadable")])
def test_an_object_of_a_custom_kind_says_that_it_is_one(tmp_path: Path, kind: str, trouble: str) -> None:
    names = {"kind": "MXJob", "listKind": "MXJobList", "plural": "mxjobs"}
    definition = an_object(
        "CustomResourceDefinition",
        "mxjobs.kubeflow.org",
        "apiextensions.k8s.io/v1",
        namespace="",
        spec={"group": "kubeflow.org", "names": names, "scope": "Namespaced", "versions": [{"name": "v1", "served": True}]},
        status={"conditions": [{"type": "Established", "status": "True"}]},
    )
    item = an_object(kind, "train", "kubeflow.org/v1", spec={"containers": [{"name": "c"}]})
    change = at("/apis/kubeflow.org/v1/mxjobs", reported(a_list("MXJob", item, api_version="kubeflow.org/v1")))
    snapshot = discovered(tmp_path, change, [*WORKLOAD_KEYS, DEFINITIONS], lists={"customresourcedefinitions": [definition]})
    [listing] = snapshot.custom
    assert (listing.trouble, len(listing.items)) == (trouble, 0 if trouble else 1)


OBJECTS: dict[str, Said] = {
    name: answer for name, answer in NO_ANSWERS.items() if name not in ("list that is not there", "another kind", "another version")
} | {
    "another object": reported(an_object("Lease", "another", "coordination.k8s.io/v1")),
    "another kind": reported(an_object("Secret", lease.NAME)),
    "object without a UID": reported({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": lease.NAME}}),
    "metadata that is true": reported({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": True}),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_nothing_is_halted_read_or_gone_by_it(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(OBJECTS[name])) as (cluster, _):
        with pytest.raises(ApiTrouble):
            lease.read_lease(cluster)
        with pytest.raises(ApiTrouble):
            read(cluster, "configmaps", "x", "default")


@pytest.mark.parametrize("name", ["sign-in page", "empty body", "empty object", "cut", "page that says not found", "array"])
def test_a_deletion_is_not_done_by_it(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(NO_ANSWERS[name])) as (cluster, _), pytest.raises(ApiTrouble):
        owned.ask_deletion(cluster, "pods", "p", "default", "u")


def test_a_deletion_whose_race_another_has_won_is_one(tmp_path: Path) -> None:
    """The API server then answers with the object as it was last seen, without its version (seen on 1.36.3)."""
    pod = an_object("Pod", "p")
    del pod["metadata"]["resourceVersion"]
    with lying(tmp_path, every(reported(pod))) as (cluster, _):
        assert owned.ask_deletion(cluster, "pods", "p", "default", "u")
    del pod["metadata"]["uid"]
    with lying(tmp_path, every(reported(pod))) as (cluster, _), pytest.raises(ApiTrouble):
        owned.ask_deletion(cluster, "pods", "p", "default", "u")


@pytest.mark.parametrize(
    "body",
    [b'{"status":{}}', b'{"status":"yes"}', b'{"status":{"allowed":"true"}}', b'{"spec":null,"status":{"allowed":false}}', SIGN_IN, b""],
)
def test_a_review_that_does_not_answer_gives_and_takes_no_right(tmp_path: Path, body: bytes) -> None:
    head = b'{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},'
    answer = Said(head + body[1:] if body.startswith(b"{") else body, 201)
    with lying(tmp_path, every(answer)) as (cluster, _):
        with pytest.raises(ApiTrouble):
            cluster.request("POST", access.PATH, body=access.review("list", "", "pods"))
        assert access.refused(cluster, "pods", ["list"]) == []


def test_a_review_that_allows_and_denies_says_nothing(tmp_path: Path) -> None:
    asked = access.review("list", "", "pods")
    answer = reported({**asked, "metadata": {}, "status": {"allowed": True, "denied": True}}, 201)
    with lying(tmp_path, every(answer)) as (cluster, _), pytest.raises(ApiTrouble):
        cluster.request("POST", access.PATH, body=asked)


@pytest.mark.parametrize("cause", ["DisruptionBudget", "another", ""])
def test_only_a_budget_s_own_words_are_its_refusal(tmp_path: Path, cause: str) -> None:
    """A server or a gateway that throttles says 429 too, and no budget was asked."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429}
    details = {"details": {"causes": [{"reason": cause}]}} if cause else {}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}}
    with lying(tmp_path, every(reported({**body, **details}, 429))) as (cluster, asked):
        path = cluster.path("pods", "default", "p", "eviction")
        if cause == "DisruptionBudget":
            assert cluster.request("POST", path, body=eviction).refused_by_budget
            assert len(asked) == 1
        else:
            with pytest.raises(ApiTrouble) as raised:
                cluster.request("POST", path, body=eviction, attempts=1)
            assert raised.value.code == "TooManyRequests"


def test_an_answer_in_the_api_servers_words_is_one(tmp_path: Path) -> None:
    pod = an_object("Pod", "p", spec={}, status=None)

    def answers(asked: Asked) -> Said:
        if asked.method == "DELETE":
            return reported({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        if asked.path.endswith("/absent"):
            return status(404, "NotFound")
        if asked.path.endswith("/p"):
            return reported(pod)
        none = "labelSelector" in asked.query or asked.query.get("fieldSelector") == "metadata.name=absent"
        return reported({**a_list("Pod", pod), "items": None}) if none else reported(a_list("Pod", pod))

    with lying(tmp_path, answers) as (cluster, _):
        assert cluster.find("pods", "p", "default") == pod
        assert cluster.find("pods", "p", "default", labels="a=b") is None
        assert read(cluster, "pods", "absent", "default") is None
        assert read(cluster, "pods", "p", "default") == pod
        assert owned.ask_deletion(cluster, "pods", "p", "default", "u")


def refusal(**fields: object) -> Said:
    """A 404 whose Status has these fields."""
    return reported({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404, **fields}, 404)


CONTRADICTIONS = {
    "success": refusal(status="Success"),
    "another code": reported({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}, 404),
    "another version": refusal(apiVersion="evil/v9"),
    "another object": refusal(reason="NotFound", details={"name": "other", "kind": "pods"}),
    "no Status": refusal(kind="Pod"),
}
TERSE = {
    "a Status and no more": reported({"kind": "Status"}, 404),
    "nothing in its details": refusal(details={}),
    "no details": refusal(details=None, message=""),
    "the object": refusal(reason="NotFound", details={"name": "p", "kind": "pods"}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_refusal_that_contradicts_itself_is_none(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(CONTRADICTIONS[name])) as (cluster, _), pytest.raises(ApiTrouble) as caught:
        cluster.get("pods", "p", "default")
    assert caught.value.code == "Unreadable"


@pytest.mark.parametrize("name", TERSE)
def test_what_a_refusal_leaves_out_contradicts_nothing(tmp_path: Path, name: str) -> None:
    with lying(tmp_path, every(TERSE[name])) as (cluster, _):
        assert cluster.get("pods", "p", "default").status == 404


@each_row
def test_a_refused_creation_may_be_about_another_object(tmp_path: Path, words: dict[str, Any]) -> None:
    with lying(tmp_path, every(refusal(**words))) as (cluster, _):
        answer = cluster.create("pods", {"kind": "Pod", "metadata": {"name": "p"}}, namespace="default")
        assert (answer.ok, answer.status) == (False, 404)


BOUND = an_object("Pod", "p", spec={"nodeName": "n"})
LABELLED = {**BOUND, "metadata": {**BOUND["metadata"], "labels": {"a": "b", "c": "d"}}}


ABOUT_P = an_object("Event", "p.1", involvedObject={"kind": "Pod", "name": "p", "uid": "u"}, reason="FailedScheduling", type="Warning")


@pytest.mark.parametrize(("kind", "query", "good"), TABLE["a_list_that_drops_the_selector_is_no_answer"], ids=str)
def test_a_list_that_drops_the_selector_is_no_answer(tmp_path: Path, kind: str, query: dict[str, str], good: bool) -> None:
    """A gateway that caches by path, or strips queries, gives everybody's objects for one's own: the scheduler's words, for example."""
    item = {"pods": LABELLED, "events": ABOUT_P}[kind]
    with lying(tmp_path, every(reported(a_list(item["kind"], item)))) as (cluster, _):
        if good:
            assert cluster.request("GET", f"/api/v1/{kind}", query=query).json()["items"] == [item]
        else:
            with pytest.raises(ApiTrouble, match=r"a list that holds an object (that does not have|without the label)"):
                cluster.request("GET", f"/api/v1/{kind}", query=query)


def test_a_watch_tells_of_no_other_nodes_pods(tmp_path: Path) -> None:
    other = {**LABELLED, "metadata": {**LABELLED["metadata"], "resourceVersion": "10"}}
    lie = Said(json.dumps({"type": "ADDED", "object": other}).encode() + b"\n")
    with lying(tmp_path, lambda asked: lie if asked.query.get("watch") else reported(a_list("Pod"))) as (cluster, _):
        with Observation(cluster, "pods", fields="spec.nodeName=m") as observation:
            assert not any(objects for objects in observation.until(time.monotonic() + 0.3))
        with Observation(cluster, "pods", fields="spec.nodeName=n") as observation:
            assert any(objects.keys() == {"default/p"} for objects in observation.until(time.monotonic() + 0.3))


def test_an_object_that_a_list_holds_twice_is_not_two(tmp_path: Path) -> None:
    pod, other = an_object("Pod", "p"), an_object("Pod", "p", namespace="other")
    with lying(tmp_path, every(reported(a_list("Pod", pod, other, pod)))) as (cluster, _):
        with pytest.raises(ApiTrouble, match="twice"):
            cluster.request("GET", "/api/v1/pods")
    with lying(tmp_path, every(reported(a_list("Pod", pod, other)))) as (cluster, _):
        assert len(cluster.request("GET", "/api/v1/pods").json()["items"]) == 2


@pytest.mark.parametrize("code", [203, 204, 206, 207, 226])
def test_a_good_status_that_no_api_server_has_is_none(tmp_path: Path, code: int) -> None:
    """206 is a part of a body, and 203 a body that a proxy has changed, though both may be whole JSON."""
    with lying(tmp_path, every(reported(a_list("Pod", an_object("Pod", "p")), code))) as (cluster, _):
        with pytest.raises(ApiTrouble) as caught:
            cluster.request("GET", "/api/v1/pods")
        assert caught.value.code == "Unreadable"
        with pytest.raises(ApiTrouble):
            cluster.page("/api/v1/pods", "")


def test_a_status_is_no_log(tmp_path: Path) -> None:
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    with lying(tmp_path, every(reported(success))) as (cluster, _), pytest.raises(ApiTrouble, match="a Status instead of text"):
        cluster.logs("default", "p")
    with lying(tmp_path, every(Said(b"{}\nStatus\n"))) as (cluster, _):
        assert cluster.logs("default", "p") == "{}\nStatus\n"


# -- discovery -------------------------------------------------------------------------------------------


def announced(keys: list[str], *, stale: tuple[str, ...] = (), root: str = "/apis") -> dict[str, Any]:
    """An aggregated discovery document that announces these resource keys, in the versions that the suite prefers."""
    groups: dict[str, list[dict[str, str]]] = {group: [] for group in stale}
    for key in keys:
        group, _, plural = key.rpartition("/")
        if bool(group) is (root == "/apis"):
            groups.setdefault(group, []).append({"resource": plural})
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [{"version": version_of(group), "resources": found, "freshness": "Stale" if group in stale else "Current"}],
        }
        for group, found in groups.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def version_of(group: str) -> str:
    return next((kind.versions[0] for kind in KINDS.values() if kind.group == group), "v1")


def legacy(asked: Asked, keys: list[str]) -> Said:
    """Discovery as it was before there was an aggregated one."""
    if asked.path == "/api":
        return reported({"kind": "APIVersions", "versions": ["v1"]})
    groups = dict.fromkeys(key.rpartition("/")[0] for key in keys)
    if asked.path == "/apis":
        versions = {group: {"version": version_of(group), "groupVersion": f"{group}/{version_of(group)}"} for group in groups if group}
        return reported({"kind": "APIGroupList", "groups": [{"name": group, "versions": [version]} for group, version in versions.items()]})
    group = asked.path.removeprefix("/apis/").rpartition("/")[0] if asked.path.startswith("/apis/") else ""
    names = [{"name": key.rpartition("/")[2]} for key in keys if key.rpartition("/")[0] == group]
    return reported({"kind": "APIResourceList", "groupVersion": "v1", "resources": names})


OPTIONAL = ["nvidia.com/clusterpolicies", "kueue.x-k8s.io/workloads"]
SERVED = sorted(BUILT_IN) + OPTIONAL
Change = Callable[[Asked], Said | None]


def discovered(
    tmp_path: Path, change: Change, keys: list[str], *, lists: dict[str, list[Any]] | None = None, aggregated: bool = True
) -> Any:
    """The snapshot of ``keys`` from a server whose discovery is honest but for what ``change`` says."""

    def answers(asked: Asked) -> Said:
        if (changed := change(asked)) is not None:
            return changed
        if asked.path in ("/api", "/apis") and aggregated:
            return reported(announced(SERVED, root=asked.path))
        if asked.path in ("/api", "/api/v1", "/apis") or (asked.path.count("/") == 3 and asked.path.startswith("/apis")):
            return legacy(asked, SERVED)
        plural = asked.path.rpartition("/")[2]
        kind, api_version = next(
            (kind.kind, f"{kind.group}/{kind.versions[0]}".removeprefix("/")) for kind in KINDS.values() if kind.plural == plural
        )
        return reported(a_list(kind, *(lists or {}).get(plural, []), api_version=api_version))

    with lying(tmp_path, answers) as (cluster, _):
        return collect(cluster, keys, version="v1.36.0")


def at(path: str, answer: Said) -> Change:
    return lambda asked: answer if asked.path == path else None


def nothing(asked: Asked) -> None:
    return None


def harmed(snapshot: Any, bad: Sequence[str], good: Sequence[str], code: str = "", reported: str | None = None) -> None:
    """Kinds of which nobody knows whether they are served, and those that are read or not served all the same."""
    assert {key: snapshot.items(key) for key in good} == {key: [] for key in good}
    for key in bad:
        with pytest.raises(Inconclusive, match=reported) as caught:
            snapshot.items(key)
        assert code in ("", caught.value.code)
        assert snapshot.served(key), "nobody knows that it is not"


@pytest.mark.parametrize("aggregated", [True, False])
def test_honest_discovery_tells_served_from_not_served(tmp_path: Path, aggregated: bool) -> None:
    snapshot = discovered(tmp_path, nothing, ["pods", "ray.io/rayjobs", *OPTIONAL], aggregated=aggregated)
    assert snapshot.pods == []
    assert snapshot.objects(OPTIONAL[0]) == []
    assert snapshot.served(OPTIONAL[0])
    assert snapshot.items("ray.io/rayjobs") == []
    assert not snapshot.served("ray.io/rayjobs")


BROKEN: dict[str, Said] = {
    "403": status(403, "Forbidden"),
    "sign-in page": Said(SIGN_IN),
    "empty object": reported({}),
    "null items": reported({"kind": "APIGroupDiscoveryList", "items": None}),
    "items that are not objects": reported({"kind": "APIGroupDiscoveryList", "items": [1]}),
    "group without a name": reported({"kind": "APIGroupDiscoveryList", "items": [{"versions": []}]}),
    "name that is a path": reported({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "../../x"}, "versions": []}]}),
    "no groups": reported({"kind": "APIGroupList"}),
    "nothing announced": reported({"kind": "APIGroupDiscoveryList", "items": []}),
    "nothing announced as it was before": reported({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_discovery_that_does_not_tell_is_inconclusive_for_what_it_is_about(tmp_path: Path, name: str) -> None:
    snapshot = discovered(tmp_path, at("/apis", BROKEN[name]), ["pods", "ray.io/rayjobs", *OPTIONAL])
    harmed(snapshot, ("ray.io/rayjobs", *OPTIONAL), ["pods"])  # the core group was told by /api


@pytest.mark.parametrize("name", ["403", "sign-in page", "nothing announced"])
def test_a_server_that_leaves_out_what_every_kubernetes_has_is_not_believed(tmp_path: Path, name: str) -> None:
    snapshot = discovered(tmp_path, at("/api", BROKEN[name]), ["pods", "nodes", OPTIONAL[0]])
    harmed(snapshot, ("pods", "nodes"), [OPTIONAL[0]])


def test_a_stale_group_harms_who_reads_it_and_nobody_else(tmp_path: Path) -> None:
    stale = reported(announced([key for key in SERVED if "kueue" not in key], stale=("kueue.x-k8s.io", "metrics.k8s.io")))
    snapshot = discovered(tmp_path, at("/apis", stale), ["apps/daemonsets", "ray.io/rayjobs", *OPTIONAL])
    harmed(snapshot, [OPTIONAL[1]], ["apps/daemonsets", "ray.io/rayjobs", OPTIONAL[0]], "Stale")


@pytest.mark.parametrize("more", [{}, {"continue": "x"}, {"remainingItemCount": 3}], ids=["cut", "token", "count"])
def test_groups_that_a_part_of_discovery_leaves_out_may_be_served(tmp_path: Path, more: dict[str, Any]) -> None:
    """What is announced counts: nobody makes up a kind."""
    kept = [key for key in [*BUILT_IN, OPTIONAL[0]] if more or not key.startswith("policy/")]
    document = reported({**announced(kept), "metadata": more})
    snapshot = discovered(tmp_path, at("/apis", document), ["apps/daemonsets", "ray.io/rayjobs", *OPTIONAL])
    harmed(snapshot, ("ray.io/rayjobs", OPTIONAL[1]), ["apps/daemonsets", OPTIONAL[0]])


@pytest.mark.parametrize("name", TABLE["emptied"])
@pytest.mark.parametrize("key", ["resource.k8s.io/resourceslices", OPTIONAL[0]])
def test_a_group_that_is_announced_with_nothing_in_it_harms_who_reads_it_and_nobody_else(tmp_path: Path, name: str, key: str) -> None:
    group = key.partition("/")[0]
    document = announced([other for other in SERVED if not other.startswith(group)])
    document["items"] += [{"metadata": {"name": other}, **TABLE["emptied"][name]} for other in (group, "custom.metrics.k8s.io")]
    snapshot = discovered(tmp_path, at("/apis", reported(document)), ["apps/daemonsets", "ray.io/rayjobs", OPTIONAL[1], key])
    harmed(snapshot, [key], ["apps/daemonsets", "ray.io/rayjobs", OPTIONAL[1]], "Partial", f"discovery announces {group} without a")


def test_a_kind_that_one_version_holds_is_served_though_another_version_is_empty(tmp_path: Path) -> None:
    document = announced(SERVED)
    next(item for item in document["items"] if item["metadata"]["name"] == "nvidia.com")["versions"].append({"version": "v1alpha1"})
    assert discovered(tmp_path, at("/apis", reported(document)), [OPTIONAL[0]]).items(OPTIONAL[0]) == []


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/apis/nvidia.com/v1", reported({"kind": "APIResourceList", "groupVersion": "nvidia.com/v1", "resources": []})),
        ("/apis/nvidia.com/v1", reported({"kind": "APIResourceList", "resources": [{"name": "clusterpolicies/status"}]})),
        ("/apis", None),
    ],
    ids=["no resources", "subresources", "no version"],
)
def test_an_empty_legacy_group_harms_who_reads_it_and_nobody_else(tmp_path: Path, path: str, answer: Said | None) -> None:
    def change(asked: Asked) -> Said | None:
        if asked.path != path:
            return None
        if answer is not None:
            return answer
        document = json.loads(bytes(legacy(asked, SERVED).body))  # type: ignore[arg-type]
        next(group for group in document["groups"] if group["name"] == "nvidia.com")["versions"] = []
        return reported(document)

    snapshot = discovered(tmp_path, change, ["apps/daemonsets", "ray.io/rayjobs", *OPTIONAL], aggregated=False)
    good = ["apps/daemonsets", "ray.io/rayjobs", OPTIONAL[1]]
    harmed(snapshot, [OPTIONAL[0]], good, reported=r"discovery announces nvidia\.com without a")


def test_groups_that_nobody_reads_are_not_asked_for_and_harm_nobody(tmp_path: Path) -> None:
    def change(asked: Asked) -> Said | None:
        if asked.path == "/apis":
            return legacy(asked, [*SERVED, "metrics.k8s.io/pods", "custom.metrics.k8s.io/x"])
        return status(503, "ServiceUnavailable") if "metrics" in asked.path else None

    snapshot = discovered(tmp_path, change, ["pods", "ray.io/rayjobs", *OPTIONAL], aggregated=False)
    harmed(snapshot, [], ["pods", "ray.io/rayjobs", *OPTIONAL])
    stale = reported(announced(SERVED, stale=("metrics.k8s.io",)))
    assert discovered(tmp_path, at("/apis", stale), ["ray.io/rayjobs"]).items("ray.io/rayjobs") == []


@pytest.mark.parametrize("page", [status(404, "NotFound"), Said(b"404 page not found\n", 404), Said(SIGN_IN, 404)])
def test_a_list_that_was_announced_and_is_not_there_is_inconclusive(tmp_path: Path, page: Said) -> None:
    change = at("/apis/nvidia.com/v1/clusterpolicies", page)
    harmed(discovered(tmp_path, change, [OPTIONAL[0]]), [OPTIONAL[0]], [])
    harmed(discovered(tmp_path, at("/api/v1/pods", page), ["pods"]), ["pods"], [])


@pytest.mark.parametrize(("established", "known"), [("True", False), ("False", True)])
def test_discovery_that_lags_behind_the_definitions_is_stale(tmp_path: Path, established: str, known: bool) -> None:
    definition = an_object(
        "CustomResourceDefinition",
        "rayjobs.ray.io",
        "apiextensions.k8s.io/v1",
        namespace="",
        spec={"versions": [{"name": "v1", "served": True}]},
        status={"conditions": [{"type": "Established", "status": established}]},
    )
    key = "ray.io/rayjobs"
    snapshot = discovered(tmp_path, nothing, [DEFINITIONS, key], lists={"customresourcedefinitions": [definition]})
    harmed(snapshot, [key] * (not known), [key] * known, "Stale")


def test_what_may_be_served_is_looked_for_when_something_is_to_be_removed(tmp_path: Path) -> None:
    """A ClusterQueue of a run is not gone because discovery was stale."""
    stale = reported(announced([key for key in SERVED if "kueue" not in key], stale=("kueue.x-k8s.io",)))

    def answers(asked: Asked) -> Said:
        if asked.path == "/apis":
            return stale
        return reported(announced(SERVED, root="/api")) if asked.path == "/api" else Said(b"404 page not found\n", 404)

    with lying(tmp_path, answers) as (cluster, _):
        found = look(cluster)
        cluster.learn_versions(found.chosen(), found.unknown())
        assert cluster.serves("kueue.x-k8s.io/clusterqueues")
        assert not cluster.serves("ray.io/rayjobs")
        with pytest.raises(ApiTrouble):
            owned.find(cluster, keys=("kueue.x-k8s.io/clusterqueues",))


def test_a_kind_nobody_announced_is_not_there_in_the_api_servers_words(tmp_path: Path) -> None:
    with lying(tmp_path, every(Said(b"404 page not found\n", 404))) as (cluster, _):
        assert owned.find(cluster, keys=("kueue.x-k8s.io/clusterqueues",)) == []
        with pytest.raises(ApiTrouble):
            owned.find(cluster, keys=("namespaces",))
    with lying(tmp_path, every(Said(SIGN_IN, 404))) as (cluster, _), pytest.raises(ApiTrouble):
        owned.find(cluster, keys=("kueue.x-k8s.io/clusterqueues",))


def test_an_unreadable_server_is_named_when_it_is_opened(tmp_path: Path) -> None:
    odd = [reported({}), reported({"gitVersion": 7}), Said(b"[" * 2000), Said(SIGN_IN, 403), Said(b"", 302)]
    for answer in (Said(SIGN_IN), Said(b""), *odd):
        with lying(tmp_path, every(answer)) as (cluster, _), pytest.raises(ClusterUnreachable):
            cluster.probe()


def test_bodies_of_refusals_may_say_anything(tmp_path: Path) -> None:
    odd = [{"kind": "Status", "reason": 7, "message": [1], "details": "x"}, {"kind": "Status", "details": {"causes": [1, {"field": "f"}]}}]
    for document in odd:
        with lying(tmp_path, every(Said(json.dumps(document).encode(), 409))) as (cluster, _):
            answer = Cluster.get(cluster, "pods", "p", "default")
            assert (answer.reason, answer.ok) == ("Http409", False)
            assert all(isinstance(cause, dict) for cause in answer.causes)
            assert answer.message


def test_a_worker_knows_what_nobody_could_tell(tmp_path: Path) -> None:
    """It gets the snapshot only, and must not take a kind for absent that the first process could not ask about."""
    snapshot = discovered(tmp_path, at("/apis", status(403, "Forbidden")), ["pods", "kueue.x-k8s.io/workloads"])
    snapshot.save(tmp_path / "snapshot")
    loaded = Snapshot.load(tmp_path / "snapshot")
    assert loaded.unknown == ["kueue.x-k8s.io/workloads"]
    with lying(tmp_path, every(Said(b""))) as (cluster, _):
        cluster.learn_versions(loaded.versions, loaded.unknown)
        assert cluster.serves("kueue.x-k8s.io/workloads")
        assert not cluster.serves("ray.io/rayjobs")
