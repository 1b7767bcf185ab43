"""An answer to another question, and a part of an answer, are none: lists by their own count, reviews, watches, texts."""

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.observe.view import NoData, View
from fixtures.cluster import access
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.snapshot.collect import collect
from fixtures.text import limits
from fixtures.verdict.findings import Inconclusive
from tests.hostile.lying import SIGN_IN, Said, a_list, an_object, lying, said
from tests.hostile.test_answers import every
from tests.hostile.test_bounds import event, read_pods

POD = an_object("Pod", "p")


def a_part(**metadata: Any) -> Said:
    return said({**a_list("Pod", POD), "metadata": {"resourceVersion": "9", **metadata}})


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
    snapshot, asked = read_pods(tmp_path, lambda request: said(a_list("Pod", token=f"t{next(numbers)}")))
    with pytest.raises(Inconclusive) as caught:
        _ = snapshot.pods
    assert caught.value.code == "Endless"
    assert len(asked) <= limits.EMPTY_PAGES + 4


@pytest.mark.parametrize(
    ("asked_of", "refuses"),
    [
        ({"verb": "list", "group": "", "resource": "pods"}, ["list"]),
        ({"verb": "list", "resource": "pods", "version": "*"}, ["list"]),
        ({"verb": "get", "group": "", "resource": "pods"}, []),
        ({"verb": "list", "group": "apps", "resource": "pods"}, ["list"]),
        ({"verb": "list", "group": "", "resource": "secrets"}, []),
        ({}, []),
    ],
    ids=["the same", "the server fills in", "another verb", "group of the question left empty", "another resource", "nothing"],
)
def test_a_review_of_another_right_says_nothing(tmp_path: Path, asked_of: dict[str, str], refuses: list[str]) -> None:
    """A proxy that keeps answers gives the first one again, whatever the body of the request."""
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": asked_of},
        "status": {"allowed": False},
    }
    with lying(tmp_path, every(said(review, 201))) as (cluster, _):
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
    ours = said(a_list("Pod", {**POD, "metadata": {**POD["metadata"], "labels": {"run": "a"}}}))
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
    with lying(tmp_path, lambda asked: Said(lines) if asked.query.get("watch") else said(next(lists))) as (cluster, _):
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
