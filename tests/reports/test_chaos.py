"""Chaos experiments in the report: the time line says what the record says, and nothing of it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.verdict.record import TargetKind, Verdict
from reports.folder import ReportError, load_chaos, write_all
from reports.formats import html
from reports.page.timeline import LEFT, RIGHT, timeline
from tests.reports.chaos_samples import chaos, experiment, hostile_experiment, marks, series
from tests.reports.sample_report import report
from tests.reports.test_html import Document


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


def test_what_failed_comes_first_and_open() -> None:
    page = html.render(report([]), chaos(experiment(), experiment(Verdict.FAILED, id="A9", message="lost")))
    assert page.index('id="chaos-A9" open') < page.index('id="chaos-A1"')
    assert 'id="chaos-A1" open' not in page


def test_residue_is_said_where_it_belongs() -> None:
    assert "Residue: not put back" in html.render(report([]), chaos(experiment(residue=["nodes n1"])))
    assert "Residue: not put back" not in html.render(report([]), chaos(experiment()))


def test_hostile_text_and_numbers_stay_text() -> None:
    page = html.render(report([]), chaos(hostile_experiment(), hostile_experiment()))
    document = Document(page)
    given = [(name, value) for _, attributes in document.elements for name, value in attributes.items()]
    assert len(document.all("script")) == 1
    assert [name for name, _ in given if name.startswith("on") or name == "style"] == []
    assert not any(re.search("nan|inf", value) for name, value in given if name in ("x", "x1", "x2", "y", "width", "d", "cx"))
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_report_without_chaos_says_nothing_of_it() -> None:
    assert 'id="chaos"' not in html.render(report([]))


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


def test_what_is_no_record_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text("{}")
    with pytest.raises(ReportError, match=r"not a chaos\.json"):
        load_chaos(tmp_path)
