"""Lists of large clusters are read page by page, and to the end."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.observe.sample import Reading
from chaos.observe.signals.pods import others
from chaos.observe.view import PAGE, NoData, View, name_of
from fixtures.kubernetes.models import Json
from tests.chaos.ledger.simulated_cluster import daemon_pod, plan, world

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
        assert cluster.requests().count - before == 3
        last = f"tenant-{MANY - 1:04}"
        status = {"status": {"phase": "Failed"}}
        assert cluster.patch("pods", last, status, "gpu-operator", "status").ok
        memory.pop("pods.others")  # a live cluster's whole fleet is read every few seconds
        assert others(Reading(cluster, plan(), memory)) == [f"gpu-operator/{last}"]
        assert len(View.of(cluster).select("pods")) == MANY + 2


def answers(*pages: Json) -> View:
    texts = itertools.chain((json.dumps(page).encode() for page in pages), itertools.repeat(json.dumps(pages[-1]).encode()))
    return View(lambda path: next(texts), lambda key, *_: f"/{key}")


def test_a_list_that_breaks_off_or_never_ends_is_none() -> None:
    first = {"kind": "PodList", "metadata": {"continue": "x"}, "items": [{"metadata": {"name": "a"}}]}
    with pytest.raises(NoData, match="no list in the answer"):
        answers(first, {"kind": "Status", "code": 410}).select("pods")
    with pytest.raises(NoData, match="more than 200 pages"):
        answers(first).select("pods")


def test_each_list_is_read_once() -> None:
    asked: list[str] = []

    def fetch(path: str) -> bytes:
        asked.append(path)
        return msgspec.json.encode({"kind": "PodList", "items": []})

    view = View(fetch, lambda key, *_: f"/{key}")
    view.select("pods", fields="spec.nodeName=a")
    view.select("pods", fields="spec.nodeName=a")
    assert asked == ["/pods?fieldSelector=spec.nodeName%3Da&limit=500"]


def test_what_reads_as_before_is_not_decoded_again_and_what_changed_is() -> None:
    def view(version: int, before: View | None = None) -> View:
        pods = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", "resourceVersion": str(version)}}, "no pod"]
        page = {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": pods}
        return View(lambda _: msgspec.json.encode(page), lambda key, *_: key, before)

    first = view(1)
    one = first.select("pods")
    two = view(2, first).select("pods")
    assert [name_of(pod) for pod in two] == ["a", "b"]
    assert two[0] is one[0]
    assert two[1] == {"metadata": {"name": "b", "resourceVersion": "2"}}
