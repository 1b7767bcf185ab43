"""``--baseline``: a run that is worse than an earlier one is not conformant, and every view says in what."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from conformance.plugin.baseline import compare_with
from fixtures.verdict.record import Report, Verdict
from reports.formats import ctrf, html, junit, markdown, openmetrics
from reports.terminal import summary
from tests.reports.sample_report import report, result, subject

NODES = ["gpu-0", "gpu-1"]
LOST = "no longer judged: NET-05 MUST (passed -> not applicable): 2 judged before, none now: no RDMA"


def a_run(*, fabric: bool) -> Report:
    passed = result("ADV-01", Verdict.PASSED, [subject(name, kind="Node") for name in NODES])
    judged = result("NET-05", Verdict.PASSED, [subject(name, kind="Node") for name in NODES])
    silent = result("NET-05", Verdict.NOT_APPLICABLE, reason_code="NoRdmaNodes", message="no RDMA")
    return report([passed, judged if fabric else silent])


def compared(baseline: Report, made: Report, *accepted: str) -> Report:
    compare_with(baseline, made, accepted)
    return made


def test_a_run_as_good_as_its_baseline_stays_conformant() -> None:
    for before, after in ((True, True), (False, True), (False, False)):
        made = compared(a_run(fabric=before), a_run(fabric=after))
        assert (made.verdict, made.exit_code, made.regressions) == (Verdict.PASSED, 0, [])


def test_what_is_no_longer_judged_fails_the_run_unless_it_is_accepted() -> None:
    made = compared(a_run(fabric=True), a_run(fabric=False))
    assert (made.verdict, made.exit_code, made.regressions) == (Verdict.FAILED, 1, [LOST])
    accepted = compared(a_run(fabric=True), a_run(fabric=False), "NET")
    assert (accepted.verdict, accepted.exit_code, accepted.regressions) == (Verdict.PASSED, 0, [])


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
