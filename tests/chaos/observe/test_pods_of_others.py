"""Pods of others during an experiment: which ends are the cluster's doing, which may be anybody's, and which tell nothing."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any

import msgspec
import pytest

from chaos.observe.signals import SIGNALS
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import TargetKind
from tests.chaos.observe.made_up_cluster import Read, World, canary, plan, pod
from tests.chaos.tables import table
from tests.tables import each_row

ERROR = {"exitCode": 1, "reason": "Error"}
PRESSURE = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "


@pytest.fixture(autouse=True)
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at what the experiment is not about is a new one."""
    monkeypatch.setattr("chaos.observe.signals.nodes.OTHERS_SECONDS_SIMULATED", 0.0)
    monkeypatch.setattr("chaos.observe.signals.nodes.OTHERS_SECONDS", 0.0)


def tenants(name: str = "x", on: str = "b", *, status: Json | None = None, container: Json | None = None, **more: Any) -> Json:
    """A tenant's pod that runs, unless something else is said of it or of its container."""
    made = pod(name, on, **more)
    made["status"]["containerStatuses"] = [{"name": "main", "restartCount": 0, "state": {"running": {}}, **(container or {})}]
    made["status"].update(status or {})
    return made


def again(count: int = 1, last: Json | None = None, **state: Any) -> Json:
    """A container that was started again."""
    return {"restartCount": count, "lastState": {"terminated": ERROR if last is None else last}, "state": state or {"running": {}}}


def failed_with(**status: Any) -> Json:
    return {"phase": "Failed", **status}


def disrupted(reason: str) -> Json:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


GOING = {"deletionTimestamp": "2026-01-01T00:00:30Z"}


def live_plan() -> Any:
    return msgspec.structs.replace(plan(), target_kind=TargetKind.LIVE)


def stated(name: str, *worlds: World, live: bool = True) -> Any:
    """What a signal says of the last of some moments that it was asked in."""
    read = Read(worlds[0], live_plan() if live else plan())
    found = SIGNALS[name](read)  # type: ignore[arg-type]
    for world in worlds[1:]:
        read = read.again(world)
        found = SIGNALS[name](read)  # type: ignore[arg-type]
    return found


def pods(*found: Json) -> World:
    return World(pods=list(found), nodes=[])


ENDS = table("observe/ends")
BY_ITSELF, BY_CLUSTER = (
    {name: (tenants(**row), row["stated"]) for name, row in ENDS[by].items()} for by in ("by itself", "by the cluster")
)


@pytest.mark.parametrize(("now", "text"), BY_ITSELF.values(), ids=BY_ITSELF)
@pytest.mark.parametrize("live", [True, False], ids=["live", "simulated"])
def test_an_end_that_its_owner_can_cause_is_no_damage_and_is_named(now: Json, text: str, live: bool) -> None:
    assert stated("pods.others", pods(tenants()), pods(now), live=live) == []
    assert stated("pods.others.ended", pods(tenants()), pods(now), live=live) == [f"team/x {text}"]


@pytest.mark.parametrize(("now", "text"), BY_CLUSTER.values(), ids=BY_CLUSTER)
def test_an_end_that_only_the_cluster_can_cause_is_damage(now: Json, text: str) -> None:
    assert stated("pods.others", pods(tenants()), pods(now)) == [f"team/x {text}"]
    assert stated("pods.others.ended", pods(tenants()), pods(now)) == []


def test_the_cluster_may_still_end_a_pod_that_ended_by_itself() -> None:
    worlds = (pods(tenants()), pods(tenants(container=again())), pods(BY_CLUSTER["refused"][0]))
    assert stated("pods.others", *worlds) == ["team/x UnexpectedAdmissionError"]
    assert stated("pods.others.ended", *worlds) == []


@pytest.mark.parametrize("name", ["pods.others", "pods.others.ended"])
@each_row
def test_a_pod_elsewhere_that_its_owner_ends_or_that_is_done_tells_nothing(name: str, later: World) -> None:
    assert stated(name, pods(tenants()), later) == []


def test_on_a_cluster_that_is_all_ours_nobody_deletes_a_pod() -> None:
    assert stated("pods.others", pods(tenants()), pods(), live=False) == ["team/x gone"]
    for ended in (tenants(status={"phase": "Succeeded"}), tenants(status=failed_with(), container={"state": {"terminated": ERROR}})):
        assert stated("pods.others", pods(tenants()), pods(ended), pods(), live=False) == []  # cleared away after its end


@pytest.mark.parametrize("name", ["pods.others", "pods.others.ended"])
def test_the_end_of_a_pod_that_came_later_tells_nothing(name: str) -> None:
    assert stated(name, pods(), pods(tenants()), pods(tenants(container=again()))) == []


def ago(minutes: float) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()


def test_the_next_crash_of_a_pod_that_crashes_all_the_time_tells_nothing_but_what_the_cluster_does_to_it_counts() -> None:
    for before in (again(3, waiting={"reason": "CrashLoopBackOff"}), again(3, running={"startedAt": ago(1)})):
        looping = pods(tenants(container=before))
        assert stated("pods.others.ended", looping, pods(tenants(container=again(4)))) == []
        assert stated("pods.others", looping, pods(tenants(container=again(4)))) == []
        assert stated("pods.others", looping, pods(BY_CLUSTER["evicted by pressure"][0])) == ["team/x Evicted"]


def test_the_end_of_a_pod_that_was_started_again_once_and_ran_for_long_since_is_undecided() -> None:
    steady = pods(tenants(container=again(1, running={"startedAt": ago(60)})))
    assert stated("pods.others.ended", steady, pods(tenants(container=again(2)))) == ["team/x main: Error, exit code 1"]


@pytest.mark.parametrize("skew", [-7200.0, 0.0, 7200.0])
def test_how_long_a_container_has_run_is_reported_by_the_clusters_clock(skew: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is ahead, a container that crashes all the time would have run for long; by one that is behind, none ever has."""
    looping = pods(tenants(container=again(3, running={"startedAt": ago(1)})))
    steady = pods(tenants(container=again(3, running={"startedAt": ago(60)})))
    date, true = formatdate(usegmt=True), time.time
    monkeypatch.setattr(time, "time", lambda: true() + skew)
    for before, found in ((looping, []), (steady, ["team/x main: Error, exit code 1"])):
        before.server_clock.take("/version", {"Date": date})
        assert stated("pods.others.ended", before, pods(tenants(container=again(4)))) == found


def test_a_device_that_was_unhealthy_before_proves_nothing_now() -> None:
    sick = {"allocatedResourcesStatus": [{"resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}]}
    worlds = pods(tenants(container=sick)), pods(tenants(container={**sick, **again()}))
    assert stated("pods.others", *worlds) == []
    assert stated("pods.others.ended", *worlds) == ["team/x main: Error, exit code 1"]


def test_very_many_pods_fit_into_a_sample_and_one_more_still_shows() -> None:
    many = [tenants(f"x{number:04}") for number in range(1200)]
    ended = [tenants(f"x{number:04}", status=failed_with(reason="Evicted", message=PRESSURE)) for number in range(1200)]
    found = stated("pods.others", pods(*many), pods(*ended))
    assert found[-1] == "and 700 more"
    assert len(msgspec.json.encode(found)) < 64 << 10


# -- on the target nodes ----------------------------------------------------------------------------------


def here(**more: Any) -> Json:
    return tenants("t", "a", **more)


@pytest.mark.parametrize("kind", BY_ITSELF)
def test_a_stranger_on_the_target_that_ends_by_itself_is_named_and_not_lost(kind: str) -> None:
    now, text = BY_ITSELF[kind]
    now = {**now, "metadata": {**now["metadata"], "name": "t", "uid": "uid-t"}, "spec": here()["spec"]}
    for name in ("pods.uids", "pods.strangers"):
        assert stated(name, pods(here()), pods(now)) == {"team/t": "uid-t 0 Running"}
    assert stated("pods.ended", pods(here()), pods(now)) == {"team/t": text}
    assert stated("pods.failed", pods(here()), pods(now)) == []


@each_row
def test_a_stranger_that_leaves_the_target_is_undecided(later: World, text: str) -> None:
    assert stated("pods.uids", pods(here()), later) == {"team/t": "uid-t 0 Running"}
    assert stated("pods.ended", pods(here()), later) == {"team/t": text}


def test_a_stranger_on_the_target_that_the_cluster_ends_is_lost() -> None:
    rejected = pods(here(status=failed_with(reason="UnexpectedAdmissionError")))
    assert stated("pods.uids", pods(here()), rejected) == {"team/t": "uid-t 0 Running UnexpectedAdmissionError"}
    assert stated("pods.failed", pods(here()), rejected) == ["team/t UnexpectedAdmissionError"]
    assert stated("pods.uids", pods(here()), pods(), live=False) == {"team/t": "uid-t 0 Running gone"}


def test_a_pod_that_takes_the_name_of_another_hides_nothing() -> None:
    new = here(uid="uid-new")
    assert stated("pods.ended", pods(here()), pods(new)) == {"team/t": "gone"}
    rejected = here(status=failed_with(reason="UnexpectedAdmissionError"))
    assert stated("pods.uids", pods(here()), pods(rejected), pods(new)) == {"team/t": "uid-t 0 Running UnexpectedAdmissionError"}


def test_a_stranger_that_starts_or_had_failed_before_changes_nothing() -> None:
    starting = pods(here(status={"phase": "Pending"}))
    old = pods(here(status=failed_with(reason="UnexpectedAdmissionError")))
    assert stated("pods.uids", starting) == {}
    assert stated("pods.failed", old) == stated("pods.failed", old, pods()) == []
    assert stated("pods.refused", old, old) == []


def test_a_stranger_that_the_target_refused_before_it_ran_is_undecided() -> None:
    refused = pods(here(status=failed_with(reason="OutOfnvidia.com/gpu")))
    for worlds in ((pods(), refused), (pods(here(status={"phase": "Pending"})), refused)):
        assert stated("pods.failed", *worlds) == []
        assert stated("pods.refused", *worlds) == ["team/t OutOfnvidia.com/gpu"]
        assert stated("pods.refused", *worlds, pods()) == ["team/t OutOfnvidia.com/gpu"]


def test_the_experiments_own_pods_count_however_they_end() -> None:
    own, restarted = pods(canary("w", "a")), pods(canary("w", "a", restarts=1))
    assert stated("pods.uids", own, restarted) != stated("pods.uids", own)
    assert stated("pods.uids", own, pods()) == {}
    assert stated("pods.failed", own, pods(canary("w", "a", phase="Failed"))) == ["gpu-conformance-chaos-run-canaries/w False"]
    assert stated("pods.ended", own, restarted) == {}


@pytest.mark.parametrize(("role", "more", "failed"), [("victim", GOING, False), ("victim", {}, True), ("worker", GOING, True)])
def test_a_victim_that_is_evicted_has_not_failed_by_itself(role: str, more: Json, failed: bool) -> None:
    running, ended = canary("v", "a", role=role), canary("v", "a", role=role, phase="Failed")
    ended["metadata"].update(more)
    assert bool(stated("pods.failed", pods(running), pods(ended))) is failed
