"""A small share of ``make chaos-selfcheck``: the same code, a few kills, one bug; and a cluster that heals when nobody is left."""

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.catalogue import known_names, load_all, load_experiment
from chaos.model.pairs import pairs_of
from tests.chaos.selfcheck import bugs, controls, kills, meddling
from tests.chaos.selfcheck.runs import RESILIENCE, Stage, start

pytestmark = pytest.mark.test_all

KILLS = int(os.environ.get("GPU_CONFORMANCE_CHAOS_KILLS", "4"))
KILLED = ("N6", "A9", "N1", "D1")
SECONDS = 6.0
"""Within which the kills fall; about what these experiments take after they have begun."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(RESILIENCE, tmp_path / "cluster")
    yield stage
    stage.stop()


def test_recover_restores_what_killed_runs_have_changed(stage: Stage, tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("GPU_CONFORMANCE_CHAOS_SEED", "1"))
    rows = [kills.kill_once(stage, KILLED[turn % len(KILLED)], SECONDS, chance, tmp_path / str(turn)) for turn in range(KILLS)]
    assert [row for row in rows if row.residue] == []


def test_a_kubelet_starts_again_by_its_machine_when_nobody_is_left_to_start_it(stage: Stage, tmp_path: Path) -> None:
    before = kills.look(stage.cluster)
    process = start(stage.command(tmp_path / "run", "N2"))
    threading.Thread(target=process.stdout.read if process.stdout else None, daemon=True).start()
    folder = tmp_path / "run" / "chaos" / "N2"
    assert _becomes(stage, ready=False), "the kubelet was not stopped"
    children = kills.children(folder)
    for pid in (process.pid, *children):
        kills.kill_group(pid)
    process.wait()
    assert children
    assert not (folder / "verdict.json").exists()
    assert _becomes(stage, ready=True), "the timer on the machine did not start the kubelet"
    recovered = kills.recover(stage)
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert kills.differences(stage.cluster, before) == []


def _becomes(stage: Stage, *, ready: bool, seconds: float = 90.0) -> bool:
    """Whether all nodes are Ready, or one is not, within a time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        values = kills.look(stage.cluster)
        if all(value == "True" for key, value in values.items() if key.endswith(" condition Ready")) is ready:
            return True
        threading.Event().wait(0.2)
    return False


def test_a_seeded_bug_is_caught_by_the_experiment_meant_for_it(tmp_path: Path) -> None:
    bug = next(one for one in bugs.seeded() if one.experiments == ["A9"])
    row = bugs.check(bug, "A9", tmp_path / "run")
    assert row.caught, row.output


def test_every_experiment_has_a_control_without_its_fault(tmp_path: Path) -> None:
    experiments = load_all()
    names = known_names()
    for path in sorted(controls.write(experiments, tmp_path / "controls").glob("*.yaml")):
        control = load_experiment(path, names)
        assert control.extension.undo == ()
        assert control.extension.signals
        assert all(one.mode != "eventually" for one in control.extension.expect)


def test_every_experiment_can_turn_red() -> None:
    caught = {id_ for bug in bugs.seeded() for id_ in bug.experiments}
    known = load_all()
    assert caught == {one.id for one in (*known, *pairs_of(known))}


def test_every_experiment_has_two_bugs_and_one_of_them_is_somebodys_report() -> None:
    found = [(id_, bug.source) for bug in bugs.seeded() for id_ in bug.experiments]
    found += [(row.experiment, row.source.removeprefix("ours")) for row in meddling.rows() if not row.healthy]
    known = load_all()
    for id_ in (one.id for one in (*known, *pairs_of(known))):
        sources = [source for experiment, source in found if experiment == id_]
        assert len(sources) >= 2, id_
        assert any(source.startswith("https://") for source in sources), id_
