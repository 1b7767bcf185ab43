"""Every healthy scenario raises no alarm, and every defect turns exactly its read requirements red, without a server.

All requirements that read are judged by the tests of the catalogue, over the objects that a scenario begins with. The detection
matrix proves the same in whole runs, for probes too; this takes seconds.
"""

import shlex
from itertools import pairwise, takewhile

import pytest
import yaml

from conformance.causes import FOLDER, load_causes
from fixtures.simulator.config.scenario import defect_names, load_defect, scenario_names
from fixtures.verdict.record import Result, Verdict
from reports.causes import found_causes
from tests.core.judged_defects import RUNNING, judged, report_of
from tests.judging import CATALOGUE, READ, representatives

pytestmark = pytest.mark.xdist_group("defects")  # each is judged once

RED = (Verdict.FAILED, Verdict.WARNED)
ALARM = (*RED, Verdict.INCONCLUSIVE, Verdict.ERROR)

ASKING = {"INV-03", "DRA-01", "OBS-01", "OBS-03", "OBS-04", "OBS-08", "PLAT-04", "UPG-01"}
"""Ask the cluster for what no snapshot holds: all of it, or what cannot be told from the objects."""

SHARED_CAUSES = yaml.safe_load((FOLDER / "causes.yaml").read_text(encoding="utf-8")).keys()
REPRESENTATIVES = representatives(set(READ) & {id_ for name in defect_names() for id_ in load_defect(name).trips})
every_defect = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in REPRESENTATIVES else pytest.mark.test_all) for name in defect_names()]
)


def unasked(results: dict[str, Result]) -> set[str]:
    return {
        id_ for id_ in ASKING & results.keys() if results[id_].reason_code == "NoCluster" or results[id_].verdict is Verdict.INCONCLUSIVE
    }


def uncompared(results: dict[str, Result]) -> set[str]:
    """What is judged against an earlier run alone, which there is none of here."""
    return {id_ for id_, result in results.items() if result.reason_code == "NoBaseline"}


@pytest.mark.parametrize("scenario", scenario_names())
def test_a_healthy_scenario_raises_no_alarm(scenario: str) -> None:
    assert {id_: result.message for id_, result in judged(scenario).results.items() if result.verdict in ALARM} == {}


@every_defect
def test_a_defect_turns_exactly_its_read_requirements_red_for_causes_that_they_name(name: str) -> None:
    defect = load_defect(name)
    results = judged(defect.scenario, name).results
    red = {id_: result.message for id_, result in results.items() if result.verdict in RED}
    assert set(red) == set(defect.trips) & results.keys() - unasked(results) - uncompared(results), red
    for result in results.values():
        found = {subject.cause for subject in result.subjects if subject.verdict in RED}
        assert "" not in found, f"{result.id} fails without a cause"
        assert found <= {*CATALOGUE.by_id[result.id].causes, *SHARED_CAUSES}, result.id


@every_defect
def test_commands_name_what_the_cluster_has(name: str) -> None:
    known = {item["metadata"]["name"] for item in judged(load_defect(name).scenario, name).objects}
    templates = {
        word for cause in load_causes().values() for text in (*cause.look, *(c.run for c in cause.changes)) for word in text.split()
    }
    lines = [line for found in found_causes(report_of(name)) if found.cause for command in found.commands for line in command.lines]
    assert [word for line in lines for word in _named(shlex.split(line)) if word not in known | templates] == []


def _named(words: list[str]) -> list[str]:
    """The nodes and namespaces that a command of kubectl names."""
    found = [after for word, after in pairwise(words) if word in ("-n", "namespace")]
    found += [word.removeprefix("spec.nodeName=") for word in words if word.startswith("spec.nodeName=")]
    for at, word in enumerate(words):
        if word in ("node", "nodes", "cordon", "uncordon", "drain"):
            found += takewhile(lambda one: not one.startswith("-") and "=" not in one and one not in ("node", "KEY-"), words[at + 1 :])
    return found


def test_every_read_requirement_passes_somewhere_and_one_asks_the_cluster() -> None:
    every = [judged(name).results for name in scenario_names()]
    passed = {id_ for results in every for id_, result in results.items() if result.verdict is Verdict.PASSED}
    assert passed == set(READ) - {RUNNING} - (ASKING - {"DRA-01"}) - uncompared(every[0])
    every += [judged(load_defect(name).scenario, name).results for name in defect_names() if ASKING & set(load_defect(name).trips)]
    assert {id_ for results in every for id_ in unasked(results)} == ASKING
