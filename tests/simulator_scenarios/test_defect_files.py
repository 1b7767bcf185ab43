"""Every defect file names what is there: its scenario, its targets, its switches and its rights."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fixtures.simulator.assembly import initial_objects, seeded
from fixtures.simulator.defects_apply import behaviour_of, policy_of
from fixtures.simulator.rights import rights_of
from fixtures.simulator.scenario import defect_names, load_defect, parse_simulate

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("name", defect_names())
def test_defect_applies_to_its_scenario(name: str) -> None:
    defect = load_defect(name)
    assert defect.name == name
    assert defect.description
    assert defect.trips
    scenario, (found,) = parse_simulate(name)
    assert found == defect
    assert defect.changes or defect.objects or defect.behaviour or defect.denied or defect.policy, "a defect that changes nothing"
    healthy, faulty = initial_objects(scenario, [], NOW), initial_objects(scenario, [defect], NOW)
    if defect.changes or defect.objects:
        assert faulty != healthy
    seeded(faulty)
    behaviour_of(scenario, [defect])
    policy_of(scenario, [defect])
    rights_of([defect])
