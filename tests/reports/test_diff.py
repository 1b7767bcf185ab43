from __future__ import annotations

from fixtures.verdict.record import Coverage, Level, Result, Verdict
from reports.diff import runs
from tests.reports.sample_report import hostile_report, report, result, subject

OK, BAD, UNSURE = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def one(verdict: Verdict, *subjects: tuple[str, Verdict], **fields: object) -> Result:
    return result("A-1", verdict, [subject(name, v, observed="seen") for name, v in subjects], **fields)


def changes(old: list[Result], new: list[Result]) -> list[tuple[str, str]]:
    return [(c.bucket.value, c.subject) for c in runs.compare(report(old), report(new)).changes]


def regress(old: list[Result], new: list[Result]) -> list[str]:
    return [c.subject for c in runs.regressions(runs.compare(report(old), report(new))) if isinstance(c, runs.Change)]


def test_new_failure_fixed_and_still_failing_by_subject() -> None:
    old = [one(BAD, ("a", BAD), ("b", OK), ("c", BAD))]
    new = [one(BAD, ("a", OK), ("b", BAD), ("c", BAD))]
    assert changes(old, new) == [("fixed", "node a"), ("new failure", "node b"), ("still failing", "node c")]
    assert regress(old, new) == ["node b"]


def test_subject_gone_is_not_called_fixed() -> None:
    assert changes([one(BAD, ("a", BAD))], [one(OK, ("b", OK))]) == [("subject gone", "node a")]
    assert changes([one(OK, ("a", OK))], [one(OK, ("b", OK))]) == []


def test_subject_omitted_from_the_new_report() -> None:
    old = [one(BAD, ("a", BAD))]
    assert changes(old, [one(OK, ("b", OK), subjects_omitted=5)]) == [("fixed", "node a")]
    assert changes(old, [one(BAD, ("b", BAD), subjects_omitted=5)]) == [("new failure", "node b"), ("still failing", "node a")]


def test_became_inconclusive_gates_a_must_only() -> None:
    old = [one(OK, ("a", OK))]
    new = [one(UNSURE, ("a", UNSURE))]
    assert changes(old, new) == [("became inconclusive", "node a")]
    assert regress(old, new) == ["node a"]
    assert regress([one(OK, ("a", OK), level=Level.SHOULD)], [one(UNSURE, ("a", UNSURE), level=Level.SHOULD)]) == []
    assert changes(new, new) == []


def test_requirement_that_fails_without_a_subject() -> None:
    old, new = [one(OK, ("a", OK))], [one(BAD, message="nothing judged")]
    assert changes(old, new) == [("new failure", "")]
    assert regress(old, new) == [""]
    assert changes(new, old) == [("fixed", "")]
    assert changes(new, new) == [("still failing", "")]


def test_requirements_added_removed_and_changed_are_not_blamed_on_the_cluster() -> None:
    fewer, more = report([one(OK)]), report([one(OK), result("B-1", BAD, [subject("x", BAD)])])
    for made in (fewer, more):
        made.scope = Coverage(requirements=len(made.results), judged=len(made.results))
    for before, after, bucket in ((fewer, more, "requirement added"), (more, fewer, "requirement removed")):
        difference = runs.compare(before, after)
        assert [(change.bucket.value, change.subject) for change in difference.changes] == [(bucket, "")]
        assert runs.regressions(difference) == []
    assert changes([one(OK)], [one(OK, title="Another title")]) == [("requirement changed", "")]


def test_worst_verdict_counts_when_a_subject_appears_twice() -> None:
    assert changes([one(OK, ("a", OK), ("a", OK))], [one(BAD, ("a", OK), ("a", BAD))]) == [("new failure", "node a")]


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


def test_waiver_given_and_expired() -> None:
    failed, waived = [one(BAD, ("a", BAD))], [one(Verdict.WAIVED, ("a", BAD))]
    assert changes(failed, waived) == [("now waived", "node a")]
    assert changes(waived, failed) == [("new failure", "node a")]
    assert regress(waived, failed) == ["node a"]
    assert changes(waived, waived) == []
