"""What fails beside the requirements (a fixture's end, a module, the user's own test) never ends in a green run."""

from itertools import combinations
from pathlib import Path

import pytest

from fixtures.verdict.record import Cause, Verdict
from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

TARGET = ("--simulate", "healthy", "--read-only", "-p", "tests.endtoend.meddling")


def run(folder: Path, meddling: str, *arguments: str) -> Finished:
    return run_for_record(folder, *TARGET, *arguments, GPU_CONFORMANCE_TEST_MEDDLING=meddling)


def notes(done: Finished) -> list[str]:
    return done.scope.notes


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_an_undecided_should_excuses_no_teardown_that_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, "undecided,teardown", "--only", "REQ-06,FENCE-01", *workers)
    assert done.code == 3, done.output
    assert (done.record.verdict, done.record.exit_code) == (Verdict.ERROR, 3)
    assert done.result("REQ-06").verdict is Verdict.INCONCLUSIVE
    assert any(note.startswith("the teardown of ") and note.endswith(" failed, and no result says so") for note in notes(done))


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_test_that_a_plugin_took_the_place_of_says_nothing_of_the_cluster(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, "instead", "--only", "FENCE-01,FENCE-02", *workers)
    assert done.code == 10, done.output
    assert [result.id for result in done.record.results] == ["FENCE-02"]
    assert {one.id: one.cause for one in done.scope.not_judged}["FENCE-01"] is Cause.CUT_SHORT


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_requirements_of_a_module_that_cannot_be_imported_were_not_left_out_by_anybody(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, "undecided,import", "--only", "FENCE,REQ-06", "--continue-on-collection-errors", *workers)
    assert done.code == 3, done.output
    causes = {one.id: one.cause for one in done.scope.not_judged}
    assert {causes[id_] for id_ in ("FENCE-01", "FENCE-02")} == {Cause.CUT_SHORT}
    assert causes["MIG-01"] is Cause.SELECTION
    assert "conformance/fence" in "".join(notes(done))
    assert any(stated.startswith("the run ended before it had judged FENCE-01") for stated in done.scope.shortfalls)


def test_a_module_that_cannot_be_imported_costs_no_run_that_leaves_its_area_out_the_selection(tmp_path: Path) -> None:
    done = run(tmp_path, "import", "--only", "MIG-01", "--continue-on-collection-errors")
    assert done.code == 3, done.output
    assert {one.cause for one in done.scope.not_judged if one.area == "FENCE"} == {Cause.SELECTION}


@pytest.mark.parametrize(("assertion", "code"), [("False", 3), ("True", 0)], ids=["fails", "passes"])
def test_a_test_of_the_users_own_counts(tmp_path: Path, assertion: str, code: int) -> None:
    mine = tmp_path / "test_mine.py"
    mine.write_text(f"def test_mine() -> None:\n    assert {assertion}\n")
    done = run(tmp_path, "undecided", str(mine), "--only", "REQ-06,FENCE-01")
    assert done.code == code, done.output
    assert any("test_mine failed, and no result says so" in note for note in notes(done)) == (code == 3)


# -- the suite beside other plugins of pytest: without those it is used to, and with those that its settings leave out --


PROBES = ("--simulate", "healthy", "--only", "FENCE-01,FENCE-05")


@pytest.mark.parametrize("options", ["-p no:xdist", "-o addopts= -p no:allure_pytest"])
def test_a_probe_needs_no_plugin(tmp_path: Path, options: str) -> None:
    done = run_for_record(tmp_path, *PROBES, *options.split())
    assert done.code == 0, done.output
    assert [result.id for result in done.record.results if result.judged] == ["FENCE-01", "FENCE-05"]


def test_a_probe_needs_no_plugin_that_pytest_finds_by_itself(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, *PROBES, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.code == 0, done.output
    assert [result.id for result in done.record.results if result.judged] == ["FENCE-01", "FENCE-05"]


@pytest.mark.parametrize("settings", ["-o addopts=", "-o addopts=--import-mode=importlib"])
def test_an_option_that_another_plugin_has_is_one_line_and_exit_code_4(tmp_path: Path, settings: str) -> None:
    done = run_for_record(tmp_path, *PROBES, *settings.split())
    assert done.code == 4, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert "--alluredir" in line
    assert "'-p no:allure_pytest'" in line
    assert "Traceback" not in done.output


# -- probes of a run with workers: one worker has them all, or they wait for each other --


ASKED = ("--simulate", "healthy", "--only", "ISO,REQ")
TESTS_OF_PROBES = {
    "test_a_pod_sees_exactly_the_devices_it_asked_for",
    "test_a_pod_that_asked_for_nothing_sees_no_device",
    "test_pods_that_run_together_hold_different_devices",
    "test_a_quota_on_devices_is_enforced",
    "test_the_api_refuses_malformed_device_amounts_and_copies_limits",
}
TOLD = "gives probes to several workers"


def judged(folder: Path, *options: str) -> tuple[Finished, dict[str, list[tuple[float, float]]]]:
    """The run, and by worker when its probes began and ended. Each probe is judged."""
    done = run_for_record(folder, *ASKED, "-p", "tests.endtoend.workers_shown", "-n", "2", *options)
    assert done.code == 0, done.output
    spans: dict[str, list[tuple[float, float]]] = {}
    names = set()
    for line in (folder / "workers.txt").read_text(encoding="utf-8").splitlines():
        name, worker, start, stop = line.split()
        if name in TESTS_OF_PROBES:
            names.add(name)
            spans.setdefault(worker, []).append((float(start), float(stop)))
    assert names == TESTS_OF_PROBES
    return done, spans


@pytest.mark.parametrize("options", [(), ("--dist", "load"), ("--dist", "loadgroup")], ids=["alone", "load", "loadgroup"])
def test_one_worker_has_all_probes(tmp_path: Path, options: tuple[str, ...]) -> None:
    done, spans = judged(tmp_path, *options)
    assert len(spans) == 1
    assert TOLD not in done.output


def test_a_dist_that_spreads_probes_is_kept_and_reported_and_they_wait_for_each_other(tmp_path: Path) -> None:
    done, spans = judged(tmp_path, "--dist", "each")
    assert f"--dist each {TOLD}" in done.output
    assert len(spans) == 2
    for (_, one), (_, other) in combinations(spans.items(), 2):
        assert not [(a, b) for a in one for b in other if a[0] < b[1] and b[0] < a[1]]


def test_a_dist_that_spreads_only_readers_is_nothing_to_tell(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--only", "FENCE", "--read-only", "-n", "2", "--dist", "worksteal")
    assert done.code == 0, done.output
    assert TOLD not in done.output
