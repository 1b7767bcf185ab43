import pytest

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
