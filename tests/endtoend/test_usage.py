"""Bad input: one clear line, exit code 4, no traceback, nothing written."""

import shlex
import subprocess
from pathlib import Path

import pytest

from conformance.cli.main import main
from conformance.matrix.detection import Finished, run_pytest
from tests.endtoend.runs import ROOT, environment, run_suite
from tests.served import kubeconfig
from tests.tables import table

SIMULATED = ("--simulate", "healthy")
TABLE = table(__file__)
CASES: dict[str, tuple[str, str]] = {
    **TABLE["cases"],
    "floor of thousands of digits": (f"--simulate healthy --min-judged {'9' * 5000}", f"--min-judged {'9' * 40}: expected a whole number"),
}
SHORT = ("no target", "unknown id in a selection", "missing kubeconfig", "policy with an unknown key")
"""Each case is a process."""


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in SHORT else pytest.mark.test_all) for case in CASES])
def test_bad_input_is_one_line_and_exit_code_4(tmp_path: Path, case: str) -> None:
    (tmp_path / "broken").write_text("a: [\n")
    (tmp_path / "other").write_text("kind: Pod\n")
    (tmp_path / "policy").write_text("fence: {taintKey: [a]}\n")
    (tmp_path / "areas").write_text("gate: {areas: [FENC]}\n")
    (tmp_path / "needed").write_text("required: [FENCE-99]\n")
    places = {name: str(tmp_path / name) for name in ("broken", "other", "policy", "areas", "needed", "absent")}
    places["away"] = str(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    arguments, expected = CASES[case]
    done = run_suite(tmp_path, *(argument.format(**places) for argument in shlex.split(arguments)))
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert expected in line
    assert "Traceback" not in done.output
    assert done.report is None


def test_a_target_that_cannot_be_opened_is_an_error_in_junit(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text("{}")  # an earlier run's
    done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "absent"))
    assert done.code == 4
    document = (tmp_path / "report" / "junit.xml").read_text()
    assert 'errors="1"' in document
    assert "absent: no such file" in document
    assert not (tmp_path / "report" / "report.json").exists()


def test_what_pytest_itself_is_given_empty_selects_nothing_else(tmp_path: Path) -> None:
    """``-k "$UNSET"`` is pytest's for "all": it never changes what is judged, only a target's name does."""
    done = run_suite(tmp_path, *SIMULATED, "-k", "", "--only", "FENCE-01")
    assert done.code == 0, done.output
    assert [result.id for result in done.record.results] == ["FENCE-01"]


@pytest.mark.parametrize(
    "arguments",
    TABLE["an_empty_argument_of_a_command_is_one_line_and_exit_code_4"],
    ids=" ".join,
)
def test_an_empty_argument_of_a_command_is_one_line_and_exit_code_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    away = str(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    try:
        code = main([argument.format(away=away) for argument in arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    stated = capsys.readouterr()
    assert (code, stated.out) == (4, "")
    (line,) = stated.err.splitlines()
    assert "an empty value was given" in line


@pytest.mark.parametrize("command", ["chaos plan", "chaos halt", "chaos recover", "chaos status", "cleanup"])
def test_a_command_without_a_cluster_names_the_options(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main(command.split()) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "--kubeconfig FILE" in line
    assert "--in-cluster" in line


@pytest.mark.parametrize(
    ("given", "target"),
    TABLE["make_names_a_target_unless_it_is_given_one"],
)
def test_make_names_a_target_unless_it_is_given_one(given: str, target: list[str]) -> None:
    arguments = ["make", "--dry-run", "--silent", "--assume-old=.venv/.installed", "conformance", f"ARGS={given}"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    words = shlex.split(done.stdout.strip().splitlines()[-1])
    assert words[1:4] == ["-m", "pytest", "conformance"]
    assert words[4:] == [*target, *shlex.split(given)]


def run_elsewhere(folder: Path, *arguments: str) -> Finished:
    """pytest in the checkout, and not of the suite."""
    options = ["-c", str(ROOT / "pyproject.toml"), *arguments]
    return run_pytest(options, cwd=ROOT, environment=environment(), log=folder / "run.log", seconds=120)


OTHERS = "tests/core/test_gate.py"


@pytest.mark.test_all
@pytest.mark.parametrize(
    ("arguments", "option"),
    TABLE["options_of_the_suite_without_the_suite_are_one_line_and_exit_code_4"],
    ids=str,
)
def test_options_of_the_suite_without_the_suite_are_one_line_and_exit_code_4(tmp_path: Path, arguments: list[str], option: str) -> None:
    done = run_elsewhere(tmp_path, *arguments)
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert line.startswith(f"ERROR: {option} is given, and no argument selects the suite: expected conformance, chaos or a path in them")
    assert "Traceback" not in done.output


def test_requirements_that_come_in_by_a_name_are_one_line_and_exit_code_4(tmp_path: Path) -> None:
    done = run_elsewhere(tmp_path, "--pyargs", "conformance.fence")
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert "the suite is selected by a path" in line


def test_other_tests_of_a_checkout_need_no_target(tmp_path: Path) -> None:
    done = run_elsewhere(tmp_path, OTHERS, "-k", "residue", "-n", "0")
    assert done.code == 0, done.output
    assert "1 passed" in done.output
