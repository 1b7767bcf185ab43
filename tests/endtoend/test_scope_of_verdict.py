"""The verdict carries its scope: what a run did not judge is said, and is never a bare "conformant" with exit code 0."""

import threading
from pathlib import Path

import pytest
import yaml

from conformance.plugin.waiting import settle
from fixtures.cluster.client import Cluster
from fixtures.policy.model import Policy
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Cause, Level, Verdict, WaiverState
from tests.endtoend.runs import Finished, run_for_record, run_suite

pytestmark = pytest.mark.test_all

HEALTHY = ("--simulate", "healthy")


def policy(folder: Path, **sections: object) -> str:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(sections))
    return str(path)


def test_a_run_of_a_selection_is_good_within_the_selection(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, *HEALTHY, "--only", "MIG", "--read-only")
    assert done.code == 0, done.output
    line = done.last_line
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
    assert done.last_line.startswith("INCONCLUSIVE [simulated cluster]: within the selection: 3 of ")


def shortfalls(done: Finished) -> list[str]:
    """What the run says that it had to judge and did not. Such a run is inconclusive, and its last line says so."""
    assert (done.code, done.record.exit_code, done.record.verdict) == (10, 10, Verdict.INCONCLUSIVE), done.output
    assert done.last_line.startswith("INCONCLUSIVE")
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
    lost, stated = shortfalls(done)
    assert "killed or crashed" in lost
    assert stated.startswith("the run ended before it had judged FENCE-0")
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


# -- ``--waivers`` in whole runs: over workers, over probes in a wave, and with files that cannot be used --


UNFENCED = ("--simulate", "healthy,fence-untainted-gpu-node", "--only", "FENCE-01")


def waivers(folder: Path, *subjects: str, expires: str = "2999-12-31", requirement: str = "FENCE-01") -> tuple[str, str]:
    path = folder / "waivers.yaml"
    entry = {"requirement": requirement, "subjects": list(subjects), "reason": "known", "owner": "team-a", "expires": expires}
    path.write_text(yaml.safe_dump({"waivers": [entry]}))
    return "--waivers", str(path)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_waived_failure_passes_and_stays_visible(tmp_path: Path, workers: str) -> None:
    failed = run_for_record(tmp_path, *UNFENCED, "-n", workers)
    assert failed.code == 1, failed.output
    bad = next(one for one in failed.result("FENCE-01").subjects if one.verdict is Verdict.FAILED)
    done = run_for_record(tmp_path, *UNFENCED, "-n", workers, *waivers(tmp_path, f"Node {bad.name}"))
    assert done.code == 0, done.output
    assert done.record.verdict is Verdict.WAIVED
    assert [(one.state, one.waived) for one in done.record.waivers] == [(WaiverState.USED, 1)]
    assert "waived until 2999-12-31 by team-a: known" in " ".join(done.output.replace("|", " ").split())
    assert done.last_line.startswith("PASSED WITH WAIVERS WITHIN THE SELECTION")


def test_a_probe_in_a_wave_is_waived(tmp_path: Path) -> None:
    run = ("--simulate", "healthy,psa-toolkit-needs-root", "--only", "PSA-03,PSA-04,ISO-01", "-n0")
    assert run_for_record(tmp_path, *run).result("PSA-04").verdict is Verdict.FAILED
    done = run_for_record(tmp_path, *run, *waivers(tmp_path, "*", requirement="PSA-04"))
    assert done.result("PSA-04").verdict is Verdict.WAIVED, done.output
    assert [one.state for one in done.record.waivers] == [WaiverState.USED]


# -- ``--settle``: a run waits for a change to end, says so, and judges then; without it the change is inconclusive --


STATE = "nvidia.com/gpu-driver-upgrade-state"


def test_a_change_is_awaited_for_as_long_as_was_asked_and_named(tmp_path: Path) -> None:
    embedded = EmbeddedCluster.start("healthy", tmp_path)
    try:
        cluster, reported = Cluster.from_kubeconfig(embedded.kubeconfig), list[str]()
        version = "v1.36.3"
        assert settle(cluster, Policy(), version, 5, reported.append)
        assert reported[-1].startswith("settled: nothing is under way")

        stop_operator(cluster)
        mark(cluster, "drain-required")
        assert not settle(cluster, Policy(), version, 1, reported.append)
        assert reported[-1].startswith("not settled after 1 s, judged as it is: h100-1: its driver is being upgraded")

        done = threading.Timer(1.0, mark, (cluster, "upgrade-done"))
        done.start()
        assert settle(cluster, Policy(), version, 30, reported.append)
        done.join()
        assert reported[-2].startswith("settling, up to")
    finally:
        embedded.stop()


def mark(cluster: Cluster, state: str) -> None:
    assert cluster.patch("nodes", "h100-1", {"metadata": {"labels": {STATE: state}}}).ok


def stop_operator(cluster: Cluster) -> None:
    """It would put its labels back."""
    assert cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator").ok


def test_a_run_says_that_it_settles_before_it_judges(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--read-only", "--only", "INV", "--settle", "20")
    assert done.code == 0, done.output
    assert "settled: nothing is under way" in done.output


# -- which presets a run applies, and where it says so --


def applied(done: Finished) -> dict[str, str]:
    return {preset.name: preset.why for preset in done.record.run.presets}


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_the_clusters_marks_choose_presets_and_every_report_says_why(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run_suite(tmp_path, "--simulate", "amd", "--only", "INV-01,ISO-01", *workers)
    found = applied(done)
    assert list(found) == ["amd"]
    assert found["amd"] == "the API group amd.com is served"
    assert f"platform: amd ({found['amd']})" in done.output
    assert f"amd ({found['amd']})" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
