"""Chaos experiments in every view of a report: the time line says what the record says, and nothing of it runs."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports import chaos_phrases
from reports.cases import cases
from reports.folder import ReportError, load_chaos, load_run, write_all
from reports.formats import allure, ctrf, html, junit, markdown, openmetrics
from reports.page.timeline import LEFT, RIGHT, timeline
from reports.terminal import summary
from tests.reports.chaos_samples import bare, chaos, experiment, hostile_chaos, hostile_experiment, marks, mixed_chaos, series
from tests.reports.sample_report import report, result, sample_report
from tests.reports.test_html import Document
from tests.tables import each_row


def test_marks_lie_in_the_order_of_time_to_scale_and_no_line_is_drawn_where_there_was_no_data() -> None:
    drawn = timeline(experiment())
    assert drawn is not None
    assert [mark.name for mark in drawn.marks] == ["injected", "detected", "contained", "recovered"]
    places = [mark.x for mark in drawn.marks]
    assert places == sorted(places)
    assert all(LEFT <= mark.left <= mark.x <= RIGHT for mark in drawn.marks)
    assert [mark.seconds for mark in drawn.marks] == [0.0, 0.5, 0.75, 8.5]
    assert [mark.level for mark in drawn.marks] == [0, 1, 2, 0], "labels of marks that are close stand on lines of their own"
    assert drawn.marks[3].bar_width == pytest.approx(0.25 * (places[3] - places[0]) / 8.5, abs=0.05), "what is not known of it"
    number, state = drawn.rows
    assert (number.path.count("M"), len(number.gaps), number.high, number.low) == (2, 1, "24", "16")
    assert len(state.changed) == 1
    assert "no data: 503 from +3.00 s" in number.words


def test_a_signal_that_never_changes_is_a_line_and_nothing_measured_is_nothing_drawn() -> None:
    drawn = timeline(experiment(series=[series("n", "number", (2.0, 8.0, "8"))]))
    assert drawn is not None
    assert re.fullmatch(r"M190\.0 [\d.]+H930\.0", drawn.rows[0].path)
    assert timeline(experiment(marks=[], series=[])) is None


def test_the_page_says_the_time_line_in_words_too() -> None:
    page = html.render(report([]), chaos(experiment()))
    assert "injected at +0.00 s, known to 0.25 s; detected at +0.50 s" in page
    assert re.search(r'<th scope="row">recovered</th><td class="n">\+8\.50</td><td class="n">0\.25 s</td>', page)
    assert 'role="img" aria-labelledby="t-chaos-A1 d-chaos-A1"' in page
    assert "recovered 8.50 s (± 0.25 s) after the fault, bound 30 s" in page


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.LOCAL])
def test_what_is_not_a_real_cluster_is_marked_at_every_experiment(kind: TargetKind) -> None:
    page = html.render(report([]), chaos(experiment(target_kind=kind), experiment(id="A2", target_kind=kind), kind=kind))
    assert page.count(f'class="tag fidelity {kind.value}"') == 4, "in the table and above the time line"


def test_what_failed_comes_first_and_every_time_line_is_open() -> None:
    page = html.render(report([]), chaos(experiment(), experiment(Verdict.FAILED, id="A9", message="lost")))
    assert page.index('id="chaos-A9" open') < page.index('id="chaos-A1" open')


def test_hostile_text_and_numbers_stay_text() -> None:
    page = html.render(report([]), chaos(hostile_experiment(), hostile_experiment()))
    document = Document(page)
    given = [(name, value) for _, attributes in document.elements for name, value in attributes.items()]
    assert len(document.all("script")) == 1
    assert [name for name, _ in given if name.startswith("on") or name == "style"] == []
    assert not any(re.search("nan|inf", value) for name, value in given if name in ("x", "x1", "x2", "y", "width", "d", "cx"))
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_the_record_is_written_read_back_and_taken_away(tmp_path: Path) -> None:
    given = chaos(experiment())
    write_all(report([]), tmp_path, given)
    assert load_chaos(tmp_path) == given
    write_all(report([]), tmp_path)
    assert load_chaos(tmp_path) is None


def test_a_token_in_a_finding_is_not_written(tmp_path: Path) -> None:
    token = "eyJhbGciOiJSUzI1NiJ9." + "a" * 60 + "." + "b" * 60
    write_all(report([]), tmp_path, chaos(experiment(message=f"Authorization: Bearer {token}", marks=marks(inject=1.0))))
    assert token not in (tmp_path / "chaos.json").read_text()
    assert token not in (tmp_path / "report.html").read_text()


def test_what_is_no_record_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text("{}")
    with pytest.raises(ReportError, match=r"not a chaos\.json"):
        load_chaos(tmp_path)


UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(made: Report, of: ChaosReport, width: int = 110) -> str:
    return summary.summary(made, width=width, colour=False, report_path="out/r.html", chaos=of)


# -- terminal


def test_the_closing_line_of_experiments_fits_them() -> None:
    three = chaos(*(experiment(id=f"A{number}") for number in range(3)))
    assert plain(bare(three), three).splitlines()[-1] == (
        "CHAOS: 3 of 3 experiments passed [simulated cluster], exit code 0, report out/r.html"
    )
    assert plain(bare(mixed_chaos()), mixed_chaos()).splitlines()[-1] == (
        "CHAOS: 1 of 5 experiments passed, 1 not applicable; not passed: A3 failed, N7 error, D6 inconclusive; not put back: N7 "
        "[simulated cluster], exit code 3 (at least one experiment ended in an error of the suite), report out/r.html"
    )


def test_a_run_of_both_has_both_tables_and_both_lines() -> None:
    made = sample_report()
    text = plain(made, mixed_chaos())
    assert "judged/total" in text
    assert re.search(r"^\| A3 +\| L1 ", text, re.M)
    *_, experiments_line, last = text.splitlines()
    assert experiments_line.startswith("CHAOS: 1 of 5 experiments passed")
    assert last.startswith("NOT CONFORMANT [simulated cluster]: 10 of the 14 requirements in this record judged; exit code 1")


def test_residue_of_experiments_names_the_command_that_undoes_it() -> None:
    made = bare(mixed_chaos())
    made.residue = ["nodes n1: unschedulable"]
    assert "gpu-conformance chaos recover" in plain(made, mixed_chaos())
    assert "gpu-conformance chaos recover" in markdown.render(made, mixed_chaos())
    assert "<code>gpu-conformance chaos recover</code>" in html.render(made, mixed_chaos())
    assert "chaos recover" not in summary.summary(made, width=110, colour=False, report_path="r")


@pytest.mark.parametrize("width", [60, 80, 110])
def test_the_terminal_takes_hostile_text_within_its_width(width: int) -> None:
    made = hostile_chaos()
    lines = plain(bare(made), made, width).splitlines()
    assert all(line.isascii() for line in lines)
    assert all(len(line) <= width for line in lines[:-1])
    coloured = summary.summary(bare(made), width=width, colour=True, report_path="r", chaos=made)
    assert not UNSAFE.search(re.sub(r"\x1b\[[0-9;]*m", "", coloured))


# -- what a run is called


@each_row
def test_the_headline_names_what_explains_the_verdict(
    requirement: Verdict | None, of_chaos: Verdict, verdict: Verdict, code: int, headline: str, meaning: str
) -> None:
    held = chaos(experiment(of_chaos))
    held.verdict = of_chaos
    made = report([result("A-1", requirement)] if requirement else [], verdict=verdict, exit_code=code)
    assert chaos_phrases.overall(made, held) == headline
    assert meaning in chaos_phrases.exit_meaning(made, held)


def test_without_experiments_nothing_is_different() -> None:
    made = sample_report()
    assert chaos_phrases.overall(made, None) == "Not conformant"
    assert "Nothing judged" in html.render(report([], verdict=Verdict.INCONCLUSIVE, exit_code=5), chaos())


# -- Markdown


def test_markdown_of_experiments_alone() -> None:
    text = markdown.render(bare(mixed_chaos()), mixed_chaos())
    lines = text.splitlines()
    assert lines[0].endswith("GPU chaos: Experiments ended in error")
    assert any(line.startswith("> **SIMULATED CLUSTER") for line in lines)
    assert "| Area |" not in text
    row = "| **A1** Device plugin killed | L1 | ⚠️ simulated | ✅ passed | 0.50 ± 0.25 | 8.50 ± 0.25 | pods gpu-operator/plugin-1 |"
    assert row in lines
    assert text.count("<details>") == text.count("</details>") == 3
    assert "NOT PUT BACK: nodes n1: unschedulable" in text


def test_markdown_escapes_and_stays_small() -> None:
    text = markdown.render(bare(hostile_chaos()), hostile_chaos())
    assert "<script" not in text
    assert not UNSAFE.search(text.replace("\n", ""))
    assert {line.count("|") for line in text.splitlines() if line.startswith("| ")} == {8}
    many = chaos(*(experiment(Verdict.FAILED, id="|" * 400 + str(n), title="|" * 4_000, message="&" * 4_000) for n in range(300)))
    text = markdown.render(bare(many), many)
    assert len(text.encode()) < 64_000
    assert re.search(r"\| \d+ more experiments \|", text)
    assert re.search(r"\*\*\d+ more experiments need attention", text)


# -- HTML


def test_page_of_experiments_alone_is_about_experiments() -> None:
    page = html.render(bare(mixed_chaos()), mixed_chaos())
    assert "<title>Experiments ended in error (simulated cluster) \u2013 GPU chaos report" in page
    assert 'id="areas"' not in page
    assert 'id="requirements"' not in page
    assert "0 requirements" not in page
    assert "5 chaos experiments on a simulated cluster: 1 passed, 1 failed" in page
    assert page.index('id="experiments"') < page.index('id="chaos"')
    assert page.index('href="#chaos-A3"') < page.index('id="chaos-A3"')
    assert '<b class="left">Not put back:</b> nodes n1: unschedulable' in page


def test_every_link_of_the_page_leads_somewhere() -> None:
    for made in (bare(mixed_chaos()), sample_report(), bare(chaos(), Verdict.INCONCLUSIVE, 5)):
        for held in (mixed_chaos(), chaos(), hostile_chaos()):
            page = html.render(made, held)
            for anchor in re.findall(r'href="#([^"]+)"', page):
                assert f'id="{anchor}"' in page, anchor


def test_the_undo_is_marked_where_the_recovery_counts_from_it() -> None:
    page = html.render(report([]), chaos(experiment(recovery_from="undo", recovery_seconds=3.0)))
    assert "undo begins at +5.50 s" in page
    assert "undo begins" not in html.render(report([]), chaos(experiment(recovery_from="undo", recovery_seconds=0.0)))


def never_lost() -> ChaosReport:
    kept: dict[str, Any] = {"never_lost": True, "recovery_seconds": None, "recovery_uncertainty": None, "recovery_from": ""}
    return chaos(experiment(marks=marks(inject=4.0), **kept), experiment(id="A9", recovery_from="undo"))


def test_what_was_never_lost_has_no_time_and_what_the_undo_ended_says_so() -> None:
    held = never_lost()
    page = html.render(report([]), held)
    assert '<td class="n">never lost</td>' in page
    assert "the steady state was never lost" in page
    assert '<td class="n">8.50 ± 0.25 (undo)</td>' in page
    assert "recovered 8.50 s (± 0.25 s) after the undo began, bound 30 s" in page
    table = markdown.render(bare(held), held)
    assert "| never lost |" in table
    assert "| 8.50 ± 0.25 (undo) |" in table
    assert re.search(r"\| +never lost \|", plain(bare(held), held))
    assert "8.50 +/- 0.25 (undo)" in plain(bare(held), held, 160)
    assert re.search(r"\| +\(undo\) \|", plain(bare(held), held, 80))


# -- folders


def test_records_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    held = mixed_chaos()
    write_all(bare(held), tmp_path, held)
    held.run.id = "another\x1b"
    write_all(report([]), tmp_path, held)
    with pytest.raises(ReportError, match=r"of run another\\x1b, and not of"):
        load_run(tmp_path)


def test_a_later_schema_of_experiments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text('{"schemaVersion": "2.0"}')
    with pytest.raises(ReportError, match=r"schemaVersion 2\.0 is not one this suite reads"):
        load_chaos(tmp_path)


def test_lone_surrogates_in_an_experiment_are_spelled_out(tmp_path: Path) -> None:
    held = chaos(experiment(message="bad\ud800name"))
    write_all(bare(held), tmp_path, held)
    assert "bad\\\\ud800name" in (tmp_path / "chaos.json").read_text(encoding="utf-8")


# -- JUnit, CTRF and Allure, which write one case; statuses are in test_machine_formats.py


def test_the_case_of_an_experiment_has_its_times_and_what_is_wrong() -> None:
    found = {case.key: case for case in cases(bare(mixed_chaos()), mixed_chaos())}
    case, slow = found["chaos A1"], found["chaos A3"]
    assert (case.started, case.seconds) == (datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC), 21.5)
    assert [case.extra[f"{name}Seconds"] for name in ("detection", "recovery", "recoveryUncertainty")] == [0.5, 8.5, 0.25]
    assert [case.properties[f"{name}Seconds"] for name in ("detection", "recovery", "recoveryBound")] == ["0.500", "8.500", "30.000"]
    assert (case.labels["fidelity"], case.parameters["recovery, s"]) == ("simulated", "8.50 ± 0.25")
    assert case.properties["targets"] == "pods gpu-operator/plugin-1"
    assert (slow.message, slow.extra["recoverySeconds"], slow.properties["recoverySeconds"]) == ("too slow", None, "")
    assert slow.lines == ["recovery [RecoveryTooSlow]: not recovered within 30 s"]
    assert "NOT PUT BACK: nodes n1: unschedulable" in found["chaos N7"].lines


def test_no_number_of_a_record_makes_ctrf_something_else_than_json() -> None:
    for held in (mixed_chaos(), hostile_chaos()):
        json.loads(ctrf.render(bare(held), held), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_passed_experiment_with_residue_is_red_in_junit() -> None:
    held = chaos(experiment(residue=["nodes n1"]))
    made = bare(held)
    made.residue = ["nodes n1"]
    root = ET.fromstring(junit.render(made, held))
    assert len(list(root.iter("error"))) == 1
    assert "NOT PUT BACK: nodes n1" in (root.findtext(".//system-out") or "")


def test_allure_describes_an_experiment_and_its_findings(tmp_path: Path) -> None:
    allure.write(sample_report(), tmp_path, mixed_chaos())
    items = {i["name"].split()[0]: i for file in tmp_path.glob("*-result.json") if (i := json.loads(file.read_text(encoding="utf-8")))}
    assert {"name": "tag", "value": "simulated cluster"} in items["A1"]["labels"]
    assert "SIMULATED CLUSTER" in items["A1"]["description"]
    [step] = items["A3"]["steps"]
    assert (step["name"], step["status"], step["statusDetails"]["message"]) == ("recovery", "failed", "not recovered within 30 s")
    assert step["parameters"] == [{"name": "reason", "value": "RecoveryTooSlow"}]


# -- metrics


def test_metrics_of_experiments() -> None:
    lines = openmetrics.render(bare(mixed_chaos()), mixed_chaos()).splitlines()
    labels = 'experiment="A1",fidelity="simulated",target="simulated"'
    assert f'gpu_conformance_chaos_recovery_seconds{{{labels},from="fault"}} 8.5' in lines
    assert f'gpu_conformance_chaos_recovery_uncertainty_seconds{{{labels},from="fault"}} 0.25' in lines
    assert f'gpu_conformance_chaos_verdict{{{labels},verdict="passed"}} 1' in lines
    assert f'gpu_conformance_chaos_verdict{{{labels},verdict="failed"}} 0' in lines
    assert 'gpu_conformance_chaos_experiments{verdict="error",target="simulated"} 1' in lines
    assert 'gpu_conformance_chaos_residue_changes{experiment="N7",fidelity="simulated",target="simulated"} 1' in lines
    assert not any(line.startswith('gpu_conformance_chaos_recovery_seconds{experiment="A3"') for line in lines), "none was measured"
