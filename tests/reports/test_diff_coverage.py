"""What was judged before and is not now is a regression, of requirements and of subjects, unless it is accepted by name."""

from pathlib import Path

import pytest

from conformance.cli.main import main
from fixtures.verdict.coverage import Asked, measure
from fixtures.verdict.findings import MAX_OTHERS_KEPT, Evidence, bad
from fixtures.verdict.record import Access, AppliedPolicy, Level, Report, Result, SubjectResult, Verdict
from fixtures.verdict.subjects import Subject
from reports.diff import runs
from reports.folder import write_all
from tests.reports.sample_report import report, result, subject

OK, BAD, NOT = Verdict.PASSED, Verdict.FAILED, Verdict.NOT_APPLICABLE
NODES = [f"gpu-{n}" for n in range(4)]


def a_node(name: str, verdict: Verdict = OK, **more: str) -> SubjectResult:
    return subject(name, verdict, kind="Node", **more)


def of(id_: str = "ADV-01", verdict: Verdict = OK, *names: str, **more: object) -> Result:
    return result(id_, verdict, [a_node(name) for name in names], **more)


def silent(id_: str = "ADV-01", **more: object) -> Result:
    return result(id_, NOT, [], reason_code="NoSubjects", message="no subject to judge", **more)


def lost(old: list[Result], new: list[Result]) -> list[tuple[str, str, bool]]:
    changes = runs.compare(report(old), report(new)).changes
    return [(one.requirement, one.subject, one.gating) for one in changes if one.bucket is runs.Bucket.NO_LONGER_JUDGED]


def scoped(results: list[Result], left_out: dict[str, str], ids: list[str]) -> Report:
    made = report(results)
    asked = [Asked(id=id_, title="t", area=id_.partition("-")[0], level=Level.MUST) for id_ in ids]
    made.scope = measure(asked, results, left_out)
    return made


def test_49_passed_against_33_passed_is_16_regressions() -> None:
    old = [of(f"ADV-{n:02}", OK, "gpu-0") for n in range(49)]
    new = [of(f"ADV-{n:02}", OK, "gpu-0") if n < 33 else silent(f"ADV-{n:02}") for n in range(49)]
    difference = runs.compare(report(old), report(new))
    assert len(runs.regressions(difference)) == 16
    text = runs.render(difference)
    assert "no longer judged (16)" in text
    assert "  ADV-33 MUST (passed -> not applicable): 1 judged before, none now: no subject to judge" in text.splitlines()
    assert "Conformant (49 judged)" in text
    assert "Conformant (33 judged)" in text
    assert text.endswith("\n16 regressions\n")


@pytest.mark.parametrize("was", [OK, BAD, Verdict.WARNED, Verdict.WAIVED])
def test_a_requirement_that_judged_and_is_not_applicable_now_is_not_called_fixed(was: Verdict) -> None:
    old = result("ADV-01", was, [a_node("gpu-0", BAD if was is not OK else OK)])
    changes = runs.compare(report([old]), report([silent()])).changes
    assert [(one.bucket, one.gating) for one in changes] == [(runs.Bucket.NO_LONGER_JUDGED, True)]


def test_a_subject_that_is_set_aside_now_is_no_longer_judged() -> None:
    new = result("ADV-01", OK, [a_node("gpu-0"), a_node("gpu-1", NOT, message="cordoned")])
    changes = runs.compare(report([of("ADV-01", OK, "gpu-0", "gpu-1")]), report([new])).changes
    assert [(one.bucket, one.subject, one.message, one.gating) for one in changes] == [
        (runs.Bucket.NO_LONGER_JUDGED, "Node gpu-1", "cordoned", True)
    ]


PODS = [subject(f"train-{n}", kind="Pod", namespace="team-a") for n in range(3)]
FLEETS = [of("ADV-01", OK, *NODES, subjects_omitted=judged - 4, judged=judged) for judged in (1000, 900)]


@pytest.mark.parametrize(
    ("old", "new", "missed"),
    [
        (of("ADV-01", OK, *NODES), of("ADV-01", OK, *NODES[:2]), ["Node gpu-2", "Node gpu-3"]),
        (result("ADV-01", BAD, [a_node("gpu-0"), a_node("gpu-1", BAD)]), of("ADV-01", OK, "gpu-0"), ["Node gpu-1"]),
        (of("ADV-01", OK, "gpu-0", "gpu-1"), of("ADV-01", OK, "gpu-0", "gpu-9"), []),
        (result("ADV-01", OK, PODS), result("ADV-01", OK, PODS[:1]), []),
        (FLEETS[0], FLEETS[1], [""]),
        (FLEETS[1], FLEETS[0], []),
    ],
    ids=["two vanished", "one that had failed", "another in its place", "what tenants start may end", "counted", "more than before"],
)
def test_nodes_that_vanish_are_no_longer_judged(old: Result, new: Result, missed: list[str]) -> None:
    assert lost([old], [new]) == [("ADV-01", name, True) for name in missed]


def test_a_requirement_that_an_option_left_out_is_no_longer_judged() -> None:
    ids = ["ADV-01", "NET-01"]
    old = scoped([of("ADV-01", OK, "gpu-0"), of("NET-01", OK, "gpu-0")], {}, ids)
    new = scoped([of("ADV-01", OK, "gpu-0")], {"NET-01": "-k adv"}, ids)
    (change,) = runs.regressions(runs.compare(old, new))
    assert isinstance(change, runs.Change)
    assert (change.bucket, change.requirement, change.message) == (runs.Bucket.NO_LONGER_JUDGED, "NET-01", "left out by -k adv")


def changed(old: Report, new: Report) -> list[tuple[runs.Bucket, str, bool]]:
    return [(one.bucket, one.requirement, one.gating) for one in runs.compare(old, new).changes]


IDS = ["ADV-01", "NET-01"]
SELECTED = scoped([of("ADV-01", OK, "gpu-0")], {"NET-01": "--only ADV-01"}, IDS)
SAYS_NOT = report([of("ADV-01", OK, "gpu-0")])
CUT = scoped([of("ADV-01", OK, "gpu-0")], {}, IDS)


@pytest.mark.parametrize("old", [SELECTED, SAYS_NOT, CUT], ids=["left out", "no scope", "cut short"])
def test_what_fails_now_and_was_not_judged_before_is_a_new_failure(old: Report) -> None:
    new = scoped([of("ADV-01", OK, "gpu-0"), result("NET-01", BAD, [a_node("gpu-0", BAD)])], {}, IDS)
    assert changed(old, new) == [(runs.Bucket.NEW_FAILURE, "NET-01", True)]
    (change,) = runs.compare(old, new).changes
    assert change.old is None
    assert change.message.startswith("not judged before (")
    unsure = scoped([of("ADV-01", OK, "gpu-0"), result("NET-01", Verdict.INCONCLUSIVE, [])], {}, IDS)
    assert changed(old, unsure) == [(runs.Bucket.NEW_INCONCLUSIVE, "NET-01", True)]


def test_what_passes_now_and_was_left_out_before_is_no_change() -> None:
    assert changed(SELECTED, scoped([of("ADV-01", OK, "gpu-0"), of("NET-01", OK, "gpu-0")], {}, IDS)) == []


def test_a_run_that_judged_no_requirement_has_lost_what_the_earlier_one_judged() -> None:
    old = scoped([of("ADV-01", OK, "gpu-0"), of("NET-01", NOT)], {}, IDS)
    assert changed(old, report([])) == [
        (runs.Bucket.NO_LONGER_JUDGED, "ADV-01", True),
        (runs.Bucket.REQUIREMENT_REMOVED, "NET-01", False),
    ]
    assert changed(old, SAYS_NOT) == [(runs.Bucket.REQUIREMENT_REMOVED, "NET-01", False)]


def test_namespaces_that_another_policy_leaves_out_are_no_longer_judged() -> None:
    """A namespace that is gone under the same policy was deleted; a narrower ``tenants.namespaces`` hides one that is there."""
    spaces = [subject(name, kind="Namespace") for name in ("team-a", "team-b")]
    old, new = report([result("PSA-01", OK, spaces)]), report([result("PSA-01", OK, spaces[:1])])
    assert runs.regressions(runs.compare(old, new)) == []
    old.policy = AppliedPolicy(changed="", whole="")
    new.policy = AppliedPolicy(changed="tenants: {namespaces: [team-a]}", whole="")
    difference = runs.compare(old, new)
    (change,) = runs.regressions(difference)
    assert isinstance(change, runs.Change)
    assert (change.bucket, change.subject) == (runs.Bucket.NO_LONGER_JUDGED, "Namespace team-b")
    assert "NOTE: the policies differ" in runs.render(difference)


def test_a_result_that_is_missing_from_the_record_is_no_longer_judged() -> None:
    ids = ["ADV-01", "NET-01"]
    old, new = (scoped([of("ADV-01", OK, "gpu-0"), of("NET-01", OK, "gpu-0")], {}, ids) for _ in range(2))
    del new.results[0]
    (change,) = runs.regressions(runs.compare(old, new))
    assert isinstance(change, runs.Change)
    assert (change.bucket, change.requirement) == (runs.Bucket.NO_LONGER_JUDGED, "ADV-01")


def test_a_failure_cannot_be_accepted() -> None:
    compared = runs.compare(report([of("ADV-01", OK, "gpu-0")]), report([result("ADV-01", BAD, [a_node("gpu-0", BAD)])]))
    assert len(runs.regressions(runs.accept(compared, ["*"]))) == 1


def test_the_command_ends_with_1_unless_the_loss_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, results in (("old", [of("ADV-01", OK, *NODES)]), ("new", [silent()])):
        write_all(report(results), tmp_path / name)
    command = ["diff", str(tmp_path / "old"), str(tmp_path / "new")]
    assert main(command) == 1
    assert "no longer judged (1)" in capsys.readouterr().out
    assert main([*command, "--accept-not-judged", "ADV-01"]) == 0
    assert main([*command, "--accept-not-judged", "NET"]) == 1


def test_a_probe_that_went_to_another_node_has_lost_none() -> None:
    def probed(at: str, *others: str) -> Result:
        return result("FENCE-05", OK, [a_node(at), *(a_node(name, NOT, message="not chosen") for name in others)], access=Access.WORKLOAD)

    assert lost([probed("gpu-0", "gpu-1")], [probed("gpu-1", "gpu-0")]) == []
    both = result("FENCE-05", OK, [a_node("gpu-0"), a_node("gpu-1")], access=Access.WORKLOAD)
    assert lost([both], [probed("gpu-1", "gpu-0")]) == [("FENCE-05", "Node gpu-0", True)]
    read = result("ADV-01", OK, [a_node("gpu-1"), a_node("gpu-0", NOT)])
    assert lost([result("ADV-01", OK, [a_node("gpu-0"), a_node("gpu-1", NOT)])], [read]) == [("ADV-01", "Node gpu-0", True)]


# -- subjects that a record does not keep -----------------------------------------------------------------


def flooded(*names: str) -> Result:
    """A requirement that some hundred pods of one tenant fail, and others after them."""
    evidence = Evidence()
    for name in (*(f"team-x/p-{n}" for n in range(MAX_OTHERS_KEPT)), *names):
        namespace, _, pod = name.partition("/")
        evidence(bad(Subject("Pod", pod, namespace), cause="NodeNotFenced", observed="a", expected="b"))
    judged = evidence.judgement(Level.MUST)
    return result(
        "FENCE-03",
        judged.verdict,
        judged.subjects,
        judged=judged.judged,
        total=judged.total,
        subjects_omitted=judged.subjects_omitted,
        tallies=judged.tallies,
    )


def worse(old: Result, new: Result) -> list[str]:
    return [one.message for one in runs.regressions(runs.compare(report([old]), report([new]))) if isinstance(one, runs.Change)]


def test_a_tenant_s_many_failures_hide_no_new_one() -> None:
    [message] = worse(flooded(), flooded("team-z/intruder"))
    assert message.startswith("501 subjects failed now, 500 before, and the later record keeps 500 of them")
    [message] = worse(flooded("team-y/a"), flooded("team-z/intruder"))
    assert message.startswith("501 subjects failed now, 501 before")


def test_the_first_failures_are_new_ones_however_many_there_are() -> None:
    assert len(worse(result("FENCE-03", OK, [subject("a", kind="Pod")]), flooded("team-z/b"))) == MAX_OTHERS_KEPT + 1
