"""JUnit, CTRF, metrics, Allure and the JSON Schema: what other programs read."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from allure_commons import model2

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Coverage, Report, Verdict, encode
from reports.cases import RUN_NAME, run_case
from reports.formats import allure, ctrf, junit, openmetrics
from reports.schema import SCHEMA_FILE
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import hostile_report, report, result, sample_report, subject
from tests.tables import each_row

REPORTS = pytest.mark.parametrize("made", [sample_report(), hostile_report(), report([])], ids=["sample", "hostile", "empty"])


def test_a_real_report_satisfies_the_schema_and_a_wrong_one_does_not() -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(encode(sample_report()))
    jsonschema.validate(document, schema)
    for path, value in (("exitCode", "one"), ("verdict", "great"), ("results", {}), ("summary", None)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | {path: value}, schema)


def cases(made: Report) -> dict[str, ET.Element]:
    root = ET.fromstring(junit.render(made))
    return {case.get("name", "").split()[0]: case for case in root.iter("testcase")}


@REPORTS
def test_junit_is_wellformed_and_adds_up(made: Report) -> None:
    root = ET.fromstring(junit.render(made))
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"), ("tests", "testcase")):
        assert int(root.get(attribute, "-1")) == len(list(root.iter(tag)))
        for suite in suites:
            assert int(suite.get(attribute, "-1")) == len(list(suite.iter(tag)))


STATUSES = {
    Verdict.PASSED: ("", "passed", "passed"),
    Verdict.FAILED: ("failure", "failed", "failed"),
    Verdict.WARNED: ("system-out", "passed", "passed"),
    Verdict.WAIVED: ("system-out", "passed", "passed"),
    Verdict.NOT_APPLICABLE: ("skipped", "skipped", "skipped"),
    Verdict.INCONCLUSIVE: ("error", "other", "broken"),
    Verdict.ERROR: ("error", "other", "broken"),
}
"""How JUnit, CTRF and Allure show each verdict, of a requirement and of an experiment alike."""


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_has_one_status_in_each_format(verdict: Verdict, tmp_path: Path) -> None:
    made, held = report([result("A-1", verdict)]), chaos(experiment(verdict, id="A-2"))
    tag, status, allure_status = STATUSES[verdict]
    for case in list(ET.fromstring(junit.render(made, held)).iter("testcase"))[:2]:
        assert [child.tag for child in case] == ["properties", *([tag] if tag else [])]
    tests = json.loads(ctrf.render(made, held))["results"]["tests"]
    assert [(test["status"], test["rawStatus"]) for test in tests[:2]] == [(status, verdict.value)] * 2
    allure.write(made, tmp_path, held, environ={})
    items = {item["name"][:3]: item for file in tmp_path.glob("*-result.json") if (item := json.loads(file.read_text()))}
    assert [items[id_]["status"] for id_ in ("A-1", "A-2")] == [allure_status] * 2


def test_a_case_says_what_was_found_and_what_to_do() -> None:
    case, waived = (cases(sample_report())[id_] for id_ in ("FENCE-01", "REQ-02"))
    assert " ".join(str(one.get("value")) for one in case.iter("property")) == "FENCE-01 MUST read failed 8 8 NonConformant"
    assert "node gpu-003: no taint: any pod" in (case.findtext("failure") or "")
    assert "What to do: kubectl taint nodes" in (case.findtext("failure") or "")
    assert "waived until 2026-12-31" in (waived.findtext("system-out") or "")


@REPORTS
def test_ctrf_counts_and_shape(made: Report) -> None:
    document = json.loads(ctrf.render(made))
    assert (document["reportFormat"], document["specVersion"]) == ("CTRF", "1.0.0")
    summary, tests = document["results"]["summary"], document["results"]["tests"]
    assert summary["tests"] == len(tests) == len(made.results) + (run_case(made, None) is not None)
    assert sum(summary[s] for s in ("passed", "failed", "skipped", "pending", "other")) == len(tests)
    assert summary["stop"] >= summary["start"]
    for test in tests:
        assert test["name"]
        assert isinstance(test["duration"], int)
        assert test["suite"]


def allure_results(made: Report, folder: Path) -> dict[str, dict[str, object]]:
    allure.write(made, folder)
    loaded = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*-result.json")]
    assert len(loaded) == len(made.results) + (run_case(made, None) is not None)
    return {item["name"].split()[0]: item for item in loaded}


def test_allure_fields_are_those_of_allures_own_model(tmp_path: Path) -> None:
    parts = {"statusDetails": "StatusDetails", "steps": "TestStepResult", "parameters": "Parameter"}
    parts |= {"labels": "Label", "links": "Link", "attachments": "Attachment"}

    def known(item: Any, kind: str) -> None:
        assert item.keys() <= {field.name for field in getattr(model2, kind).__attrs_attrs__}
        for name in item.keys() & parts.keys():
            held = item[name]
            for one in held if isinstance(held, list) else [held]:
                known(one, parts[name])

    for item in allure_results(sample_report(), tmp_path).values():
        known(item, "TestResult")


@pytest.mark.parametrize(("subjects", "attached"), [(allure.MAX_STEPS, 0), (allure.MAX_STEPS + 1, 1)])
def test_allure_attaches_subjects_that_are_no_steps(subjects: int, attached: int, tmp_path: Path) -> None:
    long = result("REQ-01", Verdict.FAILED, [subject(f"pod-{index:02d}", Verdict.FAILED) for index in range(subjects)])
    [item] = allure_results(report([long]), tmp_path).values()
    [*tables] = tmp_path.glob("*-attachment.txt")
    assert [one["source"] for one in item.get("attachments", [])] == [file.name for file in tables]  # type: ignore[attr-defined]
    assert len(tables) == attached
    assert all(f"pod-{subjects - 1}" in file.read_text(encoding="utf-8") for file in tables)


def test_allure_keeps_addresses_out(tmp_path: Path) -> None:
    allure_results(sample_report(), tmp_path)
    written = "".join(file.read_text(encoding="utf-8") for file in tmp_path.iterdir())
    assert "10.0.0.1" not in written
    assert "admin@gpu-prod" not in written
    environment = (tmp_path / "environment.properties").read_text(encoding="utf-8")
    assert "target=simulated cluster\n" in environment
    assert "warning=SIMULATED CLUSTER" in environment
    assert not (tmp_path / "executor.json").exists()


def test_megabyte_names_are_clipped_everywhere(tmp_path: Path) -> None:
    huge = "x" * 1_000_000
    made = report([result("A-1", Verdict.FAILED, [subject(huge, Verdict.FAILED, observed=huge, message=huge)], title=huge, message=huge)])
    allure.write(made, tmp_path)
    sizes = [len(junit.render(made)), len(ctrf.render(made)), len(openmetrics.render(made))]
    sizes += [file.stat().st_size for file in tmp_path.iterdir()]
    assert max(sizes) < 50_000


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


@each_row
@pytest.mark.parametrize("held", [None, chaos(experiment())], ids=["requirements", "experiments too"])
def test_a_run_that_nothing_explains_has_a_red_case_of_its_own(
    verdict: Verdict, code: int, held: ChaosReport | None, tmp_path: Path
) -> None:
    made = report(list(GREEN), verdict=verdict, exit_code=code)
    found = red(made, held, tmp_path)
    assert list(found.values()) == [[RUN_NAME]] * 3
    assert f"exit code {code}" in junit.render(made, held)


def test_the_notes_of_a_run_that_failed_by_itself_are_in_its_case() -> None:
    made = report(list(GREEN), verdict=Verdict.ERROR, exit_code=3)
    made.scope = Coverage(requirements=3, judged=3, notes=["test_mine.py::test_mine failed, and no result says so"])
    assert "test_mine failed" in junit.render(made)
    assert "test_mine failed" in ctrf.render(made)
