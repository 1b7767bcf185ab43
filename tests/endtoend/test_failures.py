"""What fails beside the requirements (a fixture's end, a module, the user's own test) never ends in a green run."""

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
    assert any(told.startswith("the run ended before it had judged FENCE-01") for told in done.scope.shortfalls)


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
