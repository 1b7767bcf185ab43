"""What the docs say of experiments on the real control plane is what their runs recorded."""

from pathlib import Path

import msgspec
import pytest

from chaos.model.experiment import Experiment
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import TargetKind, Verdict, encode
from tests.chaos.shipped import EXPERIMENTS
from tests.development import chaos_pages
from tests.development.chaos_pages import (
    LocalRun,
    document_digest,
    experiments_table,
    outcome_words,
    outcomes_in,
    read_local_runs,
    runs_summary,
)
from tests.reports.chaos_samples import chaos, experiment


def run_of(experiment: Experiment, verdict: Verdict = Verdict.PASSED, document: str | None = None) -> LocalRun:
    return LocalRun(
        id=experiment.id,
        verdict=verdict,
        kubernetes="v1.36.3",
        scenario="resilience",
        date="2026-11-22",
        seconds=12.3,
        document=document_digest(experiment.document) if document is None else document,
    )


def report(folder: Path, kind: TargetKind, *results: ChaosResult) -> Path:
    whole = chaos(*results, kind=kind)
    whole.target.kubernetes_version, whole.run.started_at = "v1.36.3", "2026-11-22T01:02:03Z"
    (folder / "chaos.json").write_bytes(encode(whole))
    return folder


def result(id_: str, verdict: Verdict, message: str = "") -> ChaosResult:
    return experiment(verdict, id=id_, target_kind=TargetKind.LOCAL, message=message, duration_seconds=12.34, recovery_seconds=1.26)


def test_every_experiment_that_exists_there_has_run_there() -> None:
    there = {id_ for id_, experiment in EXPERIMENTS.items() if TargetKind.LOCAL in experiment.extension.fidelity}
    kept = read_local_runs()
    assert set(kept) == there, "run pytest chaos --chaos --local, then python -m tests.development.chaos_pages REPORT-DIR"
    wrong = {run.id: (run.verdict, run.reason) for run in kept.values() if run.verdict is not Verdict.PASSED}
    assert all(verdict is Verdict.NOT_APPLICABLE and reason for verdict, reason in wrong.values()), wrong
    assert sum(run.verdict is Verdict.PASSED for run in kept.values()) > len(there) / 2


def test_a_report_folder_gives_an_outcome_for_each_experiment(tmp_path: Path) -> None:
    folder = report(tmp_path, TargetKind.LOCAL, result("A1", Verdict.PASSED, "well"), result("A9", Verdict.NOT_APPLICABLE, "no gfd"))
    first, second = outcomes_in(folder, EXPERIMENTS)
    assert (first.id, first.verdict, first.seconds, first.recovery_seconds, first.reason) == ("A1", Verdict.PASSED, 12.3, 1.3, "")
    assert (second.verdict, second.reason) == (Verdict.NOT_APPLICABLE, "no gfd")
    assert (first.kubernetes, first.scenario, first.date) == ("v1.36.3", "resilience", "2026-11-22")
    assert first.document == document_digest(EXPERIMENTS["A1"].document)


def test_a_run_on_another_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="simulated target, expected one with --local"):
        outcomes_in(report(tmp_path, TargetKind.SIMULATED), EXPERIMENTS)
    with pytest.raises(ValueError, match="absent"):
        outcomes_in(tmp_path / "absent", EXPERIMENTS)


@pytest.mark.test_all
def test_the_command_merges_later_runs_over_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_pages, "FILE", tmp_path / "kept.json")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = report(tmp_path / "one", TargetKind.LOCAL, result("A9", Verdict.FAILED, "broke"), result("A1", Verdict.PASSED))
    two = report(tmp_path / "two", TargetKind.LOCAL, result("A9", Verdict.PASSED))
    assert chaos_pages.main([str(one)]) == 0
    assert chaos_pages.main([str(two)]) == 0
    kept = read_local_runs(tmp_path / "kept.json")
    assert {id_: run.verdict for id_, run in kept.items()} == {"A1": Verdict.PASSED, "A9": Verdict.PASSED}
    assert chaos_pages.main([str(tmp_path)]) == 1
    with pytest.raises(msgspec.MsgspecError):
        read_local_runs(Path(__file__))


def test_an_experiment_that_changed_since_is_shown_as_such() -> None:
    one = EXPERIMENTS["A1"]
    assert outcome_words(one, {"A1": run_of(one)}) == "passed, 12 s"
    assert outcome_words(one, {"A1": run_of(one, document="of another")}) == "passed, 12 s (before its last change)"
    assert outcome_words(one, {}) == chaos_pages.NEVER
    assert "| passed, 12 s |" in experiments_table([one], {"A1": run_of(one)})
    turned = dict(reversed(one.document.items()))
    assert document_digest(turned) == document_digest(one.document) != document_digest({**one.document, "method": []})
    assert document_digest({"codes": {79: 1}}) == document_digest({"codes": {"79": 1}}), "as the run's own record of it has it"


def test_the_docs_say_on_what_and_when() -> None:
    assert (
        runs_summary([run_of(EXPERIMENTS["A1"])])
        == "On the real control plane: Kubernetes v1.36.3, scenario `resilience`, last on 2026-11-22."
    )


@pytest.mark.parametrize("code", ["LeftOut", "CutShort"])
def test_an_experiment_that_was_not_carried_out_replaces_no_outcome(tmp_path: Path, code: str) -> None:
    missing = msgspec.structs.replace(result("A2", Verdict.INCONCLUSIVE), reason_codes=[code])
    folder = report(tmp_path, TargetKind.LOCAL, result("A1", Verdict.PASSED), missing)
    assert [run.id for run in outcomes_in(folder, EXPERIMENTS)] == ["A1"]
