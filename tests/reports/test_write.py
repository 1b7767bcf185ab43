import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from fixtures.verdict.record import Report, Verdict
from reports import folder, safe_text
from reports.folder import ReportError, load, write_all
from reports.formats import html
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report
from tests.steps import calls, steps

NAMES = {"report.json", "report.html", "junit.xml", "ctrf.json", "report.md", "metrics.prom", "report.sarif", "allure-results"}


def test_writes_every_format_and_nothing_else(tmp_path: Path) -> None:
    write_all(sample_report(), tmp_path / "out" / "run")
    folder = tmp_path / "out" / "run"
    assert {entry.name for entry in folder.iterdir()} == NAMES
    assert all(entry.stat().st_size for entry in folder.iterdir())
    assert stat.S_IMODE((folder / "report.html").stat().st_mode) == 0o600
    assert len(list((folder / "allure-results").glob("*-result.json"))) == 14


def test_second_run_replaces_the_first(tmp_path: Path) -> None:
    write_all(sample_report(), tmp_path)
    write_all(report([result("A-1", Verdict.PASSED)]), tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == NAMES
    assert len(list((tmp_path / "allure-results").glob("*-result.json"))) == 1
    assert [r.id for r in load(tmp_path).results] == ["A-1"]


def test_hostile_report_is_written_whole(tmp_path: Path) -> None:
    write_all(hostile_report(), tmp_path)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    titles = [r["title"] for r in document["results"]]
    assert "<script>window.pwned=1</script>" in titles, "the record keeps the text as it was"
    assert "bad\\ud800name" in titles, "what is not UTF-8 is spelled out"
    assert len(load(tmp_path).results) == len(titles)


def test_one_broken_view_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_report: Report, _chaos: object) -> str:
        raise ValueError("no\nsuch thing")

    monkeypatch.setitem(folder._WRITERS, "report.html", broken)
    with pytest.raises(ReportError, match=r"report\.html: ValueError: no such thing") as caught:
        write_all(sample_report(), tmp_path)
    assert "\n" not in str(caught.value)
    assert {entry.name for entry in tmp_path.iterdir()} == NAMES - {"report.html"}


def test_failed_write_keeps_the_earlier_file_and_no_debris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("earlier")

    def full(self: Path, other: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write_atomically(target, b"later")
    assert target.read_text() == "earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot write the report"):
        write_all(sample_report(), tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the report: No such file"),
        (b"", "not a report.json"),
        (b"\xff\xfe", "not a report.json"),
        (b"[]", "not a report.json"),
        (b'{"schemaVersion": "2.0"}', r"schemaVersion 2.0 is not one this suite reads \(1.9\)"),
        (b'{"schemaVersion": "1.0"}', "not a report.json of schema 1.0: .*suite"),
        (b'{"suite": {}}', "schemaVersion"),
    ],
)
def test_what_is_not_a_report_is_refused_in_one_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(ReportError, match=words) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    assert "report.json" in str(caught.value)


@pytest.mark.parametrize("name", [folder.JSON_NAME, folder.CHAOS_NAME])
def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(tmp_path: Path, name: str) -> None:
    write_all(sample_report(), tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(ReportError, match=f"{name}.*not a regular file"):
        folder.load_run(tmp_path)


def test_a_record_larger_than_any_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(sample_report(), tmp_path)
    monkeypatch.setattr(folder, "MAX_BYTES", (tmp_path / folder.JSON_NAME).stat().st_size)
    assert load(tmp_path)
    (tmp_path / folder.CHAOS_NAME).write_bytes(b" " * (folder.MAX_BYTES + 1))
    with pytest.raises(ReportError, match=r"chaos\.json: more than [0-9,]+ bytes"):
        folder.load_run(tmp_path)
    (tmp_path / folder.JSON_NAME).write_bytes((tmp_path / folder.JSON_NAME).read_bytes() + b" ")
    with pytest.raises(ReportError, match=r"report\.json: more than [0-9,]+ bytes"):
        load(tmp_path)


def test_later_minor_schema_with_unknown_fields_still_loads(tmp_path: Path) -> None:
    write_all(sample_report(), tmp_path)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    (tmp_path / "report.json").write_text(json.dumps(document | {"schemaVersion": "1.9", "later": True}), encoding="utf-8")
    assert load(tmp_path).results == sample_report().results


@pytest.mark.test_all
def test_twice_as_many_more_subjects_are_twice_as_much_more_work(tmp_path: Path) -> None:
    """Work that grows with the square would be four times as much more."""
    large = large_report(60, 40)
    write_all(large, tmp_path)  # what is compiled or looked up once is not counted
    small, middle, most = (steps(partial(write_all, made, tmp_path)) for made in (large_report(15, 40), large_report(30, 40), large))
    assert most - middle <= 2.4 * (middle - small)
    small, middle, most = (steps(partial(write_all, large_report(10, each), tmp_path)) for each in (40, 80, 160))
    assert most - middle <= 2.4 * max(middle - small, 0) + 10 * 80


def test_a_text_that_several_formats_write_is_cleaned_once(tmp_path: Path) -> None:
    """Six formats write up to six texts of each subject."""
    assert calls(safe_text.redact, partial(write_all, large_report(20, 40), tmp_path)) < 20 * 40


def test_many_failures_are_a_page_of_bounded_size() -> None:
    assert len(html.render(large_report(1_000, 5))) < 1_500_000
