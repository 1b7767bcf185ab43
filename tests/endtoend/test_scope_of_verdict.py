"""The verdict carries its scope: what a run did not judge is said, and is never a bare "conformant" with exit code 0."""

from pathlib import Path

import pytest
import yaml

from fixtures.verdict.record import Cause, Level, Verdict
from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

HEALTHY = ("--simulate", "healthy")


def last_line(done: Finished) -> str:
    """The verdict's line: the last of all."""
    return done.output.rstrip().splitlines()[-1]


def policy(folder: Path, **sections: object) -> str:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(sections))
    return str(path)


def test_a_run_of_a_selection_is_good_within_the_selection(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, *HEALTHY, "--only", "MIG", "--read-only")
    assert done.code == 0, done.output
    line = last_line(done)
    assert line.startswith("PASSED WITHIN THE SELECTION [simulated cluster]: within the selection: 3 of ")
    assert "left out by --only MIG" in line
    causes = {one.cause for one in done.scope.not_judged}
    assert causes == {Cause.SELECTION, Cause.ACCESS, Cause.ABSENT}
    assert done.scope.sentence in line


def test_a_floor_on_the_command_line_takes_the_place_of_the_policys(tmp_path: Path) -> None:
    path = policy(tmp_path, gate={"minimumJudged": 1, "areas": ["MIG"]})
    run = [*HEALTHY, "--only", "MIG", "--read-only", "--policy", path]
    assert run_for_record(tmp_path, *run).code == 0
    done = run_for_record(tmp_path, *run, "--min-judged", "4")
    assert done.code == 10
    assert "NOT JUDGED: 3 requirements were judged, and --min-judged asks for 4" in done.output
    assert last_line(done).startswith("INCONCLUSIVE [simulated cluster]: within the selection: 3 of ")


def shortfalls(done: Finished) -> list[str]:
    """What the run says that it had to judge and did not. Such a run is inconclusive, and its last line says so."""
    assert (done.code, done.record.exit_code, done.record.verdict) == (10, 10, Verdict.INCONCLUSIVE), done.output
    assert last_line(done).startswith("INCONCLUSIVE")
    assert all(f"NOT JUDGED: {text}" in done.output for text in done.scope.shortfalls)
    return done.scope.shortfalls


def test_a_missing_right_is_inconclusive_and_named(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,inv-may-not-list-pods", "--read-only")
    assert any(text.startswith("FENCE-02 was refused: pods could not be listed") for text in shortfalls(done))
    rights = done.result("INV-03")
    assert rights.verdict is Verdict.INCONCLUSIVE
    assert rights.message.startswith("right list pods: the caller may not list pods")
    assert {result.verdict for result in done.record.results} <= {Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE}


def test_a_run_that_stops_at_its_first_trouble_is_not_conformant(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,inv-may-not-list-pods", "--read-only", "--only", "FENCE-08,OPS", "-x")
    assert [(result.id, result.level, result.verdict) for result in done.record.results] == [
        ("FENCE-08", Level.SHOULD, Verdict.INCONCLUSIVE)
    ]
    assert shortfalls(done)[0].startswith("the run ended before it had judged OPS-01, OPS-02")


def test_a_run_with_workers_that_stops_at_its_first_failure_has_failed(tmp_path: Path) -> None:
    """For pytest-xdist it was interrupted, as by Ctrl-C."""
    done = run_for_record(tmp_path, "--simulate", "healthy,fence-untainted-gpu-node", "--read-only", "--only", "FENCE", "-x", "-n", "2")
    assert done.code == 1, done.output
    assert (done.record.verdict, done.record.exit_code) == (Verdict.FAILED, 1)


@pytest.mark.parametrize("dies", ["", "at the start", "with its tests"])
def test_a_run_that_lost_workers_says_so(tmp_path: Path, dies: str) -> None:
    arguments = [*HEALTHY, "--read-only", "--only", "FENCE", "-n", "2", "-p", "tests.endtoend.dying_worker"]
    done = run_for_record(tmp_path, *arguments, DIES=dies)
    lost, told = shortfalls(done)
    assert "killed or crashed" in lost
    assert told.startswith("the run ended before it had judged FENCE-0")
    assert "INTERNALERROR" not in done.output


def test_a_run_that_judges_less_than_its_baseline_fails_unless_that_is_accepted(tmp_path: Path) -> None:
    before = run_for_record(tmp_path, *HEALTHY, "--read-only", "--only", "MIG,INV-01")
    assert before.code == 0
    baseline = (tmp_path / "report").rename(tmp_path / "baseline")
    worse = [*HEALTHY, "--read-only", "--only", "MIG", "--baseline", str(baseline)]
    done = run_for_record(tmp_path, *worse)
    assert done.code == 1, done.output
    assert done.record.regressions == ["no longer judged: INV-01 MUST (passed before, no result now): left out by --only MIG"]
    assert "no longer judged" in done.output  # told once, by UPG-05
    assert "INV-01" in done.output
    assert run_for_record(tmp_path, *worse, "--accept-not-judged", "INV-01").code == 0
