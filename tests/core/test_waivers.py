"""Waivers: what a file may say, what they cover, and that none outlives its use."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.catalogue import load_catalogue
from conformance.plugin.baseline import account_for_waivers, read_waivers
from conformance.plugin.options import Options
from fixtures.policy.waivers import RequirementWaivers, Waiver, WaiverError, WaiverFile, read_waiver_file
from fixtures.verdict.findings import Evidence, Finding, Outcome, bad, missed, ok, undecided
from fixtures.verdict.record import Access, Cause, Coverage, Level, NotJudged, Report, Result, Verdict, WaiverState
from fixtures.verdict.subjects import Subject
from reports.formats import ctrf, html, junit, markdown, openmetrics
from reports.terminal import summary
from tests.reports.sample_report import report, result
from tests.tables import each_row

CATALOGUE = load_catalogue()
TODAY = date(2026, 11, 23)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
GOOD = """
waivers:
  - requirement: FENCE-01
    subjects: ["Node gpu-*"]
    reason: they leave in January
    owner: team-a
    expires: 2027-01-31
"""


def a_waiver(*globs: str, requirement: str = "FENCE-01", expires: date = date(2027, 1, 31)) -> Waiver:
    return Waiver(requirement=requirement, subjects=globs or ("*",), reason="they leave", owner="team-a", expires=expires)


def a_file(*waivers: Waiver) -> WaiverFile:
    return WaiverFile(waivers=waivers, today=TODAY)


def node(name: str, outcome: Outcome = Outcome.BAD) -> Finding:
    subject = Subject("Node", name)
    if outcome is Outcome.OK:
        return ok(subject)
    if outcome is Outcome.MISSED:
        return missed(subject, cause="NodeNotFenced", observed="NotReady", expected="Ready")
    return (
        bad(subject, cause="NodeNotFenced", observed="no taint", expected="a taint")
        if outcome is Outcome.BAD
        else undecided(subject, message="not known")
    )


def judged(file: WaiverFile, *findings: Finding, access: Access = Access.READ, required: bool = False) -> Result:
    """The result of FENCE-01 over findings, under the waivers of a file."""
    evidence = Evidence(RequirementWaivers.of("FENCE-01", file))
    evidence(findings)
    found = evidence.judgement(Level.MUST, required=required)
    made = result("FENCE-01", found.verdict, found.subjects, access=access, message=found.message, reason_code=found.reason_code)
    made.judged, made.total = found.judged, found.total
    made.waivers = evidence.waivers.uses() if evidence.waivers else []
    return made


def accounted(file: WaiverFile, *results: Result, not_judged: Cause | None = None) -> Report:
    made = report(list(results) or [result("ADV-01", Verdict.PASSED)])
    made.verdict, made.exit_code = Verdict.PASSED, 0
    missing = [NotJudged(id="FENCE-01", title="t", area="FENCE", level=Level.MUST, cause=not_judged, because="b")] if not_judged else []
    made.scope = Coverage(requirements=2, judged=1, not_judged=missing)
    account_for_waivers(file, made)
    return made


def read(folder: Path, text: str) -> WaiverFile:
    path = folder / "waivers.yaml"
    path.write_text(text)
    return read_waiver_file(path, NOON)


# -- the file -----------------------------------------------------------------------------------------


def test_a_file_names_requirement_subjects_reason_owner_and_last_day(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    assert file.today == TODAY
    assert file.waivers == (
        Waiver(requirement="FENCE-01", subjects=("Node gpu-*",), reason="they leave in January", owner="team-a", expires=date(2027, 1, 31)),
    )


@each_row
def test_what_is_wrong_with_a_file_is_reported_in_one_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(WaiverError, match=words) as raised:
        read(tmp_path, GOOD.replace(old, new))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WaiverError, match=r"no\.yaml: No such file"):
        read_waiver_file(tmp_path / "no.yaml", NOON)


def test_a_requirement_that_the_catalogue_lacks_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "waivers.yaml"
    path.write_text(GOOD.replace("FENCE-01", "FENCE-O1"))
    with pytest.raises(pytest.UsageError, match=r"--waivers .*waiver 1: unknown requirement 'FENCE-O1'; did you mean FENCE-"):
        read_waivers(Options(waivers=str(path)), CATALOGUE, NOON)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_file_or_one_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "wild.yaml"
    path.write_bytes(data)
    with pytest.raises(WaiverError):
        read_waiver_file(path, NOON)


# -- what they cover ----------------------------------------------------------------------------------


def test_what_a_glob_names_is_waived_and_says_until_when_by_whom_and_why() -> None:
    made = judged(a_file(a_waiver("Node gpu-*")), node("gpu-0"), node("gpu-1", Outcome.OK))
    assert (made.verdict, made.reason_code, made.judged, made.total) == (Verdict.WAIVED, "Waived", 2, 2)
    waived = next(one for one in made.subjects if one.name == "gpu-0")
    assert waived.verdict is Verdict.WAIVED
    assert waived.message == "no taint, expected a taint (waived until 2027-01-31 by team-a: they leave)"


def test_what_could_not_be_decided_is_never_waived() -> None:
    made = judged(a_file(a_waiver("*")), node("gpu-0", Outcome.UNDECIDED), node("gpu-1"))
    assert made.verdict is Verdict.INCONCLUSIVE


def test_a_waiver_covers_no_required_requirement_that_judged_nothing() -> None:
    unseen, bad_one = node("gpu-0", Outcome.MISSED), node("gpu-1")
    assert judged(a_file(a_waiver("*")), unseen).verdict is Verdict.WAIVED
    made = judged(a_file(a_waiver("*")), unseen, required=True)
    assert (made.verdict, made.reason_code) == (Verdict.FAILED, "RequiredButNothingJudged")
    assert made.message.startswith("none of 1 subjects could be judged; Node gpu-0: NotReady, expected Ready (waived until")
    assert judged(a_file(a_waiver("*")), unseen, bad_one, required=True).verdict is Verdict.WAIVED


def test_a_waiver_holds_on_its_last_day_and_not_on_the_day_after() -> None:
    assert judged(a_file(a_waiver("*", expires=TODAY)), node("gpu-0")).verdict is Verdict.WAIVED
    assert judged(a_file(a_waiver("*", expires=date(2026, 11, 22))), node("gpu-0")).verdict is Verdict.FAILED


# -- the account --------------------------------------------------------------------------------------


def states(made: Report) -> list[WaiverState]:
    return [one.state for one in made.waivers]


def test_an_expired_waiver_fails_the_run_and_names_its_owner() -> None:
    file = a_file(a_waiver("Node gpu-0", expires=date(2026, 11, 1)))
    made = accounted(file, judged(file, node("gpu-0", Outcome.OK)))
    assert (made.verdict, made.exit_code, states(made)) == (Verdict.FAILED, 1, [WaiverState.EXPIRED])
    assert made.waiver_problems == ["waiver 1, FENCE-01: expired on 2026-11-01; team-a has to renew or remove it (they leave)"]


def test_a_waiver_of_what_is_good_or_gone_fails_the_run() -> None:
    file = a_file(a_waiver("Node gpu-0", "Node gpu-9", "Node gpu-1"))
    made = accounted(file, judged(file, node("gpu-0", Outcome.OK), node("gpu-1")))
    assert (made.exit_code, states(made)) == (1, [WaiverState.UNUSED])
    expected = "waiver 1, FENCE-01: nothing fails that Node gpu-0 names, and Node gpu-9 names no subject; remove it"
    assert made.waiver_problems == [expected]


@pytest.mark.parametrize("cause", [Cause.SELECTION, Cause.ACCESS, Cause.NOT_IN_SNAPSHOT, Cause.CUT_SHORT])
def test_a_run_that_did_not_judge_a_requirement_says_nothing_of_its_waivers(cause: Cause) -> None:
    made = accounted(a_file(a_waiver("*")), not_judged=cause)
    assert (made.exit_code, states(made)) == (0, [WaiverState.NOT_TRIED])


def test_an_undecided_requirement_keeps_its_waiver() -> None:
    file = a_file(a_waiver("Node gpu-0"))
    made = accounted(file, judged(file, node("gpu-0", Outcome.UNDECIDED)), not_judged=Cause.INCONCLUSIVE)
    assert states(made) == [WaiverState.NOT_TRIED]


def test_a_glob_that_names_nothing_is_unused_although_another_covers_what_nobody_could_judge() -> None:
    file = a_file(a_waiver("Node gpu-0", "Node gpu-9"))
    made = accounted(file, judged(file, node("gpu-0", Outcome.MISSED)), not_judged=Cause.SET_ASIDE)
    assert (made.exit_code, states(made)) == (1, [WaiverState.UNUSED])
    assert made.waiver_problems == ["waiver 1, FENCE-01: Node gpu-9 names no subject; remove it"]


def test_a_probe_that_did_not_reach_a_node_keeps_its_waiver() -> None:
    file = a_file(a_waiver("Node gpu-7"))
    reached_another = accounted(file, judged(file, node("gpu-0", Outcome.OK), access=Access.WORKLOAD))
    reached_it = accounted(file, judged(file, node("gpu-7", Outcome.OK), access=Access.WORKLOAD))
    assert states(reached_another) == [WaiverState.NOT_TRIED]
    assert states(reached_it) == [WaiverState.UNUSED]


def test_a_worse_end_of_the_run_stays() -> None:
    file = a_file(a_waiver("*", expires=date(2026, 11, 1)))
    made = report([judged(file, node("gpu-0"))])
    made.verdict, made.exit_code = Verdict.INCONCLUSIVE, 10
    account_for_waivers(file, made)
    assert (made.verdict, made.exit_code) == (Verdict.INCONCLUSIVE, 10)


def test_every_view_shows_waivers_and_what_is_wrong_with_them() -> None:
    file = a_file(a_waiver("Node gpu-0"), a_waiver("Node <script>", expires=date(2026, 11, 1)))
    made = accounted(file, judged(file, node("gpu-0")))
    problem = made.waiver_problems[0]
    text = summary.summary(made, width=120, colour=False, report_path="r")
    assert f"WAIVERS TO RENEW OR REMOVE: {problem}" in text
    assert "exit code 1 (not conformant: 1 waiver is expired or unused)" in text
    assert "waived until 2027-01-31 by team-a: they leave" in " ".join(text.replace("|", " ").split())
    page = html.render(made)
    assert "Waivers to renew or remove: 1" in page
    assert "&lt;script&gt;" in page
    assert "Node <script>" not in page
    assert "Waivers to renew or remove: waiver 2" in markdown.render(made)
    assert '"waiverProblems"' in ctrf.render(made)
    assert 'type="waivers"' in junit.render(made)
    assert '\ngpu_conformance_waivers{target="live",state="expired"} 1\n' in openmetrics.render(made)
