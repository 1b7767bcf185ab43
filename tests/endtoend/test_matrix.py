"""The detection matrix: every requirement can fail, and none fails without a reason. So do the alerts on the metrics of its runs."""

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from conformance.matrix.detection import COMPARED, Rows, Runner, defect_row, rows_of, run_matrix, scenario_row
from deploy.monitoring import alert_name
from fixtures.simulator.config.scenario import defect_names, load_defect, load_scenario, scenario_names
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Access, Report
from reports.formats.openmetrics import render
from tests.deploy.alerts import PROMTOOL, case, live, promtool, raised_by, write_rules
from tests.endtoend.runs import ROOT, command, environment
from tests.judging import representatives
from tests.tables import each_row

DEFECTS = {name: load_defect(name) for name in defect_names()}
HEALTHY = [name for name in scenario_names() if load_scenario(name).fleet is None]

UNREAD = {"INV-03", "DRA-01", "GANG-01", COMPARISON}
"""They ask the API server, a running scheduler or an earlier run."""


class Recorded(Runner):
    """Keeps the record of each run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records: dict[str, Report] = {}

    def __call__(self, simulate: str, only: str = "", *, compared: bool = False) -> Report:
        self.records[simulate] = report = super().__call__(simulate, only, compared=compared)
        return report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rules(tmp_path_factory.mktemp("rules"))


def unlike_alerts(rules: Path, records: Mapping[str, Report]) -> str:
    """What promtool says where the metrics of runs raise other alerts than their results. Nothing is tried without it."""
    if PROMTOOL is None:
        return ""
    cases = [case(name, live(render(report)), *raised_by(report)) for name, report in records.items()]
    code, text = promtool(rules, *cases)
    return text[-3000:] if code else ""


LIVE = {id_ for id_, one in load_catalogue().by_id.items() if one.access is not Access.READ} | UNREAD


REPRESENTATIVES = representatives(LIVE)
"""A defect for each requirement that objects at rest do not show red."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in REPRESENTATIVES else pytest.mark.test_all) for name in DEFECTS])
def test_a_defect_turns_exactly_its_requirements_red_and_raises_their_alerts(run: Recorded, rules: Path, name: str) -> None:
    row = defect_row(run, name)
    assert row.red == row.expected, f"could not be judged: {row.undecided}"
    record = run.records.pop(f"{row.scenario},{name}")
    assert {alert_name(one) for one in row.expected} <= set(raised_by(record))
    assert unlike_alerts(rules, {name: record}) == ""


@pytest.mark.test_all
def test_healthy_scenarios_are_green_raise_no_alert_and_judge_every_requirement(run: Recorded, rules: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        rows = {row.name: row for row in pool.map(partial(scenario_row, run), HEALTHY)}
    assert {name: row.false_alarms for name, row in rows.items()} == {name: [] for name in HEALTHY}
    assert set(load_catalogue().by_id) == {id_ for row in rows.values() for id_ in row.judged}
    assert len(HEALTHY) >= 8
    assert set(load_catalogue().by_id) - set(rows["showcase"].judged) == {COMPARISON}
    assert COMPARISON in rows[COMPARED].judged
    records = {name: run.records[name] for name in HEALTHY}
    assert [name for name, record in records.items() if raised_by(record)] == []
    assert unlike_alerts(rules, records) == ""


def test_every_requirement_has_a_defect_and_every_defect_names_known_ones() -> None:
    known = load_catalogue().by_id
    tripped = {id_ for plan in DEFECTS.values() for id_ in plan.trips}
    assert tripped == set(known)


def test_rows_of_a_requirement_are_its_defects_their_scenarios_and_it_alone_elsewhere() -> None:
    for id_ in load_catalogue().by_id:
        rows = rows_of(id_, scenarios=HEALTHY, defects=DEFECTS)
        assert rows.defects
        assert all(id_ in DEFECTS[name].trips for name in rows.defects)
        assert set(rows.scenarios) == {DEFECTS[name].scenario for name in rows.defects}
        assert sorted((*rows.scenarios, *rows.alone)) == sorted(HEALTHY)
        assert rows.requirement == id_


@pytest.mark.test_all
def test_a_requirement_is_judged_alone_in_a_scenario_of_no_defect_of_its_own(run: Runner) -> None:
    rows = Rows(scenarios=[], defects=[], alone=["mps"], requirement="FENCE-01")
    (row,) = run_matrix(rows, load_catalogue().by_id, jobs=1, tell=print).scenarios
    assert (row.false_alarms, row.judged) == ([], ["FENCE-01"])


@pytest.mark.test_all
def test_the_command_writes_the_matrix(tmp_path: Path) -> None:
    tool = str(Path(command()[0]).parent / "gpu-conformance")
    file = tmp_path / "matrix.json"
    arguments = [tool, "matrix", "--json", str(file), "--only", "healthy", "fence-untainted-gpu-node"]
    done = subprocess.run(arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    matrix = json.loads(file.read_bytes())
    (row,) = matrix["defects"]
    assert (row["name"], row["red"], row["detected"]) == ("fence-untainted-gpu-node", row["expected"], True)
    (scenario,) = matrix["scenarios"]
    assert (scenario["name"], scenario["verdict"], scenario["falseAlarms"]) == ("healthy", "passed", [])
    assert matrix["requirements"] == len(load_catalogue().by_id)
    assert "withoutDefect" in matrix


@each_row
def test_a_wrong_name_is_one_line(tmp_path: Path, arguments: list[str], reported: str) -> None:
    tool = str(Path(command()[0]).parent / "gpu-conformance")
    done = subprocess.run([tool, "matrix", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert reported in done.stderr
    assert len(done.stderr.splitlines()) == 1
