"""The summary of a step on GitHub Actions: beside what is there, within GitHub's limit, cut honestly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.verdict.record import Report, Verdict
from reports.formats import markdown, step_summary
from tests.reports.chaos_samples import mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report, subject

LIMIT = 1 << 20


def environ(path: Path) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(path)}


def test_the_summary_stands_below_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Build\nno end of line")
    assert step_summary.append(sample_report(), mixed_chaos(), environ(file)) == ""
    text = file.read_text()
    assert text.startswith("# Build\nno end of line\n\n## ")
    assert markdown.render(sample_report(), mixed_chaos()) in text


def test_a_file_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    assert step_summary.append(sample_report(), None, environ(tmp_path / "new.md")) == ""
    assert (tmp_path / "new.md").read_text() == markdown.render(sample_report())


@pytest.mark.parametrize("odd", [{}, {"GITHUB_ACTIONS": ""}, {"GITHUB_STEP_SUMMARY": ""}])
def test_other_machines_have_no_summary(odd: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    settings = {**environ(file), **odd} if odd else {"GITHUB_STEP_SUMMARY": str(file)}
    assert step_summary.append(sample_report(), None, settings) == ""
    assert not file.exists()


@pytest.mark.parametrize("left", [900_000, 30_000, 5_000, 1_100, 999, 300, 100, 3, 0])
@pytest.mark.parametrize("made", [sample_report(), hostile_report(), large_report(300, 3)], ids=["sample", "hostile", "large"])
def test_the_file_never_grows_over_githubs_limit(made: Report, left: int, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_bytes(b"x" * (LIMIT - left))
    problem = step_summary.append(made, None, environ(file))
    added = file.read_bytes()[LIMIT - left :].decode()
    assert file.stat().st_size <= LIMIT
    assert bool(problem) != bool(added), "either it is there, or the run says why not"
    if added:
        assert re.search(r"do not fit here|need attention; see the full report|its summary is full|^Run ", added, re.M)


def test_a_summary_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    assert step_summary.append(sample_report(), None, environ(tmp_path)).startswith("GITHUB_STEP_SUMMARY: ")


@pytest.mark.parametrize("room", [1_000, 2_000, 4_000, 64_000])
def test_markdown_keeps_within_any_bound_and_says_what_is_missing(room: int) -> None:
    long = report([result(f"A-{n}", Verdict.FAILED, area=f"{n}" * 90, message="m" * 400) for n in range(500)])
    huge = "|" * 1_000_000
    wide = report([result("A-1", Verdict.FAILED, [subject(huge, Verdict.FAILED)], title=huge, area=huge, message=huge, remediation=huge)])
    for made in (sample_report(), hostile_report(), large_report(300, 3), large_report(2_000, 3), long, wide):
        text = markdown.render(made, max_bytes=room)
        assert len(text.encode()) <= room
        assert text.startswith("## ")
        assert len(text) == len(markdown.render(made, max_bytes=10_000_000)) or re.search(r"do not fit here|more causes", text)
