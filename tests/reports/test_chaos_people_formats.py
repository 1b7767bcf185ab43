"""Chaos experiments for people: terminal, Markdown and page, and the folder of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict
from reports import chaos_phrases
from reports.folder import ReportError, load_chaos, load_run, write_all
from reports.formats import html, markdown
from reports.terminal import summary
from tests.reports.chaos_samples import bare, chaos, experiment, hostile_chaos, marks, mixed_chaos
from tests.reports.sample_report import report, result, sample_report

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


@pytest.mark.parametrize(
    ("requirement", "of_chaos", "verdict", "code", "headline", "meaning"),
    [
        (Verdict.PASSED, Verdict.PASSED, Verdict.PASSED, 0, "Conformant", "every experiment that applies passed; conformant: "),
        (Verdict.PASSED, Verdict.FAILED, Verdict.FAILED, 1, "Experiments failed", "at least one experiment failed"),
        (Verdict.FAILED, Verdict.PASSED, Verdict.FAILED, 1, "Not conformant", "not conformant: at least one gating requirement failed"),
        (Verdict.FAILED, Verdict.FAILED, Verdict.FAILED, 1, "Not conformant", "requirement failed; at least one experiment failed"),
        (
            Verdict.PASSED,
            Verdict.INCONCLUSIVE,
            Verdict.INCONCLUSIVE,
            10,
            "Experiments inconclusive",
            "inconclusive: at least one exp",
        ),
        (None, Verdict.PASSED, Verdict.PASSED, 0, "Experiments passed", "every experiment that applies passed"),
        (None, Verdict.FAILED, Verdict.FAILED, 1, "Experiments failed", "at least one experiment failed"),
        (None, Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE, 10, "No experiment applies", "no experiment applies"),
        (None, Verdict.PASSED, Verdict.PASSED, 11, "Experiments passed", "residue"),
        (None, Verdict.PASSED, Verdict.INCONCLUSIVE, 2, "Experiments inconclusive", "interrupted"),
    ],
)
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
