"""Every defect file names what is there: its scenario, its targets, its switches and its rights."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config import scenario as module
from fixtures.simulator.config.defects import behaviour_of
from fixtures.simulator.config.scenario import ScenarioError, bug_names, load_defect, load_scenario, parse_simulate
from fixtures.simulator.simulated_cluster import initial_objects, with_defects

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@cache
def healthy_objects(scenario: str) -> list[Json]:
    """Only compared: a test that changed them would change the others' too."""
    return initial_objects(load_scenario(scenario), [], NOW)


@pytest.mark.parametrize("name", bug_names())
def test_a_seeded_bug_is_a_switch_of_its_scenario(name: str) -> None:
    bug = load_defect(name)
    assert bug.name == name
    assert bug.description.endswith(".")
    assert bug.experiments
    assert not bug.trips
    scenario, (found,) = parse_simulate(f"{bug.scenario},{name}")
    assert found == bug
    assert healthy_objects(bug.scenario) == with_defects(healthy_objects(bug.scenario), [bug], NOW), (
        "a cluster with the bug is a healthy one at rest"
    )
    assert behaviour_of(scenario, [bug]) != behaviour_of(scenario, [])


def test_a_defect_is_for_requirements_or_for_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFECTS", tmp_path)
    base = "name: bug-x\ndescription: d.\nscenario: resilience\nbehaviour: {logMonitorBlind: true}\n"
    for wrong in ("trips: []\n", "trips: [ADV-01]\nexperiments: [D13]\n"):
        (tmp_path / "bug-x.yaml").write_text(base + wrong)
        with pytest.raises(ScenarioError, match="one of the two"):
            load_defect("bug-x")
