"""Lists of large clusters are read page by page, and to the end."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.observe.signals.pods import others
from chaos.observe.view import NoData, Reading, View
from fixtures.cluster.paging import PAGE
from fixtures.kubernetes.models import Json
from fixtures.model.objects import name_of
from tests.chaos.ledger.simulated_cluster import daemon_pod, plan, world
from tests.chaos.observe.made_up_cluster import World

MANY = 2 * PAGE + 1


def tenant(number: int) -> Json:
    found = daemon_pod(f"tenant-{number:04}", "gpu-2")
    found["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return found


def test_a_pod_on_the_last_page_counts(tmp_path: Path) -> None:
    with world(tmp_path, extra=[tenant(number) for number in range(MANY)]) as (cluster, _):
        memory: dict[str, Any] = {}
        before = cluster.requests().count
        assert others(Reading(cluster, plan(), memory)) == []
        assert cluster.requests().count - before == 4  # nodes that are taken away, too
        last = f"tenant-{MANY - 1:04}"
        status = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        assert cluster.patch("pods", last, status, "gpu-operator", "status").ok
        memory.pop("pods.others")  # a live cluster's whole fleet is read every few seconds
        assert others(Reading(cluster, plan(), memory)) == [f"gpu-operator/{last} UnexpectedAdmissionError"]
        assert len(View.of(cluster).select("pods")) == MANY + 2


def answers(*pages: Json) -> View:
    texts = itertools.chain((json.dumps(page).encode() for page in pages), itertools.repeat(json.dumps(pages[-1]).encode()))
    return View(lambda path: next(texts), World.path)


def a_pod(name: str, version: str = "1", *, namespace: str = "team") -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}}


def a_page(*pods: Any, token: str = "", **more: Any) -> Json:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": token}, "items": list(pods), **more}


def test_a_list_that_breaks_off_or_never_ends_is_none() -> None:
    first = a_page(a_pod("a"), token="x")
    with pytest.raises(NoData, match="no list in the answer"):
        answers(first, {"kind": "Status", "code": 410}).select("pods")
    with pytest.raises(NoData, match="repeats a continue token"):
        answers(first, a_page(a_pod("b"), token="x")).select("pods")
    with pytest.raises(NoData, match="an object twice"):
        answers(first, a_page(a_pod("a"), token="y")).select("pods")


@pytest.mark.parametrize(
    "page",
    [
        a_page(a_pod("a"), apiVersion="v2"),
        a_page(a_pod("a"), a_pod("a")),
        a_page(a_pod("a", namespace="another")),
        a_page(a_pod("a"), metadata={"remainingItemCount": 7}),
    ],
)
def test_signals_read_lists_by_the_rules_of_everybody(page: Json) -> None:
    with pytest.raises(NoData, match="no list in the answer"):
        answers(page).select("pods", "team")


def test_what_reads_as_before_is_not_decoded_again_and_what_changed_is() -> None:
    def view(version: int, before: View | None = None) -> View:
        page = a_page(a_pod("a"), a_pod("b", str(version)))
        return View(lambda _: msgspec.json.encode(page), World.path, before)

    first = view(1)
    one = first.select("pods")
    same = view(1, first)
    assert all(now is then for now, then in zip(same.select("pods"), one, strict=True))
    two = view(2, same).select("pods")
    assert [name_of(pod) for pod in two] == ["a", "b"]
    assert two[0] is one[0]
    assert two[1] == a_pod("b", "2")
