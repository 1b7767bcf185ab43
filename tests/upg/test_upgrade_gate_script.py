"""``deploy/ci/upgrade-gate.sh``: what it calls, when it lets an upgrade begin, and what it ends with. The suite is a stand-in here."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.tables import each_row
from tests.upg.local_upgrade import SCRIPT

STAND_IN = """#!/bin/sh
# Ends as $CODES says (one code per call, in order), writes down its arguments, and leaves a report as a run does.
number=$(cat "$CALLS/count" 2>/dev/null || echo 0)
number=$((number + 1))
echo $number >"$CALLS/count"
printf '%s\\n' "$@" >"$CALLS/$number"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || echo "a run's own report" >>"$GITHUB_STEP_SUMMARY"
code=$(echo "$CODES" | cut -d' ' -f$number)
if [ "$1" = run ] && [ "$code" != 137 ]; then
    mkdir -p "$3"
    echo '{}' >"$3/report.json"
    echo '# The report' >"$3/report.md"
fi
[ "$1" != list ] || echo "$SNAPSHOT"
[ "$1" != gate ] || echo "GATE: exit code $code"
exit "$code"
"""


class Done(msgspec.Struct, kw_only=True):
    """The end of a call of the script, and the arguments of each call that it made."""

    code: int
    output: str
    calls: list[list[str]]


def script(folder: Path, codes: str, *arguments: str, **settings: str) -> Done:
    tool, calls = folder / "stand in.sh", folder / "calls"
    tool.write_text(STAND_IN)
    for old in calls.glob("*"):
        old.unlink()
    calls.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GATE_", "GITHUB_", "GPU_"))}
    variables = {
        **kept,
        "GPU_CONFORMANCE": "sh stand.sh",
        "GATE_KUBECONFIG": "kube config",
        "CODES": codes,
        "CALLS": str(calls),
        **settings,
    }
    tool.rename(folder / "stand.sh")
    done = subprocess.run(["sh", str(SCRIPT), *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    made = [(calls / str(number)).read_text().splitlines() for number in range(1, len(list(calls.glob("[0-9]*"))) + 1)]
    return Done(code=done.returncode, output=done.stdout + done.stderr, calls=made)


def test_both_runs_are_alike_but_for_the_baseline_and_the_gate_compares_them(tmp_path: Path) -> None:
    settings = {"GATE_POLICY": "my policy.yaml", "GATE_WAIVERS": "w.yaml", "GATE_RUN": "--level must", "GATE_COMPARE": "--min-judged 3"}
    before = script(tmp_path, "0", "before", **settings)
    (first,) = before.calls
    assert before.code == 0
    assert first[:6] == ["run", "--report-dir", "upgrade-gate/before", "--evidence", "--settle", "600"]
    assert first[6:] == ["--kubeconfig", "kube config", "--policy", "my policy.yaml", "--waivers", "w.yaml", "--level", "must"]
    after = script(tmp_path, "0 0", "after", **settings)
    second, compared = after.calls
    assert after.code == 0
    assert second[2] == "upgrade-gate/after"
    assert second[6:8] == ["--baseline", "upgrade-gate/before"]
    assert second[8:] == first[6:]
    assert compared == ["gate", "upgrade-gate/before", "upgrade-gate/after", "--policy", "my policy.yaml", "--min-judged", "3"]


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (5, 5), (10, 10), (11, 11), (137, 137)])
def test_an_upgrade_begins_only_after_a_run_that_tells_enough(tmp_path: Path, code: int, ends: int) -> None:
    assert script(tmp_path, str(code), "before").code == ends


def test_a_cluster_that_is_not_conformant_is_upgraded_unless_the_owner_forbids_it(tmp_path: Path) -> None:
    assert "what fails already will not close the gate" in script(tmp_path, "1", "before").output
    forbidden = script(tmp_path, "1", "before", GATE_GREEN="yes")
    assert (forbidden.code, "do not upgrade" in forbidden.output) == (1, True)


@each_row
def test_the_gate_decides_and_a_run_that_did_not_end_well_is_never_green(tmp_path: Path, run: int, gate: int, ends: int) -> None:
    script(tmp_path, "0", "before")
    assert script(tmp_path, f"{run} {gate}", "after").code == ends


def test_the_summary_has_the_gates_words_and_the_report(tmp_path: Path) -> None:
    script(tmp_path, "0", "before")
    step = tmp_path / "step"
    script(tmp_path, "0 1", "after", GITHUB_STEP_SUMMARY=str(step))
    text = (tmp_path / "upgrade-gate" / "summary.md").read_text()
    assert text == step.read_text()
    assert "GATE: exit code 1" in text
    assert "# The report" in text
    assert (tmp_path / "upgrade-gate" / "gate.txt").stat().st_mode & 0o077 == 0


def test_reports_of_an_earlier_upgrade_are_gone_before_anything_is_judged(tmp_path: Path) -> None:
    script(tmp_path, "0", "before")
    script(tmp_path, "0 0", "after")
    assert script(tmp_path, "137", "before").code == 137
    assert list((tmp_path / "upgrade-gate").iterdir()) == []
    missing = script(tmp_path, "0 0", "after")
    assert (missing.code, missing.calls) == (4, [])
    assert "ahead of the upgrade" in missing.output


def test_around_a_command_it_upgrades_between_the_runs(tmp_path: Path) -> None:
    done = script(tmp_path, "0 0 0", "run", "sh", "-c", 'echo "$1" >upgraded', "sh", "two words")
    assert (done.code, [call[0] for call in done.calls]) == (0, ["run", "run", "gate"])
    assert (tmp_path / "upgraded").read_text() == "two words\n"
    worse = script(tmp_path, "0 1 1", "run", "true")
    assert worse.code == 1
    stopped = script(tmp_path, "10", "run", "touch", "never")
    assert (stopped.code, (tmp_path / "never").exists()) == (10, False)


def test_an_upgrade_that_fails_is_judged_and_never_green(tmp_path: Path) -> None:
    done = script(tmp_path, "0 0 0", "run", "false")
    assert (done.code, len(done.calls)) == (1, 3)
    assert "the upgrade itself failed" in done.output


def test_without_a_kubeconfig_it_judges_as_the_pods_serviceaccount(tmp_path: Path) -> None:
    (call,) = script(tmp_path, "0", "before", GATE_KUBECONFIG="").calls
    assert call[6:] == ["--in-cluster"]


def test_a_snapshot_is_taken_on_request_and_a_failed_one_stops_the_upgrade(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kubectl").write_text("#!/bin/sh\n")
    (tools / "kubectl").chmod(0o700)
    settings = {"GATE_SNAPSHOT": "yes", "PATH": f"{tools}:{os.environ['PATH']}", "SNAPSHOT": 'echo "$KUBECONFIG" >taken'}
    done = script(tmp_path, "0 0", "before", **settings)
    assert (done.code, [call[0] for call in done.calls]) == (0, ["list", "run"])
    assert (tmp_path / "upgrade-gate" / "snapshot" / "taken").read_text() == f"{tmp_path}/kube config\n"
    failed = script(tmp_path, "0", "before", **(settings | {"SNAPSHOT": "false"}))
    assert (failed.code, [call[0] for call in failed.calls]) == (3, ["list"])
    assert script(tmp_path, "1", "before", **settings).code == 3
    assert script(tmp_path, "0", "before", **(settings | {"GATE_KUBECONFIG": ""})).code == 4


@pytest.mark.parametrize("arguments", [[], ["between"], ["run"]])
def test_a_wrong_use_is_exit_code_4(tmp_path: Path, arguments: list[str]) -> None:
    done = script(tmp_path, "0 0", *arguments)
    assert (done.code, done.calls, len(done.output.splitlines())) == (4, [], 1)
