"""A requirement is chosen by id or area: what is then judged, read and created, and what the run says of the others."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import load_catalogue
from conformance.cli.main import main
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Cause, Level, Verdict
from tests.endtoend.runs import ROOT, Finished, environment, run_for_record
from tests.tables import each_row

CATALOGUE = load_catalogue().by_id
FENCE = [id_ for id_ in CATALOGUE if id_.startswith("FENCE-")]
HEALTHY = ("--simulate", "healthy")
SHOW = ("-p", "tests.endtoend.selection_shown")
EVERY_TEST = str(ROOT / "conformance" / "*test_*")


def run(folder: Path, *arguments: str) -> tuple[Finished, dict[str, Any]]:
    """A run, and what its plugin knew at the end."""
    done = run_for_record(folder, *HEALTHY, *SHOW, *arguments)
    return done, json.loads((folder / "selection.json").read_bytes())


def ids(done: Finished) -> list[str]:
    return [result.id for result in done.record.results]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "FENCE-01"], ["FENCE-01"]),
        pytest.param(["--only", "fence-01,Fence-03"], ["FENCE-01", "FENCE-03"], marks=pytest.mark.test_all),
        pytest.param(["--only", "FENCE", "--read-only"], FENCE, marks=pytest.mark.test_all),
        pytest.param(
            ["--only", "FENCE", "--level", "must", "--read-only"],
            [id_ for id_ in FENCE if CATALOGUE[id_].level is Level.MUST],
            marks=pytest.mark.test_all,
        ),
        (["-k", "fence-01 or REQ-02"], ["FENCE-01", "REQ-02"]),
        pytest.param(
            ["-k", "(iso or net) and not NET", "--read-only"],
            [id_ for id_ in CATALOGUE if id_.startswith("ISO-")],
            marks=pytest.mark.test_all,
        ),
        pytest.param(
            ["-m", "FENCE-01 or FENCE-03", "--strict-markers", "-W", "error"], ["FENCE-01", "FENCE-03"], marks=pytest.mark.test_all
        ),
        pytest.param(["--only", "FENCE", "-k", "FENCE-01 or REQ"], ["FENCE-01"], marks=pytest.mark.test_all),
        pytest.param(["--only", "FENCE-01,REQ-02", "-n", "2"], ["FENCE-01", "REQ-02"], marks=pytest.mark.test_all),
    ],
    ids=" ".join,
)
def test_ids_and_areas_choose_what_is_judged(tmp_path: Path, arguments: list[str], expected: list[str]) -> None:
    done, shown = run(tmp_path, *arguments)
    assert ids(done) == expected
    assert set(shown["left_out"]) == set(CATALOGUE) - set(expected)


@pytest.mark.test_all
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_what_was_left_out_names_the_option_that_did(tmp_path: Path, workers: list[str]) -> None:
    _, shown = run(tmp_path, "--only", "FENCE,PSA,REQ-02", "--level", "must", "-k", "not FENCE-01 and not psa", "--read-only", *workers)
    left_out = shown["left_out"]
    assert left_out["FENCE-01"] == left_out["PSA-01"] == "-k 'not FENCE-01 and not psa'"
    assert left_out["GANG-01"] == "--only FENCE,PSA,REQ-02"
    assert left_out["FENCE-08"] == "--level must"
    assert "REQ-02" not in left_out


@pytest.mark.test_all
@each_row
def test_a_mark_that_left_something_out_is_not_called_a_keyword(tmp_path: Path, arguments: list[str], reported: str) -> None:
    """Whoever looks for the option to take away must find it in his command."""
    done, shown = run(tmp_path, "--only", "FENCE,PSA-01", "--read-only", *arguments)
    assert shown["left_out"]["FENCE-02"] == shown["left_out"]["PSA-01"] == reported
    assert shown["left_out"]["GANG-01"] == "--only FENCE,PSA-01"
    assert f"left out by {reported}" in {one.because for one in done.scope.not_judged}


@pytest.mark.test_all
def test_a_path_leaves_out_what_is_elsewhere(tmp_path: Path) -> None:
    report = tmp_path / "report"
    path = str(ROOT / "conformance" / "fence")
    options = ["-c", str(ROOT / "pyproject.toml"), path, *HEALTHY, *SHOW, "--read-only", "--report-dir", str(report)]
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=True)
    left_out = json.loads((tmp_path / "selection.json").read_bytes())["left_out"]
    assert set(left_out) == set(CATALOGUE) - set(FENCE)
    assert set(left_out.values()) == {f"the tests named: {path}"}


@pytest.mark.test_all
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_paths_that_leave_no_test_are_a_selection(tmp_path: Path, workers: list[str]) -> None:
    done, shown = run(tmp_path, "--read-only", "--ignore-glob", EVERY_TEST, *workers)
    assert done.code == 5
    assert set(shown["left_out"]) == set(CATALOGUE)
    assert set(shown["left_out"].values()) == {f"the tests named: {ROOT / 'conformance'} (--ignore-glob '{EVERY_TEST}')"}
    assert {one.cause for one in done.scope.not_judged} == {Cause.SELECTION}
    assert done.scope.shortfalls == []


@pytest.mark.test_all
def test_a_test_that_cannot_be_collected_is_no_selection(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    done, shown = run(tmp_path, "--read-only", "--ignore-glob", EVERY_TEST, str(tmp_path / "test_broken.py"))
    assert done.code == 2
    assert shown["left_out"] == {}
    assert "NOT JUDGED: the run ended before it had judged" in done.output


@pytest.mark.test_all
def test_nothing_is_left_out_of_a_whole_run(tmp_path: Path) -> None:
    _, shown = run(tmp_path, "--read-only")
    assert shown["left_out"] == {}


@pytest.mark.test_all
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_only_restricts_what_is_read_and_created(tmp_path: Path, workers: list[str]) -> None:
    done, shown = run(tmp_path, "--only", "FENCE-01", *workers)
    asked = done.record.requests.by_verb_and_resource
    assert shown["writes"] == []
    assert not [key for key in asked if key.startswith(("create ", "delete "))]
    assert "list apps/daemonsets" not in asked
    needed = {"apis", "nodes", "pods", "namespaces", *CATALOGUE["FENCE-01"].reads, *CATALOGUE["FENCE-01"].optional_reads}
    assert {key for key in asked if key.startswith("list ")} <= {f"list {key}" for key in needed}


@pytest.mark.test_all
@pytest.mark.parametrize("arguments", [["--only", "FENCE-05", "--level", "must", "-k", "REQ-02"], ["-m", "fence-01"]], ids=" ".join)
def test_a_selection_that_leaves_nothing_is_exit_code_5(tmp_path: Path, arguments: list[str]) -> None:
    assert run_for_record(tmp_path, *HEALTHY, "--read-only", *arguments).code == 5


@pytest.mark.test_all
@pytest.mark.parametrize("id_", ["FENCE-01", "REQ-01"])
def test_explain_prints_the_command_that_judges_just_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], id_: str) -> None:
    assert main(["explain", id_]) == 0
    lines = capsys.readouterr().out.splitlines()
    words = shlex.split(lines[lines.index("run it alone:") + 1])
    assert words[:4] == ["pytest", "conformance", "--kubeconfig", "FILE"]
    done = run_for_record(tmp_path, *HEALTHY, *words[4:])
    assert ids(done) == [id_]
    assert done.code == 0, done.output


@pytest.mark.test_all
def test_explain_prints_the_command_that_judges_the_comparison_with_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone, it would have nothing to compare: the run would be inconclusive, or worse than its baseline in all that it left out."""
    assert main(["explain", COMPARISON]) == 0
    words = shlex.split(next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  pytest conformance")))
    assert words[4:] == ["--baseline", "REPORT"]
    for name in ("earlier", "later"):
        (tmp_path / name).mkdir()
    earlier = run_for_record(tmp_path / "earlier", *HEALTHY, "--read-only")
    assert earlier.code == 0, earlier.output
    done = run_for_record(tmp_path / "later", *HEALTHY, "--read-only", "--baseline", str(tmp_path / "earlier" / "report"))
    assert (done.code, done.result(COMPARISON).verdict) == (0, Verdict.PASSED), done.output


def collected(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), str(ROOT / "conformance"), "--collect-only", "-q"]
    return subprocess.run([*command, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.test_all
@pytest.mark.parametrize(("option", "target"), [("--fixtures", ()), ("--fixtures-per-test", ("--simulate", "healthy"))])
def test_a_list_of_fixtures_is_no_run(tmp_path: Path, option: str, target: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), str(ROOT / "conformance/fence"), option, *target]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "workspace" in done.stdout
    assert "exit code" not in done.stdout
    assert list(tmp_path.iterdir()) == []


MUSTS = sum(one.level is Level.MUST for one in CATALOGUE.values())


@pytest.mark.test_all
@each_row
def test_collecting_needs_no_target_and_chooses_as_a_run_does(tmp_path: Path, arguments: list[str], number: int) -> None:
    done = collected(tmp_path, *arguments)
    assert done.returncode == 0
    assert f"{number}/{len(CATALOGUE)} tests collected" in done.stdout
    assert list(tmp_path.iterdir()) == []
