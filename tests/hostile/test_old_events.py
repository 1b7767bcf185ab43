"""An event of a watch that can be no news is a broken stream."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.cluster.watch import Observation
from tests.hostile.lying import Asked, Said, a_list, lying, said
from tests.hostile.test_bounds import at_version, event


@contextmanager
def told(tmp_path: Path, *events: bytes, version: str = "9") -> Iterator[tuple[Observation, list[Asked]]]:
    """An observation of pod p, of version 7 and UID ``uid-of-p``, whose first watch tells of these events, and later ones of none."""
    watches, versions = itertools.count(), itertools.chain([version], itertools.repeat("99"))

    def answers(asked: Asked) -> Said:
        if asked.query.get("watch"):
            return Said(b"".join(events) if next(watches) == 0 else b"")
        pods = a_list("Pod", at_version("p", "7"))
        pods["metadata"]["resourceVersion"] = next(versions)
        return said(pods)

    with lying(tmp_path, answers) as (cluster, asked), Observation(cluster, "pods", "default") as observation:
        yield observation, asked


def states(observation: Observation) -> list[list[tuple[str, str]]]:
    """Name and version of each object, at each look."""
    looks = observation.until(time.monotonic() + 0.4)
    return [[(obj["metadata"]["name"], obj["metadata"]["resourceVersion"]) for obj in objects.values()] for objects in looks]


@pytest.mark.parametrize(
    "replayed",
    [
        event("MODIFIED", at_version("p", "3")),
        event("MODIFIED", at_version("p", "9")),
        event("DELETED", at_version("p", "7")),
        event("ADDED", at_version("q", "8")),
        event("DELETED", at_version("p", "20", uid="another")),
    ],
    ids=["older", "as old as the list", "deletion", "an object that is gone", "deletion of what had the name before"],
)
def test_an_event_that_can_be_no_news_changes_nothing_and_is_listed_again(tmp_path: Path, replayed: bytes) -> None:
    with told(tmp_path, replayed) as (observation, asked):
        assert {tuple(state) for state in states(observation)} == {(("p", "7"),)}
    assert observation.gaps >= 1
    assert sum(not request.query.get("watch") for request in asked) >= 3


def test_an_event_that_is_older_than_the_one_before_is_no_news_either(tmp_path: Path) -> None:
    with told(tmp_path, event("MODIFIED", at_version("p", "12")), event("MODIFIED", at_version("p", "11"))) as (observation, _):
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
    with told(tmp_path, *lines) as (observation, _):
        assert states(observation)[:5] == [[("p", "7")], [("p", "10")], [], [("p", "12")], []]


@pytest.mark.parametrize("version", ["", "0", "opaque"])
def test_versions_that_cannot_be_compared_are_not(tmp_path: Path, version: str) -> None:
    """A watch of version 0, or of none, begins with all that is there, in any order. Aggregated API servers may number as they like."""
    lines = [event("MODIFIED", at_version("p", "6")), event("ADDED", at_version("q", "3")), event("DELETED", at_version("p", "x"))]
    with told(tmp_path, *lines, version=version) as (observation, _):
        assert states(observation)[:4] == [[("p", "7")], [("p", "6")], [("p", "6"), ("q", "3")], [("q", "3")]]


def test_a_version_that_is_no_number_is_not_compared_with_one(tmp_path: Path) -> None:
    with told(tmp_path, event("MODIFIED", at_version("p", "x"))) as (observation, _):
        assert states(observation)[:2] == [[("p", "7")], [("p", "x")]]
