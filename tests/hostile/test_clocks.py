"""Ages are judged by the API server's clock, unless what says its time is plainly false. This machine's clock may be wrong by years."""

import re
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.coverage.missing_kinds import doubted_time
from fixtures.cluster.server_clock import ServerClock
from fixtures.kubernetes.times import unix
from fixtures.snapshot.collect import collect
from fixtures.snapshot.state import Snapshot
from tests.hostile.lying import Asked, Said, a_list, an_object, lying, reported
from tests.hostile.test_answers import SERVED, announced

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SERVERS, OWN = "judged by the API server's clock", "judged by this machine's clock"


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from the true time, in seconds. ``date``: of the answers to discovery, or their header as it is.

    ``beats``: when the kubelets were last heard of. ``created``: when the newest pod was.
    """

    own: float = 0.0
    date: float | str = 0.0
    beats: tuple[float, ...] = (-2 * MINUTE,)
    alive: bool = True
    created: float = -HOUR
    headers: dict[str, str] = {}


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def a_node(name: str, beat: str, ready: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": beat, "lastTransitionTime": beat}
    return an_object("Node", name, namespace="", status={"conditions": [condition]})


def read(folder: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Snapshot, float]:
    """The snapshot of a world, and by how much its time differs from the true one."""
    true, began = time.time, time.time()
    nodes = [a_node(f"n{i}", stamp(began + beat), "True" if world.alive else "Unknown") for i, beat in enumerate(world.beats)]
    pod = an_object("Pod", "p")
    pod["metadata"]["creationTimestamp"] = stamp(began + world.created)
    lists = {"/api/v1/nodes": a_list("Node", *nodes), "/api/v1/pods": a_list("Pod", pod)}

    def answers(asked: Asked) -> Said:
        if asked.path not in ("/api", "/apis"):
            return reported(lists[asked.path], Date=formatdate(true() - 9 * DAY, usegmt=True))  # what is handed on tells another's time
        date = world.date if isinstance(world.date, str) else formatdate(true() + world.date, usegmt=True)
        honest = reported(announced(SERVED, root=asked.path))
        return msgspec.structs.replace(honest, headers={"Date": date, **world.headers})

    monkeypatch.setattr(time, "time", lambda: true() + world.own)
    with lying(folder, answers) as (cluster, _):
        found = collect(cluster, ["nodes", "pods"], version="v1.36.0")
    assert found.listing("nodes").trouble == found.listing("pods").trouble == ""
    assert found.read_at == pytest.approx(true() + world.own, abs=30)
    return found, found.taken_at - true()


@pytest.mark.parametrize(
    ("world", "differs", "says"),
    [
        (World(), 0.0, ""),
        (World(own=30.0), 0.0, ""),
        (World(beats=(-9 * DAY,)), 0.0, ""),
        (World(beats=(), created=9 * DAY), 0.0, ""),
        (World(own=2 * HOUR), 0.0, f"this machine's clock is 2 h ahead of the API server's: ages are {SERVERS}"),
        (World(own=-2 * HOUR), 0.0, f"this machine's clock is 2 h behind the API server's: ages are {SERVERS}"),
        (World(own=400 * DAY, beats=()), 0.0, SERVERS),
        (World(own=2 * HOUR, created=9 * DAY), 0.0, SERVERS),
        (World(own=2 * HOUR, beats=(-MINUTE, 9 * DAY, -2 * MINUTE)), 0.0, SERVERS),
        (World(own=2 * HOUR, beats=(-9 * DAY,), alive=False), 0.0, SERVERS),
        (World(date=-9 * DAY), 0.0, f"and kubelets that are alive were last heard of at .*: ages are {OWN}"),
        (World(date=9 * DAY), 0.0, OWN),
        (World(date=-9 * DAY, beats=()), 0.0, f"and one of the objects was created at .*: ages are {OWN}"),
        (World(date=-9 * DAY, headers={"Age": "777600"}), 0.0, ""),
        (World(date=-9 * DAY, own=9 * DAY), -2 * MINUTE, "; this machine's clock says .*: ages are judged as of "),
        (World(date=-9 * DAY, own=-9 * DAY + HOUR, beats=()), -HOUR, "ages are judged as of "),
        *[
            (World(date=date), 0.0, "")
            for date in ("", "yesterday", "Mon, 31 Feb 2020 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 +0900", "0", "9" * 900)
        ],
        (World(date="", own=9 * DAY), -2 * MINUTE, "this machine's clock says .*, and kubelets that are alive .*: ages are judged as of "),
    ],
    ids=lambda value: str(value)[:90] if isinstance(value, World) else "",
)
def test_ages_are_judged_by_the_clock_that_nothing_contradicts(
    tmp_path: Path, world: World, differs: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, off = read(tmp_path, world, monkeypatch)
    assert off == pytest.approx(differs, abs=40)
    notes = list(doubted_time(found))
    assert bool(notes) is bool(says)
    if says:
        (note,) = notes
        assert re.search(says, note), note


def test_workers_judge_ages_as_the_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = read(tmp_path, World(own=2 * HOUR), monkeypatch)
    found.save(tmp_path / "snapshot")
    loaded = Snapshot.load(tmp_path / "snapshot")
    assert (loaded.taken_at, loaded.read_at, loaded.time_doubt) == (found.taken_at, found.read_at, found.time_doubt)


def test_a_date_goes_on_from_when_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ServerClock()
    assert clock.now() is None
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    clock.take("/api/v1/pods", {"Date": "Tue, 24 Nov 2026 10:00:00 GMT"})
    assert clock.now() is None
    clock.take("/version", {"Date": "Tue, 24 Nov 2026 10:00:00 GMT"})
    monkeypatch.setattr(time, "monotonic", lambda: 130.0)
    assert clock.now() == unix("2026-11-24T10:00:30Z")
