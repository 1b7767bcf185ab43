"""Every healthy scenario raises no alarm, and every defect turns exactly its read requirements red, without a server.

All requirements that read are judged by the tests of the catalogue, over the objects that a scenario begins with. The detection
matrix proves the same in whole runs, for probes too; this takes seconds.
"""

from __future__ import annotations

from functools import cache

import pytest

from fixtures.simulator.config.scenario import defect_names, load_defect, load_scenario, scenario_names
from fixtures.verdict.record import Result, Verdict
from tests.judging import READ, judge
from tests.requirements_offline import scope_of

RED = (Verdict.FAILED, Verdict.WARNED)
ALARM = (*RED, Verdict.INCONCLUSIVE, Verdict.ERROR)
RUNNING = "GANG-01"
"""Judges whether schedulers are available, which nothing is before the scenario's programs run."""

ASKING = {"INV-03", "DRA-01"}
"""Ask the API server for what no snapshot holds: all of it, or what cannot be told from the objects."""


@cache
def _run(scenario: str, defect: str) -> tuple[dict[str, Result], frozenset[str]]:
    scope = scope_of(load_scenario(scenario), [load_defect(defect)] if defect else ())
    names = frozenset(one.name for one in (*scope.snapshot.nodes, *scope.snapshot.namespaces))
    return judge(scope.snapshot, scope.policy, [id_ for id_ in READ if id_ != RUNNING], may_probe=True), names


def judged(scenario: str, defect: str = "") -> dict[str, Result]:
    return _run(scenario, defect)[0]


def unasked(results: dict[str, Result]) -> set[str]:
    return {
        id_ for id_ in ASKING & results.keys() if results[id_].reason_code == "NoCluster" or results[id_].verdict is Verdict.INCONCLUSIVE
    }


def uncompared(results: dict[str, Result]) -> set[str]:
    """What is judged against an earlier run alone, which there is none of here."""
    return {id_ for id_, result in results.items() if result.reason_code == "NoBaseline"}


@pytest.mark.parametrize("scenario", scenario_names())
def test_a_healthy_scenario_raises_no_alarm(scenario: str) -> None:
    assert {id_: result.message for id_, result in judged(scenario).items() if result.verdict in ALARM} == {}


@pytest.mark.parametrize("name", defect_names())
def test_a_defect_turns_exactly_its_read_requirements_red(name: str) -> None:
    defect = load_defect(name)
    results = judged(defect.scenario, name)
    red = {id_: result.message for id_, result in results.items() if result.verdict in RED}
    assert set(red) == set(defect.trips) & results.keys() - unasked(results) - uncompared(results), red


def test_every_read_requirement_passes_somewhere_and_one_asks_the_cluster() -> None:
    every = [judged(name) for name in scenario_names()]
    passed = {id_ for results in every for id_, result in results.items() if result.verdict is Verdict.PASSED}
    assert passed == set(READ) - {RUNNING, "INV-03"} - uncompared(every[0])
    every += [judged(load_defect(name).scenario, name) for name in defect_names()]
    assert {id_ for results in every for id_ in unasked(results)} == ASKING
