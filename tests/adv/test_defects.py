from __future__ import annotations

import pytest

from fixtures.simulator.scenario import defect_names, load_defect, scenario_names
from tests.adv.built import scope_of, verdict
from tests.adv.checks_by_id import CHECKS

MINE = [name for name in defect_names() if name.startswith(("adv-", "mig-", "share-"))]


@pytest.mark.parametrize("scenario", scenario_names())
def test_no_scenario_raises_a_false_alarm(scenario: str) -> None:
    scope = scope_of(scenario)
    assert {id_: seen for id_, check in CHECKS.items() if (seen := verdict(check(scope))) not in ("passed", "not_applicable")} == {}


@pytest.mark.parametrize("name", MINE)
def test_each_fault_turns_exactly_its_own_requirements_red(name: str) -> None:
    defect = load_defect(name)
    scope = scope_of(defect.scenario, name)
    red = {id_ for id_, check in CHECKS.items() if verdict(check(scope)) == "failed"}
    assert red == set(defect.trips) & CHECKS.keys()


def test_every_requirement_that_reads_has_a_fault() -> None:
    assert CHECKS.keys() <= {id_ for name in MINE for id_ in load_defect(name).trips}


def test_scenarios_are_judged_and_not_waved_through() -> None:
    judged = {id_ for scenario in scenario_names() for id_, check in CHECKS.items() if verdict(check(scope_of(scenario))) == "passed"}
    assert judged == CHECKS.keys()
