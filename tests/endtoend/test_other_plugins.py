"""The suite beside other plugins of pytest: without those it is used to, and with those that its settings leave out."""

from pathlib import Path

import pytest

from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

TARGET = ("--simulate", "healthy", "--only", "FENCE-01,FENCE-05")


def judged(done: Finished) -> list[str]:
    return [result.id for result in done.record.results if result.judged]


@pytest.mark.parametrize("options", ["-p no:xdist", "-o addopts= -p no:allure_pytest"])
def test_a_probe_needs_no_plugin(tmp_path: Path, options: str) -> None:
    done = run_for_record(tmp_path, *TARGET, *options.split())
    assert done.code == 0, done.output
    assert judged(done) == ["FENCE-01", "FENCE-05"]


def test_a_probe_needs_no_plugin_that_pytest_finds_by_itself(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, *TARGET, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.code == 0, done.output
    assert judged(done) == ["FENCE-01", "FENCE-05"]


@pytest.mark.parametrize("settings", ["-o addopts=", "-o addopts=--import-mode=importlib"])
def test_an_option_that_another_plugin_has_is_one_line_and_exit_code_4(tmp_path: Path, settings: str) -> None:
    done = run_for_record(tmp_path, *TARGET, *settings.split())
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert "--alluredir" in line
    assert "'-p no:allure_pytest'" in line
    assert "Traceback" not in done.output
