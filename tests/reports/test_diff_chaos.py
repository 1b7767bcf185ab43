"""Chaos experiments of two runs compared."""

from pathlib import Path
from typing import Any

import pytest

from conformance.cli import reports as cli
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import TargetKind, Verdict
from reports.diff import experiments, runs
from reports.folder import write_all
from tests.reports.chaos_samples import bare, chaos, experiment, mixed_chaos
from tests.reports.sample_report import report
from tests.tables import each_row


def changes(old: ChaosReport | None, new: ChaosReport | None) -> list[tuple[str, str]]:
    return [(change.bucket.value, change.experiment) for change in experiments.compare(old, new)]


def recovered(seconds: float | None, uncertainty: float | None = 0.5, **change: Any) -> ChaosReport:
    return chaos(experiment(recovery_seconds=seconds, recovery_uncertainty=uncertainty, **change))


@each_row
def test_verdicts(old: Verdict, new: Verdict, bucket: str | None, gating: bool) -> None:
    found = experiments.compare(chaos(experiment(old)), chaos(experiment(new)))
    assert [change.bucket.value for change in found] == ([bucket] if bucket else [])
    assert any(change.gating for change in found) == gating


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (recovered(4.0), recovered(5.0), []),
        (recovered(4.0), recovered(5.01), ["recovery is slower"]),
        (recovered(5.01), recovered(4.0), ["recovery is faster"]),
        (recovered(4.0), recovered(None), []),
        (recovered(4.0), recovered(float("nan")), []),
        (recovered(4.0), recovered(40.0, None), ["recovery times not compared"]),
        (recovered(4.0), recovered(40.0, recovery_from="undo"), ["recovery times not compared"]),
        (recovered(4.0), recovered(40.0, target_kind=TargetKind.LOCAL), ["recovery times not compared"]),
        (recovered(4.0), recovered(40.0, fidelity="real"), ["recovery times not compared"]),
    ],
)
def test_recovery_times_differ_beyond_what_is_not_known(old: ChaosReport, new: ChaosReport, expected: list[str]) -> None:
    assert [bucket for bucket, _ in changes(old, new)] == expected


def test_new_residue_is_a_regression() -> None:
    old, new = chaos(experiment()), chaos(experiment(residue=["nodes n1: cordoned"]))
    assert changes(old, new) == [("experiment leaves residue now", "A1")]
    assert len(runs.regressions(runs.compare(report([]), report([]), old, new))) == 1
    assert changes(new, new) == []


def test_experiments_that_only_one_run_held() -> None:
    one, two = chaos(experiment()), chaos(experiment(id="A2"))
    assert changes(one, two) == [("experiment added", "A2"), ("experiment removed", "A1")]
    assert changes(None, two) == [("experiment added", "A2")]
    assert changes(one, None) == [("experiment removed", "A1")]
    assert runs.regressions(runs.compare(report([]), report([]), one, two)) == []


def test_rendering_counts_regressions_most_urgent_first() -> None:
    calm = chaos(*(experiment(id=result.id, title=result.title) for result in mixed_chaos().experiments))
    text = runs.render(runs.compare(bare(calm), bare(mixed_chaos()), calm, mixed_chaos()))
    assert "Experiments passed, exit code 0" in text.splitlines()[0]
    assert "Experiments ended in error, exit code 3" in text.splitlines()[1]
    assert text.index("experiment fails now (1)") < text.index("experiment leaves residue now (1)") < text.index("became inconclusive (2)")
    assert "A3 Discovery killed (passed -> failed): RecoveryTooSlow: too slow" in text
    assert text.endswith("\n5 regressions\n")


def test_command_compares_and_rebuilds_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm = chaos(*(experiment(id=result.id) for result in mixed_chaos().experiments))
    for name, held in (("a", calm), ("b", mixed_chaos())):
        write_all(bare(held), tmp_path / name, held)
    assert cli.main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "experiment fails now (1)" in capsys.readouterr().out
    assert cli.main(["diff", str(tmp_path / "b"), str(tmp_path / "a")]) == 0

    before = (tmp_path / "b" / "chaos.json").read_bytes()
    for name in ("report.html", "junit.xml", "report.md", "metrics.prom", "ctrf.json"):
        (tmp_path / "b" / name).unlink()
    assert cli.main(["report", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "chaos.json").read_bytes() == before
    for name in ("report.html", "junit.xml", "report.md", "ctrf.json"):
        assert "Discovery killed" in (tmp_path / "b" / name).read_text(encoding="utf-8")
    assert 'chaos_verdict{experiment="A3"' in (tmp_path / "b" / "metrics.prom").read_text(encoding="utf-8")
