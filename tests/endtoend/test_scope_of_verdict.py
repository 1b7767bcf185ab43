"""The verdict carries its scope: what a run did not judge is said, and is never a bare "conformant" with exit code 0."""

from __future__ import annotations

from pathlib import Path

import yaml

from fixtures.record import Cause, Verdict
from tests.endtoend.runs import Finished, run_suite

HEALTHY = ("--simulate", "healthy")


def last_line(done: Finished) -> str:
    """The verdict's line: the last before pytest's own count."""
    return next(line for line in reversed(done.output.splitlines()) if "exit code" in line)


def policy(folder: Path, **sections: object) -> str:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(sections))
    return str(path)


def test_a_run_of_a_selection_is_good_within_the_selection(tmp_path: Path) -> None:
    done = run_suite(tmp_path, *HEALTHY, "--only", "MIG", "--read-only")
    assert done.code == 0, done.output
    assert done.report is not None
    assert done.report.scope is not None
    line = last_line(done)
    assert line.startswith("PASSED WITHIN THE SELECTION [simulated cluster]: within the selection: 3 of ")
    assert "left out by --only MIG" in line
    causes = {one.cause for one in done.report.scope.not_judged}
    assert causes == {Cause.SELECTION, Cause.ACCESS, Cause.ABSENT}
    assert done.report.scope.sentence in line


def test_a_floor_on_the_command_line_takes_the_place_of_the_policys(tmp_path: Path) -> None:
    path = policy(tmp_path, gate={"minimumJudged": 1, "areas": ["MIG"]})
    run = [*HEALTHY, "--only", "MIG", "--read-only", "--policy", path]
    assert run_suite(tmp_path, *run).code == 0
    done = run_suite(tmp_path, *run, "--min-judged", "4")
    assert done.code == 10
    assert "NOT JUDGED: 3 requirements were judged, and --min-judged asks for 4" in done.output
    assert last_line(done).startswith("INCONCLUSIVE [simulated cluster]: within the selection: 3 of ")


def test_the_policys_floor_and_areas_gate(tmp_path: Path) -> None:
    path = policy(tmp_path, gate={"minimumJudged": 99, "areas": ["MIG", "NET", "INV"]})
    done = run_suite(tmp_path, *HEALTHY, "--only", "MIG", "--read-only", "--policy", path)
    assert done.code == 10
    assert done.report is not None
    assert done.report.verdict is Verdict.INCONCLUSIVE
    assert done.report.scope is not None
    assert done.report.scope.shortfalls == [
        "3 requirements were judged, and gate.minimumJudged asks for 99",
        "no requirement of NET and none of INV was judged, and gate.areas asks for one of each",
    ]
