"""``--baseline``: a run that is worse than an earlier one is not conformant, and every view says in what."""

import html as markup
from datetime import date
from xml.etree import ElementTree as ET

from conformance.plugin.baseline import account_for_waivers, compare_with, difference_from, judge_comparison
from conformance.plugin.session import Baseline
from fixtures.policy.waivers import Waiver, WaiverFile
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict, WaiverState
from reports.diff.runs import Difference
from reports.formats import ctrf, html, junit, markdown, openmetrics
from reports.terminal import summary
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import report, result, subject

NODES = ["gpu-0", "gpu-1"]
LOST = "no longer judged: NET-05 MUST (passed -> not applicable): 2 judged before, none now: no RDMA"


def a_run(*, fabric: bool) -> Report:
    passed = result("ADV-01", Verdict.PASSED, [subject(name, kind="Node") for name in NODES])
    judged = result("NET-05", Verdict.PASSED, [subject(name, kind="Node") for name in NODES])
    silent = result("NET-05", Verdict.NOT_APPLICABLE, reason_code="NoRdmaNodes", message="no RDMA")
    return report([passed, judged if fabric else silent])


def compared(baseline: Report, made: Report, *accepted: str) -> Report:
    compare_with(baseline, made, difference_from(Baseline(baseline), made, None, accepted))
    return made


def test_a_worse_end_of_the_run_stays() -> None:
    inconclusive, residue = a_run(fabric=False), a_run(fabric=False)
    inconclusive.verdict, inconclusive.exit_code, residue.exit_code = Verdict.INCONCLUSIVE, 10, 11
    assert compared(a_run(fabric=True), inconclusive).exit_code == 10
    assert compared(a_run(fabric=True), residue).exit_code == 11
    assert inconclusive.regressions == [LOST]


def test_every_view_names_the_regressions() -> None:
    made = compared(a_run(fabric=True), a_run(fabric=False))
    lines = summary.summary(made, width=120, colour=False, report_path="r").splitlines()
    assert f"WORSE THAN THE BASELINE: {LOST}" in lines
    assert "exit code 1 (not conformant: worse than the baseline in 1 respect)" in lines[-1]
    assert "no longer judged: NET-05" in html.render(made)
    assert "Worse than the baseline: no longer judged" in markdown.render(made)
    assert '"no longer judged: NET-05' in ctrf.render(made)
    error = next(ET.fromstring(junit.render(made)).iter("error"))
    assert (error.get("type"), error.text) == ("baseline", LOST)
    assert '\ngpu_conformance_regressions{target="live"} 1\n' in openmetrics.render(made)


def test_an_experiment_that_recovers_more_slowly_or_is_not_held_any_more_fails_a_run_of_experiments() -> None:
    def recovered(seconds: float) -> ChaosReport:
        return chaos(experiment(recovery_seconds=seconds, recovery_uncertainty=0.5))

    def run_of(held: ChaosReport | None, *accepted: str) -> Report:
        made = report([])
        compare_with(report([]), made, difference_from(Baseline(report([]), recovered(4)), made, held, accepted))
        return made

    slower, gone = run_of(recovered(9)), run_of(chaos(experiment(id="A2")))
    assert (slower.verdict, slower.exit_code) == (Verdict.FAILED, 1)
    assert slower.regressions[0].startswith("recovery is slower: A1")
    line = summary.summary(slower, width=120, colour=False, report_path="r", chaos=recovered(9)).splitlines()[-1]
    assert "exit code 1 (not conformant: worse than the baseline in 1 respect)" in line
    assert [text.partition(":")[0] for text in gone.regressions] == ["experiment removed"]
    for made in (run_of(recovered(4.5)), run_of(chaos(experiment(id="A2")), "A1"), run_of(None)):
        assert (made.verdict, made.exit_code, made.regressions) == (Verdict.PASSED, 0, [])


def test_a_failed_comparison_says_once_what_is_worse() -> None:
    made = a_run(fabric=False)
    found = judge_comparison(result("UPG-05", Verdict.NOT_APPLICABLE, []), a_run(fabric=True), made, since(made), WaiverFile())
    made.results.append(found.result)
    compare_with(a_run(fabric=True), made, found.difference)
    assert made.regressions == [LOST]
    lost = "no longer judged: the requirement as a whole (2 judged before, none now: no RDMA)"
    assert "".join(summary.summary(made, width=400, colour=False, report_path="r").split("|")).count("no longer judged: ") == 1
    assert [case.get("name", "")[:6] for case in ET.fromstring(junit.render(made)).iter("testcase") if len(case) > 1] == [
        "NET-05",
        "UPG-05",
    ]
    for text in (junit.render(made), markup.unescape(markdown.render(made))):
        assert text.count(lost) == 1


def test_a_waiver_lets_a_run_pass_that_is_worse_than_its_baseline() -> None:
    made = a_run(fabric=False)
    waiver = Waiver(requirement="UPG-05", subjects=("Requirement NET-*",), reason="known", owner="team-a", expires=date(2999, 12, 31))
    file = WaiverFile(waivers=(waiver,), today=date(2026, 1, 1))
    found = judge_comparison(result("UPG-05", Verdict.NOT_APPLICABLE, []), a_run(fabric=True), made, since(made), file)
    made.results.append(found.result)
    compare_with(a_run(fabric=True), made, found.difference)
    assert (made.verdict, made.regressions, found.result.verdict) == (Verdict.PASSED, [], Verdict.WAIVED)
    account_for_waivers(file, made)
    assert [(one.state, one.waived) for one in made.waivers] == [(WaiverState.USED, 1)]


def since(made: Report) -> Difference:
    return difference_from(Baseline(a_run(fabric=True)), made, None, ())
