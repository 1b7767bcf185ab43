"""A run that is not good is red in every format of test results, also where each of its requirements and experiments is green."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Coverage, Report, Verdict
from reports import run_case
from reports.formats import allure, ctrf, junit
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import report, result

GREEN = (result("A-1", Verdict.PASSED), result("A-2", Verdict.WARNED), result("A-3", Verdict.NOT_APPLICABLE))


def red(made: Report, held: ChaosReport | None, folder: Path) -> dict[str, list[str]]:
    """The red cases of each format, by their names."""
    cases = ET.fromstring(junit.render(made, held)).iter("testcase")
    tests = json.loads(ctrf.render(made, held))["results"]["tests"]
    allure.write(made, folder, held, {})
    items = [json.loads(file.read_text()) for file in folder.glob("*-result.json")]
    return {
        "junit": [str(case.get("name")) for case in cases if case.find("error") is not None or case.find("failure") is not None],
        "ctrf": [test["name"] for test in tests if test["status"] in ("failed", "other")],
        "allure": [item["name"] for item in items if item["status"] in ("failed", "broken")],
    }


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.FAILED, 1),
        (Verdict.INCONCLUSIVE, 2),
        (Verdict.ERROR, 3),
        (Verdict.INCONCLUSIVE, 10),
        (Verdict.NOT_APPLICABLE, 10),
        (Verdict.PASSED, 11),
    ],
)
@pytest.mark.parametrize("held", [None, chaos(experiment())], ids=["requirements", "experiments too"])
def test_a_run_that_nothing_explains_has_a_red_case_of_its_own(
    verdict: Verdict, code: int, held: ChaosReport | None, tmp_path: Path
) -> None:
    made = report(list(GREEN), verdict=verdict, exit_code=code)
    found = red(made, held, tmp_path)
    assert list(found.values()) == [[run_case.NAME]] * 3
    assert f"exit code {code}" in junit.render(made, held)


def test_the_notes_of_a_run_that_failed_by_itself_are_in_its_case() -> None:
    made = report(list(GREEN), verdict=Verdict.ERROR, exit_code=3)
    made.scope = Coverage(requirements=3, judged=3, notes=["test_mine.py::test_mine failed, and no result says so"])
    assert "test_mine failed" in junit.render(made)
    assert "test_mine failed" in ctrf.render(made)
