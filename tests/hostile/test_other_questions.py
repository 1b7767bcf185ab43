"""An answer to another question, and a part of an answer, are none: lists by their own count, reviews, watches, texts."""

import itertools
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.observe.view import NoData, View
from fixtures.cluster import access
from fixtures.cluster.answer import REDACTED
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.snapshot.collect import collect
from fixtures.text import limits
from fixtures.verdict.subjects import Inconclusive
from tests.hostile.lying import SIGN_IN, Asked, Said, a_list, an_object, lying, reported, status
from tests.hostile.test_answers import SERVED, announced, every
from tests.hostile.test_bounds import event, read_pods
from tests.served import edited
from tests.tables import each_row

POD = an_object("Pod", "p")


def a_part(**metadata: Any) -> Said:
    return reported({**a_list("Pod", POD), "metadata": {"resourceVersion": "9", **metadata}})


@pytest.mark.parametrize("answer", [a_part(**{"continue": "more"}), a_part(remainingItemCount=7)], ids=["token", "count"])
def test_a_part_of_a_list_is_not_the_list(tmp_path: Path, answer: Said) -> None:
    """A proxy that adds a limit of its own hides the rest."""
    with lying(tmp_path, every(answer)) as (cluster, _):
        with pytest.raises(ApiTrouble):
            cluster.find("pods", "p", "default")
        with pytest.raises(ApiTrouble), Observation(cluster, "pods", "default"):
            pass
        with pytest.raises(ApiTrouble):
            owned.find(cluster, keys=("pods",))
        with pytest.raises(ApiTrouble):
            list(cluster.each("pods"))
        with pytest.raises(NoData):
            View.of(cluster).select("pods")
        snapshot = collect(cluster, ["pods"], version="")
        with pytest.raises(Inconclusive):
            _ = snapshot.pods


def test_pages_that_say_there_is_more_and_hold_nothing_are_few(tmp_path: Path) -> None:
    numbers = itertools.count()
    snapshot, asked = read_pods(tmp_path, lambda request: reported(a_list("Pod", token=f"t{next(numbers)}")))
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    assert caught.value.code == "Endless"
    assert len(asked) <= limits.EMPTY_PAGES + 4


@each_row
def test_a_review_of_another_right_says_nothing(tmp_path: Path, asked_of: dict[str, str], refuses: list[str]) -> None:
    """A proxy that keeps answers gives the first one again, whatever the body of the request."""
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": asked_of},
        "status": {"allowed": False},
    }
    with lying(tmp_path, every(reported(review, 201))) as (cluster, _):
        assert access.refused(cluster, "pods", ["list"]) == refuses


@pytest.mark.parametrize(
    "pod",
    [
        {**POD, "metadata": {**POD["metadata"], "namespace": "another"}},
        {**POD, "metadata": {**POD["metadata"], "name": "another"}},
        {**POD, "apiVersion": "v2"},
    ],
    ids=["namespace", "name", "version"],
)
def test_an_event_that_was_not_asked_for_adds_nothing(tmp_path: Path, pod: dict[str, Any]) -> None:
    """Otherwise another tenant's running pod would count as the probe's."""
    ours = reported(a_list("Pod", {**POD, "metadata": {**POD["metadata"], "labels": {"run": "a"}}}))
    lie = event("ADDED", {**pod, "metadata": {**pod["metadata"], "labels": {"run": "a"}, "resourceVersion": "10"}})
    with lying(tmp_path, lambda asked: Said(lie) if asked.query.get("watch") else ours) as (cluster, _):
        with Observation(cluster, "pods", "default", labels="run=a", fields="metadata.name=p") as observation:
            assert all(objects.keys() == {"default/p"} for objects in observation.until(time.monotonic() + 0.3))


def test_an_event_without_the_labels_adds_nothing_and_one_that_lost_them_is_gone(tmp_path: Path) -> None:
    labelled = {**POD, "metadata": {**POD["metadata"], "labels": {"run": "a"}}}
    empty = {**a_list("Pod"), "metadata": {"resourceVersion": "11"}}
    lists = iter([a_list("Pod", labelled), *[empty] * 9])
    last = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "10"}}
    added = {**POD, "metadata": {**POD["metadata"], "name": "other", "resourceVersion": "11"}}
    lines = event("DELETED", last) + event("ADDED", added)
    with lying(tmp_path, lambda asked: Said(lines) if asked.query.get("watch") else reported(next(lists))) as (cluster, _):
        with Observation(cluster, "pods", "default", labels="run=a") as observation:
            seen = [set(objects) for objects in observation.until(time.monotonic() + 0.3)]
    assert seen[0] == {"default/p"}
    assert seen[-1] == set()
    assert {"default/other"} not in seen


@pytest.mark.parametrize("body", [SIGN_IN, b"\n\n  <HTML lang='en'>"], ids=["sign-in page", "upper case"])
def test_a_page_that_says_it_is_text_is_no_log_and_no_metrics(tmp_path: Path, body: bytes) -> None:
    with lying(tmp_path, every(Said(body, headers={"Content-Type": "text/plain"}))) as (cluster, _):
        with pytest.raises(ApiTrouble, match="a page instead of text"):
            cluster.logs("default", "p")
        with pytest.raises(NoData, match="a page instead of text"):
            View.of(cluster).pod_page("default", "p", 9400, "/metrics")


@pytest.mark.parametrize("code", [203, 204, 206])
def test_a_part_of_a_log_is_no_log(tmp_path: Path, code: int) -> None:
    """A proxy that answers a range, or with a body that it changed, says so by the status."""
    with lying(tmp_path, every(Said(b"" if code == 204 else b"1 of 2\n", status=code))) as (cluster, _):
        with pytest.raises(ApiTrouble, match=f"status {code} instead of text"):
            cluster.logs("default", "p")


# -- fields that writers of objects own: a tenant may fill them, nobody reads what they name, and they cost no more than their text --


ENTRIES = 100_000
FILLED = json.dumps([{"manager": "m", "operation": "Update", "time": "2026-11-01T00:00:00Z", "fieldsV1": "FIELDS"}]).replace(
    '"FIELDS"', "{" + ", ".join(f'"f:{number}": {{}}' for number in range(ENTRIES)) + "}"
)
DEPLOYMENTS, CLAIMS = "apps/deployments", "resource.k8s.io/resourceclaims"


def read(folder: Path, key: str, body: str | bytes) -> tuple[Any, int]:
    """The listing of a key that a server answers with this list, and the bytes that reading it needed at most."""

    def answers(asked: Asked) -> Said:
        return (
            reported(announced([*SERVED, CLAIMS], root=asked.path))
            if asked.path in ("/api", "/apis")
            else Said(body if isinstance(body, bytes) else body.encode())
        )

    with lying(folder, answers) as (cluster, _):
        collect(cluster, [], version="")
        tracemalloc.start()
        try:
            listing = collect(cluster, [key], version="").listing(key)
            return listing, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def of(kind: str, api_version: str, fields: str, **more: Any) -> str:
    """A list of one object with these owners of its fields."""
    body = json.dumps(a_list(kind, an_object(kind, "a", api_version, **more), api_version=api_version))
    return body.replace('"uid":', f'"managedFields": {fields}, "uid":', 1)


def test_an_object_is_read_without_them_and_costs_little_more_than_its_text(tmp_path: Path) -> None:
    body = of("Deployment", "apps/v1", FILLED, spec={"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}})
    listing, peak = read(tmp_path, DEPLOYMENTS, body)
    [found] = listing.items
    assert found["spec"] == {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    assert found["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-of-a", "resourceVersion": "7"}
    assert peak < 8 * len(body)


def test_of_claims_it_is_kept_who_wrote_when(tmp_path: Path) -> None:
    body = of("ResourceClaim", "resource.k8s.io/v1", FILLED, spec={"devices": {}})
    listing, peak = read(tmp_path, CLAIMS, body)
    [found] = listing.items
    assert found["metadata"]["managedFields"] == [{"manager": "m", "time": "2026-11-01T00:00:00Z"}]
    assert peak < 8 * len(body)


@pytest.mark.parametrize("fields", ["null", "7", '"x"', "[7]", '[{"manager": 7}]', "{}", "[null]"])
@pytest.mark.parametrize(
    ("key", "kind", "version"), [(DEPLOYMENTS, "Deployment", "apps/v1"), (CLAIMS, "ResourceClaim", "resource.k8s.io/v1")]
)
def test_whatever_they_are_hides_no_object(tmp_path: Path, key: str, kind: str, version: str, fields: str) -> None:
    listing, _ = read(tmp_path, key, of(kind, version, fields))
    assert [item["metadata"]["name"] for item in listing.items] == ["a"]


@pytest.mark.parametrize("text", [b'{"replicas": 1e999}', b'{"name": "\xff"}'], ids=["number", "bytes"])
@pytest.mark.parametrize(
    ("kind", "version", "key"), [("Deployment", "apps/v1", DEPLOYMENTS), ("ResourceClaim", "resource.k8s.io/v1", CLAIMS)]
)
def test_a_value_that_cannot_be_read_leaves_its_kind_unread(tmp_path: Path, kind: str, version: str, key: str, text: bytes) -> None:
    body = of(kind, version, "[]", spec="SPEC").encode().replace(b'"SPEC"', text)
    listing, _ = read(tmp_path, key, body)
    assert (listing.items, listing.trouble) == ([], "Unreadable")


# -- a server or a proxy may answer with the request that it got, credentials included: they get into no message and no output --


TOKENS = {"a word": "s3cr3t-word", "a bootstrap token": "abcdef.0123456789abcdef", "a long one": "o" * 50 + "paque" * 200}
ECHOES: dict[str, Callable[[str], Said]] = {
    "a Status": lambda token: status(500, "InternalError", f"upstream: authorization {token} was not taken"),
    "a refusal": lambda token: status(403, "Forbidden", f"the token {token} may not"),
    "a reason": lambda token: status(403, f"No {token}"),
    "a page": lambda token: Said(f"<pre>GET /\nx-token: {token}\n</pre>".encode(), 502, {"Content-Type": "text/html"}),
    "a page that says OK": lambda token: Said(f"<pre>x-token: {token}</pre>".encode(), 200),
    "the request as JSON": lambda token: reported({"headers": {"x-token": [token]}}),
    "a page behind some text": lambda token: Said(b" " * 150 + token.encode(), 200),
    "another status": lambda token: Said(f"x-token: {token}".encode(), 206),
}


def texts(cluster: Cluster) -> Iterator[str]:
    """What all that asks the cluster says."""
    asks: list[Callable[[], Any]] = [
        lambda: cluster.get("pods", "a", "default"),
        lambda: cluster.delete("pods", "a", "default"),
        lambda: list(cluster.each("pods")),
        lambda: cluster.logs("default", "a"),
        lambda: Observation(cluster, "pods", "default").__enter__(),
        lambda: Observation(cluster, "pods", "default")._connect(),
    ]
    for ask in asks:
        try:
            answer = ask()
            yield f"{answer.reason} {answer.message}" if hasattr(answer, "reason") else ""
        except ApiTrouble as trouble:
            yield f"{trouble.code} {trouble.message}"
    listing = collect(cluster, ["pods"], version="").listing("pods")
    yield f"{listing.trouble} {listing.message}"


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("name", ECHOES)
def test_no_message_repeats_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, token: str) -> None:
    monkeypatch.setattr("fixtures.cluster.client._pause", lambda _: None)

    def answers(asked: Asked) -> Said:
        return reported(announced(SERVED, root=asked.path)) if asked.path in ("/api", "/apis") else ECHOES[name](token)

    with lying(tmp_path, answers) as (served, _):
        found = list(texts(Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}}))))
    assert not [text for text in found if token[:10] in text]
    assert any(REDACTED[:9] in text for text in found)


def test_no_warning_repeats_them(tmp_path: Path) -> None:
    token = TOKENS["a word"]
    warned = reported(an_object("Pod", "a"), Warning=f'299 - "{token} is deprecated"')
    with lying(tmp_path, lambda _: warned) as (served, _):
        answer = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}})).get("pods", "a", "default")
    assert answer.warnings == (f"{REDACTED} is deprecated",)


def test_a_refused_watch_keeps_none_that_it_does_not_repeat(tmp_path: Path) -> None:
    with lying(tmp_path, lambda _: status(403, "Forbidden", "nobody may watch")) as (served, _):
        cluster = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": TOKENS["a word"]}}))
        refused = cluster.refusal(cluster.stream("/api/v1/pods", {"watch": "true"}, 5), "watch pods")
    assert (refused.status, refused.credentials) == (403, "")


def test_an_object_stays_as_it_is(tmp_path: Path) -> None:
    """An experiment puts back what it has read."""
    token = TOKENS["a word"]
    pod = an_object("Pod", "a", spec={"nodeName": token})
    with lying(tmp_path, lambda asked: reported(pod if asked.path.endswith("/a") else a_list("Pod", pod))) as (served, _):
        cluster = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": token}}))
        assert cluster.get("pods", "a", "default").json()["spec"] == {"nodeName": token}
        assert [item["spec"] for item in cluster.each("pods", "default")] == [{"nodeName": token}]


def test_a_token_that_may_be_a_word_of_the_answer_takes_no_word_out_of_it(tmp_path: Path) -> None:
    with lying(tmp_path, lambda _: status(403, "Forbidden", "pods are forbidden")) as (served, _):
        answer = Cluster.from_kubeconfig(edited(tmp_path, served.server, user={"user": {"token": "pods"}})).get("pods", "a", "default")
    assert answer.message == "pods are forbidden"
