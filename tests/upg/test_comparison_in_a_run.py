"""UPG-05 in runs: what the terminal, the record and the exit code say; and no run that was cut short is ever green."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from conformance.cli.main import main
from fixtures.verdict.record import Verdict
from tests.endtoend.runs import command, environment, run_for_record
from tests.tables import each_row

pytestmark = pytest.mark.test_all

HEALTHY = ["--simulate", "healthy", "--read-only", "--only", "FENCE,ADV"]
FAULTY = ["--simulate", "healthy,fence-untainted-gpu-node", "--read-only", "--only", "FENCE,ADV"]


def as_baseline(folder: Path, *arguments: str) -> Path:
    """A run's folder, moved to where the next run does not write."""
    run_for_record(folder, *arguments)
    return (folder / "report").rename(folder / "baseline")


def test_a_new_failure_is_upg_05s_too_and_a_repaired_one_is_reported(tmp_path: Path) -> None:
    baseline = as_baseline(tmp_path, *HEALTHY)
    worse = run_for_record(tmp_path, *FAULTY, "--baseline", str(baseline))
    found = worse.result("UPG-05")
    assert (worse.code, found.verdict) == (1, Verdict.FAILED)
    assert found.message.endswith("new failures: FENCE-01")
    assert "UPG-05   failed" in worse.output
    (tmp_path / "report").rename(tmp_path / "worse")
    for workers in ("0", "2"):
        better = run_for_record(tmp_path, *HEALTHY, "--baseline", str(tmp_path / "worse" / "report.json"), "-n", workers)
        assert (better.code, better.result("UPG-05").verdict) == (0, Verdict.PASSED), better.output
        assert "fixed: FENCE-01" in better.output
        assert better.output.count("UPG-05") == 1 + better.output.count("(UPG-05")


def test_a_baseline_in_the_folder_of_the_report_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    done = run_for_record(tmp_path, *HEALTHY, "--baseline", str(tmp_path / "report" / "report.json"))
    assert done.code == 4
    assert "where this run writes its own report" in done.output


def test_budgets_and_what_is_required_bound_a_run(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, *HEALTHY, "--max-not-applicable", "0", "-k", "not FENCE-01")
    assert done.code == 10
    assert "and --max-not-applicable allows 0" in done.output
    policy = tmp_path / "policy.yaml"
    policy.write_text("gate: {maxNotApplicable: 0}\n")
    assert run_for_record(tmp_path, *HEALTHY, "--policy", str(policy)).code == 10


def test_a_selection_leaves_out_nothing_that_the_policy_requires(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("required: [FENCE-01]\n")
    done = run_for_record(tmp_path, *HEALTHY, "--policy", str(policy), "-k", "FENCE and not FENCE-01")
    assert done.code == 10
    assert "NOT JUDGED: FENCE-01 has to be judged (required of the policy), and it was left out by -k" in done.output
    assert run_for_record(tmp_path, *HEALTHY, "--policy", str(policy), "-k", "FENCE").code == 0
    assert run_for_record(tmp_path, *HEALTHY, "--policy", str(policy), "--max-not-applicable", "9", "--require", "FENCE-01").code == 0


# -- runs that were cut short ----------------------------------------------------------------------------


@each_row
def test_a_run_that_was_cut_short_is_worse_than_its_baseline(tmp_path: Path, arguments: list[str], code: int) -> None:
    target = FAULTY if "-n" not in arguments else HEALTHY
    baseline = as_baseline(tmp_path, *target)
    done = run_for_record(tmp_path, *target, *arguments, "--baseline", str(baseline))
    assert done.code == code, done.output
    assert done.result("UPG-05").verdict is Verdict.FAILED
    assert main(["gate", str(baseline), str(tmp_path / "report")]) == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGKILL, -9)])
def test_a_run_that_a_signal_ends_leaves_no_green_record(tmp_path: Path, number: int, code: int) -> None:
    baseline = as_baseline(tmp_path, *HEALTHY)
    report = tmp_path / "report"
    assert run_for_record(tmp_path, *HEALTHY).code == 0  # the folder has a green record of an earlier run
    arguments = command(*HEALTHY, "--baseline", str(baseline), "--report-dir", str(report), "-p", "tests.upg.signal_in_the_run")
    variables = {**environment(), "GPU_CONFORMANCE_TEST_SIGNAL": str(int(number)), "PYTHONPATH": os.getcwd()}
    done = subprocess.run(arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert not (report / "report.json").exists() or number != signal.SIGKILL
    assert main(["gate", str(baseline), str(report)]) == (4 if number == signal.SIGKILL else 1)
