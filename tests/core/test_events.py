"""Events as a kind of the snapshot: both shapes, no more than warnings, bounded, and never needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.coverage.missing_kinds import unread_hints
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Event, Json
from fixtures.snapshot import collect as collecting
from fixtures.snapshot.collect import collect
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.record import Verdict
from tests.builders import a_node, a_pod, a_policy
from tests.judging import CATALOGUE, judge
from tests.reports.sample_report import result, subject
from tests.served import served

ABOUT = {"kind": "Pod", "namespace": "team-a", "name": "train-0", "uid": "u-1"}
CORE: Json = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "train-0.1", "namespace": "team-a", "uid": "e-1", "resourceVersion": "1"},
    "type": "Warning",
    "reason": "FailedCreatePodSandBox",
    "involvedObject": ABOUT,
    "message": "no runtime",
    "source": {"component": "kubelet", "host": "gpu-0"},
    "count": 7,
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T01:00:00Z",
}
NEW: Json = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "train-0.1", "namespace": "team-a", "uid": "e-1", "resourceVersion": "1"},
    "type": "Warning",
    "reason": "FailedCreatePodSandBox",
    "regarding": ABOUT,
    "note": "no runtime",
    "reportingController": "kubelet",
    "deprecatedSource": {"component": "kubelet", "host": "gpu-0"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "series": {"count": 7, "lastObservedTime": "2026-01-01T01:00:00.000000Z"},
}


@pytest.mark.parametrize("shape", [CORE, NEW], ids=["core", "events.k8s.io"])
def test_both_shapes_say_the_same(shape: Json) -> None:
    event = msgspec.convert(shape, Event)
    assert (event.about.name, event.text, event.reporter, event.host, event.times) == ("train-0", "no runtime", "kubelet", "gpu-0", 7)
    assert (event.first[:13], event.last[:13]) == ("2026-01-01T00", "2026-01-01T01")


def test_an_event_without_any_time_has_happened_once_and_nobody_knows_when() -> None:
    event = msgspec.convert({"metadata": {"name": "e"}}, Event)
    assert (event.first, event.last, event.times) == ("", "", 1)


def test_only_warnings_are_read_of_a_cluster(tmp_path: Path) -> None:
    normal = {**CORE, "type": "Normal", "metadata": {**CORE["metadata"], "name": "train-0.2", "uid": "e-2"}}
    with served(tmp_path, [_bare(CORE), _bare(normal)]) as (cluster, _):
        assert [event.name for event in collect(cluster, ["events"], version="").listing("events").items] == ["train-0.1"]


def test_more_events_than_the_bound_are_trouble_and_not_some_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = msgspec.structs.replace(KINDS["events"], at_most=1)
    monkeypatch.setattr(collecting, "KINDS", {**KINDS, "events": small})
    other = {**CORE, "metadata": {**CORE["metadata"], "name": "train-0.2", "uid": "e-2"}}
    with served(tmp_path, [_bare(CORE), _bare(other)]) as (cluster, _):
        listing = collect(cluster, ["events"], version="").listing("events")
    assert (listing.trouble, list(listing.items)) == ("TooLarge", [])


def _bare(event: Json) -> Any:
    """The event as somebody writes it: the server gives it its UID and version."""
    return {**event, "metadata": {key: event["metadata"][key] for key in ("name", "namespace")}}


WITH_HINTS = sorted(id_ for id_, one in CATALOGUE.by_id.items() if "events" in one.hints)


def a_snapshot_with(events: Callable[[], Listing[Any]], *, offline: bool) -> Snapshot:
    running = {"containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}
    listings: list[Listing[Any]] = [Listing(key=key) for key in KINDS if key not in ("events", "nodes", "pods")]
    pods = [a_pod(devices=1, node="gpu-0", status=running)]
    listings += [Listing(key="nodes", items=[a_node()]), Listing(key="pods", items=pods), events()]
    return Snapshot(listings, taken_at=1_790_000_000.0, offline=offline)


@pytest.mark.parametrize("id_", WITH_HINTS)
def test_without_events_pods_are_judged_all_the_same_and_the_result_says_so(id_: str) -> None:
    refused = a_snapshot_with(lambda: Listing(key="events", trouble="Forbidden", message="403"), offline=False)
    missing = a_snapshot_with(lambda: Listing(key="events", collected=False), offline=True)
    full = a_snapshot_with(lambda: Listing(key="events"), offline=False)
    found = [judge(snapshot, a_policy(), [id_])[id_] for snapshot in (full, refused, missing)]
    assert len({(result.verdict, result.judged) for result in found}) == 1
    if found[0].verdict is Verdict.PASSED:
        assert "events" not in found[0].message
        assert "events could not be listed: 403" in found[1].message
        assert "the snapshot holds no events" in found[2].message


@pytest.mark.parametrize(("trouble", "stated"), [("Forbidden", True), ("Unreadable", True), ("TooLarge", False), ("", False)])
def test_events_that_were_refused_are_a_shortfall_and_too_many_are_none(trouble: str, stated: bool) -> None:
    """What they would have shown may be bad: a run that lost the right must not end as one that saw nothing."""
    snapshot = a_snapshot_with(lambda: Listing(key="events", trouble=trouble, message="403"), offline=False)
    results = [result(id_, Verdict.PASSED, [subject("node-1")]) for id_ in WITH_HINTS]
    results += [result("FENCE-01", Verdict.PASSED, [subject("node-1")])]
    sentences = list(unread_hints(CATALOGUE.by_id, results, snapshot))
    assert sentences == [f"{', '.join(WITH_HINTS)} were judged without events, which could not be listed: 403"] * stated
    assert list(unread_hints(CATALOGUE.by_id, [result(WITH_HINTS[0], Verdict.NOT_APPLICABLE, [])], snapshot)) == []
