"""Runs and chaos experiments of two runs compared."""

from pathlib import Path
from typing import Any

import pytest

from conformance.cli import reports as cli
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Coverage, Level, Result, TargetKind, Verdict
from reports.diff import experiments, runs
from reports.folder import write_all
from tests.reports.chaos_samples import bare, chaos, experiment, mixed_chaos
from tests.reports.sample_report import hostile_report, report, result, subject
from tests.tables import each_row

OK, BAD, UNSURE = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def one(verdict: Verdict, *subjects: tuple[str, Verdict], **fields: object) -> Result:
    return result("A-1", verdict, [subject(name, v, observed="seen") for name, v in subjects], **fields)


def changes(old: list[Result], new: list[Result]) -> list[tuple[str, str]]:
    return [(c.bucket.value, c.subject) for c in runs.compare(report(old), report(new)).changes]


def regress(old: list[Result], new: list[Result]) -> list[str]:
    return [c.subject for c in runs.regressions(runs.compare(report(old), report(new))) if isinstance(c, runs.Change)]


A_OK, A_BAD = [one(OK, ("a", OK))], [one(BAD, ("a", BAD))]
A_UNSURE, A_WAIVED = [one(UNSURE, ("a", UNSURE))], [one(Verdict.WAIVED, ("a", BAD))]
SILENT = [one(BAD, message="nothing judged")]
NEW, FIXED, STILL, UNCLEAR = "new failure", "fixed", "still failing", "became inconclusive"


@pytest.mark.parametrize(
    ("old", "new", "found", "worse"),
    [
        (
            [one(BAD, ("a", BAD), ("b", OK), ("c", BAD))],
            [one(BAD, ("a", OK), ("b", BAD), ("c", BAD))],
            [(FIXED, "node a"), (NEW, "node b"), (STILL, "node c")],
            ["node b"],
        ),
        (A_BAD, [one(OK, ("b", OK))], [("subject gone", "node a")], []),
        (A_OK, [one(OK, ("b", OK))], [], []),
        (A_BAD, [one(OK, ("b", OK), subjects_omitted=5)], [(FIXED, "node a")], []),
        (A_BAD, [one(BAD, ("b", BAD), subjects_omitted=5)], [(NEW, "node b"), (STILL, "node a")], ["node b"]),
        (A_OK, A_UNSURE, [(UNCLEAR, "node a")], ["node a"]),
        ([one(OK, ("a", OK), level=Level.SHOULD)], [one(UNSURE, ("a", UNSURE), level=Level.SHOULD)], [(UNCLEAR, "node a")], []),
        (A_UNSURE, A_UNSURE, [], []),
        (A_OK, SILENT, [(NEW, "")], [""]),
        (SILENT, A_OK, [(FIXED, "")], []),
        (SILENT, SILENT, [(STILL, "")], []),
        ([one(OK, ("a", OK), ("a", OK))], [one(BAD, ("a", OK), ("a", BAD))], [(NEW, "node a")], ["node a"]),
        (A_BAD, A_WAIVED, [("now waived", "node a")], []),
        (A_WAIVED, A_BAD, [(NEW, "node a")], ["node a"]),
        (A_WAIVED, A_WAIVED, [], []),
    ],
)
def test_what_changed_by_subject_and_which_of_it_is_worse(
    old: list[Result], new: list[Result], found: list[tuple[str, str]], worse: list[str]
) -> None:
    assert changes(old, new) == found
    assert regress(old, new) == worse


def test_requirements_added_removed_and_changed_are_not_blamed_on_the_cluster() -> None:
    fewer, more = report([one(OK)]), report([one(OK), result("B-1", BAD, [subject("x", BAD)])])
    for made in (fewer, more):
        made.scope = Coverage(requirements=len(made.results), judged=len(made.results))
    for before, after, bucket in ((fewer, more, "requirement added"), (more, fewer, "requirement removed")):
        difference = runs.compare(before, after)
        assert [(change.bucket.value, change.subject) for change in difference.changes] == [(bucket, "")]
        assert runs.regressions(difference) == []
    assert changes([one(OK)], [one(OK, title="Another title")]) == [("requirement changed", "")]


def test_same_name_in_another_namespace_or_kind_is_another_subject() -> None:
    old = [result("A-1", BAD, [subject("x", BAD, kind="pod", namespace="n1"), subject("x", OK, kind="pod", namespace="n2")])]
    new = [result("A-1", BAD, [subject("x", OK, kind="pod", namespace="n1"), subject("x", BAD, kind="pod", namespace="n2")])]
    assert changes(old, new) == [("fixed", "pod n1/x"), ("new failure", "pod n2/x")]


def test_render_names_both_runs_and_buckets() -> None:
    old, new = report([one(OK, ("a", OK))]), report([one(BAD, ("a", BAD))], verdict=BAD, exit_code=1)
    new.target.kubernetes_version, new.target.cluster_uid = "v1.37.0", "other"
    lines = runs.render(runs.compare(old, new)).splitlines()
    assert "Kubernetes v1.36.2, Conformant (1 judged), exit code 0" in lines[0]
    assert "Kubernetes v1.37.0, Not conformant (1 judged), exit code 1" in lines[1]
    assert "NOTE: the cluster UIDs differ; these may be two different clusters." in lines
    assert "new failure (1)" in lines
    assert "  A-1 MUST node a (passed -> failed): seen" in lines
    assert lines[-1] == "1 regression"


def test_render_spells_out_controls() -> None:
    text = runs.render(runs.compare(report([]), hostile_report()))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(line == line.strip("\r") for line in text.splitlines())


def chaos_changes(old: ChaosReport | None, new: ChaosReport | None) -> list[tuple[str, str]]:
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
    assert [bucket for bucket, _ in chaos_changes(old, new)] == expected


def test_new_residue_is_a_regression() -> None:
    old, new = chaos(experiment()), chaos(experiment(residue=["nodes n1: cordoned"]))
    assert chaos_changes(old, new) == [("experiment leaves residue now", "A1")]
    assert len(runs.regressions(runs.compare(report([]), report([]), old, new))) == 1
    assert chaos_changes(new, new) == []


def test_experiments_that_only_one_run_held() -> None:
    one, two = chaos(experiment()), chaos(experiment(id="A2"))
    assert chaos_changes(one, two) == [("experiment added", "A2"), ("experiment removed", "A1")]
    assert chaos_changes(None, two) == [("experiment added", "A2")]
    assert chaos_changes(one, None) == [("experiment removed", "A1")]
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
