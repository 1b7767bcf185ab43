"""A report that cannot be written whole never says that the run was good, in no file of it."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fixtures.verdict.record import Verdict
from tests.endtoend.runs import Finished, run_suite

pytestmark = pytest.mark.test_all

TARGET = ("--simulate", "healthy", "--read-only", "--only", "FENCE")
PLENTY = 10_000_000


def run(folder: Path, room: int, *arguments: str) -> Finished:
    disk = {"GPU_CONFORMANCE_TEST_ROOM": str(room), "GPU_CONFORMANCE_TEST_DISK": str(folder / "report")}
    return run_suite(folder, *TARGET, "-p", "tests.endtoend.full_disk", *arguments, **disk)


def statuses(folder: Path) -> set[str]:
    return {json.loads(file.read_text())["status"] for file in folder.glob("*-result.json")}


def assert_nothing_is_green(report: Path) -> None:
    """Whatever is there of a run that ended with 3."""
    if (report / "report.html").is_file():
        assert "<title>Error" in (report / "report.html").read_text()
    if (report / "report.md").is_file():
        assert "exit code **3**" in (report / "report.md").read_text()
    if (report / "junit.xml").is_file():
        assert ET.parse(report / "junit.xml").getroot().get("errors") == "1"
    if (report / "ctrf.json").is_file():
        assert json.loads((report / "ctrf.json").read_text())["results"]["summary"]["failed"] == 1
    if (report / "metrics.prom").is_file():
        assert re.search(r"^gpu_conformance_exit_code(\{.*\})? 3$", (report / "metrics.prom").read_text(), re.MULTILINE)
    for folder in ("allure-results", "allure"):
        if list((report / folder).glob("*-result.json")):
            assert "broken" in statuses(report / folder)


@pytest.mark.parametrize("room", [40_000, 160_000, 230_000])
def test_a_full_disk_leaves_nothing_that_says_conformant(tmp_path: Path, room: int) -> None:
    done = run(tmp_path, room)
    assert done.code == 3, done.output
    assert "No space left on device" in done.output
    assert done.output.rstrip().splitlines()[-1].startswith("ERROR")
    assert (done.report is None) == (room == 40_000)
    if done.report is not None:
        assert (done.record.verdict, done.record.exit_code) == (Verdict.ERROR, 3)
    assert_nothing_is_green(tmp_path / "report")


@pytest.mark.parametrize("option", ["--evidence", "--alluredir={}/report/allure"])
def test_evidence_and_allures_results_are_part_of_a_whole_report(tmp_path: Path, option: str) -> None:
    done = run(tmp_path, 300_000, option.format(tmp_path))
    assert done.code == 3, done.output
    assert f"gpu-conformance: {option.partition('=')[0]}" in done.output
    assert (done.record.verdict, done.record.exit_code) == (Verdict.ERROR, 3)
    assert_nothing_is_green(tmp_path / "report")


def test_a_failure_stays_a_failure_on_a_full_disk(tmp_path: Path) -> None:
    done = run(tmp_path, 200_000, "--simulate", "healthy,fence-untainted-gpu-node")
    assert done.code == 1, done.output
    assert (done.record.verdict, done.record.exit_code) == (Verdict.FAILED, 1)


def test_a_report_that_fits_is_green(tmp_path: Path) -> None:
    done = run(tmp_path, PLENTY, "--evidence", f"--alluredir={tmp_path}/report/allure")
    assert done.code == 0, done.output
    assert (done.record.verdict, done.record.exit_code) == (Verdict.PASSED, 0)
    assert json.loads((tmp_path / "report" / "evidence" / "index.json").read_text())["complete"] is True
    assert statuses(tmp_path / "report" / "allure") == {"passed", "skipped"}
