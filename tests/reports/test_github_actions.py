"""GitHub Actions: commands hold any text and no text is one; the summary of a step keeps within its limit, cut honestly."""

import re
from pathlib import Path

import msgspec
import pytest

from fixtures.verdict.record import Report, Verdict
from reports.formats import markdown
from reports.terminal import actions
from tests.endtoend.runner import carried_out
from tests.reports.chaos_samples import mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report, subject

LIMIT = 1 << 20


def environ(path: Path) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(path)}


def test_the_summary_stands_below_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Build\nno end of line")
    assert markdown.append_to_step(sample_report(), mixed_chaos(), environ(file)) == ""
    text = file.read_text()
    assert text.startswith("# Build\nno end of line\n\n## ")
    assert markdown.render(sample_report(), mixed_chaos()) in text


def test_a_file_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    assert markdown.append_to_step(sample_report(), None, environ(tmp_path / "new.md")) == ""
    assert (tmp_path / "new.md").read_text() == markdown.render(sample_report())


@pytest.mark.parametrize("odd", [{}, {"GITHUB_ACTIONS": ""}, {"GITHUB_STEP_SUMMARY": ""}])
def test_other_machines_have_no_summary(odd: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    settings = {**environ(file), **odd} if odd else {"GITHUB_STEP_SUMMARY": str(file)}
    assert markdown.append_to_step(sample_report(), None, settings) == ""
    assert not file.exists()


@pytest.mark.parametrize("left", [900_000, 30_000, 5_000, 1_100, 999, 300, 100, 3, 0])
@pytest.mark.parametrize("made", [sample_report(), hostile_report(), large_report(300, 3)], ids=["sample", "hostile", "large"])
def test_the_file_never_grows_over_githubs_limit(made: Report, left: int, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_bytes(b"x" * (LIMIT - left))
    problem = markdown.append_to_step(made, None, environ(file))
    added = file.read_bytes()[LIMIT - left :].decode()
    assert file.stat().st_size <= LIMIT
    assert bool(problem) != bool(added), "either it is there, or the run says why not"
    if added:
        assert re.search(r"do not fit here|need attention; see the full report|its summary is full|^Run ", added, re.M)


def test_a_summary_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    assert markdown.append_to_step(sample_report(), None, environ(tmp_path)).startswith("GITHUB_STEP_SUMMARY: ")


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


TEXTS = ["100%", "a\r\nb", "%0A", "a:b,c", "::error::x", "x,title=y", "##[error]x", "\n::error::x"]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_arrives_in_one_command(text: str) -> None:
    line = actions.command("error", text, title=text)
    assert len(line.splitlines()) == 1
    (found,) = carried_out(line)
    assert (found.name, found.text, found.title) == ("error", text, text)


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::error::x", "\t::group::", "a\n::error::x", "x ##[error]y", "##[group]", "\u00a0::error::x"]
)
def test_text_is_made_harmless_and_stays_readable(text: str) -> None:
    assert list(carried_out(text))
    shown = actions.harmless(text)
    assert list(carried_out(shown)) == []
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["a ##vso[task.setvariable variable=PATH]b", "##teamcity[buildStatus status='SUCCESS']"])
def test_commands_of_other_ci_systems_are_broken_up(text: str) -> None:
    assert not re.search(r"##\w*\[", actions.harmless(text))


def test_what_needs_attention_is_annotated_and_no_more_than_github_shows() -> None:
    made = sample_report()
    lines = list(actions.annotate(made))
    assert lines
    wanted = [
        result.id for result in made.results if result.verdict in (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.WARNED)
    ]
    assert sorted(one.title.split(" ")[0] for one in carried_out("\n".join(lines))) == sorted(wanted)
    made.results = [msgspec.structs.replace(one, id=f"{one.id}{copy}") for one in made.results for copy in range(12)]
    assert sum(line.startswith("::error") for line in actions.annotate(made)) == actions.MAX_ANNOTATIONS


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_only_a_step_is_a_step(value: str, expected: bool) -> None:
    assert actions.is_on({actions.VARIABLE: value}) is expected


def test_what_fails_the_run_itself_is_annotated_first() -> None:
    made = report([result("A-1", Verdict.WARNED, [subject("n", Verdict.WARNED)])])
    made.waiver_problems, made.residue = ["waiver 1, A-1: expired on 2020-01-31"], ["Pod a/b"]
    found = list(carried_out("\n".join(actions.annotate(made))))
    assert [(one.name, one.title, one.text) for one in found[:2]] == [
        ("error", "Left behind", "1 objects, such as Pod a/b"),
        ("error", "Waivers to renew or remove", "waiver 1, A-1: expired on 2020-01-31"),
    ]
    assert found[2].title == "A-1 warned"
